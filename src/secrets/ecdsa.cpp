// ECDSA_do_sign_ex is the one call that takes a nonce. OpenSSL 3 calls it old, but it keeps the
// blinding of the key.
#define OPENSSL_SUPPRESS_DEPRECATED

#include "secrets/ecdsa.hpp"

#include "base/error.hpp"
#include "base/handle.hpp"
#include "secrets/crypto.hpp"
#include "secrets/x509_key.hpp"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>

namespace rocca::secrets {

namespace {

using Number = Handle<BIGNUM, BN_clear_free>;
using Numbers = Handle<BN_CTX, BN_CTX_free>;
using EcKey = Handle<EC_KEY, EC_KEY_free>;
using Point = Handle<EC_POINT, EC_POINT_free>;
using Signature = Handle<ECDSA_SIG, ECDSA_SIG_free>;

constexpr std::size_t size = 32;

void must(bool worked) {
  if (!worked) throw Error(Fault::Bug, "the crypto library failed: signing");
}

const unsigned char* in(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Secret bytes_of(const BIGNUM* number) {
  std::string bytes(size, '\0');
  must(BN_bn2binpad(number, reinterpret_cast<unsigned char*>(bytes.data()), size) == size);
  return Secret::take(std::move(bytes));
}

Number number_of(std::string_view bytes) {
  Number number{BN_bin2bn(in(bytes), static_cast<int>(bytes.size()), nullptr)};
  must(number != nullptr);
  BN_set_flags(number.get(), BN_FLG_CONSTTIME);
  return number;
}

/// RFC 6979 3.2: HMAC-DRBG over the key and the digest. Numbers are as long as the digest, so
/// bits2int is plain.
class Nonces {
 public:
  Nonces(const Secret& key, std::string_view digest, const BIGNUM* order, BN_CTX* scratch) {
    const Number reduced = number_of(digest);
    must(BN_nnmod(reduced.get(), reduced.get(), order, scratch) == 1);
    std::string joined(key.reveal());
    joined.append(bytes_of(reduced.get()).reveal());
    const Secret seed = Secret::take(std::move(joined));
    mix('\x00', seed.reveal());
    mix('\x01', seed.reveal());
  }

  Number next(const BIGNUM* order) {
    while (true) {
      value_ = hmac(value_.reveal());
      Number candidate = number_of(value_.reveal());
      if (!BN_is_zero(candidate.get()) && BN_cmp(candidate.get(), order) < 0) return candidate;
      mix('\x00', "");
    }
  }

 private:
  Secret hmac(std::string_view bytes) const {
    return Secret::take(crypto::hmac_sha256(key_.reveal(), bytes));
  }

  void mix(char step, std::string_view seed) {
    std::string input(value_.reveal());
    input.reserve(input.size() + 1 + seed.size());
    input += step;
    input += seed;
    key_ = hmac(input);
    wipe(input);
    value_ = hmac(value_.reveal());
  }

  Secret key_ = Secret(std::string(size, '\x00'));
  Secret value_ = Secret(std::string(size, '\x01'));
};

}  // namespace

std::string sign_p256(const PrivateKey& key, std::string_view message) {
  must(key.algorithm() == KeyAlgorithm::EcdsaP256);
  BIGNUM* found = nullptr;
  must(EVP_PKEY_get_bn_param(key.data().key.get(), OSSL_PKEY_PARAM_PRIV_KEY, &found) == 1);
  const Number scalar{found};
  const EcKey ec{EC_KEY_new_by_curve_name(NID_X9_62_prime256v1)};
  must(ec && EC_KEY_set_private_key(ec.get(), scalar.get()) == 1);
  const EC_GROUP* group = EC_KEY_get0_group(ec.get());
  const BIGNUM* order = EC_GROUP_get0_order(group);
  const Numbers scratch{BN_CTX_secure_new()};
  const Point point{EC_POINT_new(group)};
  const Number r{BN_new()};
  const Number inverse{BN_new()};
  must(scratch && point && r && inverse);

  const std::string digest = crypto::sha256(message);
  Nonces nonces(bytes_of(scalar.get()), digest, order, scratch.get());
  Signature signature;
  while (!signature) {
    const Number nonce = nonces.next(order);
    must(EC_POINT_mul(group, point.get(), nonce.get(), nullptr, nullptr, scratch.get()) == 1);
    must(EC_POINT_get_affine_coordinates(group, point.get(), r.get(), nullptr, scratch.get()) == 1);
    must(BN_nnmod(r.get(), r.get(), order, scratch.get()) == 1);
    must(BN_mod_inverse(inverse.get(), nonce.get(), order, scratch.get()) != nullptr);
    // Nothing is returned for s = 0, which the next nonce mends; it has never been seen to happen.
    if (!BN_is_zero(r.get()))
      signature.reset(ECDSA_do_sign_ex(in(digest), static_cast<int>(digest.size()), inverse.get(),
                                       r.get(), ec.get()));
  }
  unsigned char* der = nullptr;
  const int length = i2d_ECDSA_SIG(signature.get(), &der);
  must(length > 0);
  std::string result(reinterpret_cast<const char*>(der), static_cast<std::size_t>(length));
  OPENSSL_free(der);
  return result;
}

}  // namespace rocca::secrets
