#include "net/grpc.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

// The wire is described in gRPC's PROTOCOL-HTTP2 document, the meaning of bare HTTP statuses in its
// http-grpc-status-mapping document.

namespace rocca::net {

namespace {

constexpr std::array names = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

constexpr std::size_t prefix_size = 5;  // a flag and a length of four bytes

std::size_t frame_length(std::string_view prefix) {
  std::size_t length = 0;
  for (std::size_t i = 1; i < prefix_size; ++i)
    length = (length << 8U) | static_cast<unsigned char>(prefix[i]);
  return length;
}

// At most eight digits and a unit; rounded up, so that the far side does not give up before us.
std::string timeout_text(Duration duration) {
  using std::chrono::ceil;
  constexpr std::int64_t most = 99'999'999;
  const auto micros = ceil<std::chrono::microseconds>(duration).count();
  if (micros <= most) return fmt::format("{}u", std::max<std::int64_t>(micros, 1));
  const auto millis = ceil<std::chrono::milliseconds>(duration).count();
  if (millis <= most) return fmt::format("{}m", millis);
  return fmt::format("{}S", std::min(ceil<std::chrono::seconds>(duration).count(), most));
}

GrpcCode from_http(int status) {
  switch (status) {
    case 400:
      return GrpcCode::Internal;
    case 401:
      return GrpcCode::Unauthenticated;
    case 403:
      return GrpcCode::PermissionDenied;
    case 404:
      return GrpcCode::Unimplemented;
    case 429:
    case 502:
    case 503:
    case 504:
      return GrpcCode::Unavailable;
    default:
      return GrpcCode::Unknown;
  }
}

bool is_grpc(const Headers& headers) {
  const std::string type = to_lower(headers.find("content-type").value_or(""));
  constexpr std::string_view grpc = "application/grpc";
  return type.starts_with(grpc) &&
         (type.size() == grpc.size() || type[grpc.size()] == '+' || type[grpc.size()] == ';');
}

/// The frames of a call that streams towards the server, made as they are sent.
class FrameSource final : public BodySource {
 public:
  FrameSource(const std::string& first, std::function<std::optional<std::string>()> more)
      : frame_(grpc_frame(first)), more_(std::move(more)) {}

  std::optional<std::uint64_t> size() const override { return std::nullopt; }

  std::size_t read(std::span<char> out) override {
    if (sent_ == frame_.size()) {
      const auto next = more_();
      if (!next) return 0;
      frame_ = grpc_frame(*next);
      sent_ = 0;
    }
    const std::size_t count = frame_.copy(out.data(), out.size(), sent_);
    sent_ += count;
    return count;
  }

 private:
  std::string frame_;
  std::size_t sent_ = 0;
  std::function<std::optional<std::string>()> more_;
};

Request to_request(const GrpcCall& call) {
  Request request;
  request.method = "POST";
  request.url = call.origin + call.method;
  request.version = HttpVersion::Http2;
  request.headers = {{"content-type", "application/grpc"},
                     {"te", "trailers"},
                     {"grpc-encoding", "identity"},
                     {"grpc-accept-encoding", "identity"}};
  if (call.deadline) request.headers.add("grpc-timeout", timeout_text(*call.deadline));
  for (const auto& [name, value] : call.metadata) request.headers.add(to_lower(name), value);
  if (call.more)
    request.body = std::make_shared<FrameSource>(call.message, call.more);
  else
    request.body = grpc_frame(call.message);
  request.tls = call.tls;
  request.connect_timeout = call.connect_timeout;
  request.timeout = call.deadline;
  request.reads = call.reads;
  return request;
}

class FrameSink final : public BodySink {
 public:
  FrameSink(std::size_t limit, const std::function<bool(std::string_view)>& message)
      : frames_(limit), message_(message) {}

  void begin(const Response& head) override {
    head_ = head;
    speaks_grpc_ = head.status == 200 && is_grpc(head.headers);
  }

  bool write(std::string_view bytes) override {
    if (!speaks_grpc_)
      return false;  // a proxy's error page, or a web server: nobody wants to read it
    stopped_ = !frames_.feed(bytes, message_);
    return !stopped_;
  }

  const std::optional<Response>& head() const { return head_; }
  bool stopped() const { return stopped_; }
  bool at_boundary() const { return frames_.at_boundary(); }

 private:
  GrpcFrames frames_;
  const std::function<bool(std::string_view)>& message_;
  std::optional<Response> head_;
  bool speaks_grpc_ = false;
  bool stopped_ = false;
};

GrpcStatus read_status(const Response& response, const FrameSink& sink, const GrpcCall& call) {
  GrpcStatus status;
  status.headers = response.headers;
  status.trailers = response.trailers;
  status.peer = response.peer;
  const auto become = [&](GrpcCode code, std::string message) {
    status.code = code;
    status.message = std::move(message);
  };
  if (sink.stopped()) return status;

  // An answer without a body carries its status in the headers ("Trailers-Only").
  const Headers& last =
      response.trailers.find("grpc-status") ? response.trailers : response.headers;
  const auto code = last.find("grpc-status");
  const bool grpc = is_grpc(response.headers);
  if (response.status != 200 && !(grpc && code)) {
    become(from_http(response.status),
           fmt::format("HTTP status {} instead of a gRPC answer", response.status));
    return status;
  }
  if (!grpc)
    throw Error(Fault::Rejected,
                fmt::format("{} answered {} with '{}', which is not gRPC", call.origin, call.method,
                            response.headers.find("content-type").value_or("no content type")));
  // A server that goes down in the middle of its answer: it may have acted.
  if (!code)
    throw Error(Fault::Lost, fmt::format("{} ended {} without a status", call.origin, call.method));
  const auto number = parse_uint(trim(*code));
  if (!number || *number >= names.size()) {
    become(GrpcCode::Unknown, fmt::format("the far side gave the unknown status '{}'", *code));
    return status;
  }
  become(static_cast<GrpcCode>(*number), percent_decode(last.find("grpc-message").value_or("")));
  if (status.ok() && !sink.at_boundary())
    become(GrpcCode::Internal, "the answer ended in the middle of a message");
  return status;
}

}  // namespace

const char* to_string(GrpcCode code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  return index < names.size() ? names[index] : "Unknown";
}

bool GrpcFrames::feed(std::string_view bytes,
                      const std::function<bool(std::string_view)>& message) {
  pending_ += bytes;
  std::string_view rest = pending_;
  bool wanted = true;
  while (wanted && rest.size() >= prefix_size) {
    if (rest[0] != 0)
      throw Error(Fault::Rejected, rest[0] == 1
                                       ? "a compressed gRPC message came, which was not offered"
                                       : "what came is not a gRPC message");
    const std::size_t length = frame_length(rest);
    if (length > limit_)
      throw Error(
          Fault::Rejected,
          fmt::format("a gRPC message of {} bytes came, but {} are the most", length, limit_));
    if (rest.size() - prefix_size < length) break;
    wanted = message(rest.substr(prefix_size, length));
    rest.remove_prefix(prefix_size + length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return wanted;
}

std::string grpc_frame(std::string_view message) {
  std::string frame(prefix_size, '\0');
  for (std::size_t i = 1; i < prefix_size; ++i)
    frame[i] = static_cast<char>(message.size() >> (8 * (prefix_size - 1 - i)) & 0xffU);
  frame += message;
  return frame;
}

namespace {

/// `broken`: what the transport threw after the answer had begun and before its status came.
GrpcStatus run(Transport& transport, const GrpcCall& call,
               const std::function<bool(std::string_view)>& message, std::stop_token stop,
               std::optional<Error>& broken) {
  FrameSink sink(call.message_limit, message);
  const auto started = std::chrono::steady_clock::now();
  try {
    return read_status(transport.exchange(to_request(call), sink, std::move(stop)), sink, call);
  } catch (const Error& error) {
    if (error.fault() != Fault::Lost && error.fault() != Fault::Timeout) throw;
    GrpcStatus status;
    if (sink.head()) {
      status.headers = sink.head()->headers;
      status.peer = sink.head()->peer;
    }
    // libcurl reckons in whole milliseconds, and its alarm may ring up to one before its time.
    constexpr Duration early = std::chrono::milliseconds{1};
    const bool late =
        error.fault() == Fault::Timeout ||
        (call.deadline && std::chrono::steady_clock::now() - started >= *call.deadline - early);
    if (late) {
      status.code = GrpcCode::DeadlineExceeded;
      status.message = fmt::format("no end of {} within {}", call.method,
                                   rocca::to_string(call.deadline.value_or(Duration{})));
    } else if (sink.head()) {
      status.code = GrpcCode::Unavailable;
      status.message = error.message();
      broken = error;
    } else {
      throw;
    }
    return status;
  }
}

}  // namespace

GrpcStatus grpc_stream(Transport& transport, const GrpcCall& call,
                       const std::function<bool(std::string_view)>& message, std::stop_token stop) {
  std::optional<Error> broken;
  return run(transport, call, message, std::move(stop), broken);
}

GrpcAnswer grpc_unary(Transport& transport, const GrpcCall& call, std::stop_token stop) {
  GrpcAnswer answer;
  std::size_t count = 0;
  const auto keep = [&](std::string_view message) {
    if (count++ == 0) answer.message = message;
    return true;
  };
  std::optional<Error> broken;
  answer.status = run(transport, call, keep, std::move(stop), broken);
  // A server says Unavailable when it has not acted. Here it may have: never to be taken for that.
  if (broken) throw std::move(*broken);
  if (answer.status.ok() && count != 1) {
    answer.status.code = GrpcCode::Internal;
    answer.status.message = fmt::format("{} messages came in place of one", count);
  }
  return answer;
}

}  // namespace rocca::net
