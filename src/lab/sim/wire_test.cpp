#include "lab/sim/wire.hpp"

#include "base/error.hpp"
#include "lab/pve/datacenter.hpp"
#include "lab/sim/chaos.hpp"
#include "lab/sim/pki.hpp"

#include <gmock/gmock.h>

namespace rocca::lab {
namespace {

using namespace std::chrono_literals;

/// A world with one TLS service that answers "hello" after `delay`.
class WireTest : public testing::Test {
 protected:
  WireTest() : authority(world.fork("ca"), "Test CA", world.now()) {
    net::ServerTls tls;
    tls.identity = authority.issue({"web.home", {"web.home", "10.0.0.5"}, "", false}, world.now());
    fingerprint = net::Fingerprint::of_der(*first_certificate_der(tls.identity.certificate_pem));
    world.network().set_name("web.home", "10.0.0.5");
    world.network().open(
        "10.0.0.5", 443,
        {"web", tls, [this](net::Incoming request, std::shared_ptr<net::Responder> to) {
           seen.push_back(request.method + " " + request.target);
           if (request.target == "/cut") return to->cut();
           world.after(delay, [to] { to->answer(200, "Fine", {}, "hello", {}); });
         }});
  }

  net::Request request(net::Tls tls, std::string url = "https://web.home/x") {
    net::Request one;
    one.url = std::move(url);
    one.tls = std::move(tls);
    one.version = net::HttpVersion::Http1;
    return one;
  }

  Fault fault_of(const net::Request& one) {
    try {
      net::fetch(wire, one);
    } catch (const Error& error) {
      return error.fault();
    }
    ADD_FAILURE() << "there was an answer";
    return Fault::Bug;
  }

  World world;
  Wire wire{world};
  Authority authority;
  net::Fingerprint fingerprint;
  Duration delay = 100ms;
  std::vector<std::string> seen;
};

TEST_F(WireTest, AnswersInTheWorldsTimeWithReasonAndFingerprint) {
  const Instant start = world.now();
  const net::Answer answer =
      net::fetch(wire, request(net::Tls::authority(authority.certificate_pem())));
  EXPECT_EQ(answer.head.status, 200);
  EXPECT_EQ(answer.head.reason, "Fine");
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.head.peer, fingerprint);
  EXPECT_GE(world.now() - start, 100ms);
}

TEST_F(WireTest, TrustsOnlyWhatItWasTold) {
  EXPECT_EQ(fault_of(request(net::Tls::system())), Fault::Denied);
  EXPECT_EQ(fault_of(request(net::Tls::pinned(net::Fingerprint{}))), Fault::Denied);
  const Authority other{world.fork("other"), "Other CA", world.now()};
  EXPECT_EQ(fault_of(request(net::Tls::authority(other.certificate_pem()))), Fault::Denied);
  net::Tls renamed = net::Tls::authority(authority.certificate_pem());
  renamed.server_name = "else.home";
  EXPECT_EQ(fault_of(request(renamed)), Fault::Denied);
  EXPECT_TRUE(seen.empty()) << "nothing may be sent to somebody we do not trust";
  EXPECT_EQ(net::fetch(wire, request(net::Tls::pinned(fingerprint))).head.status, 200);
  EXPECT_EQ(net::fetch(wire, request(net::Tls::unverified())).head.status, 200);
}

TEST_F(WireTest, SaysWhetherAnythingWasSent) {
  const net::Tls tls = net::Tls::unverified();
  EXPECT_EQ(fault_of(request(tls, "https://nobody.home/")), Fault::Unreachable);
  EXPECT_EQ(fault_of(request(tls, "https://web.home:444/")), Fault::Unreachable);
  EXPECT_EQ(fault_of(request(tls, "https://web.home/cut")), Fault::Lost);
  delay = 2h;
  EXPECT_EQ(fault_of(request(tls)), Fault::Lost);
  world.network().set_up("10.0.0.5", false);
  const Instant start = world.now();
  EXPECT_EQ(fault_of(request(tls)), Fault::Unreachable);
  EXPECT_EQ(world.now() - start, 5s) << "a machine that is down costs the connect timeout";
}

TEST_F(WireTest, AHostThatGoesDownWhileItThinksIsLost) {
  delay = 10s;
  world.after(1s, [this] { world.network().set_up("10.0.0.5", false); });
  EXPECT_EQ(fault_of(request(net::Tls::unverified())), Fault::Lost);
}

TEST_F(WireTest, StopsWhenAsked) {
  delay = 1h;
  std::stop_source stop;
  world.after(1s, [&] { stop.request_stop(); });
  net::MemorySink sink;
  net::Request one = request(net::Tls::unverified());
  one.timeout.reset();
  EXPECT_THROW(
      {
        try {
          wire.exchange(one, sink, stop.get_token());
        } catch (const Error& error) {
          EXPECT_EQ(error.fault(), Fault::Interrupted);
          throw;
        }
      },
      Error);
}

TEST_F(WireTest, TheSameSeedIsTheSameRun) {
  const auto run = [](std::uint64_t seed) {
    World other{{seed, Instant{1'000'000s}}};
    pve::Datacenter dc{other, {}};
    dc.add_node("pve1", "10.0.0.2");
    dc.access.users["root@pam"].tokens["t"] = {"secret", false, 0, ""};
    Wire through{other};
    net::Request one;
    one.url = "https://pve1:8006/api2/json/version";
    one.tls = net::Tls::unverified();
    one.authorization = Secret{"PVEAPIToken=root@pam!t=secret"};
    for (int i = 0; i < 5; ++i) EXPECT_EQ(net::fetch(through, one).head.status, 200);
    return other.trace().hash();
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST_F(WireTest, ChaosLosesAnswersOfThingsThatHappened) {
  InlineParker parker;
  Chaos::Options options;
  options.dropped_after = 500;
  options.dropped_before = 200;
  Chaos chaos{wire, world, parker, world.fork("chaos"), options};
  int lost = 0;
  int never = 0;
  int fine = 0;
  for (int i = 0; i < 200; ++i) {
    try {
      net::fetch(chaos, request(net::Tls::unverified()));
      ++fine;
    } catch (const Error& error) {
      (error.fault() == Fault::Lost ? lost : never) += 1;
    }
  }
  EXPECT_GT(lost, 50);
  EXPECT_GT(never, 20);
  EXPECT_EQ(static_cast<int>(seen.size()), lost + fine)
      << "what was lost has happened, what never arrived has not";
}

}  // namespace
}  // namespace rocca::lab
