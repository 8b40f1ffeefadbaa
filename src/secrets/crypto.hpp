#pragma once

#include "base/secret.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The primitives that age, SOPS and the bundle stand on: OpenSSL behind plain bytes. What is
/// secret comes as Secret. A failure inside the library that no input can cause throws Error(Bug).
namespace rocca::secrets::crypto {

std::string sha256(std::string_view bytes);
std::string sha512(std::string_view bytes);
std::string sha3_256(std::string_view bytes);
std::string sha3_512(std::string_view bytes);
/// `size` bytes of SHAKE128 or SHAKE256.
std::string shake128(std::string_view bytes, std::size_t size);
std::string shake256(std::string_view bytes, std::size_t size);
std::string hmac_sha256(std::string_view key, std::string_view bytes);

/// HKDF-SHA-256, extract and expand.
Secret hkdf_sha256(std::string_view key, std::string_view salt, std::string_view info,
                   std::size_t size = 32);
std::string hkdf_extract_sha256(std::string_view key, std::string_view salt);
Secret hkdf_expand_sha256(std::string_view key, std::string_view info, std::size_t size);

/// N = 2^work_factor, r = 8, p = 1, 32 bytes. Throws Error(Usage) when the memory cannot be had.
Secret scrypt(std::string_view passphrase, std::string_view salt, unsigned work_factor);

/// Nothing where the result is all zero (a point of low order).
std::optional<Secret> x25519(std::string_view scalar, std::string_view point);
std::string x25519_public(std::string_view scalar);
/// The Montgomery form of an Ed25519 public key; nothing where the point has none.
std::optional<std::string> ed25519_to_x25519(std::string_view point);
std::string ed25519_public(std::string_view seed);

/// ChaCha20-Poly1305 (RFC 8439): 32-byte key, 12-byte nonce, the 16-byte tag behind the text, no
/// additional data.
std::string chacha_seal(std::string_view key, std::string_view nonce, std::string_view plaintext);
std::optional<Secret> chacha_open(std::string_view key, std::string_view nonce,
                                  std::string_view sealed);

/// AES-256-GCM with any IV length up to 128 bytes; the tag (16 bytes) apart, as SOPS stores it.
struct Sealed {
  std::string bytes;
  std::string tag;
};
Sealed aes256_gcm_seal(std::string_view key, std::string_view iv, std::string_view plaintext,
                       std::string_view aad);
std::optional<Secret> aes256_gcm_open(std::string_view key, std::string_view iv,
                                      const Sealed& sealed, std::string_view aad);

}  // namespace rocca::secrets::crypto
