#pragma once

#include "base/secret.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace rocca::secrets {

/// An SSH public key of a type we can encrypt to.
struct SshPublicKey {
  std::string type;      // "ssh-ed25519" or "ssh-rsa"
  std::string wire;      // RFC 4253: length-prefixed type and values
  std::string point;     // ed25519: 32 bytes
  std::string modulus;   // rsa: big endian, no leading zero
  std::string exponent;  // rsa

  /// `ssh-ed25519 AAAA…`, without a comment.
  std::string text() const;
};

struct SshPrivateKey {
  SshPublicKey public_key;
  Secret seed;     // ed25519: 32 bytes
  Secret rsa_der;  // rsa: PKCS#1 DER
};

/// Reads an `authorized_keys` style line. Throws Error(Usage) naming the type where it is another
/// one.
SshPublicKey parse_ssh_public(std::string_view line);
/// Reads an unencrypted OpenSSH private key, or an RSA key in PEM. Throws Error(Usage), with the
/// reason.
SshPrivateKey parse_ssh_private(std::string_view pem);

/// RSA-OAEP with SHA-256 and a label.
std::string rsa_oaep_seal(const SshPublicKey& key, std::string_view label,
                          std::string_view plaintext);
std::optional<Secret> rsa_oaep_open(const SshPrivateKey& key, std::string_view label,
                                    std::string_view sealed);

}  // namespace rocca::secrets
