#pragma once

#include "base/address.hpp"
#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/secret.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct x509_st;

/// Keys and certificates in memory, in the shapes that Talos and Kubernetes use. Time and
/// randomness are handed in.
namespace rocca::secrets {

enum class KeyAlgorithm { Ed25519, EcdsaP256, Rsa };

/// A private key; a value, its bytes are wiped with the last copy.
class PrivateKey {
 public:
  /// `bits` counts for RSA only. An RSA-4096 key takes about a second.
  static PrivateKey generate(KeyAlgorithm algorithm, Entropy& entropy, unsigned bits = 4096);
  /// Reads `ED25519 PRIVATE KEY`, `EC PRIVATE KEY`, `RSA PRIVATE KEY` and `PRIVATE KEY`. Throws
  /// Error(Usage): no PEM, another label, a body that is no key. `what` names the value; the text
  /// is never repeated.
  static PrivateKey parse(std::string_view pem, std::string_view what);

  KeyAlgorithm algorithm() const noexcept;
  unsigned bits() const noexcept;
  /// "Ed25519", "ECDSA secp256r1", "RSA 4096".
  std::string description() const;
  /// With the label and encoding that Talos uses: Ed25519 as PKCS#8, EC as SEC1, RSA as PKCS#1.
  Secret pem() const;
  std::string pem_label() const;
  /// SubjectPublicKeyInfo, DER.
  std::string public_key() const;

  struct Data;
  explicit PrivateKey(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& data() const noexcept { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

struct CertificateExtension {
  std::string oid;
  bool critical = false;

  friend bool operator==(const CertificateExtension&, const CertificateExtension&) = default;
};

/// A certificate, parsed. What it says stands in plain fields.
struct Certificate {
  std::string pem;
  std::vector<std::string> subject;  // in the order of the DER: "O=system:masters", "CN=admin"
  std::vector<std::string> issuer;
  int version = 3;
  std::string serial;  // big endian bytes
  Instant not_before;
  Instant not_after;
  std::string key;                               // as PrivateKey::description
  std::string signature_algorithm;               // OID
  std::vector<CertificateExtension> extensions;  // in order
  bool authority = false;
  std::optional<long> path_length;
  std::vector<std::string> key_usage;           // "digital_signature", "key_cert_sign", …
  std::vector<std::string> extended_key_usage;  // "serverAuth", "clientAuth", or an OID
  std::string subject_key_id;                   // bytes
  std::string authority_key_id;                 // bytes
  std::vector<std::string> dns_names;
  std::vector<IpAddress> addresses;
  std::string public_key;            // SubjectPublicKeyInfo, DER
  std::shared_ptr<x509_st> decoded;  // the same for the crypto library, which takes long to read it

  /// Throws Error(Usage); `what` names the value.
  static Certificate parse(std::string_view pem, std::string_view what);
  /// Every certificate of a text with several.
  static std::vector<Certificate> parse_all(std::string_view pem, std::string_view what);

  bool belongs_to(const PrivateKey& private_key) const {
    return public_key == private_key.public_key();
  }
  /// Did this authority sign it? Dates do not count.
  bool issued_by(const Certificate& issuer_certificate) const;
  /// SHA-256 of the public key, base64: what Talos prints as a server's fingerprint.
  std::string fingerprint() const;
};

struct CertifiedKey {
  Certificate certificate;
  PrivateKey key;
};

/// The four authorities of a Talos cluster.
enum class Authority { Os, Kubernetes, Aggregator, Etcd };

constexpr Duration authority_lifetime = std::chrono::hours{87600};
constexpr Duration client_lifetime = std::chrono::hours{8760};

/// Self-signed, as `talosctl gen secrets` makes it.
CertifiedKey mint_authority(Authority authority, Instant now, Entropy& entropy);
/// The certificate of a talosconfig: one O for each role ("os:admin").
CertifiedKey mint_talos_client(const CertifiedKey& os, std::vector<std::string> roles, Instant now,
                               Entropy& entropy, Duration lifetime = client_lifetime);
/// The certificate of an admin kubeconfig: system:masters. Valid from ten seconds ago, as Talos
/// makes it.
CertifiedKey mint_kubernetes_admin(const CertifiedKey& kubernetes, Instant now, Entropy& entropy,
                                   Duration lifetime = client_lifetime);

enum class LeafUse { Server, Client, Both };

/// Any other leaf.
struct Leaf {
  std::vector<std::string> organizations;
  std::string common_name;
  LeafUse use = LeafUse::Server;
  std::vector<std::string> dns_names;
  std::vector<IpAddress> addresses;
  Duration lifetime = client_lifetime;
};

/// The key is of the authority's own algorithm (P-256 for an RSA authority).
CertifiedKey mint_leaf(const CertifiedKey& authority, const Leaf& leaf, Instant now,
                       Entropy& entropy);

/// Leaves of a control plane, as Talos names them.
Leaf apid_server(std::vector<std::string> dns_names, std::vector<IpAddress> addresses);
Leaf kube_apiserver(std::vector<std::string> dns_names, std::vector<IpAddress> addresses);
Leaf kubelet_client();      // kube-apiserver asking kubelets; Kubernetes CA
Leaf front_proxy_client();  // kube-apiserver asking extension servers; aggregator CA
Leaf etcd_server(std::string name, std::vector<std::string> dns_names,
                 std::vector<IpAddress> addresses);
Leaf etcd_client(std::string name);  // kube-apiserver asking etcd

}  // namespace rocca::secrets
