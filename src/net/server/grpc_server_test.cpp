// gRPC calls over real sockets: libcurl's HTTP/2 against net::Server's.

#include "base/error.hpp"
#include "net/curl_transport.hpp"
#include "net/grpc.hpp"
#include "net/net_test_server.hpp"
#include "net/server/server.hpp"

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

// One frame of HTTP/2 on stream 1 (or 0), and headers without Huffman or table.
std::string h2_frame(char type, char flags, char stream, std::string_view payload) {
  const std::size_t size = payload.size();
  std::string frame{static_cast<char>(size >> 16U),
                    static_cast<char>(size >> 8U),
                    static_cast<char>(size),
                    type,
                    flags,
                    0,
                    0,
                    0,
                    stream};
  return frame.append(payload);
}

std::string h2_header(std::string_view name, std::string_view value) {
  std::string field{'\0', static_cast<char>(name.size())};
  field += name;
  field += static_cast<char>(value.size());
  return field.append(value);
}

/// A node that refuses before it has read: answers as soon as the request's head is there, opens
/// the window no further and reads on, as grpc-go does for a method that is not allowed.
class EarlyAnswer : public GrpcOverSockets {
 protected:
  GrpcCall call_with(std::string answer) {
    test::TestServer::Options options;
    options.tls = authority_.issue({"127.0.0.1"}, test::KeyKind::Ed25519);
    options.alpn = {"h2"};
    early_ = std::make_unique<test::TestServer>(
        std::move(options), [answer = std::move(answer)](test::Connection& connection) {
          connection.send(h2_frame(4, 0, 0, ""));
          std::string seen;
          // The preface of 24 bytes, then frames: 9 bytes of head, length first, type fourth.
          std::size_t at = 24;
          for (bool answered = false;;) {
            const std::string more = connection.read_bytes();
            if (more.empty()) return;
            if (answered) continue;
            seen += more;
            while (!answered && seen.size() >= at + 9) {
              const auto byte = [&](std::size_t i) {
                return static_cast<std::size_t>(static_cast<unsigned char>(seen[at + i]));
              };
              if (seen[at + 3] == 1) answered = connection.send(answer);
              at += 9 + (byte(0) << 16U | byte(1) << 8U | byte(2));
            }
          }
        });
    GrpcCall call;
    call.origin = fmt::format("https://127.0.0.1:{}", early_->port());
    call.method = "/test.Test/Upload";
    call.message.assign(300'000, 'x');  // more than the first window of 65,535
    call.tls = Tls::authority(authority_.pem());
    call.deadline = 20s;
    return call;
  }

  std::unique_ptr<test::TestServer> early_;
};

const std::string ok_head = "\x88" + h2_header("content-type", "application/grpc");
const std::string denied =
    h2_header("grpc-status", "7") + h2_header("grpc-message", "not%20authorized");

TEST_F(EarlyAnswer, WithoutABodyIsTheAnswer) {
  const GrpcCall call = call_with(h2_frame(1, 5, 1, ok_head + denied));
  const GrpcStatus status = grpc_unary(transport_, call).status;
  EXPECT_EQ(status.code, GrpcCode::PermissionDenied) << status.message;
  EXPECT_EQ(status.message, "not authorized");
}

// With a reset behind it, libcurl 7.88 drops the answer itself. It must not look as if nothing had
// been sent.
TEST_F(EarlyAnswer, WithAResetBehindItIsLost) {
  const GrpcCall call =
      call_with(h2_frame(1, 5, 1, ok_head + denied) + h2_frame(3, 0, 1, std::string(4, '\0')));
  try {
    EXPECT_EQ(grpc_unary(transport_, call).status.code, GrpcCode::PermissionDenied);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Lost) << error.render();
  }
}

// libcurl 7.88 does not hand over trailers while the request is unsent. No Talos does this: grpc-go
// puts an early refusal into the head. What must hold is the deadline.
TEST_F(EarlyAnswer, InTrailersIsNotSeenButTheDeadlineHolds) {
  GrpcCall call = call_with(h2_frame(1, 4, 1, ok_head) + h2_frame(1, 5, 1, denied));
  call.deadline = 100ms;
  EXPECT_EQ(grpc_unary(transport_, call).status.code, GrpcCode::DeadlineExceeded);
}

}  // namespace
}  // namespace rocca::net
