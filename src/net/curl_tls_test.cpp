#include "base/error.hpp"
#include "base/strings.hpp"
#include "net/curl_transport.hpp"
#include "net/net_test_server.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <openssl/ssl.h>

#include <atomic>
#include <cstdlib>
#include <fstream>

namespace rocca::net {
namespace {

using test::Authority;
using test::Connection;
using test::Issued;
using test::KeyKind;
using test::TestServer;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CurlTls : public ::testing::Test {
 protected:
  CurlTls() {
    for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
      unsetenv(name);
    options_.tls = server_;
  }

  Request ask(const std::string& url, Tls tls) {
    Request request;
    request.url = url;
    request.tls = std::move(tls);
    return request;
  }

  Error error_of(const Request& request) {
    try {
      fetch(transport_, request);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error came";
    return {Fault::Bug, "none"};
  }

  test::Script counting() {
    return [this](Connection& connection) {
      while (const auto seen = connection.read_request()) {
        ++requests_;
        head_ = seen->head;
        connection.send(test::http_answer("hi"));
      }
    };
  }

  const Authority authority_;
  const Issued server_ = authority_.issue({"127.0.0.1", "node.example"});
  TestServer::Options options_;
  std::atomic<int> requests_ = 0;
  std::string head_;
  CurlTransport transport_;
};

TEST_F(CurlTls, TrustsTheGivenAuthorityAndReportsThePeer) {
  TestServer server(options_, counting());
  const Answer answer = fetch(transport_, ask(server.url(), Tls::authority(authority_.pem())));
  EXPECT_EQ(answer.body, "hi");
  EXPECT_EQ(answer.head.peer, server_.fingerprint);
  EXPECT_EQ(fetch(transport_, ask(server.url(), Tls::authority(authority_.pem()))).head.peer,
            server_.fingerprint)
      << "on a kept connection too";
  EXPECT_EQ(server.connections(), 1U);
}

TEST_F(CurlTls, AnotherAuthorityIsDeniedBeforeAnythingIsSent) {
  TestServer server(options_, counting());
  const Authority other("other CA");
  for (const Tls& tls : {Tls::authority(other.pem()), Tls::system()}) {
    const Error error = error_of(ask(server.url(), tls));
    EXPECT_EQ(error.fault(), Fault::Denied) << error.render();
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("not trusted"), HasSubstr(to_string(server_.fingerprint))));
  }
  EXPECT_EQ(requests_, 0);
}

TEST_F(CurlTls, TheSystemsRootsMayStandInAnotherFile) {
  TestServer server(options_, counting());
  const std::string file = ::testing::TempDir() + "/roots.pem";
  std::ofstream(file) << authority_.pem();
  setenv("SSL_CERT_FILE", file.c_str(), 1);
  CurlTransport trusting;
  unsetenv("SSL_CERT_FILE");
  EXPECT_EQ(fetch(trusting, ask(server.url(), Tls::system())).body, "hi");
  EXPECT_EQ(error_of(ask(server.url(), Tls::system())).fault(), Fault::Denied)
      << "one that was made without it";
}

TEST_F(CurlTls, AnotherNameIsDenied) {
  TestServer::Options options;
  options.tls = authority_.issue({"elsewhere.example"});
  TestServer server(options, counting());
  EXPECT_EQ(error_of(ask(server.url(), Tls::authority(authority_.pem()))).fault(), Fault::Denied);
  EXPECT_EQ(requests_, 0);
}

TEST_F(CurlTls, AServerNameIsCheckedInPlaceOfTheHost) {
  TestServer::Options options;
  options.tls = authority_.issue({"node.example"});
  TestServer server(options, counting());
  Tls tls = Tls::authority(authority_.pem());
  tls.server_name = "node.example";
  EXPECT_EQ(fetch(transport_, ask(server.url("/x"), tls)).body, "hi");
  EXPECT_THAT(head_, AllOf(HasSubstr("GET /x "),
                           HasSubstr(fmt::format("Host: 127.0.0.1:{}\r\n", server.port()))));
  tls.server_name = "other.example";
  EXPECT_EQ(error_of(ask(server.url(), tls)).fault(), Fault::Denied);
}

TEST_F(CurlTls, ThePinnedCertificateIsAllThatCounts) {
  TestServer::Options options;
  options.tls = authority_.issue({"whatever.example"}, KeyKind::Ed25519);
  TestServer server(options, counting());
  EXPECT_EQ(fetch(transport_, ask(server.url(), Tls::pinned(options.tls->fingerprint))).body, "hi");
}

TEST_F(CurlTls, AnotherCertificateThanThePinnedIsDeniedAndBothFingerprintsAreShown) {
  TestServer server(options_, counting());
  EXPECT_EQ(fetch(transport_, ask(server.url(), Tls::unverified())).head.peer, server_.fingerprint);
  const Fingerprint pin = Fingerprint::of_der("another certificate");
  const Error error = error_of(ask(server.url(), Tls::pinned(pin)));
  EXPECT_EQ(error.fault(), Fault::Denied);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("pinned: " + to_string(pin)),
                                     HasSubstr("shown:  " + to_string(server_.fingerprint))));
  EXPECT_THAT(error.hint(), HasSubstr("compare the shown fingerprint"));
  EXPECT_EQ(requests_, 1)
      << "the kept connection of the unverified call was used for the pinned one";
}

class ClientKey : public CurlTls, public ::testing::WithParamInterface<KeyKind> {};

TEST_P(ClientKey, FromMemoryIsAccepted) {
  options_.client_authority_pem = authority_.pem();
  TestServer server(options_, counting());
  Tls tls = Tls::authority(authority_.pem());
  tls.identity = authority_.issue({}, GetParam()).identity();
  EXPECT_EQ(fetch(transport_, ask(server.url(), tls)).body, "hi");
}

INSTANTIATE_TEST_SUITE_P(Kinds, ClientKey,
                         ::testing::Values(KeyKind::Ed25519, KeyKind::Ecdsa, KeyKind::Rsa));

TEST_F(CurlTls, TheLabelThatTalosWritesIsRead) {
  options_.client_authority_pem = authority_.pem();
  TestServer server(options_, counting());
  Issued client = authority_.issue({}, KeyKind::Ed25519);
  client.key_pem = replace_all(client.key_pem, " PRIVATE KEY", " ED25519 PRIVATE KEY");
  Tls tls = Tls::authority(authority_.pem());
  tls.identity = client.identity();
  EXPECT_EQ(fetch(transport_, ask(server.url(), tls)).body, "hi");
}

struct Refused {
  const char* name;
  bool with_certificate;
  int max_tls;
  const char* alert;
};

class ClientCertificate : public CurlTls, public ::testing::WithParamInterface<Refused> {};

TEST_P(ClientCertificate, IsRefusedByAnAlertThatWeShow) {
  options_.client_authority_pem = authority_.pem();
  options_.max_tls = GetParam().max_tls;
  TestServer server(options_, counting());
  Tls tls = Tls::unverified();
  if (GetParam().with_certificate) tls.identity = Authority("other CA").issue({}).identity();
  Request request = ask(server.url(), tls);
  request.method = "POST";
  const Error error = error_of(request);
  EXPECT_EQ(error.fault(), Fault::Denied) << error.render();
  EXPECT_THAT(error.message(), HasSubstr(GetParam().alert));
  EXPECT_EQ(requests_, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ClientCertificate,
    ::testing::Values(Refused{"None13", false, 0, "certificate required (116)"},
                      Refused{"None12", false, TLS1_2_VERSION, "handshake failure (40)"},
                      Refused{"Unknown13", true, 0, "unknown CA (48)"},
                      Refused{"Unknown12", true, TLS1_2_VERSION, "unknown CA (48)"}),
    [](const auto& row) { return row.param.name; });

TEST_F(CurlTls, NoConnectionIsSharedBetweenIdentities) {
  TestServer server(options_, counting());
  Tls one = Tls::authority(authority_.pem());
  one.identity = authority_.issue({}).identity();
  Tls two = Tls::authority(authority_.pem());
  two.identity = authority_.issue({}).identity();
  unsigned expected = 0;
  for (const Tls& tls : {one, two, Tls::authority(authority_.pem()),
                         Tls::pinned(server_.fingerprint), Tls::unverified()}) {
    ++expected;
    EXPECT_EQ(fetch(transport_, ask(server.url(), tls)).body, "hi");
    EXPECT_EQ(fetch(transport_, ask(server.url(), tls)).body, "hi");
    EXPECT_EQ(server.connections(), expected);
  }
}

TEST_F(CurlTls, BadPemIsAUsageErrorWithoutItsText) {
  Tls tls = Tls::authority("-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n");
  EXPECT_EQ(error_of(ask("https://127.0.0.1:1/", tls)).fault(), Fault::Usage);
  EXPECT_THAT(error_of(ask("https://127.0.0.1:1/", Tls::authority("hello"))).message(),
              HasSubstr("the CA certificate holds no certificate"));

  const Issued client = authority_.issue({});
  tls = Tls::unverified();
  tls.identity =
      std::make_shared<const Identity>(Identity{client.certificate_pem, Secret("my secret")});
  const Error error = error_of(ask("https://127.0.0.1:1/", tls));
  EXPECT_EQ(error.fault(), Fault::Usage);
  EXPECT_THAT(error.render(), ::testing::Not(HasSubstr("my secret")));

  tls.identity = std::make_shared<const Identity>(
      Identity{client.certificate_pem, Secret(authority_.issue({}).key_pem)});
  EXPECT_THAT(error_of(ask("https://127.0.0.1:1/", tls)).message(),
              HasSubstr("do not belong together"));
}

TEST_F(CurlTls, HttpsOnAClearTextPortIsSaidSo) {
  TestServer server([](Connection& connection) {
    connection.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    connection.wait_for_leave();
  });
  const Error error =
      error_of(ask(fmt::format("https://127.0.0.1:{}/", server.port()), Tls::unverified()));
  EXPECT_EQ(error.fault(), Fault::Unreachable);
  EXPECT_THAT(error.message(), HasSubstr("does not speak TLS"));
  EXPECT_THAT(error.hint(), HasSubstr("http://"));
}

TEST_F(CurlTls, HttpOnATlsPortIsSaidSo) {
  TestServer server(options_, counting());
  const Error error = error_of(ask(fmt::format("http://127.0.0.1:{}/", server.port()), {}));
  EXPECT_EQ(error.fault(), Fault::Lost);
  EXPECT_THAT(error.hint(), HasSubstr("try https://"));
}

TEST_F(CurlTls, HttpTwoIsRefusedBeforeTheRequestIfTheFarSideHasOnlyOne) {
  TestServer server(options_, counting());
  Request request = ask(server.url(), Tls::unverified());
  request.version = HttpVersion::Http2;
  const Error error = error_of(request);
  EXPECT_EQ(error.fault(), Fault::Rejected);
  EXPECT_THAT(error.message(), HasSubstr("does not speak HTTP/2"));
  EXPECT_EQ(requests_, 0);
}

}  // namespace
}  // namespace rocca::net
