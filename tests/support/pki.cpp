#include "support/pki.hpp"

#include "base/handle.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <stdexcept>

namespace rocca::test {
namespace {

using Bio = Handle<BIO, BIO_free_all>;
using Certificate = Handle<X509, X509_free>;
using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using Extension = Handle<X509_EXTENSION, X509_EXTENSION_free>;

Key make_key(KeyType type) {
  switch (type) {
    case KeyType::Ed25519:
      return Key{EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")};
    case KeyType::P256:
      return Key{EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")};
    case KeyType::Rsa:
      return Key{EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", static_cast<std::size_t>(2048))};
  }
  throw std::logic_error("no such key type");
}

std::string text(BIO* bio) {
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Certificate read_certificate(const std::string& pem) {
  const Bio bio{BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))};
  return Certificate{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)};
}

Key read_key(const std::string& pem) {
  const Bio bio{BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))};
  return Key{PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr)};
}

void add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension{X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str())};
  if (!extension) throw std::logic_error("bad extension: " + value);
  X509_add_ext(certificate, extension.get(), -1);
}

void add_name(X509_NAME* name, const char* field, const std::string& value) {
  X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(value.c_str()), -1, -1, 0);
}

}  // namespace

Pki make_pki(const PkiSpec& spec, const Pki* issuer) {
  const Key key = make_key(spec.key);
  const Key signer = issuer != nullptr ? read_key(issuer->key) : nullptr;
  const Certificate parent = issuer != nullptr ? read_certificate(issuer->certificate) : nullptr;
  const Certificate certificate{X509_new()};
  X509* x509 = certificate.get();

  X509_set_version(x509, 2);
  std::uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(x509), (serial >> 1U) | 1U);
  X509_gmtime_adj(X509_getm_notBefore(x509), spec.valid_from);
  X509_gmtime_adj(X509_getm_notAfter(x509), spec.valid_to);
  if (!spec.organization.empty()) add_name(X509_get_subject_name(x509), "O", spec.organization);
  add_name(X509_get_subject_name(x509), "CN", spec.name);
  X509_set_issuer_name(x509, X509_get_subject_name(parent ? parent.get() : x509));
  X509_set_pubkey(x509, key.get());

  X509* above = parent ? parent.get() : x509;
  add_extension(x509, above, NID_subject_key_identifier, "hash");
  if (spec.authority) {
    add_extension(x509, above, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(x509, above, NID_key_usage, "critical,keyCertSign,digitalSignature");
  } else {
    add_extension(x509, above, NID_key_usage, "critical,digitalSignature");
    std::string names = "DNS:localhost";
    for (const auto& address : spec.addresses) names += ",IP:" + address;
    add_extension(x509, above, NID_subject_alt_name, names);
  }
  std::string usages;
  for (const auto& usage : spec.usages) usages += (usages.empty() ? "" : ",") + usage;
  if (!usages.empty()) add_extension(x509, above, NID_ext_key_usage, usages);

  EVP_PKEY* signing = signer ? signer.get() : key.get();
  // Ed25519 hashes by itself and refuses to be told how.
  const EVP_MD* digest = EVP_PKEY_is_a(signing, "ED25519") == 1 ? nullptr : EVP_sha256();
  if (X509_sign(x509, signing, digest) == 0) throw std::logic_error("cannot sign a certificate");

  const Bio certificate_text{BIO_new(BIO_s_mem())};
  const Bio key_text{BIO_new(BIO_s_mem())};
  PEM_write_bio_X509(certificate_text.get(), x509);
  PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {text(certificate_text.get()), text(key_text.get())};
}

std::string certificate_der(const std::string& pem) {
  const Certificate certificate = read_certificate(pem);
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate.get(), &der);
  std::string result{reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)};
  OPENSSL_free(der);
  return result;
}

}  // namespace rocca::test
