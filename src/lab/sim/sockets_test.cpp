#include "lab/sim/sockets.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/data_centre.hpp"
#include "net/curl_transport.hpp"
#include "net/date.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>

namespace rocca::lab {
namespace {

using testing::HasSubstr;

Home::Options at_present(const Clock& clock) {
  Home::Options options;
  options.hosts = {"pve1", "pve2"};
  options.start = clock.now();
  return options;
}

Sockets::Options fast() {
  Sockets::Options options;
  options.speed = 100;
  return options;
}

class SocketsTest : public testing::Test {
 protected:
  net::Request request(const std::string& origin, const std::string& path = "/api2/json/version") {
    net::Request one;
    one.url = origin + path;
    one.tls = net::Tls::authority(home.dc.authority.certificate_pem());
    one.authorization = Secret{"PVEAPIToken=" + home.token};
    return one;
  }

  SystemClock clock;
  Home home{at_present(clock)};
  Sockets sockets{home.world, clock, fast()};
};

/// The proxy's variable for as long as a transport is made, which is when it is read.
std::unique_ptr<net::CurlTransport> through(const std::string& proxy) {
  ::setenv("HTTPS_PROXY", proxy.c_str(), 1);
  auto transport = std::make_unique<net::CurlTransport>();
  ::unsetenv("HTTPS_PROXY");
  return transport;
}

TEST_F(SocketsTest, EveryHostAnswersOnItsOwnLoopbackAddress) {
  net::CurlTransport curl;
  for (const char* host : {"pve1", "pve2"}) {
    const auto door = sockets.find(host, 8006);
    ASSERT_TRUE(door);
    EXPECT_THAT(door->address, HasSubstr("127."));
    net::Request one = request("https://" + door->address + ":" + std::to_string(door->port));
    one.tls.server_name = host;
    const net::Answer answer = net::fetch(curl, one);
    EXPECT_EQ(answer.head.status, 200);
    EXPECT_EQ(answer.head.reason, "OK");
    EXPECT_EQ(answer.head.peer, home.dc.find_node(host)->fingerprint);
  }
  EXPECT_FALSE(sockets.find("pve1", 22));
}

TEST_F(SocketsTest, TheProxyLeadsSimulatedNamesAndAddressesIn) {
  const auto curl = through(sockets.proxy());
  for (const char* origin :
       {"https://pve.home:8006", "https://10.0.0.3:8006", "https://pve2.home:8006"})
    EXPECT_EQ(net::fetch(*curl, request(origin)).head.status, 200) << origin;
}

TEST_F(SocketsTest, ALoopbackAddressOfASpecIsUsedAsItIs) {
  Service service;
  service.name = "node";
  service.handler = [](const net::Incoming& request, std::shared_ptr<net::Responder> responder) {
    responder->answer(200, "OK", {}, request.local_address);
  };
  sockets.run([&] {
    home.world.network().add_address("127.88.4.7");
    home.world.network().open("127.88.4.7", 50000, service);
  });
  sockets.run([] {});  // behind what the change has posted
  const auto door = sockets.find("127.88.4.7", 50000);
  ASSERT_TRUE(door);
  EXPECT_EQ(door->address, "127.88.4.7");
  net::CurlTransport curl;
  net::Request one;
  one.url = "http://" + door->address + ":" + std::to_string(door->port) + "/";
  EXPECT_EQ(net::fetch(curl, one).body, "127.88.4.7");
}

TEST_F(SocketsTest, TheProxyRefusesTheRestOfTheWorld) {
  const auto curl = through(sockets.proxy());
  for (const char* origin :
       {"https://example.com:443", "https://10.9.9.9:8006", "https://pve.home:9"}) {
    try {
      net::fetch(*curl, request(origin));
      ADD_FAILURE() << origin << " was reached";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Unreachable) << origin;
    }
  }
}

/// The real clock, which may be set forward.
class JumpingClock final : public Clock {
 public:
  Instant now() const override { return real_.now() + std::chrono::minutes{minutes_}; }
  Tick tick() const override { return real_.tick() + std::chrono::minutes{minutes_}; }
  void jump(std::chrono::minutes by) { minutes_ += static_cast<int>(by.count()); }

 private:
  SystemClock real_;
  std::atomic<int> minutes_ = 0;
};

TEST(SocketsInTimeLapse, ShowTheClockOfTheirClients) {
  JumpingClock clock;
  Home home{at_present(clock)};
  Sockets sockets{home.world, clock, fast()};
  const auto curl = through(sockets.proxy());
  const auto ask = [&] {
    net::Request one;
    one.url = "https://pve.home:8006/api2/json/nodes/pve1/time";
    one.tls = net::Tls::authority(home.dc.authority.certificate_pem());
    one.authorization = Secret{"PVEAPIToken=" + home.root_token};
    return net::fetch(*curl, one);
  };
  // Ten minutes here are more than sixteen hours there.
  clock.jump(std::chrono::minutes{10});
  const net::Answer answer = ask();
  ASSERT_EQ(answer.head.status, 200);
  EXPECT_GE(home.world.now() - clock.now(), std::chrono::hours{16});
  const auto date = net::parse_http_date(answer.head.headers.find("date").value_or(""));
  ASSERT_TRUE(date);
  EXPECT_LT(std::chrono::abs(clock.now() - *date), std::chrono::minutes{2});
  const auto told = parse_uint(answer.body.substr(answer.body.find("\"time\":") + 7, 10));
  ASSERT_TRUE(told) << answer.body;
  EXPECT_LT(std::chrono::abs(clock.now() - Instant{std::chrono::seconds{*told}}),
            std::chrono::minutes{2});
}

TEST(SocketsInTimeLapse, MayGoOnAtAnotherSpeed) {
  JumpingClock clock;
  Home home{at_present(clock)};
  Sockets sockets{home.world, clock, fast()};
  const auto ten_minutes_at = [&](double speed) {
    Instant before{};
    Instant after{};
    sockets.set_speed(speed);
    sockets.run([&] { before = home.world.now(); });
    clock.jump(std::chrono::minutes{10});
    sockets.set_speed(1);
    sockets.run([&] { after = home.world.now(); });
    return after - before;
  };
  const Duration in_life = ten_minutes_at(1);
  EXPECT_GE(in_life, std::chrono::minutes{10});
  EXPECT_LT(in_life, std::chrono::minutes{12});
  EXPECT_GE(ten_minutes_at(fast().speed), std::chrono::hours{16});
}

TEST_F(SocketsTest, AnswersComeInTheLabsTime) {
  const auto curl = through(sockets.proxy());
  net::Request one = request("https://pve.home:8006");
  one.authorization = Secret{"PVEAPIToken=nobody@pve!x=y"};
  Instant before{};
  Instant after{};
  sockets.run([&] { before = home.world.now(); });
  EXPECT_EQ(net::fetch(*curl, one).head.status, 401);
  sockets.run([&] { after = home.world.now(); });
  EXPECT_GE(after - before, std::chrono::seconds{3}) << "a 401 takes three simulated seconds";
}

TEST_F(SocketsTest, AHostThatGoesDownStopsListening) {
  const auto curl = through(sockets.proxy());
  EXPECT_EQ(net::fetch(*curl, request("https://pve2.home:8006")).head.status, 200);
  sockets.run([&] { home.dc.set_online("pve2", false); });
  sockets.run([] {});  // behind what the change has posted
  EXPECT_FALSE(sockets.find("pve2", 8006));
  EXPECT_THROW(net::fetch(*curl, request("https://pve2.home:8006")), Error);
  sockets.run([&] { home.dc.set_online("pve2", true); });
  sockets.run([] {});
  EXPECT_EQ(net::fetch(*curl, request("https://pve2.home:8006")).head.status, 200);
}

/// Machines that come and go while the doors are open.
TEST_F(SocketsTest, ANodeThatBootsGetsAListenerAndLosesItWhenItStops) {
  const auto curl = through(sockets.proxy());
  Network::Host host = 0;
  sockets.run([&] {
    host = home.lans.add_foreign(
        "10.0.0.77", {{50000, Service{"node", std::nullopt,
                                      [](net::Incoming, std::shared_ptr<net::Responder> responder) {
                                        responder->answer(200, "", {}, "here");
                                      }}}});
  });
  sockets.run([] {});
  const auto door = sockets.find("10.0.0.77", 50000);
  ASSERT_TRUE(door);
  EXPECT_THAT(door->address, HasSubstr("127."));
  net::CurlTransport direct;
  net::Request one;
  one.url = fmt::format("http://{}:{}/", door->address, door->port);
  EXPECT_EQ(net::fetch(direct, one).body, "here");
  sockets.run([&] { home.lans.remove_foreign(host); });
  sockets.run([] {});
  EXPECT_FALSE(sockets.find("10.0.0.77", 50000));
}

TEST_F(SocketsTest, ALoopbackAddressOfASpecIsListenedAtAsItIs) {
  sockets.run([&] {
    home.lans.add_foreign(
        "127.9.8.7", {{50000, Service{"node", std::nullopt,
                                      [](net::Incoming, std::shared_ptr<net::Responder> responder) {
                                        responder->answer(200, "", {}, "here");
                                      }}}});
  });
  sockets.run([] {});
  const auto door = sockets.find("127.9.8.7", 50000);
  ASSERT_TRUE(door);
  EXPECT_EQ(door->address, "127.9.8.7");
}

TEST_F(SocketsTest, TheFactoryIsThereByItsNameAndInClearText) {
  const auto curl = through(sockets.proxy());
  net::Request versions = request("https://factory.talos.dev", "/versions");
  versions.tls = net::Tls::authority(home.internet.roots.certificate_pem());
  EXPECT_EQ(net::fetch(*curl, versions).head.status, 200);
  const auto door = sockets.find(Home::factory_name, 80);
  ASSERT_TRUE(door);
  net::CurlTransport direct;
  net::Request one;
  one.url = fmt::format("http://{}:{}/versions", door->address, door->port);
  EXPECT_THAT(net::fetch(direct, one).body, HasSubstr("v1.11.5"));
}

}  // namespace
}  // namespace rocca::lab
