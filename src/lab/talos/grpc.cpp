#include "lab/talos/grpc.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

namespace rocca::lab::talos {

const char* to_string(Code code) {
  switch (code) {
    case Code::Ok:
      return "OK";
    case Code::Unknown:
      return "Unknown";
    case Code::InvalidArgument:
      return "InvalidArgument";
    case Code::DeadlineExceeded:
      return "DeadlineExceeded";
    case Code::NotFound:
      return "NotFound";
    case Code::AlreadyExists:
      return "AlreadyExists";
    case Code::PermissionDenied:
      return "PermissionDenied";
    case Code::ResourceExhausted:
      return "ResourceExhausted";
    case Code::FailedPrecondition:
      return "FailedPrecondition";
    case Code::Unimplemented:
      return "Unimplemented";
    case Code::Internal:
      return "Internal";
    case Code::Unavailable:
      return "Unavailable";
  }
  return "Unknown";
}

void refuse(Code code, std::string message) {
  throw Refusal{{code, std::move(message)}};
}

namespace {

net::Headers status_fields(const Status& status) {
  return {{"grpc-status", std::to_string(static_cast<int>(status.code))},
          {"grpc-message", encode_message(status.message)}};
}

void append_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

std::optional<std::uint64_t> take_varint(std::string_view& in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

/// Its first frame, at least. One that says it is compressed is not, as nobody here compresses.
bool first_is_whole(std::string_view body) {
  if (body.size() < 5 || body[0] != 0) return false;
  std::size_t size = 0;
  for (std::size_t i = 1; i < 5; ++i) size = size << 8 | static_cast<unsigned char>(body[i]);
  return body.size() - 5 >= size;
}

}  // namespace

void HttpReply::begin() {
  if (begun_) return;
  begun_ = true;
  responder_->begin(200, "", {{"content-type", content_type_}});
}

void HttpReply::send(std::string message) {
  if (over_) return;
  begin();
  responder_->write(frame(message));
}

void HttpReply::finish(Status status) {
  if (over_) return;
  over_ = true;
  if (!begun_ && status.code != Code::Ok) {
    net::Headers headers{{"content-type", content_type_}};
    for (const net::Header& field : status_fields(status)) headers.add(field.name, field.value);
    responder_->answer(200, "", std::move(headers), "");
    return;
  }
  begin();
  responder_->finish(status_fields(status));
}

void HttpReply::cut() {
  if (over_) return;
  over_ = true;
  responder_->cut();
}

std::string frame(std::string_view message) {
  std::string out(1, '\0');
  const auto size = static_cast<std::uint32_t>(message.size());
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(size >> shift));
  return out.append(message);
}

std::optional<std::vector<std::string>> unframe(std::string_view body) {
  std::vector<std::string> messages;
  while (!body.empty()) {
    if (body.size() < 5 || body[0] != 0) return std::nullopt;
    std::size_t size = 0;
    for (std::size_t i = 1; i < 5; ++i) size = size << 8 | static_cast<unsigned char>(body[i]);
    body.remove_prefix(5);
    if (body.size() < size) return std::nullopt;
    messages.emplace_back(body.substr(0, size));
    body.remove_prefix(size);
  }
  return messages;
}

std::string encode_message(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '%')
      out.push_back(c);
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

std::optional<Duration> parse_timeout(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  const auto number = parse_int(text.substr(0, text.size() - 1));
  if (!number || *number < 0) return std::nullopt;
  switch (text.back()) {
    case 'H':
      return std::chrono::hours{*number};
    case 'M':
      return std::chrono::minutes{*number};
    case 'S':
      return std::chrono::seconds{*number};
    case 'm':
      return std::chrono::milliseconds{*number};
    case 'u':
      return std::chrono::microseconds{*number};
    case 'n':
      return std::chrono::nanoseconds{*number};
    default:
      return std::nullopt;
  }
}

bool refuse_request(const net::Incoming& incoming, net::Responder& responder) {
  const auto refuse = [&](int http, Code code, const std::string& message) {
    net::Headers headers{{"content-type", "application/grpc"}};
    for (const net::Header& field : status_fields({code, message}))
      headers.add(field.name, field.value);
    responder.answer(http, "", std::move(headers), "");
    return true;
  };
  if (incoming.method != "POST")
    return refuse(405, Code::Internal,
                  fmt::format("Received a HEADERS frame with :method \"{}\" which should be POST",
                              incoming.method));
  const std::string type{incoming.headers.find("content-type").value_or("")};
  if (type != "application/grpc" && !type.starts_with("application/grpc+") &&
      !type.starts_with("application/grpc;"))
    return refuse(415, Code::InvalidArgument,
                  fmt::format("invalid gRPC request content-type \"{}\"", type));
  if (const auto timeout = incoming.headers.find("grpc-timeout");
      timeout && !parse_timeout(*timeout))
    return refuse(400, Code::Internal,
                  fmt::format("malformed grpc-timeout: transport: timeout unit is not recognized: "
                              "\"{}\"",
                              *timeout));
  if (incoming.target.find('/', 1) == std::string::npos)
    return refuse(200, Code::Unimplemented,
                  fmt::format("malformed method name: \"{}\"", incoming.target));
  return false;
}

std::shared_ptr<Call> read_call(const net::Incoming& incoming,
                                std::shared_ptr<net::Responder> responder) {
  auto call = std::make_shared<Call>();
  call->reply = std::make_shared<HttpReply>(
      std::move(responder), std::string(incoming.headers.find("content-type").value_or("")));
  const auto slash = incoming.target.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    call->service = incoming.target.substr(1, slash - 1);
    call->method = incoming.target.substr(slash + 1);
  }
  for (const net::Header& field : incoming.headers) call->metadata.add(field.name, field.value);
  auto messages = unframe(incoming.body);
  call->malformed = !messages;
  if (messages) call->requests = std::move(*messages);
  call->empty = messages && call->requests.empty();
  call->cut_short = !messages && !first_is_whole(incoming.body);
  if (call->requests.empty()) call->requests.emplace_back();
  return call;
}

void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  append_varint(out, field << 3 | 2);
  append_varint(out, bytes.size());
  out.append(bytes);
}

void put_varint(std::string& out, unsigned field, std::uint64_t value) {
  append_varint(out, field << 3);
  append_varint(out, value);
}

std::optional<std::vector<std::string>> fields(std::string_view message, unsigned field) {
  std::vector<std::string> found;
  while (!message.empty()) {
    const auto tag = take_varint(message);
    if (!tag) return std::nullopt;
    std::size_t size = 0;
    switch (*tag & 7) {
      case 0:
        if (!take_varint(message)) return std::nullopt;
        continue;
      case 1:
        size = 8;
        break;
      case 2: {
        const auto length = take_varint(message);
        if (!length) return std::nullopt;
        size = static_cast<std::size_t>(*length);
        break;
      }
      case 5:
        size = 4;
        break;
      default:
        return std::nullopt;
    }
    if (message.size() < size) return std::nullopt;
    if ((*tag & 7) == 2 && *tag >> 3 == field) found.emplace_back(message.substr(0, size));
    message.remove_prefix(size);
  }
  return found;
}

}  // namespace rocca::lab::talos
