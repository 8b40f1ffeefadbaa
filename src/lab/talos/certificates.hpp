#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "net/tls.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::talos {

/// A CA as a machine config carries it: PEM texts, the key under Talos's own label or a standard
/// one.
struct SigningAuthority {
  std::string certificate_pem;
  std::string key_pem;
};

struct Leaf {
  std::vector<std::string> organizations;
  std::string common_name;
  std::vector<std::string> names;  // DNS names and addresses
  bool client = false;
  bool server = true;
  Duration valid_for = std::chrono::hours{24};
  bool elliptic = false;  // P-256 in place of Ed25519, as Kubernetes' certificates are
};

/// An authority whose texts were read: OpenSSL takes longer to read a key than to sign with it.
class Signer {
 public:
  /// Nothing when it is no certificate with its key: Talos itself finds out only when it tries to
  /// sign.
  static std::shared_ptr<const Signer> read(const SigningAuthority& authority);
  explicit Signer(const SigningAuthority& authority);
  ~Signer();
  Signer(const Signer&) = delete;
  Signer& operator=(const Signer&) = delete;

  std::optional<net::Identity> sign(const Leaf& leaf, Entropy& entropy, Instant now) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Reads the authority for this one leaf.
std::optional<net::Identity> sign_leaf(const SigningAuthority& authority, const Leaf& leaf,
                                       Entropy& entropy, Instant now);

/// Signed by an authority of its own that nobody knows and that has no name.
net::Identity sign_by_nobody(const Leaf& leaf, Entropy& entropy, Instant now);

/// A self-signed Ed25519 CA with this organization, as Talos's own is.
SigningAuthority make_authority(const std::string& organization, Entropy& entropy, Instant now);

/// The Organization values of a certificate (DER): the roles of a client.
std::vector<std::string> organizations(std::string_view der);

/// PEM under Talos's label ("ED25519 PRIVATE KEY"), for what a node hands out.
std::string talos_key_pem(std::string_view pem);

}  // namespace rocca::lab::talos
