#include "net/server/server.hpp"
#include "net/server/server_test_client.hpp"
#include "support/pki.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <future>
#include <thread>

namespace rocca::net {
namespace {

using rocca::test::make_pki;
using test::RawClient;
using test::TlsClient;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using ResponderPtr = std::shared_ptr<Responder>;

/// A socket at the far end of a tunnel, in the test's own hands.
class FarEnd {
 public:
  FarEnd() : listening_(listen_on("127.0.0.1", 0)) {}
  unsigned port() const { return local_endpoint(listening_).port; }
  void accept() {
    pollable(listening_.get());
    socket_ = Descriptor{::accept(listening_.get(), nullptr, nullptr)};
  }
  std::string read_all() {
    std::string all;
    for (auto more = read_some(); !more.empty(); more = read_some()) all += more;
    return all;
  }
  std::string read_some() {
    std::array<char, 65536> buffer{};
    const auto got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    was_reset_ = got < 0 && errno == ECONNRESET;
    return got <= 0 ? std::string{} : std::string{buffer.data(), static_cast<std::size_t>(got)};
  }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  void shut_down_writing() { ::shutdown(socket_.get(), SHUT_WR); }
  void break_off() {
    reset_on_close(socket_);
    socket_.reset();
  }
  bool was_reset() const { return was_reset_; }

 private:
  static void pollable(int fd) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    timeval patience{20, 0};
    ::select(fd + 1, &set, nullptr, nullptr, &patience);
  }

  Descriptor listening_;
  Descriptor socket_;
  bool was_reset_ = false;
};

struct TunnelServer : ::testing::Test {
  Server server;
  FarEnd far;
  unsigned proxy(unsigned to, std::optional<ServerTls> tls = {}) {
    return server.port(
        server.listen({.address = "127.0.0.1",
                       .tls = std::move(tls),
                       .handler = [to](const Incoming& request, const ResponderPtr& out) {
                         EXPECT_EQ(request.method, "CONNECT");
                         EXPECT_EQ(request.target, "10.0.0.11:50000");
                         out->tunnel("127.0.0.1", to);
                       }}));
  }
};

constexpr std::string_view connect =
    "CONNECT 10.0.0.11:50000 HTTP/1.1\r\nHost: 10.0.0.11:50000\r\n\r\n";

TEST_F(TunnelServer, PassesBytesAndEachSidesEndByItself) {
  RawClient client{proxy(far.port())};
  client.send(fmt::format("{}early ", connect));  // in one segment
  far.accept();
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  client.send("bird");
  client.shut_down_writing();
  EXPECT_EQ(far.read_all(), "early bird");
  far.send("and the worm");
  far.shut_down_writing();
  EXPECT_EQ(client.read_all(), "and the worm");
  EXPECT_FALSE(client.was_reset());
}

TEST_F(TunnelServer, TheFarSideMayEndFirst) {
  RawClient client{proxy(far.port())};
  client.send(connect);
  far.accept();
  client.read_until("\r\n\r\n");
  far.send("server speaks first");
  far.shut_down_writing();
  EXPECT_EQ(client.read_all(), "server speaks first");
  client.send("and still hears");
  client.shut_down_writing();
  EXPECT_EQ(far.read_all(), "and still hears");
}

TEST_F(TunnelServer, AnAddressNobodyListensOnIs502) {
  const auto taken = listen_on("127.0.0.1", 0);
  const auto port = local_endpoint(taken).port;
  { const auto closed = listen_on("127.0.0.2", 0); }
  RawClient client{
      server.port(server.listen({.address = "127.0.0.1",
                                 .tls = {},
                                 .handler = [port](const Incoming&, const ResponderPtr& out) {
                                   out->tunnel("127.0.0.2", port);
                                 }}))};
  client.send(connect);
  EXPECT_THAT(client.read_all(),
              AllOf(StartsWith("HTTP/1.1 502 "), HasSubstr("Connection refused")));
  RawClient nonsense{server.port(server.listen(
      {.address = "127.0.0.1", .tls = {}, .handler = [](const Incoming&, const ResponderPtr& out) {
         out->tunnel("no address", 1);
       }}))};
  nonsense.send(connect);
  EXPECT_THAT(nonsense.read_all(), StartsWith("HTTP/1.1 502 "));
}

TEST_F(TunnelServer, AResetIsPassedOnBothWays) {
  const auto port = proxy(far.port());
  RawClient client{port};
  client.send(connect);
  far.accept();
  client.read_until("\r\n\r\n");
  client.break_off();
  EXPECT_THAT(far.read_all(), IsEmpty());
  EXPECT_TRUE(far.was_reset());

  RawClient second{port};
  second.send(connect);
  far.accept();
  second.read_until("\r\n\r\n");
  far.break_off();
  EXPECT_THAT(second.read_all(), IsEmpty());
  EXPECT_TRUE(second.was_reset());
}

TEST_F(TunnelServer, CarriesMuchInBothDirections) {
  RawClient client{proxy(far.port())};
  client.send(connect);
  far.accept();
  client.read_until("\r\n\r\n");
  const std::string much(16 * 1024 * 1024, 'm');
  std::jthread upload{[&] {
    client.send(much);
    client.shut_down_writing();
  }};
  EXPECT_EQ(far.read_all().size(), much.size());
  upload.join();
  std::jthread download{[&] {
    far.send(much);
    far.shut_down_writing();
  }};
  EXPECT_EQ(client.read_all().size(), much.size());
}

TEST_F(TunnelServer, LeadsThroughTlsToAnotherListenerOfTheSameServer) {
  const auto pki = make_pki({});
  const ServerTls tls{.identity = {pki.certificate, Secret{pki.key}}};
  const auto inner = server.port(server.listen(
      {.address = "127.0.0.1", .tls = {}, .handler = [](const Incoming&, const ResponderPtr& out) {
         out->answer(200, "", {{"Connection", "close"}}, "through");
       }}));
  TlsClient client{proxy(inner, tls), {}};
  client.send(connect);
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  client.send("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_all(), EndsWith("through"));
  EXPECT_TRUE(client.closed_properly());
}

TEST_F(TunnelServer, StopEndsTunnels) {
  RawClient client{proxy(far.port())};
  client.send(connect);
  far.accept();
  client.read_until("\r\n\r\n");
  server.stop();
  EXPECT_THAT(client.read_all(), IsEmpty());
  EXPECT_THAT(far.read_all(), IsEmpty());
}

}  // namespace
}  // namespace rocca::net
