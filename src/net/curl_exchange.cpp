#include "base/strings.hpp"
#include "net/curl_exchange_internal.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <limits>

namespace rocca::net {

namespace {

using namespace std::chrono_literals;

// Zero means "no limit" to curl, so a limit below a millisecond becomes one.
long to_curl_ms(Duration duration) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<long>(std::clamp<decltype(ms)>(ms, 1, INT_MAX));
}

bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

void check_field(std::string_view name, std::string_view value) {
  if (!is_token(name) ||
      value.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos)
    throw Error(Fault::Usage,
                fmt::format("the header '{}' cannot be sent: it holds a line break or a bad name",
                            is_token(name) ? name : "?"));
}

bool may_be_repeated(const Request& request) {
  return (request.method == "GET" || request.method == "HEAD") &&
         std::holds_alternative<std::monostate>(request.body);
}

// A machine that lost its power says nothing on an open connection, and whoever asks over it waits
// for the whole deadline instead of a knock. So nodes are asked over one of this very moment only.
constexpr long moment = 1;  // seconds

// libcurl 7.88 does not see the end of an HTTP/2 answer that comes before the upload is through
// (seen with nginx: a refusal in the first millisecond became a timeout). What fits into the first
// window is never in that place.
bool is_large_upload(const Request& request) {
  const auto* text = std::get_if<std::string>(&request.body);
  return text != nullptr ? text->size() > 60'000
                         : !std::holds_alternative<std::monostate>(request.body);
}

}  // namespace

void free_curl_list(curl_slist* list) {
  for (auto* item = list; item != nullptr; item = item->next)
    wipe(item->data, std::strlen(item->data));
  curl_slist_free_all(list);
}

CurlLine::CurlLine(const Tls& how, std::shared_ptr<const TlsMaterial> material)
    : tls(how, std::move(material)),
      multi((start_curl(), curl_multi_init())),
      easy(curl_easy_init()) {
  if (!multi || !easy) throw Error(Fault::Bug, "libcurl gave no handle");
  (curl_multi_setopt)(multi.get(), CURLMOPT_MAXCONNECTS, 1L);
}

CurlExchange::CurlExchange(CurlLine& line, const Request& request, const Url& url, BodySink& sink)
    : line_(line),
      request_(request),
      url_(url),
      sink_(sink),
      tls_(url.scheme == "https"),
      method_(request.method) {
  if (!is_token(method_))
    throw Error(Fault::Usage, fmt::format("'{}' is not an HTTP method", method_));
}

// The handle is kept for the next exchange and must not remember where this one stood.
CurlExchange::~CurlExchange() {
  curl_easy_reset(line_.easy.get());
}

template <class Value>
void CurlExchange::set(CURLoption option, Value value) {
  if (const CURLcode code = (curl_easy_setopt)(line_.easy.get(), option, value); code != CURLE_OK)
    throw Error(Fault::Bug, fmt::format("libcurl refused option {}: {}", static_cast<int>(option),
                                        curl_easy_strerror(code)));
}

Response CurlExchange::run(const CurlSurroundings& surroundings, const std::string& proxy,
                           const std::stop_token& stop) {
  line_.tls.forget_trouble();
  set_connection(proxy);
  set_headers(surroundings.user_agent);
  set_body();
  if (tls_) set_tls(surroundings.roots);

  const CURLcode code = wait_for_end(stop);
  if (trouble_) std::rethrow_exception(trouble_);
  if (code != CURLE_OK && !enough_ && !has_grpc_status()) throw failure(code);
  if (stage_ != Stage::Body) throw failure(CURLE_WEIRD_SERVER_REPLY);
  begin_once();
  return std::move(head_);
}

void CurlExchange::set_connection(const std::string& proxy) {
  set(CURLOPT_ERRORBUFFER, text_.data());
  set(CURLOPT_NOSIGNAL, 1L);    // a signal handler is the process's, not a library's
  set(CURLOPT_QUICK_EXIT, 1L);  // or a cancelled call waits for the resolver
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_TCP_KEEPIDLE, 30L);
  set(CURLOPT_TCP_KEEPINTVL, 10L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_HTTP_CONTENT_DECODING, 0L);
  set(CURLOPT_BUFFERSIZE, 32L * 1024);  // above 128 KiB each exchange would map it anew
  set(CURLOPT_CONNECTTIMEOUT_MS, to_curl_ms(request_.connect_timeout));
  if (request_.timeout) set(CURLOPT_TIMEOUT_MS, to_curl_ms(*request_.timeout));
  // libcurl by itself sends a request again whose answer was lost on a used connection, POST and
  // DELETE too.
  set(CURLOPT_FRESH_CONNECT, may_be_repeated(request_) || request_.reads ? 0L : 1L);
  if (request_.reads) set(CURLOPT_MAXAGE_CONN, moment);

  switch (request_.version) {
    case HttpVersion::Any:
      set(CURLOPT_HTTP_VERSION,
          long{is_large_upload(request_) ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS});
      break;
    case HttpVersion::Http1:
      set(CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
      break;
    case HttpVersion::Http2:
      set(CURLOPT_HTTP_VERSION,
          long{tls_ ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE});
      break;
  }

  Url shown = url_;
  if (const auto& name = request_.tls.server_name; tls_ && !name.empty()) {
    shown.host = name;
    const bool ipv6 = url_.host.find(':') != std::string::npos;
    const std::string route =
        fmt::format("::{}{}{}:{}", ipv6 ? "[" : "", url_.host, ipv6 ? "]" : "", url_.port);
    connect_to_.reset(curl_slist_append(nullptr, route.c_str()));
    set(CURLOPT_CONNECT_TO, connect_to_.get());
  }
  set(CURLOPT_URL, to_string(shown).c_str());

  // An empty proxy keeps curl from looking into the environment itself, at a time of its own.
  through_proxy_ = !proxy.empty();
  set(CURLOPT_PROXY, proxy.c_str());
  set(CURLOPT_NOPROXY, "");
  set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(CURLOPT_HEADEROPT, long{CURLHEADER_SEPARATE});  // our headers are not the proxy's

  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  set(CURLOPT_PREREQFUNCTION, on_ready);
  set(CURLOPT_PREREQDATA, static_cast<void*>(this));
}

void CurlExchange::set_tls(const std::string& roots) {
  const auto trust = request_.tls.trust;
  const bool verify = trust == Tls::Trust::System || trust == Tls::Trust::Authority;
  set(CURLOPT_SSL_VERIFYPEER, verify ? 1L : 0L);
  set(CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
  if (trust != Tls::Trust::System) {  // reading the machine's 140 roots for nothing takes 20 ms
    set(CURLOPT_CAINFO, static_cast<const char*>(nullptr));
    set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  } else if (!roots.empty()) {
    set(CURLOPT_CAINFO, roots.c_str());  // as OpenSSL's and Go's own programs do
    set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  set(CURLOPT_SSL_SESSIONID_CACHE, 0L);  // a resumed session would not pass our verify hook
  set(CURLOPT_SSL_CTX_FUNCTION, on_context);
  set(CURLOPT_SSL_CTX_DATA, static_cast<void*>(this));
}

void CurlExchange::set_headers(const std::string& user_agent) {
  set(CURLOPT_USERAGENT, user_agent.c_str());
  const auto append = [&](const std::string& line) {
    curl_slist* const longer = curl_slist_append(headers_.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    static_cast<void>(headers_.release());
    headers_.reset(longer);
  };
  const auto field = [&](std::string_view name, std::string_view value) {
    check_field(name, value);
    // curl takes `Name:` as "do not send it" and `Name;` as an empty value.
    std::string line =
        value.empty() ? fmt::format("{};", name) : fmt::format("{}: {}", name, value);
    append(line);
    wipe(line);
  };
  append("Expect:");
  if (!request_.tls.server_name.empty() && tls_ && !request_.headers.find("host")) {
    const bool usual = url_.port == 443;
    const std::string origin = url_.origin();
    const std::string authority = origin.substr(origin.find("//") + 2);
    field("Host", usual ? authority.substr(0, authority.rfind(':')) : authority);
  }
  for (const auto& [name, value] : request_.headers) field(name, value);
  if (request_.authorization) field("Authorization", request_.authorization->reveal());
  set(CURLOPT_HTTPHEADER, headers_.get());
}

void CurlExchange::set_body() {
  std::optional<std::uint64_t> size = 0;
  if (const auto* text = std::get_if<std::string>(&request_.body)) {
    size = text->size();
  } else if (const auto* source = std::get_if<std::shared_ptr<BodySource>>(&request_.body)) {
    size = (*source)->size();
  } else if (method_ != "POST" && method_ != "PUT" && method_ != "PATCH") {
    if (method_ == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    } else {
      set(CURLOPT_HTTPGET, 1L);
      if (method_ != "GET") set(CURLOPT_CUSTOMREQUEST, method_.c_str());
    }
    return;
  }
  // An upload rather than a POST: curl adds no Content-Type of its own to it, and chunks it if the
  // size is unknown.
  set(CURLOPT_UPLOAD, 1L);
  set(CURLOPT_CUSTOMREQUEST, method_.c_str());
  set(CURLOPT_INFILESIZE_LARGE, size ? static_cast<curl_off_t>(*size) : curl_off_t{-1});
  set(CURLOPT_READFUNCTION, on_upload);
  set(CURLOPT_READDATA, static_cast<void*>(this));
  set(CURLOPT_SEEKFUNCTION, on_seek);
  set(CURLOPT_SEEKDATA, static_cast<void*>(this));
}

CURLcode CurlExchange::wait_for_end(const std::stop_token& stop) {
  CURLM* const multi = line_.multi.get();
  const auto check = [&](CURLMcode code) {
    if (code != CURLM_OK)
      throw Error(Fault::Bug, fmt::format("libcurl: {}", curl_multi_strerror(code)));
  };
  check(curl_multi_add_handle(multi, line_.easy.get()));
  struct Leave {
    CurlExchange& exchange;
    ~Leave() { curl_multi_remove_handle(exchange.line_.multi.get(), exchange.line_.easy.get()); }
  } const leave{*this};
  const std::stop_callback wake{stop, [&] { curl_multi_wakeup(multi); }};

  int idle_turns = 0;
  for (;;) {
    if (stop.stop_requested())
      throw Error(Fault::Interrupted, fmt::format("{} {} was cancelled", method_, url_.origin()));
    int running = 0;
    const std::uint64_t before = events_;
    check(curl_multi_perform(multi, &running));
    idle_turns = events_ == before ? idle_turns + 1 : 0;
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi, &left))
      if (message->msg == CURLMSG_DONE) return message->data.result;
    if (has_grpc_status()) return CURLE_OK;

    auto wait = std::chrono::milliseconds{1h};  // a stop wakes it, and curl's own timers do
    if (request_.idle_timeout && stage_ == Stage::Body) {
      const auto silence = Steady::now() - last_sign_of_life_;
      if (silence >= *request_.idle_timeout) {
        idled_out_ = true;
        return CURLE_OPERATION_TIMEDOUT;
      }
      wait = std::min(
          wait, std::chrono::ceil<std::chrono::milliseconds>(*request_.idle_timeout - silence));
    }
    if (idle_turns > 50) {
      wait_for_bytes();
    } else {
      const auto asked = Steady::now();
      check(curl_multi_poll(multi, nullptr, 0, static_cast<int>(wait.count()), nullptr));
      if (Steady::now() - asked >= 1ms) idle_turns = 0;
    }
  }
}

// libcurl 7.88 asks to be woken when the socket takes bytes, though the far side's HTTP/2 window is
// shut: 30,000 turns a second in which nothing moves. Only what arrives can open the window. The
// wait is short, because curl's timers and a stop do not end it.
void CurlExchange::wait_for_bytes() const {
  curl_socket_t socket = CURL_SOCKET_BAD;
  (curl_easy_getinfo)(line_.easy.get(), CURLINFO_ACTIVESOCKET, &socket);
  pollfd arrival{socket, POLLIN, 0};
  ::poll(&arrival, 1, 20);
}

// The last word of a gRPC call. libcurl 7.88 hands it over but goes on waiting for a window in
// which to send the rest of the request, until the deadline; a reset behind it even becomes an
// error. A node that refuses a large configuration answers like that.
bool CurlExchange::has_grpc_status() const {
  return stage_ == Stage::Body && head_.version == HttpVersion::Http2 &&
         (head_.headers.find("grpc-status") || head_.trailers.find("grpc-status"));
}

void CurlExchange::begin_once() {
  if (begun_) return;
  begun_ = true;
  sink_.begin(head_);
}

bool CurlExchange::sent_something() const {
  long sent = 0;
  (curl_easy_getinfo)(line_.easy.get(), CURLINFO_REQUEST_SIZE, &sent);
  return ready_ && sent > sent_before_;
}

void CurlExchange::take_header_line(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (stage_ == Stage::Status) {
    head_ = {};
    head_.version = line.starts_with("HTTP/2") ? HttpVersion::Http2 : HttpVersion::Http1;
    if (tls_) head_.peer = line_.tls.peer();
    const auto status = std::min(line.find(' '), line.size());
    line.remove_prefix(std::min(status + 1, line.size()));
    head_.status = static_cast<int>(parse_uint(line.substr(0, 3)).value_or(0));
    // What follows belongs to the server, byte by byte: a blank in it too.
    head_.reason = line.size() > 4 ? line.substr(4) : std::string_view();
    stage_ = Stage::Head;
    return;
  }
  if (line.empty()) {
    if (stage_ == Stage::Head) stage_ = head_.status < 200 ? Stage::Status : Stage::Body;
    last_sign_of_life_ = Steady::now();
    return;
  }
  auto& fields = stage_ == Stage::Head ? head_.headers : head_.trailers;
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return;
  fields.add(std::string(trim(line.substr(0, colon))), std::string(trim(line.substr(colon + 1))));
}

std::size_t CurlExchange::on_header(char* data, std::size_t size, std::size_t count,
                                    void* self) noexcept {
  auto& exchange = *static_cast<CurlExchange*>(self);
  ++exchange.events_;
  try {
    exchange.take_header_line({data, size * count});
    return size * count;
  } catch (...) {
    exchange.trouble_ = std::current_exception();
    return 0;
  }
}

std::size_t CurlExchange::on_body(char* data, std::size_t size, std::size_t count,
                                  void* self) noexcept {
  auto& exchange = *static_cast<CurlExchange*>(self);
  ++exchange.events_;
  const std::size_t length = size * count;
  try {
    exchange.begin_once();
    exchange.enough_ = !exchange.sink_.write({data, length});
    exchange.last_sign_of_life_ = Steady::now();
    return exchange.enough_ ? CURL_WRITEFUNC_ERROR : length;
  } catch (...) {
    exchange.trouble_ = std::current_exception();
    return CURL_WRITEFUNC_ERROR;
  }
}

std::size_t CurlExchange::on_upload(char* data, std::size_t size, std::size_t count,
                                    void* self) noexcept {
  auto& exchange = *static_cast<CurlExchange*>(self);
  ++exchange.events_;
  try {
    const std::span<char> room(data, size * count);
    if (const auto* source = std::get_if<std::shared_ptr<BodySource>>(&exchange.request_.body))
      return (*source)->read(room);
    const auto* text = std::get_if<std::string>(&exchange.request_.body);
    if (text == nullptr) return 0;
    const std::size_t taken = text->copy(room.data(), room.size(), exchange.upload_position_);
    exchange.upload_position_ += taken;
    return taken;
  } catch (...) {
    exchange.trouble_ = std::current_exception();
    return CURL_READFUNC_ABORT;
  }
}

int CurlExchange::on_seek(void* self, curl_off_t offset, int origin) noexcept {
  auto& exchange = *static_cast<CurlExchange*>(self);
  const auto* text = std::get_if<std::string>(&exchange.request_.body);
  if (text == nullptr || origin != SEEK_SET || offset < 0 ||
      static_cast<std::size_t>(offset) > text->size())
    return CURL_SEEKFUNC_CANTSEEK;
  exchange.upload_position_ = static_cast<std::size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

CURLcode CurlExchange::on_context(CURL*, void* context, void* self) noexcept {
  auto& exchange = *static_cast<CurlExchange*>(self);
  return exchange.line_.tls.install(static_cast<SSL_CTX*>(context)) ? CURLE_OK
                                                                    : CURLE_SSL_CERTPROBLEM;
}

int CurlExchange::on_ready(void* self, char*, char*, int, int) noexcept {
  auto& exchange = *static_cast<CurlExchange*>(self);
  exchange.ready_ = true;
  (curl_easy_getinfo)(exchange.line_.easy.get(), CURLINFO_REQUEST_SIZE, &exchange.sent_before_);
  const bool wrong_version = exchange.tls_ && exchange.request_.version == HttpVersion::Http2 &&
                             exchange.line_.tls.protocol() != "h2";
  if (!wrong_version) return CURL_PREREQFUNC_OK;
  try {
    exchange.refusal_ =
        Error(Fault::Rejected,
              fmt::format("{} does not speak HTTP/2 (it did not choose h2 in the TLS handshake)",
                          exchange.url_.origin()))
            .hint(
                "is this the right port? a proxy between that takes TLS apart may also be the "
                "reason");
  } catch (...) {
    exchange.trouble_ = std::current_exception();
  }
  return CURL_PREREQFUNC_ABORT;
}

}  // namespace rocca::net
