#pragma once

#include <optional>
#include <string>
#include <vector>

namespace rocca::test {

enum class KeyType { Ed25519, P256, Rsa };

/// A certificate and its key, PEM, made in memory.
struct Pki {
  std::string certificate;
  std::string key;
};

struct PkiSpec {
  std::string name = "test";
  std::string organization{};
  std::vector<std::string> addresses{"127.0.0.1", "::1"};
  bool authority = false;
  std::vector<std::string> usages{};  // "serverAuth", "clientAuth"; none: no such extension
  KeyType key = KeyType::Ed25519;
  long valid_from = -3600;  // seconds from now
  long valid_to = 24 * 3600;
};

/// Signed by `issuer`, or by itself.
Pki make_pki(const PkiSpec& spec, const Pki* issuer = nullptr);

std::string certificate_der(const std::string& pem);

}  // namespace rocca::test
