#include "net/net_test_server.hpp"

#include "base/handle.hpp"
#include "base/strings.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <stdexcept>
#include <utility>

namespace rocca::net::test {

namespace {

using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using Cert = Handle<X509, X509_free>;
using Bio = Handle<BIO, BIO_free_all>;

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

Key make_key(KeyKind kind) {
  switch (kind) {
    case KeyKind::Ed25519:
      return Key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
    case KeyKind::Ecdsa:
      return Key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
    case KeyKind::Rsa:
      return Key(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{2048}));
  }
  return nullptr;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

void extend(X509* cert, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  const Handle<X509_EXTENSION, X509_EXTENSION_free> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  require(extension && X509_add_ext(cert, extension.get(), -1) == 1, "extension");
}

Cert make_certificate(const std::string& name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key,
                      const std::vector<std::string>& names) {
  static std::atomic<long> serial{1};
  Cert cert(X509_new());
  X509_set_version(cert.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 86400);
  X509_set_pubkey(cert.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509* const signer = issuer == nullptr ? cert.get() : issuer;
  X509_set_issuer_name(cert.get(), X509_get_subject_name(signer));
  extend(cert.get(), signer, NID_basic_constraints,
         issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
  std::string alternatives;
  for (const auto& one : names) {
    unsigned char buffer[16];
    const bool address = inet_pton(AF_INET, one.c_str(), buffer) == 1 ||
                         inet_pton(AF_INET6, one.c_str(), buffer) == 1;
    alternatives +=
        fmt::format("{}{}:{}", alternatives.empty() ? "" : ",", address ? "IP" : "DNS", one);
  }
  if (issuer != nullptr) extend(cert.get(), signer, NID_ext_key_usage, "serverAuth,clientAuth");
  if (!alternatives.empty()) extend(cert.get(), signer, NID_subject_alt_name, alternatives);
  const bool digests = EVP_PKEY_get_id(issuer_key) != EVP_PKEY_ED25519;
  require(X509_sign(cert.get(), issuer_key, digests ? EVP_sha256() : nullptr) > 0, "sign");
  return cert;
}

std::string certificate_pem(X509* cert) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), cert);
  return text_of(bio.get());
}

std::string key_pem(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(bio.get());
}

}  // namespace

std::shared_ptr<const Identity> Issued::identity() const {
  return std::make_shared<const Identity>(Identity{certificate_pem, Secret(key_pem)});
}

struct Authority::Keys {
  Key key;
  Cert cert;
};

Authority::Authority(const std::string& name) : keys_(std::make_unique<Keys>()) {
  keys_->key = make_key(KeyKind::Ed25519);
  keys_->cert = make_certificate(name, keys_->key.get(), nullptr, keys_->key.get(), {});
  pem_ = certificate_pem(keys_->cert.get());
}

Authority::~Authority() = default;

Issued Authority::issue(const std::vector<std::string>& names, KeyKind kind) const {
  const Key key = make_key(kind);
  const Cert cert = make_certificate(names.empty() ? "client" : names.front(), key.get(),
                                     keys_->cert.get(), keys_->key.get(), names);
  unsigned char* der = nullptr;
  const int size = i2d_X509(cert.get(), &der);
  Issued issued{
      test::certificate_pem(cert.get()), test::key_pem(key.get()),
      Fingerprint::of_der({reinterpret_cast<char*>(der), static_cast<std::size_t>(size)})};
  OPENSSL_free(der);
  return issued;
}

struct TestServer::Context {
  Handle<SSL_CTX, SSL_CTX_free> tls;
  std::string alpn;
};

namespace {

class Accepted final : public Connection {
 public:
  Accepted(int socket, SSL* ssl, unsigned number) : socket_(socket), ssl_(ssl), number_(number) {}

  unsigned number() const override { return number_; }

  std::string read_bytes() override {
    if (buffer_.empty()) fill();
    return std::exchange(buffer_, {});
  }

  std::optional<Seen> read_request() override {
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
      if (!fill()) return std::nullopt;
    Seen seen;
    seen.head = buffer_.substr(0, end + 4);
    buffer_.erase(0, end + 4);
    const std::string lower = to_lower(seen.head);
    if (lower.find("transfer-encoding: chunked") != std::string::npos) {
      for (;;) {
        while ((end = buffer_.find("\r\n")) == std::string::npos)
          if (!fill()) return std::nullopt;
        const std::size_t length = std::stoul(buffer_.substr(0, end), nullptr, 16);
        buffer_.erase(0, end + 2);
        while (buffer_.size() < length + 2)
          if (!fill()) return std::nullopt;
        seen.body += buffer_.substr(0, length);
        buffer_.erase(0, length + 2);
        if (length == 0) return seen;
      }
    }
    if (const auto at = lower.find("content-length: "); at != std::string::npos) {
      const std::size_t length = std::stoul(lower.substr(at + 16));
      while (buffer_.size() < length)
        if (!fill()) return std::nullopt;
      seen.body = buffer_.substr(0, length);
      buffer_.erase(0, length);
    }
    return seen;
  }

  bool send(std::string_view bytes) override {
    while (!bytes.empty()) {
      const auto sent = ssl_ != nullptr
                            ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                            : ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  void reset() override {
    const linger now{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    reset_ = true;
  }

  void wait_for_leave() override {
    while (fill()) buffer_.clear();
  }

  bool was_reset() const { return reset_; }

 private:
  bool fill() {
    char more[16 * 1024];
    const auto got =
        ssl_ != nullptr ? SSL_read(ssl_, more, sizeof more) : recv(socket_, more, sizeof more, 0);
    if (got <= 0) return false;
    buffer_.append(more, static_cast<std::size_t>(got));
    return true;
  }

  int socket_;
  SSL* ssl_;
  unsigned number_;
  bool reset_ = false;
  std::string buffer_;
};

int choose_alpn(SSL*, const unsigned char** out, unsigned char* length, const unsigned char* in,
                unsigned in_length, void* data) {
  const auto& ours = *static_cast<const std::string*>(data);
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, length, reinterpret_cast<const unsigned char*>(ours.data()),
                            static_cast<unsigned>(ours.size()), in,
                            in_length) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

TestServer::TestServer(Options options, Script script)
    : options_(std::move(options)),
      script_(std::move(script)),
      context_(std::make_unique<Context>()) {
  std::signal(SIGPIPE, SIG_IGN);  // SSL_write has no MSG_NOSIGNAL
  if (options_.tls) {
    context_->tls.reset(SSL_CTX_new(TLS_server_method()));
    SSL_CTX* const tls = context_->tls.get();
    const Bio cert_bio(BIO_new_mem_buf(options_.tls->certificate_pem.data(), -1));
    const Bio key_bio(BIO_new_mem_buf(options_.tls->key_pem.data(), -1));
    const Cert cert(PEM_read_bio_X509(cert_bio.get(), nullptr, nullptr, nullptr));
    const Key key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, nullptr, nullptr));
    require(SSL_CTX_use_certificate(tls, cert.get()) == 1, "server certificate");
    require(SSL_CTX_use_PrivateKey(tls, key.get()) == 1, "server key");
    if (options_.max_tls != 0) SSL_CTX_set_max_proto_version(tls, options_.max_tls);
    for (const auto& name : options_.alpn) context_->alpn += static_cast<char>(name.size()) + name;
    SSL_CTX_set_alpn_select_cb(tls, choose_alpn, &context_->alpn);
    if (!options_.client_authority_pem.empty()) {
      const Bio bio(BIO_new_mem_buf(options_.client_authority_pem.data(), -1));
      const Cert authority(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
      X509_STORE_add_cert(SSL_CTX_get_cert_store(tls), authority.get());
      SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
  }
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  require(bind(listener_, where, size) == 0 && ::listen(listener_, 256) == 0, "listen");
  getsockname(listener_, where, &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { accept_loop(); });
}

TestServer::~TestServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
  }
  acceptor_.join();
  threads_.clear();
  close(listener_);
}

void TestServer::accept_loop() {
  for (;;) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      close(socket);
      return;
    }
    open_.push_back(socket);
    const unsigned number = ++connections_;
    threads_.emplace_back([this, socket, number] { serve(socket, number); });
  }
}

void TestServer::serve(int socket, unsigned number) {
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  {
    Handle<SSL, SSL_free> ssl;
    bool good = true;
    if (context_->tls) {
      ssl.reset(SSL_new(context_->tls.get()));
      SSL_set_fd(ssl.get(), socket);
      good = SSL_accept(ssl.get()) == 1;
    }
    Accepted connection(socket, ssl.get(), number);
    if (good) script_(connection);
    if (good && ssl && !connection.was_reset()) SSL_shutdown(ssl.get());
    // Bytes that nobody read would turn the close into an RST that overtakes the alert or the
    // answer.
    if (!connection.was_reset()) {
      ::shutdown(socket, SHUT_WR);
      if (!good) {
        char rest[4096];
        while (recv(socket, rest, sizeof rest, 0) > 0) {
        }
      }
    }
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, socket);
  close(socket);
}

std::string TestServer::url(std::string_view target) const {
  return fmt::format("{}://127.0.0.1:{}{}", options_.tls ? "https" : "http", port_, target);
}

Script always(std::string body) {
  return [body = std::move(body)](Connection& connection) {
    while (connection.read_request() && connection.send(http_answer(body))) {
    }
  };
}

std::string http_answer(std::string_view body, std::string_view status_line) {
  return fmt::format("{}\r\nContent-Length: {}\r\n\r\n{}", status_line, body.size(), body);
}

}  // namespace rocca::net::test
