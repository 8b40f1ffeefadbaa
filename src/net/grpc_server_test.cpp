// gRPC calls over real sockets: libcurl's HTTP/2 against net::Server's.

#include "base/error.hpp"
#include "net/curl_transport.hpp"
#include "net/grpc.hpp"
#include "net/net_test_server.hpp"
#include "net/server.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>

namespace rocca::net {
namespace {

using namespace std::chrono_literals;

class GrpcOverSockets : public ::testing::Test {
 protected:
  GrpcOverSockets() {
    for (const char* name : {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
      unsetenv(name);
  }

  GrpcCall call_to(Handler handler) {
    const test::Issued issued = authority_.issue({"127.0.0.1"}, test::KeyKind::Ed25519);
    Listen listen;
    listen.address = "127.0.0.1";
    listen.tls.emplace();
    listen.tls->identity = *issued.identity();
    listen.tls->clients = ServerTls::Clients::Require;
    listen.tls->client_authority_pem = authority_.pem();
    listen.handler = std::move(handler);
    GrpcCall call;
    call.origin =
        fmt::format("https://127.0.0.1:{}", server_.port(server_.listen(std::move(listen))));
    call.method = "/test.Test/Call";
    call.message = "ask";
    call.tls = Tls::authority(authority_.pem());
    call.tls.identity = authority_.issue({}, test::KeyKind::Ed25519).identity();
    return call;
  }

  const test::Authority authority_;
  CurlTransport transport_;
  Server server_;
};

const Headers grpc_headers = {{"content-type", "application/grpc"}};

TEST_F(GrpcOverSockets, AUnaryCallBringsItsFrameAndTakesItsTrailers) {
  const GrpcCall call = call_to([](Incoming request, std::shared_ptr<Responder> responder) {
    const bool good = request.version == HttpVersion::Http2 &&
                      request.headers.find("te") == "trailers" &&
                      request.target == "/test.Test/Call" && request.body == grpc_frame("ask");
    responder->answer(200, "", grpc_headers, grpc_frame(good ? "answer" : "wrong request"),
                      {{"grpc-status", "0"}});
  });
  const GrpcAnswer answer = grpc_unary(transport_, call);
  EXPECT_TRUE(answer.status.ok()) << answer.status.message;
  EXPECT_EQ(answer.message, "answer");
}

TEST_F(GrpcOverSockets, AStatusWithoutABodyIsRead) {
  const GrpcCall call = call_to([](Incoming, std::shared_ptr<Responder> responder) {
    Headers headers = grpc_headers;
    headers.add("grpc-status", "7");
    headers.add("grpc-message", "not%20authorized");
    responder->answer(200, "", headers, "");
  });
  const GrpcStatus status = grpc_unary(transport_, call).status;
  EXPECT_EQ(status.code, GrpcCode::PermissionDenied);
  EXPECT_EQ(status.message, "not authorized");
}

TEST_F(GrpcOverSockets, AStreamCutInTheMiddleIsUnavailable) {
  std::shared_ptr<Responder> kept;
  const GrpcCall call = call_to([&](Incoming, std::shared_ptr<Responder> responder) {
    responder->begin(200, "", grpc_headers);
    responder->write(grpc_frame("one"));
    kept = std::move(responder);
  });
  int seen = 0;
  const GrpcStatus status = grpc_stream(transport_, call, [&](std::string_view) {
    server_.post([&] { kept->cut(); });
    return ++seen > 0;
  });
  EXPECT_EQ(status.code, GrpcCode::Unavailable);
  EXPECT_EQ(seen, 1);
}

TEST_F(GrpcOverSockets, TheDeadlineIsKeptByUsToo) {
  std::vector<std::shared_ptr<Responder>> kept;
  GrpcCall call = call_to([&](Incoming, std::shared_ptr<Responder> responder) {
    kept.push_back(std::move(responder));
  });
  call.deadline = 60ms;
  EXPECT_EQ(grpc_unary(transport_, call).status.code, GrpcCode::DeadlineExceeded);
  server_.stop();
}

TEST_F(GrpcOverSockets, WithoutAClientCertificateItIsDenied) {
  GrpcCall call = call_to([](Incoming, std::shared_ptr<Responder> responder) { responder->cut(); });
  call.tls.identity.reset();
  try {
    grpc_unary(transport_, call);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Denied) << error.render();
    EXPECT_THAT(error.message(), ::testing::HasSubstr("certificate required (116)"));
  }
}

}  // namespace
}  // namespace rocca::net
