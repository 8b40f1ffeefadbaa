#pragma once

#include "net/transport.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::net {

/// The status codes of gRPC, by their numbers.
enum class GrpcCode : std::uint8_t {
  Ok = 0,
  Cancelled = 1,
  Unknown = 2,
  InvalidArgument = 3,
  DeadlineExceeded = 4,
  NotFound = 5,
  AlreadyExists = 6,
  PermissionDenied = 7,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  Aborted = 10,
  OutOfRange = 11,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
  DataLoss = 15,
  Unauthenticated = 16,
};

const char* to_string(GrpcCode code) noexcept;  // "NotFound", as grpc-go prints it

/// How a call ended, as the far side said it.
struct GrpcStatus {
  GrpcCode code = GrpcCode::Ok;
  std::string message;  // percent-decoded
  Headers headers;
  Headers trailers;
  std::optional<Fingerprint> peer;

  bool ok() const noexcept { return code == GrpcCode::Ok; }
};

struct GrpcCall {
  std::string origin;   // https://10.0.0.11:50000
  std::string method;   // /machine.MachineService/Version
  std::string message;  // the request, encoded
  /// For calls that stream towards the server: each further message, until nothing comes. Without
  /// it `message` is all.
  std::function<std::optional<std::string>()> more;
  Headers metadata;
  Tls tls;
  Duration connect_timeout = std::chrono::seconds{5};
  std::optional<Duration> deadline =
      std::chrono::seconds{30};  // sent as grpc-timeout, and kept by us too
  std::size_t message_limit = 32 * 1024 * 1024;
  bool reads = false;  // it changes nothing, and may go out twice
};

/// Cuts a gRPC body into its messages. Pure; refuses compressed frames and frames over the limit.
class GrpcFrames {
 public:
  explicit GrpcFrames(std::size_t limit) : limit_(limit) {}
  /// Takes more bytes and hands every whole message to `message`; false from it stops. Throws
  /// Error(Rejected).
  bool feed(std::string_view bytes, const std::function<bool(std::string_view)>& message);
  bool at_boundary() const noexcept { return pending_.empty(); }

 private:
  std::size_t limit_;
  std::string pending_;
};

std::string grpc_frame(std::string_view message);

/// One request, a stream of answers. Returns the status of the far side; throws what Transport
/// throws, and Error(Rejected) if the answer is not gRPC. A stream that breaks off gives
/// Unavailable, as other clients do. `message` returning false ends the call early with status Ok.
GrpcStatus grpc_stream(Transport& transport, const GrpcCall& call,
                       const std::function<bool(std::string_view)>& message,
                       std::stop_token stop = {});

struct GrpcAnswer {
  GrpcStatus status;
  std::string message;
};

/// One request, one answer.
GrpcAnswer grpc_unary(Transport& transport, const GrpcCall& call, std::stop_token stop = {});

}  // namespace rocca::net
