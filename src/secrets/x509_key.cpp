#include "secrets/x509_key.hpp"

#include "base/error.hpp"
#include "base/handle.hpp"
#include "secrets/pem.hpp"

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/x509.h>

#include <algorithm>

namespace rocca::secrets {

namespace {

using KeyContext = Handle<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using Number = Handle<BIGNUM, BN_clear_free>;
using Numbers = Handle<BN_CTX, BN_CTX_free>;
using Group = Handle<EC_GROUP, EC_GROUP_free>;
using Point = Handle<EC_POINT, EC_POINT_free>;
using Builder = Handle<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>;
using Params = Handle<OSSL_PARAM, OSSL_PARAM_free>;

constexpr char group_name[] = "prime256v1";

void must(bool worked) {
  if (!worked) throw Error(Fault::Bug, "the crypto library failed: making a key");
}

const unsigned char* in(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Number random_number(Entropy& entropy, std::size_t size) {
  const Secret bytes = Secret::take(entropy.bytes(size));
  Number number{BN_bin2bn(in(bytes.reveal()), static_cast<int>(size), nullptr)};
  must(number != nullptr);
  return number;
}

Key from_data(const char* kind, OSSL_PARAM* params) {
  const KeyContext context{EVP_PKEY_CTX_new_from_name(nullptr, kind, nullptr)};
  must(context && EVP_PKEY_fromdata_init(context.get()) == 1);
  EVP_PKEY* made = nullptr;
  must(EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_KEYPAIR, params) == 1);
  return Key{made};
}

Key make_ed25519(Entropy& entropy) {
  const Secret seed = Secret::take(entropy.bytes(32));
  Key key{EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, in(seed.reveal()), 32)};
  must(key != nullptr);
  return key;
}

Key make_p256(Entropy& entropy) {
  const Group group{EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1)};
  const BIGNUM* order = EC_GROUP_get0_order(group.get());
  Number scalar = random_number(entropy, 32);
  while (BN_is_zero(scalar.get()) || BN_cmp(scalar.get(), order) >= 0)
    scalar = random_number(entropy, 32);
  const Point point{EC_POINT_new(group.get())};
  const Numbers scratch{BN_CTX_secure_new()};
  must(point &&
       EC_POINT_mul(group.get(), point.get(), scalar.get(), nullptr, nullptr, scratch.get()) == 1);
  unsigned char encoded[65];
  must(EC_POINT_point2oct(group.get(), point.get(), POINT_CONVERSION_UNCOMPRESSED, encoded,
                          sizeof encoded, scratch.get()) == sizeof encoded);
  const Builder builder{OSSL_PARAM_BLD_new()};
  must(builder && OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME,
                                                  group_name, 0) == 1);
  must(OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, encoded,
                                        sizeof encoded) == 1);
  must(OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_PRIV_KEY, scalar.get()) == 1);
  const Params params{OSSL_PARAM_BLD_to_param(builder.get())};
  return from_data("EC", params.get());
}

/// A prime with its two highest bits set, so that two of them multiply to a full modulus. The
/// library's own generator would not draw from our Entropy, and a seed would not be a run.
Number make_prime(Entropy& entropy, unsigned bits, const BIGNUM* exponent, BN_CTX* scratch) {
  const Number rest{BN_new()};
  while (true) {
    Number prime = random_number(entropy, bits / 8);
    must(BN_set_bit(prime.get(), static_cast<int>(bits) - 1) == 1 &&
         BN_set_bit(prime.get(), static_cast<int>(bits) - 2) == 1 &&
         BN_set_bit(prime.get(), 0) == 1);
    for (int tries = 0; tries < 4096 && BN_num_bits(prime.get()) == static_cast<int>(bits);
         ++tries) {
      // p - 1 must share no factor with e, which is prime.
      must(BN_mod(rest.get(), prime.get(), exponent, scratch) == 1);
      if (!BN_is_one(rest.get()) && BN_check_prime(prime.get(), scratch, nullptr) == 1)
        return prime;
      must(BN_add_word(prime.get(), 2) == 1);
    }
  }
}

Key make_rsa(Entropy& entropy, unsigned bits) {
  if (bits < 2048 || bits > 8192 || bits % 16 != 0)
    throw Error(Fault::Bug, "an RSA key of an odd size was asked for");
  const Numbers scratch{BN_CTX_secure_new()};
  const Number e{BN_new()};
  must(e && scratch && BN_set_word(e.get(), 65537) == 1);
  Number p = make_prime(entropy, bits / 2, e.get(), scratch.get());
  Number q = make_prime(entropy, bits / 2, e.get(), scratch.get());
  if (BN_cmp(p.get(), q.get()) < 0) p.swap(q);
  const auto made = [] {
    Number number{BN_new()};
    must(number != nullptr);
    BN_set_flags(number.get(), BN_FLG_CONSTTIME);
    return number;
  };
  const Number n = made(), d = made(), dp = made(), dq = made(), qi = made(), p1 = made(),
               q1 = made(), phi = made();
  must(BN_mul(n.get(), p.get(), q.get(), scratch.get()) == 1);
  must(BN_sub(p1.get(), p.get(), BN_value_one()) == 1 &&
       BN_sub(q1.get(), q.get(), BN_value_one()) == 1);
  must(BN_mul(phi.get(), p1.get(), q1.get(), scratch.get()) == 1);
  BN_set_flags(phi.get(), BN_FLG_CONSTTIME);
  BN_set_flags(p.get(), BN_FLG_CONSTTIME);
  must(BN_mod_inverse(d.get(), e.get(), phi.get(), scratch.get()) != nullptr);
  must(BN_mod(dp.get(), d.get(), p1.get(), scratch.get()) == 1 &&
       BN_mod(dq.get(), d.get(), q1.get(), scratch.get()) == 1);
  must(BN_mod_inverse(qi.get(), q.get(), p.get(), scratch.get()) != nullptr);

  const Builder builder{OSSL_PARAM_BLD_new()};
  const auto push = [&](const char* name, const Number& value) {
    must(OSSL_PARAM_BLD_push_BN(builder.get(), name, value.get()) == 1);
  };
  push(OSSL_PKEY_PARAM_RSA_N, n);
  push(OSSL_PKEY_PARAM_RSA_E, e);
  push(OSSL_PKEY_PARAM_RSA_D, d);
  push(OSSL_PKEY_PARAM_RSA_FACTOR1, p);
  push(OSSL_PKEY_PARAM_RSA_FACTOR2, q);
  push(OSSL_PKEY_PARAM_RSA_EXPONENT1, dp);
  push(OSSL_PKEY_PARAM_RSA_EXPONENT2, dq);
  push(OSSL_PKEY_PARAM_RSA_COEFFICIENT1, qi);
  const Params params{OSSL_PARAM_BLD_to_param(builder.get())};
  return from_data("RSA", params.get());
}

PrivateKey wrap(Key key, KeyAlgorithm algorithm) {
  auto data = std::make_shared<PrivateKey::Data>();
  data->key = std::move(key);
  data->algorithm = algorithm;
  return PrivateKey(std::move(data));
}

std::optional<KeyAlgorithm> algorithm_of(EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_ED25519:
      return KeyAlgorithm::Ed25519;
    case EVP_PKEY_RSA:
      return KeyAlgorithm::Rsa;
    case EVP_PKEY_EC: {
      char name[64] = "";
      std::size_t size = 0;
      if (EVP_PKEY_get_group_name(key, name, sizeof name, &size) == 1 &&
          std::string_view(name, size) == group_name)
        return KeyAlgorithm::EcdsaP256;
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

/// Ed25519 as PKCS#8, the others in their own old form: what Go's programs write under these
/// labels.
Secret key_der(const PrivateKey::Data& data) {
  unsigned char* bytes = nullptr;
  int size = 0;
  if (data.algorithm == KeyAlgorithm::Ed25519) {
    const Handle<PKCS8_PRIV_KEY_INFO, PKCS8_PRIV_KEY_INFO_free> info{
        EVP_PKEY2PKCS8(data.key.get())};
    must(info != nullptr);
    size = i2d_PKCS8_PRIV_KEY_INFO(info.get(), &bytes);
  } else {
    size = i2d_PrivateKey(data.key.get(), &bytes);
  }
  must(size > 0);
  const Secret der(
      std::string_view(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)));
  OPENSSL_clear_free(bytes, static_cast<std::size_t>(size));
  return der;
}

}  // namespace

void FreeKey::operator()(evp_pkey_st* key) const noexcept {
  EVP_PKEY_free(key);
}

std::string describe_key(EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_ED25519:
      return "Ed25519";
    case EVP_PKEY_RSA:
      return fmt::format("RSA {}", EVP_PKEY_get_bits(key));
    case EVP_PKEY_EC:
      if (algorithm_of(key) == KeyAlgorithm::EcdsaP256) return "ECDSA secp256r1";
      return fmt::format("ECDSA {}", EVP_PKEY_get_bits(key));
    default: {
      const char* name = EVP_PKEY_get0_type_name(key);
      return name != nullptr ? name : "unknown";
    }
  }
}

std::string public_key_der(EVP_PKEY* key) {
  unsigned char* bytes = nullptr;
  const int size = i2d_PUBKEY(key, &bytes);
  must(size > 0);
  std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return der;
}

PrivateKey PrivateKey::generate(KeyAlgorithm algorithm, Entropy& entropy, unsigned bits) {
  switch (algorithm) {
    case KeyAlgorithm::Ed25519:
      return wrap(make_ed25519(entropy), algorithm);
    case KeyAlgorithm::EcdsaP256:
      return wrap(make_p256(entropy), algorithm);
    case KeyAlgorithm::Rsa:
      return wrap(make_rsa(entropy, bits), algorithm);
  }
  throw Error(Fault::Bug, "an unknown key algorithm");
}

PrivateKey PrivateKey::parse(std::string_view pem, std::string_view what) {
  const PemBlock block = parse_one_pem(pem, what);
  int kind = 0;
  if (block.label == "EC PRIVATE KEY")
    kind = EVP_PKEY_EC;
  else if (block.label == "RSA PRIVATE KEY")
    kind = EVP_PKEY_RSA;
  else if (block.label == "ED25519 PRIVATE KEY")
    kind = EVP_PKEY_ED25519;
  else if (block.label != "PRIVATE KEY")
    throw Error(Fault::Usage,
                fmt::format("{} holds a `{}` where a private key is meant", what, block.label));

  const unsigned char* at = in(block.der.reveal());
  const unsigned char* begin = at;
  const auto size = static_cast<long>(block.der.size());
  Key key;
  if (kind == EVP_PKEY_EC || kind == EVP_PKEY_RSA) {
    key.reset(d2i_PrivateKey(kind, nullptr, &at, size));
  } else {
    const Handle<PKCS8_PRIV_KEY_INFO, PKCS8_PRIV_KEY_INFO_free> info{
        d2i_PKCS8_PRIV_KEY_INFO(nullptr, &at, size)};
    if (info) key.reset(EVP_PKCS82PKEY(info.get()));
  }
  ERR_clear_error();
  if (!key || at != begin + size)
    throw Error(Fault::Usage, fmt::format("{} is labelled `{}`, but its content is no such key",
                                          what, block.label));
  const auto algorithm = algorithm_of(key.get());
  if (!algorithm || (kind != 0 && EVP_PKEY_get_base_id(key.get()) != kind))
    throw Error(Fault::Usage, fmt::format("{} is a key of type {}, which Talos does not use", what,
                                          describe_key(key.get())));
  return wrap(std::move(key), *algorithm);
}

KeyAlgorithm PrivateKey::algorithm() const noexcept {
  return data_->algorithm;
}
unsigned PrivateKey::bits() const noexcept {
  return static_cast<unsigned>(EVP_PKEY_get_bits(data_->key.get()));
}
std::string PrivateKey::description() const {
  return describe_key(data_->key.get());
}
std::string PrivateKey::public_key() const {
  return public_key_der(data_->key.get());
}

std::string PrivateKey::pem_label() const {
  switch (data_->algorithm) {
    case KeyAlgorithm::Ed25519:
      return "ED25519 PRIVATE KEY";
    case KeyAlgorithm::EcdsaP256:
      return "EC PRIVATE KEY";
    case KeyAlgorithm::Rsa:
      return "RSA PRIVATE KEY";
  }
  return "";
}

Secret PrivateKey::pem() const {
  return to_pem(pem_label(), key_der(*data_).reveal());
}

}  // namespace rocca::secrets
