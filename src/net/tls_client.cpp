#include "base/error.hpp"
#include "net/tls_client_internal.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <utility>

namespace rocca::net {

namespace {

using Bio = Handle<BIO, BIO_free_all>;

Bio reader(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string last_openssl_error() {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "unknown" : reason;
}

// A locked key must not make OpenSSL ask for a password on the terminal.
int no_password(char*, int, int, void*) noexcept {
  return -1;
}

// OpenSSL does not know the label that Talos writes, but the bytes below it are ordinary PKCS#8.
PrivateKey read_labelled_key(std::string_view pem) {
  const Bio bio = reader(pem);
  char* label = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long size = 0;
  if (PEM_read_bio(bio.get(), &label, &header, &data, &size) != 1) return nullptr;
  const std::string_view name = label;
  const unsigned char* cursor = data;
  PrivateKey key;
  if (name.ends_with("PRIVATE KEY")) key.reset(d2i_AutoPrivateKey(nullptr, &cursor, size));
  OPENSSL_free(label);
  OPENSSL_free(header);
  OPENSSL_clear_free(data, static_cast<std::size_t>(size));
  return key;
}

}  // namespace

std::vector<Certificate> read_certificates(std::string_view pem, std::string_view what) {
  const Bio bio = reader(pem);
  std::vector<Certificate> found;
  while (X509* const next = PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr))
    found.emplace_back(next);
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = last_openssl_error();
  if (!at_end) throw Error(Fault::Usage, fmt::format("{} cannot be read: {}", what, reason));
  if (found.empty())
    throw Error(Fault::Usage, fmt::format("{} holds no certificate", what))
        .hint("it must be PEM text that begins with -----BEGIN CERTIFICATE-----");
  return found;
}

PrivateKey read_private_key(const Secret& pem, std::string_view what) {
  const Bio bio = reader(pem.reveal());
  PrivateKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (!key) key = read_labelled_key(pem.reveal());
  ERR_clear_error();
  if (!key)
    throw Error(Fault::Usage, fmt::format("{} cannot be read", what))
        .hint("it must be an unencrypted PEM key: Ed25519, ECDSA or RSA");
  return key;
}

std::string alert_text(int alert) {
  const char* name = SSL_alert_desc_string_long(alert);
  // OpenSSL 3.0 has no text for the alerts that came with TLS 1.3.
  if (alert == 116) name = "certificate required";
  if (alert == 109) name = "missing extension";
  if (alert == 120) name = "no application protocol";
  return fmt::format("{} ({})", name, alert);
}

TlsMaterial::TlsMaterial(const Tls& tls) {
  if (tls.trust == Tls::Trust::Authority)
    authorities = read_certificates(tls.authority_pem, "the CA certificate");
  if (!tls.identity) return;
  chain = read_certificates(tls.identity->certificate_pem, "the client certificate");
  key = read_private_key(tls.identity->key_pem, "the client certificate's key");
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    throw Error(Fault::Usage, "the client certificate and its key do not belong together");
  }
}

TlsClient::TlsClient(const Tls& tls, std::shared_ptr<const TlsMaterial> material)
    : tls_(tls), material_(std::move(material)) {}

bool TlsClient::install(SSL_CTX* context) noexcept {
  try {
    bool good = true;
    const auto& [authorities, chain, key] = *material_;
    for (const auto& authority : authorities)
      good = good && X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) == 1;
    if (key) {
      good = good && SSL_CTX_use_certificate(context, chain.front().get()) == 1;
      for (std::size_t i = 1; i < chain.size(); ++i)
        good = good && SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1;
      good = good && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
    }
    if (!good) {
      problem_ = last_openssl_error();
      return false;
    }
    // curl is told not to verify when there is a pin; without this our refusal would not end the
    // handshake.
    if (tls_.trust == Tls::Trust::Pinned) SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    // A connection that waits for its next exchange needs no room for records: 34 KiB less each.
    // What we show of ourselves is said above: nothing is looked for and verified at each
    // handshake.
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_cert_verify_callback(context, verify, this);
    SSL_CTX_set_app_data(context, this);
    SSL_CTX_set_info_callback(context, watch);
    return true;
  } catch (...) {
    // ignored: no memory. curl calls this, and reports the handshake as failed.
    return false;
  }
}

void TlsClient::forget_trouble() noexcept {
  pin_mismatch_ = false;
  alert_.reset();
  problem_.clear();
}

int TlsClient::verify(X509_STORE_CTX* store, void* self) noexcept {
  auto& client = *static_cast<TlsClient*>(self);
  unsigned char* der = nullptr;
  const int size = i2d_X509(X509_STORE_CTX_get0_cert(store), &der);
  if (size <= 0) return 0;
  client.peer_ =
      Fingerprint::of_der({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
  OPENSSL_free(der);
  switch (client.tls_.trust) {
    case Tls::Trust::System:
    case Tls::Trust::Authority:
      return X509_verify_cert(store);
    case Tls::Trust::Pinned:
      if (client.peer_ == client.tls_.pin) return 1;
      client.pin_mismatch_ = true;
      X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
      return 0;
    case Tls::Trust::Unverified:
      return 1;
  }
  return 0;
}

void TlsClient::watch(const SSL* ssl, int where, int value) noexcept {
  auto* const client = static_cast<TlsClient*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  if (client == nullptr) return;
  if ((where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT && (value >> 8) == SSL3_AL_FATAL)
    client->alert_ = value & 0xff;
  if ((where & SSL_CB_HANDSHAKE_DONE) != 0) {
    const unsigned char* name = nullptr;
    unsigned length = 0;
    SSL_get0_alpn_selected(ssl, &name, &length);
    try {
      client->protocol_ =
          length == 0 ? std::string() : std::string(reinterpret_cast<const char*>(name), length);
    } catch (...) {
      // ignored: no memory. Without a protocol an HTTP/2 request is refused.
      client->protocol_.clear();
    }
  }
}

}  // namespace rocca::net
