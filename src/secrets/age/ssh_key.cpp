#include "secrets/age/ssh_key.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/strings.hpp"
#include "secrets/crypto.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include <cstdint>

namespace rocca::secrets {

namespace {

using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using KeyContext = Handle<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using Number = Handle<BIGNUM, BN_clear_free>;
using Builder = Handle<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>;
using Params = Handle<OSSL_PARAM, OSSL_PARAM_free>;
using Bio = Handle<BIO, BIO_free>;

constexpr int smallest_rsa = 2048;

const unsigned char* in(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* out(std::string& bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

void must(bool worked) {
  if (!worked) throw Error(Fault::Bug, "the crypto library failed: RSA");
}

[[noreturn]] void damaged() {
  throw Error(Fault::Usage, "the SSH key is damaged").hint("copy the whole file again");
}

/// RFC 4251's data types, read from the front.
class Wire {
 public:
  explicit Wire(std::string_view bytes) : bytes_(bytes) {}

  std::uint32_t number() {
    const std::string_view four = take(4);
    std::uint32_t value = 0;
    for (const char c : four) value = (value << 8) | static_cast<unsigned char>(c);
    return value;
  }
  std::string_view string() { return take(number()); }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) damaged();
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  std::string_view bytes_;
};

std::string wire_string(std::string_view bytes) {
  std::string result;
  for (int shift = 24; shift >= 0; shift -= 8)
    result += static_cast<char>((bytes.size() >> shift) & 0xff);
  return result.append(bytes);
}

/// A positive number as RFC 4251 writes it: a zero in front where the first bit is set.
std::string wire_number(std::string_view bytes) {
  const bool high = !bytes.empty() && (static_cast<unsigned char>(bytes.front()) & 0x80) != 0;
  return wire_string(high ? std::string(1, '\0').append(bytes) : std::string(bytes));
}

std::string_view without_zeros(std::string_view bytes) {
  return bytes.substr(std::min(bytes.find_first_not_of('\0'), bytes.size()));
}

[[noreturn]] void wrong_type(std::string_view type) {
  throw Error(Fault::Usage, fmt::format("SSH keys of type `{}` cannot be used with age", type))
      .hint("ssh-ed25519 and ssh-rsa keys can");
}

SshPublicKey parse_wire(std::string_view wire) {
  Wire reader(wire);
  SshPublicKey key;
  key.type = reader.string();
  key.wire = wire;
  if (key.type == "ssh-ed25519") {
    key.point = reader.string();
    if (key.point.size() != 32) damaged();
  } else if (key.type == "ssh-rsa") {
    key.exponent = without_zeros(reader.string());
    key.modulus = without_zeros(reader.string());
    if (key.exponent.empty() || key.modulus.empty()) damaged();
    if (key.modulus.size() * 8 < smallest_rsa)
      throw Error(Fault::Usage, "the RSA key is too short").hint("age asks for 2048 bits at least");
    if (key.modulus.size() > 2048) damaged();
  } else {
    wrong_type(key.type);
  }
  if (!reader.rest().empty()) damaged();
  return key;
}

Number number(std::string_view bytes) {
  Number made{BN_bin2bn(in(bytes), static_cast<int>(bytes.size()), nullptr)};
  must(made != nullptr);
  return made;
}

Key public_rsa(const SshPublicKey& key) {
  const Number n = number(key.modulus);
  const Number e = number(key.exponent);
  const Builder builder{OSSL_PARAM_BLD_new()};
  must(builder && OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) == 1 &&
       OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) == 1);
  const Params params{OSSL_PARAM_BLD_to_param(builder.get())};
  const KeyContext context{EVP_PKEY_CTX_new_from_name(nullptr, "RSA", nullptr)};
  must(context && EVP_PKEY_fromdata_init(context.get()) == 1);
  EVP_PKEY* made = nullptr;
  if (EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) damaged();
  return Key{made};
}

void use_oaep(EVP_PKEY_CTX* context, std::string_view label) {
  must(EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_OAEP_PADDING) == 1);
  must(EVP_PKEY_CTX_set_rsa_oaep_md(context, EVP_sha256()) == 1);
  must(EVP_PKEY_CTX_set_rsa_mgf1_md(context, EVP_sha256()) == 1);
  void* copy = OPENSSL_memdup(label.data(), label.size());  // the context owns it from here on
  must(copy != nullptr &&
       EVP_PKEY_CTX_set0_rsa_oaep_label(context, copy, static_cast<int>(label.size())) == 1);
}

Secret der_of(EVP_PKEY* key) {
  std::string der(static_cast<std::size_t>(std::max(0, i2d_PrivateKey(key, nullptr))), '\0');
  unsigned char* at = out(der);
  if (der.empty() || i2d_PrivateKey(key, &at) <= 0) damaged();
  return Secret::take(std::move(der));
}

/// n, e, d, iqmp, p, q as OpenSSH stores them.
Secret rsa_from_parts(Wire& reader) {
  const Number n = number(reader.string());
  const Number e = number(reader.string());
  const Number d = number(reader.string());
  const Number iqmp = number(reader.string());
  const Number p = number(reader.string());
  const Number q = number(reader.string());
  if (BN_is_zero(p.get()) || BN_is_zero(q.get())) damaged();
  const Handle<BN_CTX, BN_CTX_free> scratch{BN_CTX_new()};
  const auto exponent_of = [&](const BIGNUM* prime) {
    Number less{BN_dup(prime)};
    Number result{BN_new()};
    must(less && result && BN_sub_word(less.get(), 1) == 1);
    if (BN_is_zero(less.get()) || BN_mod(result.get(), d.get(), less.get(), scratch.get()) != 1)
      damaged();
    return result;
  };
  const Number dp = exponent_of(p.get());
  const Number dq = exponent_of(q.get());
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
  push(OSSL_PKEY_PARAM_RSA_COEFFICIENT1, iqmp);
  const Params params{OSSL_PARAM_BLD_to_param(builder.get())};
  const KeyContext context{EVP_PKEY_CTX_new_from_name(nullptr, "RSA", nullptr)};
  must(context && EVP_PKEY_fromdata_init(context.get()) == 1);
  EVP_PKEY* made = nullptr;
  if (EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_KEYPAIR, params.get()) != 1) damaged();
  const Key key{made};
  return der_of(key.get());
}

int refuse_passphrase(char*, int, int, void* asked) noexcept {
  *static_cast<bool*>(asked) = true;
  return -1;
}

[[noreturn]] void encrypted() {
  throw Error(Fault::Usage, "the SSH key is protected by a passphrase, which is not supported")
      .hint("use an age identity, or a copy of the key without passphrase (`ssh-keygen -p`)");
}

SshPrivateKey parse_pem_rsa(std::string_view pem) {
  const Bio bio{BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))};
  bool asked = false;
  const Key key{PEM_read_bio_PrivateKey(bio.get(), nullptr, refuse_passphrase, &asked)};
  ERR_clear_error();
  if (asked) encrypted();
  if (!key) damaged();
  if (EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA)
    throw Error(Fault::Usage, "the PEM key is no RSA key")
        .hint("ed25519 keys are read in the OpenSSH form");
  BIGNUM* n = nullptr;
  BIGNUM* e = nullptr;
  must(EVP_PKEY_get_bn_param(key.get(), OSSL_PKEY_PARAM_RSA_N, &n) == 1);
  const Number modulus{n};
  must(EVP_PKEY_get_bn_param(key.get(), OSSL_PKEY_PARAM_RSA_E, &e) == 1);
  const Number exponent{e};
  const auto bytes = [](const BIGNUM* value) {
    std::string result(static_cast<std::size_t>(BN_num_bytes(value)), '\0');
    BN_bn2bin(value, out(result));
    return result;
  };
  SshPrivateKey result;
  result.public_key = parse_wire(wire_string("ssh-rsa") + wire_number(bytes(exponent.get())) +
                                 wire_number(bytes(modulus.get())));
  result.rsa_der = der_of(key.get());
  return result;
}

}  // namespace

std::string SshPublicKey::text() const {
  return type + " " + to_base64(wire);
}

SshPublicKey parse_ssh_public(std::string_view line) {
  line = trim(line);
  const std::size_t blank = line.find(' ');
  const std::string_view type = line.substr(0, blank);
  if (type != "ssh-ed25519" && type != "ssh-rsa") wrong_type(type);
  if (blank == std::string_view::npos) damaged();
  std::string_view rest = line.substr(blank + 1);
  const auto wire = from_base64(rest.substr(0, rest.find(' ')));
  if (!wire) damaged();
  SshPublicKey key = parse_wire(*wire);
  if (key.type != type) damaged();
  return key;
}

SshPrivateKey parse_ssh_private(std::string_view pem) {
  constexpr std::string_view begin = "-----BEGIN OPENSSH PRIVATE KEY-----";
  constexpr std::string_view end = "-----END OPENSSH PRIVATE KEY-----";
  constexpr std::string_view magic("openssh-key-v1\0", 15);
  pem = trim(pem);
  if (!pem.starts_with(begin)) return parse_pem_rsa(pem);
  if (!pem.ends_with(end)) damaged();
  std::string body;
  body.reserve(pem.size());
  for (const char c : pem.substr(begin.size(), pem.size() - begin.size() - end.size()))
    if (c != '\n' && c != '\r') body += c;
  auto decoded = from_base64(body);
  wipe(body);
  if (!decoded) damaged();
  const Secret bytes = Secret::take(std::move(*decoded));

  if (!bytes.reveal().starts_with(magic)) damaged();
  Wire outer(bytes.reveal().substr(magic.size()));
  const std::string_view cipher = outer.string();
  outer.string();  // key derivation
  outer.string();  // and its options
  if (outer.number() != 1) throw Error(Fault::Usage, "the SSH key file holds several keys");
  SshPrivateKey key;
  key.public_key = parse_wire(outer.string());
  if (cipher != "none") encrypted();
  Wire inner(outer.string());
  if (inner.number() != inner.number()) damaged();
  if (inner.string() != key.public_key.type) damaged();
  if (key.public_key.type == "ssh-ed25519") {
    if (inner.string() != key.public_key.point) damaged();
    const std::string_view both = inner.string();
    if (both.size() != 64) damaged();
    key.seed = Secret(both.substr(0, 32));
    if (crypto::ed25519_public(key.seed.reveal()) != key.public_key.point)
      throw Error(Fault::Usage, "the SSH key's two halves do not belong together");
  } else {
    key.rsa_der = rsa_from_parts(inner);
  }
  return key;
}

std::string rsa_oaep_seal(const SshPublicKey& key, std::string_view label,
                          std::string_view plaintext) {
  const Key rsa = public_rsa(key);
  const KeyContext context{EVP_PKEY_CTX_new(rsa.get(), nullptr)};
  must(context && EVP_PKEY_encrypt_init(context.get()) == 1);
  use_oaep(context.get(), label);
  std::size_t size = static_cast<std::size_t>(EVP_PKEY_get_size(rsa.get()));
  std::string sealed(size, '\0');
  must(EVP_PKEY_encrypt(context.get(), out(sealed), &size, in(plaintext), plaintext.size()) == 1);
  sealed.resize(size);
  return sealed;
}

std::optional<Secret> rsa_oaep_open(const SshPrivateKey& key, std::string_view label,
                                    std::string_view sealed) {
  const unsigned char* at = in(key.rsa_der.reveal());
  const Key rsa{d2i_PrivateKey(EVP_PKEY_RSA, nullptr, &at, static_cast<long>(key.rsa_der.size()))};
  must(rsa != nullptr);
  const KeyContext context{EVP_PKEY_CTX_new(rsa.get(), nullptr)};
  must(context && EVP_PKEY_decrypt_init(context.get()) == 1);
  use_oaep(context.get(), label);
  std::size_t size = static_cast<std::size_t>(EVP_PKEY_get_size(rsa.get()));
  std::string text(size, '\0');
  const bool opened =
      EVP_PKEY_decrypt(context.get(), out(text), &size, in(sealed), sealed.size()) == 1;
  ERR_clear_error();
  if (!opened) {
    wipe(text);
    return std::nullopt;
  }
  const Secret result(std::string_view(text).substr(0, size));
  wipe(text);
  return result;
}

}  // namespace rocca::secrets
