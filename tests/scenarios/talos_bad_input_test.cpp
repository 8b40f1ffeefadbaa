#include "base/clock.hpp"
#include "base/encoding.hpp"
#include "base/error.hpp"
#include "lab/sim/sockets.hpp"
#include "lab/sim/wire.hpp"
#include "lab/talos/certificates.hpp"
#include "lab/talos/node.hpp"
#include "net/curl_transport.hpp"
#include "talos/client.hpp"
#include "talosconfig/validate.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

// What stands at a node's address may be anything: each is named for what it is, straight into the
// lab and over real sockets alike.

namespace rocca {
namespace {

using namespace std::chrono_literals;
using lab::talos::Leaf;
using lab::talos::SigningAuthority;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

enum class Door { Wire, Sockets };

constexpr const char* token = "aaaaaa.bbbbbbbbbbbbbbbb";

lab::talos::NodeTiming quick() {
  lab::talos::NodeTiming timing;
  for (Duration* each :
       {&timing.firmware, &timing.network, &timing.maintenance, &timing.transition, &timing.service,
        &timing.etcd_pull, &timing.etcd_start, &timing.kubelet, &timing.shutdown})
    *each = 20ms;
  return timing;
}

/// A site, and our client's way to it. Addresses are of the loopback net, so that both doors lead
/// to the same ones.
class Site {
 public:
  explicit Site(Door door)
      : door_(door), ours_(lab::talos::make_authority("talos", entropy, world.now())) {}
  ~Site() {
    if (sockets_) sockets_->stop();
    world.end_routines();
  }

  static constexpr const char* address = "127.83.0.11";

  const SigningAuthority& authority() const { return ours_; }
  SigningAuthority other_authority() {
    return lab::talos::make_authority("talos", entropy, world.now());
  }

  /// A Talos node in maintenance mode.
  void add_node() {
    lab::talos::Machine machine;
    machine.boot_disk = "sda";
    machine.disks.emplace_back().name = "sda";
    machine.links = {
        {"eth0", "bc:24:11:00:00:01",
         lab::talos::Link::Lease{std::string(address) + "/24", "127.83.0.1", {}, "cp-1"}}};
    node_ = std::make_unique<lab::talos::TalosNode>(fleet_, machine, quick());
    node_->power_on();
    world.run_for(5s);
  }
  std::string config(const SigningAuthority& ca, const std::string& machine_token = token) const {
    return fmt::format(
        "version: v1alpha1\nmachine:\n    type: controlplane\n    token: {}\n    ca:\n        crt: "
        "{}\n        key: {}\n    install:\n        disk: /dev/sda\ncluster:\n    id: one\n    "
        "secret: two\n    controlPlane:\n        endpoint: https://127.83.0.11:6443\n    "
        "clusterName: blue\n",
        machine_token, to_base64(ca.certificate_pem), to_base64(ca.key_pem));
  }
  void configure(const SigningAuthority& ca) {
    lab::Wire wire{world};
    talos::Client{wire, talos::Access::maintenance(address)}.apply(Secret(config(ca)), {});
    world.run_for(10s);
  }
  /// Something else that answers there.
  void add_service(std::optional<net::ServerTls> tls, int status, const std::string& type) {
    world.network().add_address(address);
    world.network().set_up(address, true);
    world.network().open(address, 50000,
                         {"other", std::move(tls),
                          [status, type](net::Incoming, std::shared_ptr<net::Responder> out) {
                            out->answer(status, "", {{"content-type", type}}, "<html></html>");
                          }});
  }
  net::ServerTls server_tls(const SigningAuthority& ca, Instant from) {
    Leaf leaf;
    leaf.names = {address};
    net::ServerTls tls;
    tls.identity = *lab::talos::sign_leaf(ca, leaf, entropy, from);
    return tls;
  }
  std::shared_ptr<const net::Identity> admin(const SigningAuthority& ca, Instant from) {
    Leaf leaf;
    leaf.organizations = {"os:admin"};
    leaf.client = true;
    leaf.server = false;
    return std::make_shared<net::Identity>(*lab::talos::sign_leaf(ca, leaf, entropy, from));
  }

  talos::Client client(talos::Access access) {
    if (door_ == Door::Wire) {
      wire_ = std::make_unique<lab::Wire>(world);
      return {*wire_, std::move(access)};
    }
    if (!sockets_)
      sockets_ = std::make_unique<lab::Sockets>(world, clock_, lab::Sockets::Options{});
    curl_ = std::make_unique<net::CurlTransport>();
    return {*curl_, std::move(access)};
  }
  talos::Client secure() {
    return client(talos::Access::secure(address, ours_.certificate_pem, admin(ours_, world.now())));
  }

 private:
  SystemClock clock_;

 public:
  SeededEntropy entropy{11};
  // What is made while the world runs ahead must lie in the past of a client outside.
  lab::World world{{.seed = 1, .start = clock_.now() - 1min}};

 private:
  Door door_;
  SigningAuthority ours_;
  lab::talos::Fleet fleet_{world};
  std::unique_ptr<lab::talos::TalosNode> node_;
  std::unique_ptr<lab::Wire> wire_;
  std::unique_ptr<net::CurlTransport> curl_;
  std::unique_ptr<lab::Sockets> sockets_;
};

Error refusal(talos::Client client) {
  try {
    client.version();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "it was taken for the node";
  return {Fault::Bug, ""};
}

class BadTalos : public testing::TestWithParam<Door> {
 protected:
  Site site{GetParam()};
};

TEST_P(BadTalos, AGoodNodeAnswers) {
  site.add_node();
  site.configure(site.authority());
  EXPECT_EQ(site.secure().version().tag, "v1.11.5");
}

TEST_P(BadTalos, ANodeOfAnotherClusterIsNamed) {
  site.add_node();
  site.configure(site.other_authority());
  const Error error = refusal(site.secure());
  EXPECT_EQ(error.fault(), Fault::Denied);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("127.83.0.11:50000"),
                                     HasSubstr("was not issued by this cluster's CA")));
  EXPECT_THAT(error.hint(), HasSubstr("belongs to another cluster"));
}

TEST_P(BadTalos, AnHttpServerInClearIsNotTalos) {
  site.add_service(std::nullopt, 200, "text/html");
  const Error error = refusal(site.secure());
  EXPECT_EQ(error.fault(), Fault::Rejected);
  EXPECT_THAT(error.message(), HasSubstr("what answers at 127.83.0.11:50000 is not Talos: it does "
                                         "not speak TLS"));
  EXPECT_THAT(error.hint(), HasSubstr("boot a Talos image"));
}

TEST_P(BadTalos, AWebServerBehindTlsIsNotTalos) {
  for (const int status : {200, 404}) {
    Site other{GetParam()};
    other.add_service(other.server_tls(other.authority(), other.world.now()), status, "text/html");
    const Error error = refusal(other.client(talos::Access::maintenance(Site::address)));
    EXPECT_EQ(error.fault(), Fault::Rejected);
    EXPECT_THAT(error.message(),
                testing::AnyOf(HasSubstr("is not Talos"), HasSubstr("instead of a gRPC answer")))
        << status;
    EXPECT_THAT(error.hint(), HasSubstr("boot a Talos image")) << status;
  }
}

TEST_P(BadTalos, AClockAnHourBehindIsNamed) {
  // The node's certificate begins in an hour, by our clock.
  site.add_service(site.server_tls(site.authority(), site.world.now() + 1h), 200, "text/html");
  const Error error = refusal(site.secure());
  EXPECT_EQ(error.fault(), Fault::Denied);
  EXPECT_THAT(error.message(), HasSubstr("this machine's clock is behind the node's"));
  EXPECT_THAT(error.hint(), HasSubstr("compare the clocks"));
}

TEST_P(BadTalos, AClockADayAheadIsNamed) {
  site.add_service(site.server_tls(site.authority(), site.world.now() - 25h), 200, "text/html");
  EXPECT_THAT(refusal(site.secure()).message(),
              HasSubstr("this machine's clock is ahead of the node's"));
}

TEST_P(BadTalos, ACertificateOfOursThatRanOutIsNamed) {
  site.add_node();
  site.configure(site.authority());
  const Error error = refusal(
      site.client(talos::Access::secure(Site::address, site.authority().certificate_pem,
                                        site.admin(site.authority(), site.world.now() - 48h))));
  EXPECT_EQ(error.fault(), Fault::Denied);
  EXPECT_THAT(error.message(), HasSubstr("our certificate"));
  EXPECT_THAT(error.hint(), HasSubstr("compare the clocks"));
}

TEST_P(BadTalos, ACertificateOfOursOfAnotherCaIsNamed) {
  site.add_node();
  site.configure(site.authority());
  const Error error = refusal(
      site.client(talos::Access::secure(Site::address, site.authority().certificate_pem,
                                        site.admin(site.other_authority(), site.world.now()))));
  EXPECT_EQ(error.fault(), Fault::Denied);
  EXPECT_THAT(error.message(), HasSubstr("does not know the CA of our certificate"));
}

TEST_P(BadTalos, ADryRunShowsNoSecret) {
  site.add_node();
  site.configure(site.authority());
  talos::Client node = site.secure();
  const talos::Applied applied =
      node.apply(Secret(site.config(site.authority(), "cccccc.dddddddddddddddd")),
                 {.mode = talos::ApplyMode::Auto, .dry_run = true});
  EXPECT_THAT(applied.details,
              AllOf(HasSubstr("token: ***"), Not(HasSubstr(token)), Not(HasSubstr("dddddddd"))));
  try {
    node.apply(Secret(site.config(site.authority(), "cccccc.dddddddddddddddd")),
               {.mode = talos::ApplyMode::NoReboot});
    FAIL() << "a new token was taken without a reboot";
  } catch (const Error& error) {
    EXPECT_THAT(error.render(), AllOf(HasSubstr("immediate mode"), HasSubstr("***"),
                                      Not(HasSubstr(token)), Not(HasSubstr("dddddddd"))));
  }
}

TEST_P(BadTalos, AConfigurationThatIsTooLargeIsNotSent) {
  site.add_node();
  talos::Client node = site.client(talos::Access::maintenance(Site::address));
  try {
    node.apply(Secret(std::string(talos::max_config_size + 1, '#')), {});
    FAIL() << "it was sent";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    EXPECT_THAT(error.message(), HasSubstr("Talos takes"));
  }
}

INSTANTIATE_TEST_SUITE_P(Doors, BadTalos, testing::Values(Door::Wire, Door::Sockets),
                         [](const auto& door) {
                           return door.param == Door::Wire ? "Wire" : "Sockets";
                         });

// A banner before anything was said, as SSH does it; there is no such thing in the lab.
TEST(BadTalosOnSockets, AnSshBannerIsNotTalos) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = inet_addr("127.0.0.1");
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  socklen_t size = sizeof place;
  getsockname(listener, reinterpret_cast<sockaddr*>(&place), &size);
  std::jthread server{[&] {
    const int guest = accept(listener, nullptr, nullptr);
    constexpr std::string_view banner = "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n";
    static_cast<void>(!write(guest, banner.data(), banner.size()));
    char byte = 0;
    static_cast<void>(!read(guest, &byte, 1));
    close(guest);
  }};
  net::CurlTransport transport;
  talos::Access access = talos::Access::maintenance("127.0.0.1");
  access.port = ntohs(place.sin_port);
  const Error error = refusal({transport, access});
  EXPECT_EQ(error.fault(), Fault::Rejected);
  EXPECT_THAT(error.message(), HasSubstr("is not Talos: it does not speak TLS"));
  close(listener);
}

}  // namespace
}  // namespace rocca
