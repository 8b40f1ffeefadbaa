#pragma once

#include "base/handle.hpp"
#include "net/tls.hpp"

#include <openssl/ssl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocca::net {

using Certificate = Handle<X509, X509_free>;
using PrivateKey = Handle<EVP_PKEY, EVP_PKEY_free>;

/// Reads every certificate of a PEM text. Throws Error(Usage) if there is none or one is broken;
/// `what` names the text.
std::vector<Certificate> read_certificates(std::string_view pem, std::string_view what);

/// Reads an Ed25519, ECDSA or RSA key from PEM: PKCS#8, SEC1, PKCS#1, and the label `ED25519
/// PRIVATE KEY` that Talos writes around PKCS#8. Throws Error(Usage); nothing of the key is in the
/// message.
PrivateKey read_private_key(const Secret& pem, std::string_view what);

/// What the texts of a Tls say, as OpenSSL wants it. Reading it takes longer than a handshake, and
/// it does not change: connections share it.
struct TlsMaterial {
  /// Throws Error(Usage) where a text is broken, or certificate and key do not belong together.
  explicit TlsMaterial(const Tls& tls);

  std::vector<Certificate> authorities;
  std::vector<Certificate> chain;  // with `key`: who the client says it is
  PrivateKey key;
};

/// `bad certificate (42)`: an alert of RFC 8446 section 6 by name and number.
std::string alert_text(int alert);

/// Our part of a client's TLS connections: whom it trusts, who it says it is, and what the far side
/// showed and said. Lives at one address as long as any SSL_CTX that it was installed in.
class TlsClient {
 public:
  TlsClient(const Tls& tls, std::shared_ptr<const TlsMaterial> material);
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  /// Puts trust, client certificate and the hooks in place. False: OpenSSL refused; problem() says
  /// what.
  bool install(SSL_CTX* context) noexcept;

  const Tls& tls() const noexcept { return tls_; }
  const std::string& problem() const noexcept { return problem_; }

  /// Of the newest connection.
  const std::optional<Fingerprint>& peer() const noexcept { return peer_; }
  const std::string& protocol() const noexcept { return protocol_; }  // what ALPN agreed on
  bool pin_mismatch() const noexcept { return pin_mismatch_; }
  std::optional<int> alert() const noexcept { return alert_; }  // fatal, from the far side
  void forget_trouble() noexcept;

 private:
  static int verify(X509_STORE_CTX* store, void* self) noexcept;
  static void watch(const SSL* ssl, int where, int value) noexcept;

  Tls tls_;
  std::shared_ptr<const TlsMaterial> material_;
  std::string problem_;
  std::optional<Fingerprint> peer_;
  std::string protocol_;
  bool pin_mismatch_ = false;
  std::optional<int> alert_;
};

}  // namespace rocca::net
