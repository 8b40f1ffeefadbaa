#include "secrets/crypto.hpp"

#include "base/error.hpp"
#include "base/handle.hpp"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>

namespace rocca::secrets::crypto {

namespace {

using Digest = Handle<EVP_MD_CTX, EVP_MD_CTX_free>;
using Cipher = Handle<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free>;
using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using KeyContext = Handle<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using Kdf = Handle<EVP_KDF, EVP_KDF_free>;
using KdfContext = Handle<EVP_KDF_CTX, EVP_KDF_CTX_free>;
using Number = Handle<BIGNUM, BN_clear_free>;
using Numbers = Handle<BN_CTX, BN_CTX_free>;

constexpr std::size_t tag_size = 16;

const unsigned char* in(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* out(std::string& bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

void must(bool worked, const char* what) {
  if (!worked) throw Error(Fault::Bug, std::string("the crypto library failed: ") + what);
}

int length(std::size_t size) {
  must(size <= 0x7fffffff, "input over 2 GiB");
  return static_cast<int>(size);
}

std::string digest(const EVP_MD* kind, std::string_view bytes) {
  std::string result(static_cast<std::size_t>(EVP_MD_get_size(kind)), '\0');
  unsigned size = 0;
  must(EVP_Digest(bytes.data(), bytes.size(), out(result), &size, kind, nullptr) == 1, "digest");
  return result;
}

std::string shake(const EVP_MD* kind, std::string_view bytes, std::size_t size) {
  std::string result(size, '\0');
  const Digest context{EVP_MD_CTX_new()};
  must(EVP_DigestInit_ex(context.get(), kind, nullptr) == 1, "shake");
  must(EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1, "shake");
  must(EVP_DigestFinalXOF(context.get(), out(result), size) == 1, "shake");
  return result;
}

enum class HkdfMode { Both, Extract, Expand };

std::string hkdf(HkdfMode mode, std::string_view key, std::string_view salt, std::string_view info,
                 std::size_t size) {
  const Kdf kdf{EVP_KDF_fetch(nullptr, "HKDF", nullptr)};
  must(kdf != nullptr, "HKDF");
  const KdfContext context{EVP_KDF_CTX_new(kdf.get())};
  int number = mode == HkdfMode::Both      ? EVP_KDF_HKDF_MODE_EXTRACT_AND_EXPAND
               : mode == HkdfMode::Extract ? EVP_KDF_HKDF_MODE_EXTRACT_ONLY
                                           : EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  char name[] = "SHA256";
  // OpenSSL takes a null pointer for "not given": an empty key must still point somewhere.
  static unsigned char nothing = 0;
  const auto bytes = [](std::string_view view) {
    return view.empty() ? &nothing : const_cast<unsigned char*>(in(view));
  };
  std::array<OSSL_PARAM, 6> params{
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &number),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, name, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, bytes(key), key.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, bytes(salt), salt.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, bytes(info), info.size()),
      OSSL_PARAM_construct_end()};
  std::string result(size, '\0');
  must(EVP_KDF_derive(context.get(), out(result), size, params.data()) == 1, "HKDF");
  return result;
}

Key private_key(int kind, std::string_view bytes) {
  Key key{EVP_PKEY_new_raw_private_key(kind, nullptr, in(bytes), bytes.size())};
  must(key != nullptr, "private key");
  return key;
}

std::string public_part(int kind, std::string_view scalar) {
  const Key key = private_key(kind, scalar);
  std::string result(32, '\0');
  std::size_t size = result.size();
  must(EVP_PKEY_get_raw_public_key(key.get(), out(result), &size) == 1 && size == 32, "public key");
  return result;
}

Number number(std::string_view text) {
  BIGNUM* made = nullptr;
  must(BN_hex2bn(&made, std::string(text).c_str()) != 0, "number");
  return Number{made};
}

}  // namespace

std::string sha256(std::string_view bytes) {
  // EVP_sha256() only names it: OpenSSL 3 would look for the code behind it at each digest.
  static const Handle<EVP_MD, EVP_MD_free> kind{EVP_MD_fetch(nullptr, "SHA256", nullptr)};
  must(kind != nullptr, "SHA256");
  return digest(kind.get(), bytes);
}
std::string sha512(std::string_view bytes) {
  return digest(EVP_sha512(), bytes);
}
std::string sha3_256(std::string_view bytes) {
  return digest(EVP_sha3_256(), bytes);
}
std::string sha3_512(std::string_view bytes) {
  return digest(EVP_sha3_512(), bytes);
}
std::string shake128(std::string_view bytes, std::size_t size) {
  return shake(EVP_shake128(), bytes, size);
}
std::string shake256(std::string_view bytes, std::size_t size) {
  return shake(EVP_shake256(), bytes, size);
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  std::string result(32, '\0');
  unsigned size = 0;
  must(HMAC(EVP_sha256(), key.data(), length(key.size()), in(bytes), bytes.size(), out(result),
            &size) != nullptr,
       "HMAC");
  return result;
}

Secret hkdf_sha256(std::string_view key, std::string_view salt, std::string_view info,
                   std::size_t size) {
  return Secret::take(hkdf(HkdfMode::Both, key, salt, info, size));
}

std::string hkdf_extract_sha256(std::string_view key, std::string_view salt) {
  return hkdf(HkdfMode::Extract, key, salt, "", 32);
}

Secret hkdf_expand_sha256(std::string_view key, std::string_view info, std::size_t size) {
  return Secret::take(hkdf(HkdfMode::Expand, key, "", info, size));
}

Secret scrypt(std::string_view passphrase, std::string_view salt, unsigned work_factor) {
  must(work_factor > 0 && work_factor < 40, "scrypt work factor");
  const std::uint64_t n = std::uint64_t{1} << work_factor;
  // OpenSSL's own limit is 32 MiB, which refuses even N = 2^15; scrypt needs 128·r·N and a little.
  const std::uint64_t memory = 128 * 8 * (n + 64);
  std::string result(32, '\0');
  if (EVP_PBE_scrypt(passphrase.empty() ? "" : passphrase.data(), passphrase.size(), in(salt),
                     salt.size(), n, 8, 1, memory, out(result), result.size()) != 1)
    throw Error(Fault::Usage, "the passphrase's key could not be computed")
        .hint("it needs " + std::to_string(memory >> 20) + " MiB of memory");
  return Secret::take(std::move(result));
}

std::optional<Secret> x25519(std::string_view scalar, std::string_view point) {
  must(scalar.size() == 32 && point.size() == 32, "X25519 sizes");
  const Key key = private_key(EVP_PKEY_X25519, scalar);
  const Key peer{EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, in(point), point.size())};
  must(peer != nullptr, "X25519 point");
  const KeyContext context{EVP_PKEY_CTX_new(key.get(), nullptr)};
  must(EVP_PKEY_derive_init(context.get()) == 1, "X25519");
  must(EVP_PKEY_derive_set_peer_ex(context.get(), peer.get(), 0) == 1, "X25519");
  std::string result(32, '\0');
  std::size_t size = result.size();
  // The only way this fails is the all-zero result, which the library checks for.
  if (EVP_PKEY_derive(context.get(), out(result), &size) != 1) return std::nullopt;
  return Secret::take(std::move(result));
}

std::string x25519_public(std::string_view scalar) {
  return public_part(EVP_PKEY_X25519, scalar);
}
std::string ed25519_public(std::string_view seed) {
  return public_part(EVP_PKEY_ED25519, seed);
}

std::optional<std::string> ed25519_to_x25519(std::string_view point) {
  // u = (1 + y) / (1 - y) mod p. The input is public, so the time this takes tells nothing.
  must(point.size() == 32, "Ed25519 point size");
  const Number p = number("7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFED");
  std::string bytes(point);
  bytes[31] = static_cast<char>(bytes[31] & 0x7f);  // the sign of x
  const Number y{BN_lebin2bn(in(bytes), 32, nullptr)};
  const Numbers scratch{BN_CTX_new()};
  const Number above{BN_new()};
  const Number below{BN_new()};
  const Number u{BN_new()};
  must(y && above && below && u && scratch, "numbers");
  if (BN_cmp(y.get(), p.get()) >= 0) return std::nullopt;
  must(BN_mod_add(above.get(), BN_value_one(), y.get(), p.get(), scratch.get()) == 1, "add");
  must(BN_mod_sub(below.get(), BN_value_one(), y.get(), p.get(), scratch.get()) == 1, "sub");
  if (BN_is_zero(below.get())) return std::nullopt;
  must(BN_mod_inverse(below.get(), below.get(), p.get(), scratch.get()) != nullptr, "inverse");
  must(BN_mod_mul(u.get(), above.get(), below.get(), p.get(), scratch.get()) == 1, "mul");
  std::string result(32, '\0');
  must(BN_bn2lebinpad(u.get(), out(result), 32) == 32, "export");
  return result;
}

std::string chacha_seal(std::string_view key, std::string_view nonce, std::string_view plaintext) {
  must(key.size() == 32 && nonce.size() == 12, "ChaCha20-Poly1305 sizes");
  const Cipher context{EVP_CIPHER_CTX_new()};
  must(EVP_EncryptInit_ex(context.get(), EVP_chacha20_poly1305(), nullptr, in(key), in(nonce)) == 1,
       "seal");
  std::string result(plaintext.size() + tag_size, '\0');
  int size = 0;
  must(EVP_EncryptUpdate(context.get(), out(result), &size, in(plaintext),
                         length(plaintext.size())) == 1,
       "seal");
  int rest = 0;
  must(EVP_EncryptFinal_ex(context.get(), out(result) + size, &rest) == 1, "seal");
  must(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, tag_size,
                           out(result) + plaintext.size()) == 1,
       "tag");
  return result;
}

std::optional<Secret> chacha_open(std::string_view key, std::string_view nonce,
                                  std::string_view sealed) {
  must(key.size() == 32 && nonce.size() == 12, "ChaCha20-Poly1305 sizes");
  if (sealed.size() < tag_size) return std::nullopt;
  const std::string_view text = sealed.substr(0, sealed.size() - tag_size);
  std::string tag(sealed.substr(text.size()));
  const Cipher context{EVP_CIPHER_CTX_new()};
  must(EVP_DecryptInit_ex(context.get(), EVP_chacha20_poly1305(), nullptr, in(key), in(nonce)) == 1,
       "open");
  must(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, tag_size, tag.data()) == 1, "tag");
  std::string result(text.size(), '\0');
  int size = 0;
  must(EVP_DecryptUpdate(context.get(), out(result), &size, in(text), length(text.size())) == 1,
       "open");
  int rest = 0;
  if (EVP_DecryptFinal_ex(context.get(), out(result) + size, &rest) != 1) {
    wipe(result);
    return std::nullopt;
  }
  return Secret::take(std::move(result));
}

Sealed aes256_gcm_seal(std::string_view key, std::string_view iv, std::string_view plaintext,
                       std::string_view aad) {
  must(key.size() == 32 && !iv.empty() && iv.size() <= 128, "AES-256-GCM sizes");
  const Cipher context{EVP_CIPHER_CTX_new()};
  must(EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, nullptr, nullptr) == 1,
       "seal");
  must(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_IVLEN, length(iv.size()), nullptr) == 1,
       "IV length");
  must(EVP_EncryptInit_ex(context.get(), nullptr, nullptr, in(key), in(iv)) == 1, "seal");
  int size = 0;
  if (!aad.empty())
    must(EVP_EncryptUpdate(context.get(), nullptr, &size, in(aad), length(aad.size())) == 1,
         "additional data");
  Sealed result{std::string(plaintext.size(), '\0'), std::string(tag_size, '\0')};
  size = 0;
  if (!plaintext.empty())
    must(EVP_EncryptUpdate(context.get(), out(result.bytes), &size, in(plaintext),
                           length(plaintext.size())) == 1,
         "seal");
  int rest = 0;
  must(EVP_EncryptFinal_ex(context.get(), out(result.bytes) + size, &rest) == 1, "seal");
  must(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, tag_size, result.tag.data()) == 1,
       "tag");
  return result;
}

std::optional<Secret> aes256_gcm_open(std::string_view key, std::string_view iv,
                                      const Sealed& sealed, std::string_view aad) {
  // Lengths come from a file somebody wrote: a wrong one is "does not open", not a bug.
  if (key.size() != 32 || iv.empty() || iv.size() > 128 || sealed.tag.size() != tag_size)
    return std::nullopt;
  const Cipher context{EVP_CIPHER_CTX_new()};
  must(EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, nullptr, nullptr) == 1,
       "open");
  must(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_IVLEN, length(iv.size()), nullptr) == 1,
       "IV length");
  must(EVP_DecryptInit_ex(context.get(), nullptr, nullptr, in(key), in(iv)) == 1, "open");
  std::string tag = sealed.tag;
  must(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, tag_size, tag.data()) == 1, "tag");
  int size = 0;
  if (!aad.empty())
    must(EVP_DecryptUpdate(context.get(), nullptr, &size, in(aad), length(aad.size())) == 1,
         "additional data");
  std::string result(sealed.bytes.size(), '\0');
  size = 0;
  if (!result.empty())
    must(EVP_DecryptUpdate(context.get(), out(result), &size, in(sealed.bytes),
                           length(result.size())) == 1,
         "open");
  int rest = 0;
  if (EVP_DecryptFinal_ex(context.get(), out(result) + size, &rest) != 1) {
    wipe(result);
    return std::nullopt;
  }
  return Secret::take(std::move(result));
}

}  // namespace rocca::secrets::crypto
