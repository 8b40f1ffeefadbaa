#include "net/server/http2_session.hpp"

#include "base/error.hpp"
#include "base/handle.hpp"

#include <fmt/core.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace rocca::net {
namespace {

constexpr std::size_t head_limit = 64 * 1024;
constexpr std::size_t most_headers = 256;
constexpr std::uint32_t max_streams = 250;  // as Go's server
constexpr std::uint32_t stream_window = 1024 * 1024;
constexpr std::int32_t connection_window = 4 * 1024 * 1024;
constexpr std::size_t piece = 64 * 1024;
// "Rapid reset" (CVE-2023-44487): opening and resetting streams costs a client nothing and us a
// handler each.
constexpr double reset_burst = 500;
constexpr double resets_per_second = 50;

std::string lower(std::string_view text) {
  std::string result{text};
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

/// Belongs to one HTTP/1.1 connection; HTTP/2 clients must treat it as an error (RFC 9113, 8.2.2).
bool is_connection_header(std::string_view name) {
  static constexpr std::array<std::string_view, 6> names{
      "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Header fields in nghttp2's form, and the text they point into.
class Fields {
 public:
  void add(std::string name, std::string value) {
    // Line breaks and NUL would make the whole answer malformed (RFC 9113, 8.2.1).
    std::replace_if(
        value.begin(), value.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; },
        ' ');
    text_.push_back({std::move(name), std::move(value)});
  }
  void add_all(const Headers& headers) {
    for (const auto& header : headers) {
      auto name = lower(header.name);
      if (!is_connection_header(name)) add(std::move(name), header.value);
    }
  }
  bool has(std::string_view name) const {
    return std::any_of(text_.begin(), text_.end(), [&](const auto& f) { return f.name == name; });
  }
  std::vector<nghttp2_nv> pairs() {
    std::vector<nghttp2_nv> result;
    for (auto& [name, value] : text_) {
      result.push_back({reinterpret_cast<std::uint8_t*>(name.data()),
                        reinterpret_cast<std::uint8_t*>(value.data()), name.size(), value.size(),
                        NGHTTP2_NV_FLAG_NONE});
    }
    return result;
  }

 private:
  std::vector<Header> text_;
};

}  // namespace

struct Http2Session::Callbacks {
  static Http2Session& self(void* user) noexcept { return *static_cast<Http2Session*>(user); }

  static Stream* find(void* user, std::int32_t id) noexcept {
    auto& streams = self(user).streams_;
    const auto found = streams.find(id);
    return found == streams.end() ? nullptr : &found->second;
  }

  static bool is_request(const nghttp2_frame* frame) noexcept {
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
  }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) noexcept {
    if (!is_request(frame)) return 0;
    auto& stream = self(user).streams_[frame->hd.stream_id];
    stream.request = self(user).connection_.blank_request();
    stream.request.version = HttpVersion::Http2;
    return 0;
  }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name_bytes,
                    std::size_t name_size, const std::uint8_t* value_bytes, std::size_t value_size,
                    std::uint8_t, void* user) noexcept {
    auto* stream = find(user, frame->hd.stream_id);
    if (stream == nullptr || !is_request(frame)) return 0;  // a request's trailers are dropped
    stream->head_size += name_size + value_size + 32;
    if (stream->head_size > head_limit || ++stream->header_count > most_headers) {
      stream->refusal = 431;
      return 0;
    }
    const std::string_view name{reinterpret_cast<const char*>(name_bytes), name_size};
    const std::string_view value{reinterpret_cast<const char*>(value_bytes), value_size};
    auto& request = stream->request;
    if (name == ":method") {
      request.method = value;
    } else if (name == ":path") {
      request.target = value;
    } else if (name == ":authority") {
      request.authority = value;
    } else if (name == "host") {
      if (request.authority.empty()) request.authority = value;
    } else if (name.empty() || name.front() != ':') {
      request.headers.add(std::string{name}, std::string{value});
    }
    return 0;
  }

  static int frame_received(nghttp2_session*, const nghttp2_frame* frame, void* user) noexcept {
    if (frame->hd.type == NGHTTP2_RST_STREAM) self(user).client_reset();
    auto* stream = find(user, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    if (is_request(frame) && stream->request.method == "CONNECT") stream->refusal = 501;
    const bool ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (ended) stream->request_over = true;
    if (ended || (is_request(frame) && stream->refusal != 0)) {
      self(user).complete_.push_back(frame->hd.stream_id);
    }
    return 0;
  }

  static int data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                  std::size_t size, void* user) noexcept {
    auto* stream = find(user, id);
    if (stream == nullptr || stream->refusal != 0) return 0;
    auto& session = self(user);
    const auto limit = session.connection_.door().body_limit;
    // One stream's limit is not enough: a client may open hundreds.
    if (stream->request.body.size() + size > limit || session.bodies_ + size > 2 * limit) {
      stream->refusal = 413;
      session.bodies_ -= stream->request.body.size();
      stream->request.body = {};
      session.complete_.push_back(id);
      return 0;
    }
    session.bodies_ += size;
    stream->request.body.append(reinterpret_cast<const char*>(bytes), size);
    return 0;
  }

  static int frame_sent(nghttp2_session* session, const nghttp2_frame* frame, void* user) noexcept {
    const auto* stream = find(user, frame->hd.stream_id);
    const bool ended = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                       (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    // Answered before the request was all there: the rest is not wanted (RFC 9113, 8.1).
    if (stream != nullptr && ended && !stream->request_over) {
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    }
    return 0;
  }

  static int stream_closed(nghttp2_session*, std::int32_t id, std::uint32_t error,
                           void* user) noexcept {
    auto& session = self(user);
    const auto found = session.streams_.find(id);
    if (found == session.streams_.end()) return 0;
    auto& stream = found->second;
    if (!stream.exchange) session.bodies_ -= stream.request.body.size();
    if (stream.exchange) {
      const bool delivered = error == NGHTTP2_NO_ERROR && stream.exchange->finished();
      stream.exchange->detach(delivered);
    }
    session.streams_.erase(found);
    return 0;
  }

  static ssize_t read_body(nghttp2_session* session, std::int32_t id, std::uint8_t* out,
                           std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                           void* user) noexcept {
    auto* stream = find(user, id);
    if (stream == nullptr || !stream->exchange) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    auto& exchange = *stream->exchange;
    std::size_t filled = 0;
    while (filled < size && exchange.has_bytes()) {
      const auto bytes = exchange.peek(size - filled);
      std::memcpy(out + filled, bytes.data(), bytes.size());
      filled += bytes.size();
      exchange.consume(bytes.size());
    }
    if (!exchange.has_bytes() && exchange.finished()) {
      *flags |= NGHTTP2_DATA_FLAG_EOF;
      if (!exchange.trailers().empty()) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        Fields fields;
        fields.add_all(exchange.trailers());
        const auto pairs = fields.pairs();
        nghttp2_submit_trailer(session, id, pairs.data(), pairs.size());
      }
      return static_cast<ssize_t>(filled);
    }
    if (filled == 0) {
      stream->deferred = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    return static_cast<ssize_t>(filled);
  }
};

Http2Session::Http2Session(Connection& connection)
    : connection_(connection),
      reset_credit_(reset_burst),
      reset_seen_(std::chrono::steady_clock::now()) {
  nghttp2_session_callbacks* raw = nullptr;
  nghttp2_session_callbacks_new(&raw);
  const Handle<nghttp2_session_callbacks, nghttp2_session_callbacks_del> callbacks{raw};
  nghttp2_session_callbacks_set_on_begin_headers_callback(raw, Callbacks::begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(raw, Callbacks::header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(raw, Callbacks::frame_received);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(raw, Callbacks::data);
  nghttp2_session_callbacks_set_on_frame_send_callback(raw, Callbacks::frame_sent);
  nghttp2_session_callbacks_set_on_stream_close_callback(raw, Callbacks::stream_closed);
  if (nghttp2_session_server_new(&session_, raw, this) != 0) {
    throw Error(Fault::Busy, "cannot start HTTP/2: out of memory");
  }
  const std::array<nghttp2_settings_entry, 3> settings{
      {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max_streams},
       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, stream_window},
       {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, head_limit}}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, connection_window);
  // Said at once and not after the client's first bytes: its first flight may depend on our
  // settings.
  pump();
}

Http2Session::~Http2Session() {
  lost();
  nghttp2_session_del(session_);
}

void Http2Session::input(std::string_view bytes) {
  if (over_) return;
  const auto used = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  for (const auto id : std::exchange(complete_, {})) dispatch(id);
  if (used < 0) {
    // A client that does not speak HTTP/2, or floods: nghttp2 has queued the GOAWAY that says so,
    // if any.
    nghttp2_session_terminate_session(session_, NGHTTP2_PROTOCOL_ERROR);
    pump();
    over_ = true;
    return connection_.finish();
  }
  pump();
}

void Http2Session::dispatch(std::int32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.exchange) return;
  auto& stream = found->second;
  stream.exchange = std::make_shared<Exchange>(connection_.loop().mailbox(), *this, id);
  if (stream.refusal != 0) return refuse(id, stream);
  bodies_ -= stream.request.body.size();
  stream.is_head = stream.request.method == "HEAD";
  const auto exchange = stream.exchange;
  Exchange::run(*connection_.door().handler, std::move(stream.request), exchange);
}

void Http2Session::refuse(std::int32_t, Stream& stream) {
  const std::string text = stream.refusal == 413   ? "Payload Too Large\n"
                           : stream.refusal == 431 ? "Request Header Fields Too Large\n"
                                                   : "Not Implemented\n";
  stream.exchange->answer({stream.refusal, {}, {{"content-type", "text/plain"}}, text.size()}, text,
                          {});
}

void Http2Session::answer_changed(Exchange& exchange) {
  const auto id = static_cast<std::int32_t>(exchange.id());
  const auto found = streams_.find(id);
  if (found == streams_.end() || over_) return;
  auto& stream = found->second;
  if (exchange.is_cut()) {
    pump();  // what was said before the cut is heard
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR);
  } else if (exchange.tunnel_to()) {  // only HTTP/1.1 has tunnels here
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_HTTP_1_1_REQUIRED);
  } else if (!stream.submitted) {
    submit(id, stream);
  } else if (stream.deferred) {
    stream.deferred = false;
    nghttp2_session_resume_data(session_, id);
  }
  // Not at once: head, body and trailers that were said in one breath leave in one piece, as Go's
  // servers send them.
  connection_.call_back_soon();
}

void Http2Session::submit(std::int32_t id, Stream& stream) {
  auto& exchange = *stream.exchange;
  if (!exchange.head()) return;
  stream.submitted = true;
  const auto& head = *exchange.head();
  const bool bodiless =
      head.status < 200 || head.status == 204 || head.status == 304 || stream.is_head;
  Fields fields;
  fields.add(":status", fmt::format("{:03}", head.status));
  fields.add_all(head.headers);
  const bool says_length = head.size && *head.size > 0 && exchange.trailers().empty();
  if (says_length && !fields.has("content-length") && head.status != 204 && head.status >= 200) {
    fields.add("content-length", std::to_string(*head.size));
  }
  const auto pairs = fields.pairs();
  // Nothing behind the head: it carries END_STREAM itself. gRPC's "trailers-only" answers are told
  // by that.
  const bool only_head =
      bodiless || (exchange.finished() && !exchange.has_bytes() && exchange.trailers().empty());
  nghttp2_data_provider body{};
  body.read_callback = Callbacks::read_body;
  nghttp2_submit_response(session_, id, pairs.data(), pairs.size(), only_head ? nullptr : &body);
}

void Http2Session::client_reset() {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> passed = now - reset_seen_;
  reset_seen_ = now;
  reset_credit_ = std::min(reset_burst, reset_credit_ + passed.count() * resets_per_second) - 1;
  if (reset_credit_ < 0) nghttp2_session_terminate_session(session_, NGHTTP2_ENHANCE_YOUR_CALM);
}

void Http2Session::pump() {
  if (over_ || pumping_) return;
  pumping_ = true;
  while (connection_.open() && !connection_.full()) {
    std::string batch;
    ssize_t size = 0;
    do {
      const std::uint8_t* bytes = nullptr;
      size = nghttp2_session_mem_send(session_, &bytes);
      if (size > 0)
        batch.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    } while (size > 0 && batch.size() < piece);
    if (batch.empty()) break;
    connection_.send(batch);
  }
  pumping_ = false;
  // A client that asks and does not read is not heard until it reads.
  connection_.pause_input(connection_.full());
  if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0) {
    over_ = true;
    connection_.finish();
  }
}

void Http2Session::end_of_input() {
  over_ = true;
  connection_.close();
}

void Http2Session::room() {
  pump();
}

void Http2Session::goodbye() {
  if (over_) return;
  nghttp2_session_terminate_session(session_, NGHTTP2_NO_ERROR);
  pump();
}

void Http2Session::lost() {
  over_ = true;
  for (auto& [id, stream] : std::exchange(streams_, {})) {
    if (stream.exchange) stream.exchange->detach();
  }
}

}  // namespace rocca::net
