#include "net/server/http1_session.hpp"

#include "net/server/tunnel.hpp"

#include <fmt/core.h>
#include <http_parser.h>
#include <strings.h>

#include <algorithm>
#include <charconv>

namespace rocca::net {
namespace {

// http_parser's own limit (80 KiB) is a global of the library, so ours is lower and kept here.
constexpr std::size_t head_limit = 64 * 1024;
constexpr std::size_t most_headers = 256;
constexpr std::size_t pipeline_limit = 64 * 1024;
// Chunk sizes, extensions and trailers. The smallest chunk, of one byte, has five bytes of framing.
constexpr std::size_t framing_limit = 64 * 1024;
constexpr std::size_t framing_per_byte = 16;
constexpr std::size_t piece = 64 * 1024;

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

bool has_token(const Headers& headers, std::string_view name, std::string_view token) {
  for (const auto& header : headers) {
    if (!same_name(header.name, name)) continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const auto comma = std::min(rest.find(','), rest.size());
      auto one = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      while (!one.empty() && (one.front() == ' ' || one.front() == '\t')) one.remove_prefix(1);
      while (!one.empty() && (one.back() == ' ' || one.back() == '\t')) one.remove_suffix(1);
      if (same_name(one, token)) return true;
    }
  }
  return false;
}

/// Adds text that must stay on its line: a handler's error text may hold line breaks, and they
/// would be headers.
void add_line_text(std::string& out, std::string_view text) {
  const auto at = out.size();
  out += text;
  std::replace_if(
      out.begin() + static_cast<std::ptrdiff_t>(at), out.end(),
      [](char c) { return c == '\r' || c == '\n'; }, ' ');
}

void add_header(std::string& out, std::string_view name, std::string_view value) {
  add_line_text(out, name);
  out += ": ";
  add_line_text(out, value);
  out += "\r\n";
}

std::string status_line(int status, std::string_view reason) {
  std::string line = fmt::format("HTTP/1.1 {} ", status);
  add_line_text(line, reason.empty() ? http_status_str(static_cast<http_status>(status)) : reason);
  line += "\r\n";
  return line;
}

bool has_no_body(int status) {
  return status < 200 || status == 204 || status == 304;
}

}  // namespace

/// http_parser and what it has read of one request so far.
struct Http1Session::Parser {
  http_parser parser{};
  http_parser_settings settings{};
  std::size_t body_limit;
  Connection& connection;

  std::string target;
  Headers headers;
  std::string field;
  std::string value;
  bool in_value = false;
  bool in_trailers = false;  // read and dropped
  std::size_t head_size = 0;
  std::size_t header_count = 0;  // trailers included
  std::size_t framing = 0;       // bytes of a chunked body that are not content
  std::string body;
  bool complete = false;
  int refusal = 0;  // the status it deserves

  Parser(Connection& owner, std::size_t limit) : body_limit(limit), connection(owner) {
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = this;
    http_parser_settings_init(&settings);
    settings.on_message_begin = [](http_parser* p) { return self(p).begin(); };
    settings.on_url = [](http_parser* p, const char* at, std::size_t size) {
      return self(p).part(self(p).target, {at, size});
    };
    settings.on_header_field = [](http_parser* p, const char* at, std::size_t size) {
      if (const int error = self(p).end_header(); error != 0) return error;
      return self(p).part(self(p).field, {at, size});
    };
    settings.on_header_value = [](http_parser* p, const char* at, std::size_t size) {
      self(p).in_value = true;
      return self(p).part(self(p).value, {at, size});
    };
    settings.on_headers_complete = [](http_parser* p) { return self(p).head_complete(); };
    settings.on_body = [](http_parser* p, const char* at, std::size_t size) {
      return self(p).more_body({at, size});
    };
    settings.on_chunk_header = [](http_parser* p) { return self(p).chunk_begins(); };
    settings.on_message_complete = [](http_parser* p) {
      self(p).complete = true;
      http_parser_pause(p, 1);  // the next request waits for its turn
      return 0;
    };
  }

  static Parser& self(http_parser* p) noexcept { return *static_cast<Parser*>(p->data); }

  int begin() noexcept {
    target.clear();
    headers = {};
    field.clear();
    value.clear();
    in_value = in_trailers = complete = false;
    head_size = header_count = framing = 0;
    body = {};
    return 0;
  }

  int refuse(int status) noexcept {
    refusal = status;
    return -1;
  }

  int part(std::string& into, std::string_view bytes) noexcept {
    head_size += bytes.size();
    if (head_size > head_limit) return refuse(431);
    into += bytes;
    return 0;
  }

  int end_header() noexcept {
    if (!in_value) return 0;
    head_size += 32;  // many tiny ones cost memory too
    if (++header_count > most_headers) return refuse(431);
    // http_parser lets a NUL through at the beginning of a value (RFC 9110, 5.5).
    if (value.find_first_of(std::string_view{"\r\n\0", 3}) != std::string::npos) return refuse(400);
    if (!in_trailers) headers.add(std::move(field), std::move(value));
    field.clear();
    value.clear();
    in_value = false;
    return 0;
  }

  int head_complete() noexcept {
    if (const int error = end_header(); error != 0) return error;
    in_trailers = true;
    const bool http11 = parser.http_major == 1 && parser.http_minor >= 1;
    if (parser.http_major != 1) return refuse(505);
    if (http11 && headers.all("Host").size() != 1) return refuse(400);
    // An upgrade (curl offers h2c) is an offer, and we decline it; only CONNECT leaves HTTP.
    if (parser.method != HTTP_CONNECT) parser.upgrade = 0;
    const bool length_known = (parser.flags & F_CONTENTLENGTH) != 0;
    if (length_known && parser.content_length > body_limit) return refuse(413);
    const bool has_body =
        length_known ? parser.content_length > 0 : (parser.flags & F_CHUNKED) != 0;
    if (http11 && has_body && has_token(headers, "Expect", "100-continue")) {
      connection.send("HTTP/1.1 100 Continue\r\n\r\n");
    }
    return 0;
  }

  int chunk_begins() noexcept {
    return parser.content_length > body_limit - body.size() ? refuse(413) : 0;
  }

  int more_body(std::string_view bytes) noexcept {
    if (body.size() + bytes.size() > body_limit) return refuse(413);
    body += bytes;
    return 0;
  }

  /// Takes one request's bytes at most; what is left stays in `pending`.
  void take(std::string& pending) {
    http_parser_pause(&parser, 0);
    const bool in_body = in_trailers && !complete;
    const std::size_t before = body.size();
    const auto used = http_parser_execute(&parser, &settings, pending.data(), pending.size());
    const auto error = HTTP_PARSER_ERRNO(&parser);
    if (in_body && (parser.flags & F_CHUNKED) != 0 && refusal == 0) {
      framing += used - (body.size() - before);
      if (framing > framing_limit + framing_per_byte * body.size()) refuse(400);
    }
    if (error != HPE_OK && error != HPE_PAUSED && refusal == 0) {
      refusal = error == HPE_HEADER_OVERFLOW ? 431 : 400;
    }
    pending.erase(0, used);
  }
};

Http1Session::Http1Session(Connection& connection)
    : connection_(connection),
      parser_(std::make_unique<Parser>(connection, connection.door().body_limit)) {}

Http1Session::~Http1Session() {
  lost();
}

void Http1Session::input(std::string_view bytes) {
  if (rejected_) return;
  pending_ += bytes;
  parse();
}

void Http1Session::parse() {
  while (!exchange_ && !rejected_ && connection_.open() && !pending_.empty()) {
    parser_->take(pending_);
    if (parser_->refusal != 0) {
      const int status = parser_->refusal;
      return reject(status, http_status_str(static_cast<http_status>(status)));
    }
    if (parser_->complete) dispatch();
  }
  connection_.pause_input(exchange_ && pending_.size() > pipeline_limit);
}

void Http1Session::dispatch() {
  auto& read = *parser_;
  read.complete = false;
  Incoming request = connection_.blank_request();
  request.method = http_method_str(static_cast<http_method>(read.parser.method));
  request.target = std::move(read.target);
  request.authority = read.headers.find("Host").value_or("");
  request.headers = std::move(read.headers);
  request.body = std::move(read.body);
  request.version = HttpVersion::Http1;

  head_sent_ = false;
  is_head_ = read.parser.method == HTTP_HEAD;
  http10_ = read.parser.http_minor == 0;
  keep_alive_ = http_should_keep_alive(&read.parser) != 0 && read.parser.method != HTTP_CONNECT;
  exchange_ = std::make_shared<Exchange>(connection_.loop().mailbox(), *this);
  Exchange::run(*connection_.door().handler, std::move(request), exchange_);
  if (end_of_input_) leave_if_unanswered();
}

void Http1Session::end_of_input() {
  end_of_input_ = true;
  if (!exchange_) return connection_.finish();
  leave_if_unanswered();
}

void Http1Session::leave_if_unanswered() {
  // The answer of a handler that answered at once is still in the mailbox; behind it, we know.
  connection_.loop().post([connection = connection_.weak_from_this(), exchange = exchange_] {
    const auto alive = connection.lock();
    if (!alive || exchange->gone() || exchange->finished() || exchange->tunnel_to()) return;
    alive->close();
  });
}

void Http1Session::reject(int status, std::string_view text) {
  rejected_ = true;
  pending_.clear();
  std::string answer = status_line(status, {});
  add_header(answer, "Content-Type", "text/plain; charset=utf-8");
  add_header(answer, "Content-Length", std::to_string(text.size() + 1));
  add_header(answer, "Connection", "close");
  answer += "\r\n";
  answer += text;
  answer += "\n";
  connection_.send(answer);
  connection_.finish();
}

void Http1Session::room() {
  if (exchange_) send_answer();
}

void Http1Session::answer_changed(Exchange& exchange) {
  if (&exchange == exchange_.get()) send_answer();
}

void Http1Session::send_answer() {
  if (exchange_->is_cut()) return connection_.cut();
  if (const auto& to = exchange_->tunnel_to()) {
    const Endpoint where = *to;
    std::exchange(exchange_, nullptr)->detach(/*delivered=*/true);
    return Tunnel::open(connection_, where, std::exchange(pending_, {}), end_of_input_);
  }
  if (!exchange_->head()) return;
  if (!head_sent_) send_head();
  while (exchange_->has_bytes() && !connection_.full() && connection_.open()) {
    const auto bytes = exchange_->peek(piece);
    send_body(bytes);
    exchange_->consume(bytes.size());
  }
  if (connection_.open() && exchange_->finished() && !exchange_->has_bytes()) answer_sent();
}

void Http1Session::send_head() {
  head_sent_ = true;
  const auto& head = *exchange_->head();
  const bool whole = head.size.has_value();
  std::optional<std::string> length;  // as the handler wrote it
  std::string out = status_line(head.status, head.reason);
  bool said_close = false;
  for (const auto& header : head.headers) {
    if (same_name(header.name, "Content-Length")) {
      length = header.value;
    } else if (same_name(header.name, "Connection") && same_name(header.value, "close")) {
      keep_alive_ = false;
      // In its place: where a handler says both `close` and `Keep-Alive`, as Proxmox does behind
      // its proxy, clients believe what comes first.
      if (!std::exchange(said_close, true)) add_header(out, "Connection", "close");
    } else if (!same_name(header.name, "Transfer-Encoding")) {  // framing is ours
      add_header(out, header.name, header.value);
    }
  }

  framing_ = Framing::None;
  if (is_head_ || head.status == 304) {
    // What a GET would say; the handler may know better than the empty body it gave.
    if (!length && whole && *head.size > 0) length = std::to_string(*head.size);
    if (length) add_header(out, "Content-Length", *length);
  } else if (has_no_body(head.status)) {
  } else if (whole && (exchange_->trailers().empty() || http10_)) {
    framing_ = Framing::Length;
    length_left_ = *head.size;
    add_header(out, "Content-Length", std::to_string(*head.size));
  } else if (!whole && length &&
             std::from_chars(length->data(), length->data() + length->size(), length_left_).ec ==
                 std::errc{}) {
    framing_ = Framing::Length;
    add_header(out, "Content-Length", std::to_string(length_left_));
  } else if (http10_) {
    framing_ = Framing::UntilClose;
    keep_alive_ = false;
  } else {
    framing_ = Framing::Chunked;
    add_header(out, "Transfer-Encoding", "chunked");
  }
  if (!keep_alive_) {
    if (!said_close) add_header(out, "Connection", "close");
  } else if (http10_) {
    add_header(out, "Connection", "keep-alive");
  }
  out += "\r\n";
  // Head and first bytes in one segment: the usual answer is one write.
  if (framing_ == Framing::Length && exchange_->has_bytes()) {
    const auto first = exchange_->peek(std::min(piece, length_left_));
    out += first;
    length_left_ -= first.size();
    exchange_->consume(first.size());
  }
  connection_.send(out);
}

void Http1Session::send_body(std::string_view bytes) {
  switch (framing_) {
    case Framing::None:
      return;
    case Framing::UntilClose:
      return connection_.send(bytes);
    case Framing::Length: {
      // More than was promised would be read as the next answer.
      const auto promised = bytes.substr(0, std::min(bytes.size(), length_left_));
      length_left_ -= promised.size();
      return connection_.send(promised);
    }
    case Framing::Chunked:
      return connection_.send(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
  }
}

void Http1Session::answer_sent() {
  if (framing_ == Framing::Length && length_left_ > 0)
    return connection_.cut();  // less than promised
  if (framing_ == Framing::Chunked) {
    std::string end = "0\r\n";
    for (const auto& trailer : exchange_->trailers()) add_header(end, trailer.name, trailer.value);
    end += "\r\n";
    connection_.send(end);
  }
  std::exchange(exchange_, nullptr)->detach(/*delivered=*/true);
  if (!keep_alive_) return connection_.finish();
  parse();
  if (!exchange_ && end_of_input_) connection_.finish();
}

void Http1Session::lost() {
  rejected_ = true;  // nobody is there for what waits behind the request at hand
  if (exchange_) std::exchange(exchange_, nullptr)->detach();
}

}  // namespace rocca::net
