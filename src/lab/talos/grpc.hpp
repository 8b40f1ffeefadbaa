#pragma once

#include "lab/sim/world.hpp"
#include "net/server/server.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::talos {

/// The codes of gRPC by their numbers on the wire.
enum class Code {
  Ok = 0,
  Unknown = 2,
  InvalidArgument = 3,
  DeadlineExceeded = 4,
  NotFound = 5,
  AlreadyExists = 6,
  PermissionDenied = 7,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
};
const char* to_string(Code code);  // as grpc-go prints it: "InvalidArgument"

struct Status {
  Code code = Code::Ok;
  std::string message;
};

/// Thrown by what serves a call; becomes its status.
struct Refusal {
  Status status;
};
[[noreturn]] void refuse(Code code, std::string message);

/// Where the messages of one answer go.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(std::string message) = 0;
  virtual void finish(Status status) = 0;
  virtual void cut() = 0;  // the server is gone: no status any more
};

/// The answer to one HTTP/2 stream. A failure before the first message goes out as trailers only:
/// one HEADERS frame, as grpc-go does it.
class HttpReply final : public Reply {
 public:
  /// Answers carry the content type of the question, codec included.
  explicit HttpReply(std::shared_ptr<net::Responder> responder,
                     std::string content_type = "application/grpc")
      : responder_(std::move(responder)), content_type_(std::move(content_type)) {}
  void send(std::string message) override;
  void finish(Status status) override;
  void cut() override;

 private:
  void begin();
  std::shared_ptr<net::Responder> responder_;
  std::string content_type_;
  bool begun_ = false;
  bool over_ = false;
};

/// One call on its way through a node.
struct Call {
  std::string service;  // "machine.MachineService"
  std::string method;   // "Version"
  net::Headers metadata;
  std::vector<std::string> requests;  // one, or more of a client stream
  bool malformed = false;             // the body was cut in the middle of a frame
  bool empty = false;                 // there was none
  bool cut_short = false;             // not even its first message is whole
  std::vector<std::string> roles;
  std::shared_ptr<Reply> reply;
  Interrupt interrupt;  // raised when the client leaves, its deadline passes or the node stops
  std::string path() const { return "/" + service + "/" + method; }
  const std::string& request() const { return requests.front(); }
  template <class Message>
  Message parse() const {
    Message message;
    if (malformed || !message.ParseFromString(request()))
      refuse(Code::Internal, "grpc: error unmarshalling request: unexpected EOF");
    return message;
  }
};

std::string frame(std::string_view message);
/// The messages of a body; nothing at its end is fine, half a frame is not.
std::optional<std::vector<std::string>> unframe(std::string_view body);
/// gRPC's own percent encoding: everything outside the printable ASCII, and `%`.
std::string encode_message(std::string_view text);
/// `15S`, `200m`; nothing if it is not one.
std::optional<Duration> parse_timeout(std::string_view text);

/// What grpc-go's transport refuses before any service sees it, answered; false: it is a gRPC call.
bool refuse_request(const net::Incoming& incoming, net::Responder& responder);

/// Reads a call out of an HTTP/2 request that was not refused.
std::shared_ptr<Call> read_call(const net::Incoming& incoming,
                                std::shared_ptr<net::Responder> responder);

// Protobuf by hand, for where the type of a message does not matter: a proxy appends to it.
void put_bytes(std::string& out, unsigned field, std::string_view bytes);
void put_varint(std::string& out, unsigned field, std::uint64_t value);
/// The contents of every occurrence of a length-delimited field; nothing for what is no message.
std::optional<std::vector<std::string>> fields(std::string_view message, unsigned field);

}  // namespace rocca::lab::talos
