// The contract of every Store, against a real S3 server or a real kube-apiserver.
//
//   peer_store s3 ENDPOINT BUCKET ACCESS_KEY SECRET_KEY
//   peer_store kubernetes KUBECONFIG NAMESPACE
//   peer_store pki FOLDER ADDRESS          certificates and a kubeconfig for etcd and
//   kube-apiserver
//
// The server cannot be told to let time pass or to lose an answer: the way to it does both. It
// moves the Date of every answer, and drops answers on demand.

#include "backends/kubernetes_store.hpp"
#include "backends/s3_store.hpp"
#include "base/encoding.hpp"
#include "base/files.hpp"
#include "net/curl_transport.hpp"
#include "net/date.hpp"
#include "state/store_contract_test_support.hpp"
#include "support/pki.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace rocca::state::test {

namespace {

class MovedClock final : public Clock {
 public:
  Instant now() const override { return own_.now() + moved; }
  Tick tick() const override { return own_.tick() + moved; }
  // S3 refuses signatures that are a quarter of an hour off: the contract's twenty minutes begin
  // ten before the real time and end ten after it.
  Duration moved = -10min;

 private:
  SystemClock own_;
};

/// The way to the real server.
class TrickyWay final : public net::Transport {
 public:
  explicit TrickyWay(const MovedClock& clock) : clock_(clock) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (die_at && *die_at < 2 && trick != Trick::Deaf) {
      if (*die_at == 1) net::fetch(curl_, request, stop);
      trick = Trick::Deaf;
    } else if (die_at && *die_at >= 2) {
      *die_at -= 2;
    }
    if (trick == Trick::Deaf) throw Error(Fault::Unreachable, "the way is closed");
    const bool writes =
        (request.method == "PUT" || request.method == "PATCH" || request.method == "POST") &&
        request.url.find(".lock") == std::string::npos &&
        request.url.find("/leases") == std::string::npos;
    const Trick now = writes ? std::exchange(trick, Trick::None) : Trick::None;
    if (now == Trick::LoseRequest) throw Error(Fault::Lost, "the request went nowhere");
    if (const auto* body = std::get_if<std::string>(&request.body); writes && body != nullptr)
      written += body->size();
    net::Answer answer = net::fetch(curl_, request, stop);
    if (now == Trick::GoDark) trick = Trick::Deaf;
    if (now == Trick::GoDark || now == Trick::LoseAnswer)
      throw Error(Fault::Lost, "the answer went nowhere");
    EXPECT_TRUE(answer.head.headers.find("Date")) << "locks are judged by it";
    if (const auto date = answer.head.headers.find("Date"))
      answer.head.headers.set(
          "Date",
          net::to_http_date(net::parse_http_date(*date).value_or(Instant{}) + clock_.moved));
    sink.begin(answer.head);
    if (!answer.body.empty()) sink.write(answer.body);
    return answer.head;
  }

  enum class Trick { None, LoseAnswer, LoseRequest, GoDark, Deaf } trick = Trick::None;
  std::optional<std::uint64_t> die_at;
  std::uint64_t written = 0;

 private:
  const MovedClock& clock_;
  net::CurlTransport curl_;
};

struct Options {
  std::string kind;
  std::vector<std::string> arguments;
};

Options& options() {
  static Options chosen;
  return chosen;
}

/// Each test has a place of its own on the one server.
class RealPlace final : public Place {
 public:
  RealPlace() : number_(++count()) {}

  std::unique_ptr<Store> open() override {
    const std::vector<std::string>& given = options().arguments;
    const std::string name = fmt::format("test-{}", number_);
    if (options().kind == "s3")
      return backends::s3_store(way_, clock_,
                                {given[0], "us-east-1", given[1], given[2], Secret{given[3]}, {}},
                                fmt::format("clusters/{}/state.json", name));
    return backends::kubernetes_store(way_, files_, clock_, kube::load_kubeconfig(files_, given[0]),
                                      given[1], name);
  }
  Instant now() override { return clock_.now(); }
  void advance(Duration by) override { clock_.moved += by; }
  void lose_next_answer() override { way_.trick = TrickyWay::Trick::LoseAnswer; }
  void lose_next_request() override { way_.trick = TrickyWay::Trick::LoseRequest; }
  void die_at(std::uint64_t edge) override { way_.die_at = edge; }
  bool revive() override {
    way_.die_at.reset();
    return std::exchange(way_.trick, TrickyWay::Trick::None) == TrickyWay::Trick::Deaf;
  }
  void go_dark_after_next_write() override { way_.trick = TrickyWay::Trick::GoDark; }
  void light() override { way_.trick = TrickyWay::Trick::None; }
  std::uint64_t written() override { return way_.written; }
  void kill(std::unique_ptr<Lock> lock) override {
    way_.trick = TrickyWay::Trick::Deaf;
    lock.reset();
    way_.trick = TrickyWay::Trick::None;
  }

 private:
  static int& count() {
    static int made = 0;
    return made;
  }

  int number_;
  RealFiles files_;
  MovedClock clock_;
  TrickyWay way_{clock_};
};

INSTANTIATE_TEST_SUITE_P(Real, StoreContract,
                         testing::Values(NamedPlace{"server",
                                                    [] { return std::make_unique<RealPlace>(); }}),
                         [](const auto& test) { return test.param.name; });

/// What a control plane can be started with. Real ones have a CA for each purpose; here one signs
/// for etcd, the API server and their clients, because none of that is what is tested.
void write_pki(const std::string& folder, const std::string& address) {
  RealFiles files;
  files.make_folder(folder, 0700);
  using rocca::test::KeyType;
  using rocca::test::make_pki;
  using rocca::test::Pki;
  using rocca::test::PkiSpec;
  const auto write = [&](const std::string& name, const Pki& pki) {
    files.write(fmt::format("{}/{}.crt", folder, name), pki.certificate);
    files.write(fmt::format("{}/{}.key", folder, name), pki.key);
    return pki;
  };
  const Pki authority =
      write("ca", make_pki({.name = "kubernetes", .authority = true, .key = KeyType::P256}));
  const std::vector<std::string> addresses{"127.0.0.1", address};
  write("server", make_pki({.name = "server",
                            .addresses = addresses,
                            .usages = {"serverAuth", "clientAuth"},
                            .key = KeyType::P256},
                           &authority));
  write("etcd-client",
        make_pki({.name = "kube-apiserver", .usages = {"clientAuth"}, .key = KeyType::P256},
                 &authority));
  write("service-account", make_pki({.name = "service-account", .key = KeyType::P256}));
  const Pki admin = make_pki({.name = "admin",
                              .organization = "system:masters",
                              .usages = {"clientAuth"},
                              .key = KeyType::P256},
                             &authority);
  files.write(folder + "/kubeconfig",
              fmt::format("apiVersion: v1\nkind: Config\ncurrent-context: real\n"
                          "contexts: [{{name: real, context: {{cluster: real, user: admin}}}}]\n"
                          "clusters: [{{name: real, cluster: {{server: 'https://{}:6443', "
                          "certificate-authority-data: {}}}}}]\n"
                          "users: [{{name: admin, user: {{client-certificate-data: {}, "
                          "client-key-data: {}}}}}]\n",
                          address, to_base64(authority.certificate), to_base64(admin.certificate),
                          to_base64(admin.key)));
}

}  // namespace

}  // namespace rocca::state::test

int main(int argc, char** argv) {
  using namespace rocca;
  testing::InitGoogleMock(&argc, argv);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "pki") {
    try {
      state::test::write_pki(arguments[1], arguments[2]);
    } catch (const Error& error) {
      std::fputs(error.render().c_str(), stderr);
      return 1;
    }
    return 0;
  }
  const bool s3 = arguments.size() == 5 && arguments[0] == "s3";
  const bool kubernetes = arguments.size() == 3 && arguments[0] == "kubernetes";
  if (!s3 && !kubernetes) {
    std::fputs("usage: see the head of peer_store.cpp\n", stderr);
    return 2;
  }
  state::test::options() = {arguments[0], {arguments.begin() + 1, arguments.end()}};
  return RUN_ALL_TESTS();
}
