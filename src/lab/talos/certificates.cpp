#include "lab/talos/certificates.hpp"

#include "base/address.hpp"
#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <unordered_map>

namespace rocca::lab::talos {

namespace {

using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using Certificate = Handle<X509, X509_free>;
using Bio = Handle<BIO, BIO_free_all>;
using Extension = Handle<X509_EXTENSION, X509_EXTENSION_free>;

Bio reader(std::string_view text) {
  return Bio{BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))};
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Key from_raw(std::string_view raw) {
  return Key{EVP_PKEY_new_raw_private_key(
      EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(raw.data()), raw.size())};
}

// OpenSSL 3.0 goes through all its decoders and encoders for every key that it reads, writes or
// puts into a certificate, a tenth of a millisecond each time. An Ed25519 key is its 32 bytes
// behind a head that is always the same (RFC 8410, 7).
constexpr std::string_view ed25519_head{
    "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20", 16};

std::string ed25519_pem(std::string_view raw) {
  return fmt::format("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
                     to_base64(std::string(ed25519_head) + std::string(raw)));
}

Key read_key(std::string_view pem) {
  // OpenSSL does not know Talos's label.
  const std::string standard = replace_all(pem, "ED25519 PRIVATE KEY", "PRIVATE KEY");
  const Bio bio = reader(standard);
  return Key{PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr)};
}

bool set_public_key(X509* certificate, EVP_PKEY* key) {
  const bool elliptic = EVP_PKEY_get_base_id(key) == EVP_PKEY_EC;
  std::size_t size = 0;
  if (elliptic)
    EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, nullptr, 0, &size);
  else
    EVP_PKEY_get_raw_public_key(key, nullptr, &size);
  auto* bytes = static_cast<unsigned char*>(OPENSSL_malloc(size));
  const bool got =
      size > 0 && bytes != nullptr &&
      (elliptic ? EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, bytes, size, &size)
                : EVP_PKEY_get_raw_public_key(key, bytes, &size)) == 1;
  // What is set belongs to the certificate.
  if (got && X509_PUBKEY_set0_param(X509_get_X509_PUBKEY(certificate),
                                    OBJ_nid2obj(elliptic ? NID_X9_62_id_ecPublicKey : NID_ED25519),
                                    elliptic ? V_ASN1_OBJECT : V_ASN1_UNDEF,
                                    elliptic ? OBJ_nid2obj(NID_X9_62_prime256v1) : nullptr, bytes,
                                    static_cast<int>(size)) == 1)
    return true;
  OPENSSL_free(bytes);
  return false;
}

bool extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension{X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str())};
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

std::time_t seconds(Instant instant) {
  return static_cast<std::time_t>(
      std::chrono::duration_cast<std::chrono::seconds>(instant.time_since_epoch()).count());
}

void add_name(X509_NAME* name, const char* field, const std::string& value) {
  X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(value.data()),
                             static_cast<int>(value.size()), -1, 0);
}

}  // namespace

struct Signer::Parts {
  Certificate issuer;
  Key key;
  std::string texts = {};  // that both were read from
};

Signer::Signer(const SigningAuthority& authority) : parts_(std::make_unique<Parts>()) {
  const Bio in = reader(authority.certificate_pem);
  parts_->issuer.reset(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
  parts_->key = read_key(authority.key_pem);
  parts_->texts = authority.certificate_pem + authority.key_pem;
}
Signer::~Signer() = default;

std::shared_ptr<const Signer> Signer::read(const SigningAuthority& authority) {
  // A few bundles serve thousands of simulated lives.
  thread_local std::unordered_map<std::string, std::shared_ptr<const Signer>> lately;
  constexpr std::size_t many = 64;
  std::string texts = authority.certificate_pem + authority.key_pem;
  if (const auto known = lately.find(texts); known != lately.end()) return known->second;
  auto signer = std::make_shared<const Signer>(authority);
  if (!signer->parts_->issuer || !signer->parts_->key) return nullptr;
  if (lately.size() >= many) lately.clear();
  return lately.emplace(std::move(texts), std::move(signer)).first->second;
}

namespace {

/// All that a certificate is made of, besides who signs it.
std::string text_of(const Leaf& leaf, const std::string& chance, Instant now) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", chance, seconds(now), leaf.valid_for.count(),
                     leaf.client, leaf.server, leaf.elliptic, join(leaf.organizations, ","),
                     leaf.common_name, join(leaf.names, ","));
}

/// What was signed lately: nodes of thousands of lives that are called alike show the same.
class Signed {
 public:
  static Signed& lately() {
    thread_local Signed all;
    return all;
  }
  const net::Identity* find(const std::string& asked) const {
    const auto found = all_.find(asked);
    return found == all_.end() ? nullptr : &found->second;
  }
  void keep(std::string asked, const net::Identity& made) {
    constexpr std::size_t many = 512;
    if (all_.size() >= many) all_.clear();
    all_.insert_or_assign(std::move(asked), made);
  }

 private:
  std::unordered_map<std::string, net::Identity> all_;
};

std::optional<net::Identity> make_leaf(const Leaf& leaf, const Certificate& issuer,
                                       const Key& signer, const std::string& raw,
                                       std::uint64_t serial, Instant now) {
  const Key key = leaf.elliptic ? Key{EVP_EC_gen("P-256")} : from_raw(raw);
  const Certificate made{X509_new()};
  if (!key || !made) return std::nullopt;
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()), serial);
  ASN1_TIME_set(X509_getm_notBefore(made.get()), seconds(now));
  ASN1_TIME_set(X509_getm_notAfter(made.get()), seconds(now + leaf.valid_for));
  X509_NAME* subject = X509_get_subject_name(made.get());
  for (const std::string& organization : leaf.organizations) add_name(subject, "O", organization);
  if (!leaf.common_name.empty()) add_name(subject, "CN", leaf.common_name);
  X509_set_issuer_name(made.get(), X509_get_subject_name(issuer.get()));
  if (!set_public_key(made.get(), key.get())) return std::nullopt;
  std::vector<std::string> names;
  for (const std::string& each : leaf.names)
    names.push_back((IpAddress::parse(each) ? "IP:" : "DNS:") + each);
  if (!names.empty()) extend(made.get(), issuer.get(), NID_subject_alt_name, join(names, ","));
  extend(made.get(), issuer.get(), NID_key_usage,
         leaf.elliptic ? "critical,digitalSignature,keyEncipherment" : "critical,digitalSignature");
  std::vector<std::string> usages;
  if (leaf.server) usages.push_back("serverAuth");
  if (leaf.client) usages.push_back("clientAuth");
  if (!usages.empty()) extend(made.get(), issuer.get(), NID_ext_key_usage, join(usages, ","));
  if (X509_get0_subject_key_id(issuer.get()) != nullptr)
    extend(made.get(), issuer.get(), NID_authority_key_identifier, "keyid");
  const bool plain = EVP_PKEY_get_base_id(signer.get()) == EVP_PKEY_ED25519;
  if (X509_sign(made.get(), signer.get(), plain ? nullptr : EVP_sha256()) == 0) return std::nullopt;
  const Bio certificate_out{BIO_new(BIO_s_mem())};
  PEM_write_bio_X509(certificate_out.get(), made.get());
  if (!leaf.elliptic)
    return net::Identity{text_of(certificate_out.get()), Secret::take(ed25519_pem(raw))};
  const Bio key_out{BIO_new(BIO_s_mem())};
  PEM_write_bio_PrivateKey_traditional(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                       nullptr);
  return net::Identity{text_of(certificate_out.get()), Secret::take(text_of(key_out.get()))};
}

}  // namespace

std::optional<net::Identity> Signer::sign(const Leaf& leaf, Entropy& entropy, Instant now) const {
  // As much is drawn whether it is known or not.
  const std::string raw = entropy.bytes(32);
  const std::uint64_t serial = entropy.word() >> 1;
  std::string asked = parts_->texts + text_of(leaf, raw, now);
  if (const net::Identity* known = Signed::lately().find(asked)) return *known;
  auto made = make_leaf(leaf, parts_->issuer, parts_->key, raw, serial, now);
  if (made) Signed::lately().keep(std::move(asked), *made);
  return made;
}

std::optional<net::Identity> sign_leaf(const SigningAuthority& authority, const Leaf& leaf,
                                       Entropy& entropy, Instant now) {
  const auto signer = Signer::read(authority);
  return signer ? signer->sign(leaf, entropy, now) : std::nullopt;
}

namespace {

struct NewAuthority {
  Certificate certificate;
  Key key;
  std::string raw;
};

NewAuthority new_authority(const std::string& organization, Entropy& entropy, Instant now) {
  std::string raw = entropy.bytes(32);
  Key key = from_raw(raw);
  Certificate made{X509_new()};
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()), entropy.word() >> 1);
  ASN1_TIME_set(X509_getm_notBefore(made.get()), seconds(now));
  ASN1_TIME_set(X509_getm_notAfter(made.get()), seconds(now + std::chrono::hours{87600}));
  if (!organization.empty()) add_name(X509_get_subject_name(made.get()), "O", organization);
  X509_set_issuer_name(made.get(), X509_get_subject_name(made.get()));
  if (!set_public_key(made.get(), key.get())) throw Error(Fault::Bug, "no Ed25519 key");
  extend(made.get(), made.get(), NID_basic_constraints, "critical,CA:TRUE");
  extend(made.get(), made.get(), NID_key_usage, "critical,digitalSignature,keyCertSign");
  extend(made.get(), made.get(), NID_subject_key_identifier, "hash");
  X509_sign(made.get(), key.get(), nullptr);
  return {std::move(made), std::move(key), std::move(raw)};
}

}  // namespace

net::Identity sign_by_nobody(const Leaf& leaf, Entropy& entropy, Instant now) {
  SeededEntropy chance{entropy.word()};
  const std::string raw = chance.bytes(32);
  std::string asked = "nobody " + text_of(leaf, raw, now);
  if (const net::Identity* known = Signed::lately().find(asked)) return *known;
  const NewAuthority authority = new_authority("", chance, now);
  net::Identity made =
      make_leaf(leaf, authority.certificate, authority.key, raw, chance.word() >> 1, now).value();
  Signed::lately().keep(std::move(asked), made);
  return made;
}

SigningAuthority make_authority(const std::string& organization, Entropy& entropy, Instant now) {
  const NewAuthority made = new_authority(organization, entropy, now);
  const Bio out{BIO_new(BIO_s_mem())};
  PEM_write_bio_X509(out.get(), made.certificate.get());
  return {text_of(out.get()), talos_key_pem(ed25519_pem(made.raw))};
}

std::vector<std::string> organizations(std::string_view der) {
  const auto* data = reinterpret_cast<const unsigned char*>(der.data());
  const Certificate certificate{d2i_X509(nullptr, &data, static_cast<long>(der.size()))};
  std::vector<std::string> found;
  if (!certificate) return found;
  const X509_NAME* name = X509_get_subject_name(certificate.get());
  for (int at = X509_NAME_get_index_by_NID(name, NID_organizationName, -1); at >= 0;
       at = X509_NAME_get_index_by_NID(name, NID_organizationName, at)) {
    const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at));
    found.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                       static_cast<std::size_t>(ASN1_STRING_length(text)));
  }
  return found;
}

std::string talos_key_pem(std::string_view pem) {
  return replace_all(
      pem, " PRIVATE KEY-----",
      pem.find("EC PRIVATE KEY") != pem.npos ? " PRIVATE KEY-----" : " ED25519 PRIVATE KEY-----");
}

}  // namespace rocca::lab::talos
