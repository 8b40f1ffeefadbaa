// Both ends of net/ together: what the lab, and every test on it, stands on.

#include "base/error.hpp"
#include "net/curl_transport.hpp"
#include "net/grpc.hpp"
#include "net/server/server.hpp"
#include "support/pki.hpp"

#include <gmock/gmock.h>

#include <memory>

namespace rocca::net {
namespace {

using rocca::test::certificate_der;
using rocca::test::make_pki;
using rocca::test::Pki;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::Optional;

using ResponderPtr = std::shared_ptr<Responder>;

struct ServerAndCurl : ::testing::Test {
  const Pki authority = make_pki({.name = "ca", .authority = true});
  const Pki own = make_pki({.name = "node", .addresses = {"127.7.0.1"}}, &authority);
  const Pki admin = make_pki({.name = "admin", .usages = {"clientAuth"}}, &authority);
  Server server;
  CurlTransport transport;

  std::string serve(Handler handler, ServerTls::Clients clients = ServerTls::Clients::Ignore) {
    const auto id = server.listen({.address = "127.7.0.1",
                                   .tls = ServerTls{.identity = {own.certificate, Secret{own.key}},
                                                    .clients = clients,
                                                    .client_authority_pem = authority.certificate},
                                   .handler = std::move(handler)});
    return "https://127.7.0.1:" + std::to_string(server.port(id));
  }
};

TEST_F(ServerAndCurl, ReasonHeadersAndTrailersArriveAsTheyWereGiven) {
  Request request;
  request.url = serve([](const Incoming&, const ResponderPtr& out) {
    out->begin(596, "no such VM", {{"X-A", "1"}, {"X-A", "2"}});
    out->write("body");
    out->finish({{"X-T", "end"}});
  });
  request.tls = Tls::pinned(Fingerprint::of_der(certificate_der(own.certificate)));
  request.version = HttpVersion::Http1;
  const auto answer = fetch(transport, request);
  EXPECT_EQ(answer.head.status, 596);
  EXPECT_EQ(answer.head.reason, "no such VM");
  EXPECT_THAT(answer.head.headers.all("x-a"), ElementsAre("1", "2"));
  EXPECT_THAT(answer.head.trailers.find("x-t"), Optional(Eq("end")));
  EXPECT_EQ(answer.body, "body");
  request.version = HttpVersion::Http2;
  const auto second = fetch(transport, request);
  EXPECT_EQ(second.head.version, HttpVersion::Http2);
  EXPECT_THAT(second.head.trailers.find("x-t"), Optional(Eq("end")));
}

TEST_F(ServerAndCurl, GrpcGoesThroughMutualTls) {
  GrpcCall call;
  call.origin = serve(
      [](const Incoming& request, const ResponderPtr& out) {
        const net::Headers head{{"content-type", "application/grpc"}};
        if (request.target != "/a.B/Echo") {
          return out->answer(200, "",
                             {{"content-type", "application/grpc"},
                              {"grpc-status", "12"},
                              {"grpc-message", "no%21"}},
                             "");
        }
        out->answer(200, "", head, request.body, {{"grpc-status", "0"}});
      },
      ServerTls::Clients::Require);
  call.method = "/a.B/Echo";
  call.message = "hello";
  call.tls = Tls::authority(authority.certificate);
  call.tls.identity = std::make_shared<Identity>(Identity{admin.certificate, Secret{admin.key}});
  const auto answer = grpc_unary(transport, call);
  EXPECT_EQ(answer.status.code, GrpcCode::Ok);
  EXPECT_EQ(answer.message, "hello");
  call.method = "/a.B/Other";
  const auto refused = grpc_unary(transport, call);
  EXPECT_EQ(refused.status.code, GrpcCode::Unimplemented);
  EXPECT_EQ(refused.status.message, "no!");
  call.tls.identity = nullptr;
  EXPECT_THROW(grpc_unary(transport, call), Error);
}

TEST_F(ServerAndCurl, ACutIsAnAnswerThatMayHaveActed) {
  Request request;
  request.method = "POST";
  request.url = serve([](const Incoming&, const ResponderPtr& out) { out->cut(); });
  request.tls = Tls::unverified();
  request.version = HttpVersion::Http1;
  try {
    fetch(transport, request);
    FAIL() << "there was no answer";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Lost);
  }
}

}  // namespace
}  // namespace rocca::net
