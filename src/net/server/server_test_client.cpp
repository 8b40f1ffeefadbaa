#include "net/server/server_test_client.hpp"

#include "base/handle.hpp"

#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>

namespace rocca::net::test {
namespace {

using Bio = Handle<BIO, BIO_free_all>;

std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> make_context(const TlsOptions& options) {
  std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context{SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free};
  if (options.newest != 0) SSL_CTX_set_max_proto_version(context.get(), options.newest);
  std::string names;
  for (const auto& protocol : options.protocols) {
    names += static_cast<char>(protocol.size());
    names += protocol;
  }
  SSL_CTX_set_alpn_protos(context.get(), reinterpret_cast<const unsigned char*>(names.data()),
                          static_cast<unsigned>(names.size()));
  if (options.identity) {
    const auto& pem = options.identity->certificate_pem;
    const Bio certificate{BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))};
    const Handle<X509, X509_free> x509{
        PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr)};
    const auto key = options.identity->key_pem.reveal();
    const Bio key_bio{BIO_new_mem_buf(key.data(), static_cast<int>(key.size()))};
    const Handle<EVP_PKEY, EVP_PKEY_free> pkey{
        PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr)};
    SSL_CTX_use_certificate(context.get(), x509.get());
    SSL_CTX_use_PrivateKey(context.get(), pkey.get());
  }
  return context;
}

std::string der_of(const SSL* ssl) {
  X509* leaf = SSL_get0_peer_certificate(ssl);
  if (leaf == nullptr) return {};
  unsigned char* der = nullptr;
  const int size = i2d_X509(leaf, &der);
  std::string result{reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)};
  OPENSSL_free(der);
  return result;
}

}  // namespace

RawClient::RawClient(unsigned port, const std::string& address)
    : socket_(start_connect(address, port)) {
  pollfd ready{socket_.get(), POLLOUT, 0};
  if (::poll(&ready, 1, 20'000) != 1 || connect_error(socket_) != 0) {
    throw std::runtime_error("cannot connect to the server under test");
  }
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) & ~O_NONBLOCK);
  const timeval patience{20, 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

void RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) {
      was_reset_ = errno == ECONNRESET || errno == EPIPE;
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string RawClient::read_some() {
  std::array<char, 16 * 1024> buffer{};
  const auto got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0) was_reset_ = errno == ECONNRESET;
  return got <= 0 ? std::string{} : std::string{buffer.data(), static_cast<std::size_t>(got)};
}

std::string RawClient::read_until(std::string_view end) {
  for (;;) {
    if (const auto at = buffer_.find(end); at != std::string::npos) {
      std::string result = buffer_.substr(0, at + end.size());
      buffer_.erase(0, at + end.size());
      return result;
    }
    const auto more = read_some();
    if (more.empty()) return std::exchange(buffer_, {});
    buffer_ += more;
  }
}

std::string RawClient::read_exactly(std::size_t size) {
  while (buffer_.size() < size) {
    const auto more = read_some();
    if (more.empty()) return std::exchange(buffer_, {});
    buffer_ += more;
  }
  std::string result = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return result;
}

std::string RawClient::read_all() {
  std::string result = std::exchange(buffer_, {});
  for (auto more = read_some(); !more.empty(); more = read_some()) result += more;
  return result;
}

std::string RawClient::read_answer() {
  std::string head = read_until("\r\n\r\n");
  constexpr std::string_view name = "Content-Length: ";
  const auto at = head.find(name);
  if (at == std::string::npos) return head;
  std::size_t size = 0;
  std::from_chars(head.data() + at + name.size(), head.data() + head.size(), size);
  return head + read_exactly(size);
}

void RawClient::shut_down_writing() {
  ::shutdown(socket_.get(), SHUT_WR);
}

void RawClient::leave() {
  socket_.reset();
}

void RawClient::break_off() {
  reset_on_close(socket_);
  socket_.reset();
}

TlsClient::TlsClient(unsigned port, const TlsOptions& options, const std::string& address)
    : RawClient(port, address),
      context_(make_context(options)),
      ssl_(SSL_new(context_.get()), SSL_free) {
  SSL_set_app_data(ssl_.get(), &alert_);
  SSL_set_info_callback(ssl_.get(), [](const SSL* ssl, int where, int value) {
    if ((where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT && (value >> 8) == SSL3_AL_FATAL) {
      *static_cast<int*>(SSL_get_app_data(ssl)) = value & 0xff;
    }
  });
  SSL_set_fd(ssl_.get(), fd());
  connected_ = SSL_connect(ssl_.get()) == 1;
  ERR_clear_error();
}

TlsClient::~TlsClient() = default;

void TlsClient::send(std::string_view bytes) {
  ERR_clear_error();
  if (!bytes.empty()) SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
  ERR_clear_error();
}

std::string TlsClient::read_some() {
  ERR_clear_error();
  std::array<char, 16 * 1024> buffer{};
  const int got = SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()));
  if (got > 0) return {buffer.data(), static_cast<std::size_t>(got)};
  const int error = SSL_get_error(ssl_.get(), got);
  if (error == SSL_ERROR_ZERO_RETURN) closed_properly_ = true;
  if (error == SSL_ERROR_SYSCALL && errno == ECONNRESET) was_reset_ = true;
  ERR_clear_error();
  return {};
}

std::string TlsClient::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return size == 0 ? std::string{} : std::string{reinterpret_cast<const char*>(name), size};
}

std::string TlsClient::peer_der() const {
  return der_of(ssl_.get());
}

void TlsClient::close_notify() {
  SSL_shutdown(ssl_.get());
}

struct Http2Client::Callbacks {
  static Http2Client& self(void* user) { return *static_cast<Http2Client*>(user); }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                    std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                    std::uint8_t, void* user) {
    auto& answer = self(user).answers_[frame->hd.stream_id];
    auto& into = frame->headers.cat == NGHTTP2_HCAT_RESPONSE ? answer.headers : answer.trailers;
    into.add({reinterpret_cast<const char*>(name), name_size},
             {reinterpret_cast<const char*>(value), value_size});
    return 0;
  }

  static int frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_GOAWAY) self(user).goaway_ = frame->goaway.error_code;
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
      self(user).answers_[frame->hd.stream_id].reset = frame->rst_stream.error_code;
    }
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    auto& answer = self(user).answers_[frame->hd.stream_id];
    answer.ended = true;
    answer.ended_with_head =
        frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_RESPONSE;
    return 0;
  }

  static int data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                  std::size_t size, void* user) {
    self(user).answers_[id].body.append(reinterpret_cast<const char*>(bytes), size);
    return 0;
  }

  static ssize_t read(nghttp2_session*, std::int32_t, std::uint8_t* out, std::size_t size,
                      std::uint32_t* flags, nghttp2_data_source* source, void*) {
    if (source->ptr == nullptr) return NGHTTP2_ERR_DEFERRED;
    auto& body = *static_cast<std::string*>(source->ptr);
    const auto count = std::min(size, body.size());
    std::memcpy(out, body.data(), count);
    body.erase(0, count);
    if (body.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(count);
  }
};

Http2Client::Http2Client(RawClient& wire, bool automatic_windows) : wire_(wire) {
  nghttp2_session_callbacks* raw = nullptr;
  nghttp2_session_callbacks_new(&raw);
  const Handle<nghttp2_session_callbacks, nghttp2_session_callbacks_del> callbacks{raw};
  nghttp2_session_callbacks_set_on_header_callback(raw, Callbacks::header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(raw, Callbacks::frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(raw, Callbacks::data);
  nghttp2_option* raw_option = nullptr;
  nghttp2_option_new(&raw_option);
  const Handle<nghttp2_option, nghttp2_option_del> option{raw_option};
  nghttp2_option_set_no_auto_window_update(raw_option, automatic_windows ? 0 : 1);
  // The tests of hostile behaviour open more than a polite client would.
  nghttp2_option_set_peer_max_concurrent_streams(raw_option, 100'000);
  nghttp2_option_set_max_send_header_block_length(raw_option, 16 * 1024 * 1024);
  nghttp2_session_client_new2(&session_, raw, this, raw_option);
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  flush();
}

Http2Client::~Http2Client() {
  nghttp2_session_del(session_);
}

std::int32_t Http2Client::submit(const std::string& method, const std::string& target,
                                 const Headers& headers, const std::string* body, bool stay_open) {
  std::vector<Header> fields{
      {":method", method}, {":scheme", "https"}, {":authority", "test"}, {":path", target}};
  for (const auto& header : headers) fields.push_back(header);
  std::vector<nghttp2_nv> pairs;
  for (auto& [name, value] : fields) {
    pairs.push_back({reinterpret_cast<std::uint8_t*>(name.data()),
                     reinterpret_cast<std::uint8_t*>(value.data()), name.size(), value.size(),
                     NGHTTP2_NV_FLAG_NONE});
  }
  nghttp2_data_provider provider{};
  provider.read_callback = Callbacks::read;
  const bool has_body = body != nullptr && !body->empty();
  const auto next = nghttp2_session_get_next_stream_id(session_);
  if (has_body) {
    auto& kept = bodies_[static_cast<std::int32_t>(next)];
    kept = *body;
    provider.source.ptr = &kept;
  }
  const auto id = nghttp2_submit_request(session_, nullptr, pairs.data(), pairs.size(),
                                         has_body || stay_open ? &provider : nullptr, nullptr);
  flush();
  return id;
}

std::int32_t Http2Client::request(const std::string& method, const std::string& target,
                                  const Headers& headers, const std::string& body) {
  return submit(method, target, headers, &body, false);
}

std::int32_t Http2Client::open(const std::string& method, const std::string& target) {
  return submit(method, target, {}, nullptr, true);
}

void Http2Client::reset(std::int32_t stream) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
  flush();
}

void Http2Client::flush() {
  std::string batch;
  for (;;) {
    const std::uint8_t* bytes = nullptr;
    const auto size = nghttp2_session_mem_send(session_, &bytes);
    if (size <= 0) break;
    batch.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  }
  wire_.send(batch);
}

bool Http2Client::read_until(const std::function<bool()>& enough) {
  while (!enough()) {
    const auto bytes = wire_.read_some();
    if (bytes.empty()) return false;
    if (nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                 bytes.size()) < 0) {
      return false;
    }
    flush();
  }
  return true;
}

Http2Client::Answer& Http2Client::wait(std::int32_t stream) {
  auto& answer = answers_[stream];
  read_until([&] { return answer.ended || answer.reset; });
  return answer;
}

void Http2Client::allow(std::int32_t stream, std::int32_t bytes) {
  nghttp2_session_consume(session_, stream, static_cast<std::size_t>(bytes));
  flush();
}

}  // namespace rocca::net::test
