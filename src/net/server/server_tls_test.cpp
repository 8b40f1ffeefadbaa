#include "net/server/server_tls.hpp"

#include "base/error.hpp"
#include "net/server/server.hpp"
#include "net/server/server_test_client.hpp"
#include "support/pki.hpp"

#include <gmock/gmock.h>
#include <openssl/ssl.h>

#include <future>

namespace rocca::net {
namespace {

using rocca::test::certificate_der;
using rocca::test::KeyType;
using rocca::test::make_pki;
using rocca::test::Pki;
using rocca::test::PkiSpec;
using test::Http2Client;
using test::TlsClient;
using test::TlsOptions;
using ::testing::EndsWith;
using ::testing::IsEmpty;

using ResponderPtr = std::shared_ptr<Responder>;

Identity identity(const Pki& pki) {
  return {pki.certificate, Secret{pki.key}};
}

Handler hello() {
  return [](const Incoming&, const ResponderPtr& out) { out->answer(200, "", {}, "hello"); };
}

constexpr std::string_view get = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";

struct ServerTlsKeys : ::testing::TestWithParam<KeyType> {};

TEST_P(ServerTlsKeys, AreServedWithBothVersionsOfTls) {
  const auto pki = make_pki({.key = GetParam()});
  Server server;
  const auto id = server.listen(
      {.address = "127.0.0.1", .tls = ServerTls{.identity = identity(pki)}, .handler = hello()});
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client{server.port(id), {.newest = version}};
    ASSERT_TRUE(client.connected());
    EXPECT_EQ(client.peer_der(), certificate_der(pki.certificate));
    client.send(get);
    EXPECT_THAT(client.read_answer(), EndsWith("hello"));
  }
  TlsClient old{server.port(id), {.newest = TLS1_1_VERSION}};
  EXPECT_FALSE(old.connected());
}

INSTANTIATE_TEST_SUITE_P(Types, ServerTlsKeys,
                         ::testing::Values(KeyType::Ed25519, KeyType::P256, KeyType::Rsa),
                         [](const auto& one) {
                           return one.param == KeyType::Ed25519 ? "Ed25519"
                                  : one.param == KeyType::P256  ? "P256"
                                                                : "Rsa";
                         });

TEST(ServerTls, ReadsKeysUnderTalosOwnLabel) {
  auto pki = make_pki({});
  for (auto at = pki.key.find("PRIVATE KEY"); at != std::string::npos;
       at = pki.key.find("PRIVATE KEY", at + 20)) {
    pki.key.insert(at, "ED25519 ");
  }
  EXPECT_NO_THROW(make_tls_context({.identity = identity(pki)}));
}

TEST(ServerTls, RefusesWhatCannotServe) {
  const auto one = make_pki({});
  const auto other = make_pki({});
  const auto message_of = [](const ServerTls& settings) -> std::string {
    try {
      make_tls_context(settings);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage);
      return error.message();
    }
    return "accepted";
  };
  EXPECT_EQ(message_of({.identity = {"nonsense", Secret{one.key}}}),
            "cannot read the server's certificate: not PEM certificates");
  EXPECT_EQ(message_of({.identity = {one.certificate, Secret{"nonsense"}}}),
            "cannot read the server's private key: not a PEM key, or an encrypted one");
  EXPECT_EQ(message_of({.identity = {one.certificate, Secret{other.key}}}),
            "the server's private key does not belong to its certificate");
  EXPECT_EQ(message_of({.identity = identity(one), .clients = ServerTls::Clients::Require}),
            "client certificates are asked for, but no authority is given to check them with");
}

TEST(ServerTls, AnAnswerSaidInOneBreathLeavesInOneRecord) {
  const auto pki = make_pki({});
  Server server;
  const Handler message = [](const Incoming&, const ResponderPtr& out) {
    out->begin(200, "", {{"content-type", "application/grpc"}});
    out->write("message");
    out->finish({{"grpc-status", "0"}});
  };
  const auto port = server.port(server.listen(
      {.address = "127.0.0.1", .tls = ServerTls{.identity = identity(pki)}, .handler = message}));
  TlsClient wire{port, {.protocols = {"h2"}}};
  Http2Client client{wire};
  client.wait(client.request("POST", "/the/first", {}, "and what both sides say at first"));
  const auto stream = client.request("GET", "/the/second");
  const auto& answer = client.answer(stream);
  int records = -1;  // it is asked before the first one, too
  EXPECT_TRUE(client.read_until([&] { return ++records, answer.ended; }));
  EXPECT_EQ(answer.body, "message");
  EXPECT_EQ(answer.trailers.find("grpc-status"), "0");
  EXPECT_EQ(records, 1);
}

TEST(ServerTls, ChoosesTheProtocolByAlpn) {
  const auto pki = make_pki({});
  Server server;
  const Handler version = [](const Incoming& request, const ResponderPtr& out) {
    out->answer(200, "", {}, request.version == HttpVersion::Http2 ? "two" : "one");
  };
  const auto both = server.port(server.listen(
      {.address = "127.0.0.1", .tls = ServerTls{.identity = identity(pki)}, .handler = version}));
  const auto only_one =
      server.port(server.listen({.address = "127.0.0.1",
                                 .tls = ServerTls{.identity = identity(pki), .offer_http2 = false},
                                 .handler = version}));

  TlsClient two{both, {.protocols = {"h2", "http/1.1"}}};
  EXPECT_EQ(two.protocol(), "h2");
  Http2Client http2{two};
  EXPECT_EQ(http2.wait(http2.request("GET", "/")).body, "two");

  TlsClient one{only_one, {.protocols = {"h2", "http/1.1"}}};
  EXPECT_EQ(one.protocol(), "http/1.1");
  one.send(get);
  EXPECT_THAT(one.read_answer(), EndsWith("one"));

  TlsClient silent{both, {}};  // apid takes HTTP/2 without ALPN, and so do we
  EXPECT_EQ(silent.protocol(), "");
  Http2Client prior{silent};
  EXPECT_EQ(prior.wait(prior.request("GET", "/")).body, "two");

  TlsClient stranger{both, {.protocols = {"spdy/1"}}};
  EXPECT_FALSE(stranger.connected());
  EXPECT_EQ(stranger.alert(), SSL_AD_NO_APPLICATION_PROTOCOL);
}

TEST(ServerTls, SwapsTheCertificateWhileRunning) {
  const auto first = make_pki({.name = "first"});
  const auto second = make_pki({.name = "second", .key = KeyType::P256});
  Server server;
  const auto id = server.listen(
      {.address = "127.0.0.1", .tls = ServerTls{.identity = identity(first)}, .handler = hello()});
  TlsClient before{server.port(id), {}};
  EXPECT_EQ(before.peer_der(), certificate_der(first.certificate));
  server.replace_tls(id, {.identity = identity(second)});
  TlsClient after{server.port(id), {}};
  EXPECT_EQ(after.peer_der(), certificate_der(second.certificate));
  before.send(get);  // keeps what it has
  EXPECT_THAT(before.read_answer(), EndsWith("hello"));

  EXPECT_THROW(server.replace_tls(id, {.identity = {"x", Secret{"y"}}}), Error);
  TlsClient still{server.port(id), {}};
  EXPECT_EQ(still.peer_der(), certificate_der(second.certificate));
  const auto clear = server.listen({.address = "127.0.0.1", .tls = {}, .handler = hello()});
  EXPECT_THROW(server.replace_tls(clear, {.identity = identity(second)}), Error);
}

TEST(ServerTls, ClientPolicyIsReplacedWithTheCertificate) {
  const auto authority = make_pki({.name = "ca", .authority = true});
  const auto own = make_pki({});
  Server server;
  const auto id = server.listen(
      {.address = "127.0.0.1", .tls = ServerTls{.identity = identity(own)}, .handler = hello()});
  TlsClient maintenance{server.port(id), {}};
  maintenance.send(get);
  EXPECT_THAT(maintenance.read_answer(), EndsWith("hello"));
  server.replace_tls(id, {.identity = identity(own),
                          .clients = ServerTls::Clients::Require,
                          .client_authority_pem = authority.certificate});
  TlsClient running{server.port(id), {}};
  EXPECT_THAT(running.read_all(), IsEmpty());
  EXPECT_EQ(running.alert(), SSL_AD_CERTIFICATE_REQUIRED);
}

TEST(ServerTls, ShowsTheClientsCertificateToTheHandler) {
  const auto authority = make_pki({.name = "ca", .authority = true});
  const auto client =
      make_pki({.name = "admin", .organization = "os:admin", .usages = {"clientAuth"}}, &authority);
  Server server;
  for (const auto policy : {ServerTls::Clients::Require, ServerTls::Clients::Ask}) {
    std::promise<Incoming> seen;
    const auto id = server.listen({.address = "127.0.0.1",
                                   .tls = ServerTls{.identity = identity(make_pki({})),
                                                    .clients = policy,
                                                    .client_authority_pem = authority.certificate,
                                                    .exact_client_usage = true},
                                   .handler = [&](Incoming request, const ResponderPtr& out) {
                                     seen.set_value(std::move(request));
                                     out->answer(200, "", {}, "");
                                   }});
    TlsClient wire{server.port(id), {.identity = identity(client)}};
    wire.send(get);
    const auto request = seen.get_future().get();
    EXPECT_EQ(request.peer_certificate, certificate_der(client.certificate));
    EXPECT_TRUE(request.tls);
  }
}

TEST(ServerTls, AskLetsAClientWithoutACertificateIn) {
  const auto authority = make_pki({.name = "ca", .authority = true});
  Server server;
  const auto id = server.listen(
      {.address = "127.0.0.1",
       .tls = ServerTls{.identity = identity(make_pki({})),
                        .clients = ServerTls::Clients::Ask,
                        .client_authority_pem = authority.certificate},
       .handler = [](const Incoming& request, const ResponderPtr& out) {
         out->answer(200, "", {}, request.peer_certificate.empty() ? "nobody" : "somebody");
       }});
  TlsClient wire{server.port(id), {}};
  wire.send(get);
  EXPECT_THAT(wire.read_answer(), EndsWith("nobody"));
  TlsClient stranger{server.port(id), {.identity = identity(make_pki({}))}};
  EXPECT_THAT(stranger.read_all(), IsEmpty());
  EXPECT_EQ(stranger.alert(), SSL_AD_UNKNOWN_CA);
}

/// One wrong client certificate and the alert that a server written in Go answers it with.
struct WrongClient {
  const char* name;
  std::optional<PkiSpec> certificate;
  enum class By { Authority, Itself, NamesakeOfAuthority, ExpiredAuthority } by;
  int alert;
  int alert_in_1_2;
};

struct ServerTlsAlerts : ::testing::TestWithParam<WrongClient> {};

TEST_P(ServerTlsAlerts, AreThoseOfGoAndReachTheClient) {
  const auto& wrong = GetParam();
  const auto authority = make_pki({.name = "ca", .authority = true});
  const auto namesake = make_pki({.name = "ca", .authority = true});
  const auto expired =
      make_pki({.name = "old ca", .authority = true, .valid_from = -7200, .valid_to = -3600});
  const Pki* issuer = wrong.by == WrongClient::By::Authority             ? &authority
                      : wrong.by == WrongClient::By::NamesakeOfAuthority ? &namesake
                      : wrong.by == WrongClient::By::ExpiredAuthority    ? &expired
                                                                         : nullptr;
  std::optional<Identity> shown;
  if (wrong.certificate) shown = identity(make_pki(*wrong.certificate, issuer));
  Server server;
  const auto id = server.listen(
      {.address = "127.0.0.1",
       .tls = ServerTls{.identity = identity(make_pki({})),
                        .clients = ServerTls::Clients::Require,
                        .client_authority_pem = authority.certificate + expired.certificate,
                        .exact_client_usage = true},
       .handler = [](const Incoming&, const ResponderPtr&) { FAIL() << "let in"; }});
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    // Bytes behind the handshake are unread when the server closes: the RST they provoke must not
    // swallow the alert.
    TlsClient client{server.port(id), {.identity = shown, .newest = version}};
    if (client.connected()) client.send(get);
    EXPECT_THAT(client.read_all(), IsEmpty());
    EXPECT_EQ(client.alert(), version == TLS1_3_VERSION ? wrong.alert : wrong.alert_in_1_2);
    EXPECT_FALSE(client.was_reset());
  }
}

const PkiSpec good{.name = "client", .usages = {"clientAuth"}};
const PkiSpec expired_leaf{
    .name = "client", .usages = {"clientAuth"}, .valid_from = -7200, .valid_to = -3600};
const PkiSpec future_leaf{.name = "client", .usages = {"clientAuth"}, .valid_from = 3600};
const PkiSpec server_leaf{.name = "client", .usages = {"serverAuth"}};
const PkiSpec both_leaf{.name = "client", .usages = {"serverAuth", "clientAuth"}};

INSTANTIATE_TEST_SUITE_P(
    Table, ServerTlsAlerts,
    ::testing::Values(
        WrongClient{"None", std::nullopt, WrongClient::By::Authority, 116, 40},
        WrongClient{"SelfSigned", good, WrongClient::By::Itself, 48, 48},
        WrongClient{"NamesakeAuthority", good, WrongClient::By::NamesakeOfAuthority, 48, 48},
        WrongClient{"Expired", expired_leaf, WrongClient::By::Authority, 45, 45},
        WrongClient{"NotYetValid", future_leaf, WrongClient::By::Authority, 45, 45},
        WrongClient{"ExpiredAndUnknown", expired_leaf, WrongClient::By::Itself, 45, 45},
        WrongClient{"ExpiredAuthority", good, WrongClient::By::ExpiredAuthority, 45, 45},
        WrongClient{"ServerUsage", server_leaf, WrongClient::By::Authority, 42, 42},
        WrongClient{"BothUsages", both_leaf, WrongClient::By::Authority, 42, 42},
        WrongClient{"ServerUsageAndUnknown", server_leaf, WrongClient::By::Itself, 48, 48}),
    [](const auto& one) { return one.param.name; });

TEST(ServerTls, CutSaysNoGoodbyeAndAnOrderlyEndDoes) {
  Server server;
  const auto id = server.listen({.address = "127.0.0.1",
                                 .tls = ServerTls{.identity = identity(make_pki({}))},
                                 .handler = [](const Incoming& request, const ResponderPtr& out) {
                                   if (request.target == "/cut") return out->cut();
                                   out->answer(200, "", {{"Connection", "close"}}, "bye");
                                 }});
  TlsClient cut{server.port(id), {}};
  cut.send("GET /cut HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(cut.read_all(), IsEmpty());
  EXPECT_FALSE(cut.closed_properly());
  EXPECT_TRUE(cut.was_reset());
  TlsClient orderly{server.port(id), {}};
  orderly.send(get);
  EXPECT_THAT(orderly.read_all(), EndsWith("bye"));
  EXPECT_TRUE(orderly.closed_properly());
}

TEST(ServerTls, ClearTextOnATlsPortIsRefusedAndTheServerLives) {
  Server server;
  const auto id = server.listen({.address = "127.0.0.1",
                                 .tls = ServerTls{.identity = identity(make_pki({}))},
                                 .handler = hello()});
  test::RawClient clear{server.port(id)};
  clear.send(get);
  clear.read_all();
  TlsClient client{server.port(id), {}};
  client.send(get);
  EXPECT_THAT(client.read_answer(), EndsWith("hello"));
}

TEST(ServerTls, LargeBodiesGoOverTls) {
  const std::string body(8 * 1024 * 1024, 'x');
  Server server;
  const auto id = server.listen({.address = "127.0.0.1",
                                 .tls = ServerTls{.identity = identity(make_pki({}))},
                                 .handler = [](Incoming request, const ResponderPtr& out) {
                                   out->answer(200, "", {}, std::move(request.body));
                                 }});
  TlsClient client{server.port(id), {}};
  client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n");
  client.send(body);
  EXPECT_THAT(client.read_answer().size(), ::testing::Gt(body.size()));
}

}  // namespace
}  // namespace rocca::net
