#pragma once

#include "secrets/x509.hpp"

#include <memory>
#include <string>

struct evp_pkey_st;

// What is behind PrivateKey; for the .cpp files of x509 only.
namespace rocca::secrets {

struct FreeKey {
  void operator()(evp_pkey_st* key) const noexcept;
};
using Key = std::unique_ptr<evp_pkey_st, FreeKey>;

struct PrivateKey::Data {
  Key key;
  KeyAlgorithm algorithm;
};

/// "Ed25519", "ECDSA secp256r1", "RSA 4096", or the library's name of it.
std::string describe_key(evp_pkey_st* key);
std::string public_key_der(evp_pkey_st* key);

}  // namespace rocca::secrets
