// Our gRPC calls against a grpc++ server: Ed25519 mutual TLS on a 127.x.y.z address, a server we do
// not verify, one that dies in the middle of a stream, deadlines. The server runs in a forked
// child, so that it can be killed.

#include "checks.hpp"
#include "net/curl_transport.hpp"
#include "net/grpc.hpp"
#include "net/net_test_server.hpp"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/async_generic_service.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using namespace rocca;
using namespace rocca::peers;
using net::GrpcAnswer;
using net::GrpcCall;
using net::GrpcCode;
using net::GrpcStatus;
using net::Tls;
using net::test::Authority;
using net::test::Issued;
using net::test::KeyKind;

constexpr const char* error_text = "no node \"ü\": 100% sure\n€";

std::string text_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  static_cast<void>(buffer.Dump(&slices));
  std::string text;
  for (const auto& slice : slices)
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

grpc::ByteBuffer buffer_of(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

/// One call: reads the request, then does what the method's name says.
class Reactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Reactor(grpc::GenericCallbackServerContext* context)
      : context_(context), method_(context->method()) {
    StartRead(&in_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish({grpc::StatusCode::INVALID_ARGUMENT, "no request"});
    const std::string request = text_of(in_);
    if (method_ == "/peer.Test/Echo") return send(request, 1);
    if (method_ == "/peer.Test/Count") return send("n", std::stoul(request));
    if (method_ == "/peer.Test/Endless") return send("n", ~std::size_t{0});
    if (method_ == "/peer.Test/Fail") return Finish({grpc::StatusCode::NOT_FOUND, error_text});
    if (method_ == "/peer.Test/FailLate") {
      late_ = {grpc::StatusCode::DATA_LOSS, error_text};
      return send("one", 1);
    }
    if (method_ == "/peer.Test/Metadata") {
      const auto& sent = context_->client_metadata();
      const auto found = sent.find("x-question");
      context_->AddInitialMetadata("x-head", "h");
      context_->AddTrailingMetadata("x-tail", "t");
      return send(
          found == sent.end() ? "" : std::string(found->second.data(), found->second.size()), 1);
    }
    if (method_ == "/peer.Test/DieAfterThree") {
      die_ = true;
      return send("n", 3);
    }
    if (method_ == "/peer.Test/Silent") return;  // until the client leaves
    Finish({grpc::StatusCode::UNIMPLEMENTED, "no such method"});
  }

  void send(std::string message, std::size_t times) {
    message_ = std::move(message);
    left_ = times;
    next();
  }

  void next() {
    if (left_ == 0) {
      if (die_) return;  // the stream stays open until the client has told us to kill it
      Finish(late_);
      return;
    }
    --left_;
    out_ = buffer_of(message_);
    StartWrite(&out_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish({grpc::StatusCode::CANCELLED, "the client left"});
    next();
  }
  void OnCancel() override {
    if (method_ == "/peer.Test/Silent") Finish({grpc::StatusCode::CANCELLED, "the client left"});
  }
  void OnDone() override { delete this; }

  grpc::GenericCallbackServerContext* context_;
  std::string method_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
  std::string message_;
  std::size_t left_ = 0;
  bool die_ = false;
  grpc::Status late_;
};

class Service final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Reactor(context);
  }
};

struct ServerSettings {
  std::string address;
  Issued identity;
  std::string client_authority;  // empty: no client certificate is asked for
};

[[noreturn]] void serve(const ServerSettings& settings, int tell) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  grpc::SslServerCredentialsOptions options(
      settings.client_authority.empty()
          ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
          : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = settings.client_authority;
  options.pem_key_cert_pairs = {{settings.identity.key_pem, settings.identity.certificate_pem}};
  Service service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(settings.address + ":0", grpc::SslServerCredentials(options), &port);
  builder.RegisterCallbackGenericService(&service);
  builder.SetMaxReceiveMessageSize(64 << 20);
  const auto server = builder.BuildAndStart();
  if (!server) port = 0;
  if (write(tell, &port, sizeof port) != sizeof port || port == 0) _exit(1);
  server->Wait();
  _exit(0);
}

/// A grpc++ server in a child process. All are started before this process has a second thread.
class Child {
 public:
  explicit Child(ServerSettings settings) : settings_(std::move(settings)) {
    int ends[2];
    expect(pipe(ends) == 0, "no pipe");
    std::fflush(stdout);
    process_ = fork();
    if (process_ == 0) {
      close(ends[0]);
      serve(settings_, ends[1]);
    }
    close(ends[1]);
    const bool told = read(ends[0], &port_, sizeof port_) == sizeof port_ && port_ != 0;
    close(ends[0]);
    if (!told) {
      kill();
      throw Failure("grpc++ does not listen on " + settings_.address);
    }
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }

  GrpcCall call(const char* method, std::string message, Tls tls) const {
    GrpcCall call;
    call.origin = fmt::format("https://{}:{}", settings_.address, port_);
    call.method = method;
    call.message = std::move(message);
    call.tls = std::move(tls);
    return call;
  }

 private:
  ServerSettings settings_;
  pid_t process_ = -1;
  int port_ = 0;
};

void expect_code(const GrpcStatus& status, GrpcCode code) {
  expect(status.code == code,
         fmt::format("the status is {} '{}'", to_string(status.code), status.message));
}

}  // namespace

int main() {
  const Authority authority;
  const Authority other("other CA");
  const Issued server_identity = authority.issue({"127.45.6.7"}, KeyKind::Ed25519);
  const Issued lone_identity = other.issue({"elsewhere.example"}, KeyKind::Ed25519);
  Child mutual({"127.45.6.7", server_identity, authority.pem()});
  Child unverified({"127.45.6.8", lone_identity, ""});
  Child mortal({"127.45.6.7", server_identity, authority.pem()});

  Tls tls = Tls::authority(authority.pem());
  tls.identity = authority.issue({}, KeyKind::Ed25519).identity();
  net::CurlTransport transport;
  Checks checks;

  checks.run("grpc.unary_ed25519_mtls", [&] {
    const GrpcAnswer answer = grpc_unary(transport, mutual.call("/peer.Test/Echo", "hello", tls));
    expect_code(answer.status, GrpcCode::Ok);
    expect_equal(answer.message, "hello", "the answer");
    expect(answer.status.peer == server_identity.fingerprint, "the peer's fingerprint is another");
  });
  checks.run("grpc.large_message", [&] {
    const std::string large(8 << 20, 'x');
    expect_equal(grpc_unary(transport, mutual.call("/peer.Test/Echo", large, tls)).message, large,
                 "the answer");
  });
  checks.run("grpc.empty_message", [&] {
    const GrpcAnswer answer = grpc_unary(transport, mutual.call("/peer.Test/Echo", "", tls));
    expect_code(answer.status, GrpcCode::Ok);
    expect_equal(answer.message, "", "the answer");
  });
  checks.run("grpc.metadata_both_ways", [&] {
    GrpcCall call = mutual.call("/peer.Test/Metadata", "", tls);
    call.metadata = {{"x-question", "why"}};
    const GrpcAnswer answer = grpc_unary(transport, call);
    expect_equal(answer.message, "why", "the metadata that arrived");
    expect(answer.status.headers.find("x-head") == "h", "the headers are not there");
    expect(answer.status.trailers.find("x-tail") == "t", "the trailers are not there");
  });
  checks.run("grpc.trailers_only_error", [&] {
    const GrpcAnswer answer = grpc_unary(transport, mutual.call("/peer.Test/Fail", "", tls));
    expect_code(answer.status, GrpcCode::NotFound);
    expect_equal(answer.status.message, error_text, "the percent-decoded message");
  });
  checks.run("grpc.error_after_a_message", [&] {
    int seen = 0;
    const GrpcStatus status = grpc_stream(transport, mutual.call("/peer.Test/FailLate", "", tls),
                                          [&](std::string_view) { return ++seen > 0; });
    expect_code(status, GrpcCode::DataLoss);
    expect_equal(status.message, error_text, "the percent-decoded message");
    expect(seen == 1, "not one message came");
  });
  checks.run("grpc.unimplemented", [&] {
    expect_code(grpc_unary(transport, mutual.call("/peer.Test/Nothing", "", tls)).status,
                GrpcCode::Unimplemented);
  });
  checks.run("grpc.stream_of_5000", [&] {
    int seen = 0;
    expect_code(grpc_stream(transport, mutual.call("/peer.Test/Count", "5000", tls),
                            [&](std::string_view message) { return message == "n" && ++seen > 0; }),
                GrpcCode::Ok);
    expect(seen == 5000, fmt::format("{} messages came", seen));
  });
  checks.run("grpc.stream_left_early", [&] {
    int seen = 0;
    expect_code(grpc_stream(transport, mutual.call("/peer.Test/Endless", "", tls),
                            [&](std::string_view) { return ++seen < 100; }),
                GrpcCode::Ok);
    expect(seen == 100, fmt::format("{} messages came", seen));
  });
  checks.run("grpc.message_limit", [&] {
    GrpcCall call = mutual.call("/peer.Test/Echo", std::string(2000, 'x'), tls);
    call.message_limit = 1000;
    expect_fault(Fault::Rejected, [&] { grpc_unary(transport, call); });
  });
  checks.run("grpc.deadline", [&] {
    GrpcCall call = mutual.call("/peer.Test/Silent", "", tls);
    call.deadline = 300ms;
    expect_code(grpc_unary(transport, call).status, GrpcCode::DeadlineExceeded);
    call = mutual.call("/peer.Test/Endless", "", tls);
    call.deadline = 300ms;
    expect_code(grpc_stream(transport, call, [](std::string_view) { return true; }),
                GrpcCode::DeadlineExceeded);
  });
  checks.run("grpc.cancelled_by_stop", [&] {
    std::stop_source stop;
    GrpcCall call = mutual.call("/peer.Test/Endless", "", tls);
    call.deadline.reset();
    expect_fault(Fault::Interrupted, [&] {
      grpc_stream(
          transport, call, [&](std::string_view) { return stop.request_stop() || true; },
          stop.get_token());
    });
  });
  checks.run("grpc.unverified_server", [&] {
    const GrpcAnswer answer =
        grpc_unary(transport, unverified.call("/peer.Test/Echo", "hi", Tls::unverified()));
    expect_equal(answer.message, "hi", "the answer");
    expect(answer.status.peer == lone_identity.fingerprint, "the peer's fingerprint is another");
  });
  checks.run("grpc.pinned_server", [&] {
    const Tls pinned = Tls::pinned(lone_identity.fingerprint);
    expect_equal(grpc_unary(transport, unverified.call("/peer.Test/Echo", "hi", pinned)).message,
                 "hi", "the answer");
  });
  checks.run("grpc.foreign_ca_denied", [&] {
    expect_fault(Fault::Denied,
                 [&] { grpc_unary(transport, unverified.call("/peer.Test/Echo", "hi", tls)); });
  });
  checks.run("grpc.no_client_certificate_refused", [&] {
    // grpc++ closes the connection without an alert, so which Fault it is cannot be known from
    // here.
    bool threw = false;
    try {
      grpc_unary(transport, mutual.call("/peer.Test/Echo", "hi", Tls::authority(authority.pem())));
    } catch (const Error&) {
      threw = true;
    }
    expect(threw, "an answer came");
  });
  checks.run("grpc.sixteen_threads", [&] {
    std::atomic<int> right = 0;
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 16; ++t)
        threads.emplace_back([&, t] {
          for (int i = 0; i < 10; ++i) {
            const std::string text = fmt::format("{} {}", t, i);
            try {
              if (grpc_unary(transport, mutual.call("/peer.Test/Echo", text, tls)).message == text)
                ++right;
            } catch (const Error&) {
            }
          }
        });
    }
    expect(right == 160, fmt::format("{} of 160 calls were answered", right.load()));
  });
  checks.run("grpc.server_dies_mid_stream", [&] {
    int seen = 0;
    const GrpcStatus status = grpc_stream(
        transport, mortal.call("/peer.Test/DieAfterThree", "", tls), [&](std::string_view) {
          if (++seen == 3) mortal.kill();
          return true;
        });
    expect_code(status, GrpcCode::Unavailable);
    expect(seen == 3, fmt::format("{} messages came", seen));
  });
  checks.run("grpc.dead_server_is_unreachable", [&] {
    expect_fault(Fault::Unreachable,
                 [&] { grpc_unary(transport, mortal.call("/peer.Test/Echo", "", tls)); });
  });
  return checks.exit_code();
}
