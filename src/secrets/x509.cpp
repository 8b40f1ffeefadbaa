#include "secrets/x509.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "secrets/crypto.hpp"
#include "secrets/ecdsa.hpp"
#include "secrets/pem.hpp"
#include "secrets/x509_key.hpp"

#include <fmt/format.h>
#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace rocca::secrets {

namespace {

using X509Handle = Handle<X509, X509_free>;
using BasicConstraints = Handle<BASIC_CONSTRAINTS, BASIC_CONSTRAINTS_free>;
using BitString = Handle<ASN1_BIT_STRING, ASN1_BIT_STRING_free>;
using OctetString = Handle<ASN1_OCTET_STRING, ASN1_OCTET_STRING_free>;
using AuthorityKeyId = Handle<AUTHORITY_KEYID, AUTHORITY_KEYID_free>;
using ExtendedKeyUsage = Handle<EXTENDED_KEY_USAGE, EXTENDED_KEY_USAGE_free>;
using GeneralNames = Handle<GENERAL_NAMES, GENERAL_NAMES_free>;

/// The bits of keyUsage in their order (RFC 5280 4.2.1.3).
constexpr std::array<const char*, 9> usage_names{
    "digital_signature", "content_commitment", "key_encipherment",
    "data_encipherment", "key_agreement",      "key_cert_sign",
    "crl_sign",          "encipher_only",      "decipher_only"};

const unsigned char* in(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::string bytes_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

std::string oid_of(const ASN1_OBJECT* object) {
  char text[128];
  const int size = OBJ_obj2txt(text, sizeof text, object, 1);
  return {text, static_cast<std::size_t>(std::max(0, std::min<int>(size, sizeof text - 1)))};
}

Instant instant_of(const ASN1_TIME* time, std::string_view what) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1)
    throw Error(Fault::Usage, fmt::format("{} has a date that is none", what));
  return Instant(std::chrono::seconds(timegm(&parts)));
}

std::vector<std::string> names_of(const X509_NAME* name) {
  std::vector<std::string> result;
  for (int i = 0; i < X509_NAME_entry_count(name); ++i) {
    const X509_NAME_ENTRY* entry = X509_NAME_get_entry(name, i);
    const ASN1_OBJECT* object = X509_NAME_ENTRY_get_object(entry);
    const int nid = OBJ_obj2nid(object);
    const std::string label = nid == NID_undef ? oid_of(object) : OBJ_nid2sn(nid);
    unsigned char* text = nullptr;
    const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry));
    result.push_back(
        label + "=" +
        (size > 0 ? std::string(reinterpret_cast<char*>(text), static_cast<std::size_t>(size))
                  : ""));
    OPENSSL_free(text);
  }
  return result;
}

/// The decoded extension, or nothing where it is absent or cannot be read.
template <class Wanted>
Wanted extension(const X509* x509, int nid) {
  return Wanted{
      static_cast<typename Wanted::pointer>(X509_get_ext_d2i(x509, nid, nullptr, nullptr))};
}

void read_names(const X509* x509, Certificate& certificate) {
  const auto names = extension<GeneralNames>(x509, NID_subject_alt_name);
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) certificate.dns_names.push_back(bytes_of(name->d.dNSName));
    if (name->type != GEN_IPADD) continue;
    const std::string bytes = bytes_of(name->d.iPAddress);
    if (bytes.size() == 4) {
      std::uint32_t number = 0;
      for (const char c : bytes) number = (number << 8) | static_cast<unsigned char>(c);
      certificate.addresses.push_back(IpAddress::v4(number));
    } else if (bytes.size() == 16) {
      std::array<std::uint8_t, 16> v6{};
      std::copy(bytes.begin(), bytes.end(), v6.begin());
      certificate.addresses.push_back(IpAddress::v6(v6));
    }
  }
}

void read_extensions(const X509* x509, Certificate& certificate) {
  for (int i = 0; i < X509_get_ext_count(x509); ++i) {
    X509_EXTENSION* found = X509_get_ext(x509, i);
    certificate.extensions.push_back(
        {oid_of(X509_EXTENSION_get_object(found)), X509_EXTENSION_get_critical(found) == 1});
  }
  if (const auto basic = extension<BasicConstraints>(x509, NID_basic_constraints)) {
    certificate.authority = basic->ca != 0;
    if (basic->pathlen != nullptr) certificate.path_length = ASN1_INTEGER_get(basic->pathlen);
  }
  if (const auto usage = extension<BitString>(x509, NID_key_usage))
    for (std::size_t bit = 0; bit < usage_names.size(); ++bit)
      if (ASN1_BIT_STRING_get_bit(usage.get(), static_cast<int>(bit)) == 1)
        certificate.key_usage.emplace_back(usage_names[bit]);
  if (const auto usage = extension<ExtendedKeyUsage>(x509, NID_ext_key_usage))
    for (int i = 0; i < sk_ASN1_OBJECT_num(usage.get()); ++i) {
      const ASN1_OBJECT* object = sk_ASN1_OBJECT_value(usage.get(), i);
      const int nid = OBJ_obj2nid(object);
      certificate.extended_key_usage.push_back(nid == NID_undef ? oid_of(object) : OBJ_nid2sn(nid));
    }
  if (const auto id = extension<OctetString>(x509, NID_subject_key_identifier))
    certificate.subject_key_id = bytes_of(id.get());
  if (const auto id = extension<AuthorityKeyId>(x509, NID_authority_key_identifier);
      id && id->keyid != nullptr)
    certificate.authority_key_id = bytes_of(id->keyid);
  read_names(x509, certificate);
}

Certificate describe(X509Handle owned, std::string_view what) {
  Certificate certificate;
  X509* const x509 = owned.get();
  unsigned char* der = nullptr;
  const int size = i2d_X509(x509, &der);
  if (size <= 0) throw Error(Fault::Bug, "the crypto library failed: writing a certificate");
  certificate.pem =
      to_pem("CERTIFICATE", {reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)})
          .reveal();
  OPENSSL_free(der);
  certificate.subject = names_of(X509_get_subject_name(x509));
  certificate.issuer = names_of(X509_get_issuer_name(x509));
  certificate.version = static_cast<int>(X509_get_version(x509)) + 1;
  certificate.serial = bytes_of(X509_get0_serialNumber(x509));
  certificate.not_before = instant_of(X509_get0_notBefore(x509), what);
  certificate.not_after = instant_of(X509_get0_notAfter(x509), what);
  const X509_ALGOR* algorithm = nullptr;
  X509_get0_signature(nullptr, &algorithm, x509);
  const ASN1_OBJECT* object = nullptr;
  X509_ALGOR_get0(&object, nullptr, nullptr, algorithm);
  certificate.signature_algorithm = oid_of(object);
  EVP_PKEY* key = X509_get0_pubkey(x509);
  if (key == nullptr)
    throw Error(Fault::Usage, fmt::format("{} holds a public key that cannot be read", what));
  certificate.key = describe_key(key);
  certificate.public_key = public_key_der(key);
  read_extensions(x509, certificate);
  ERR_clear_error();
  certificate.decoded = std::move(owned);
  return certificate;
}

X509Handle decode(const PemBlock& block, std::string_view what) {
  if (block.label != "CERTIFICATE")
    throw Error(Fault::Usage,
                fmt::format("{} holds a `{}` where a certificate is meant", what, block.label));
  const unsigned char* at = in(block.der.reveal());
  const unsigned char* end = at + block.der.size();
  X509Handle x509{d2i_X509(nullptr, &at, static_cast<long>(block.der.size()))};
  ERR_clear_error();
  if (!x509 || at != end)
    throw Error(Fault::Usage,
                fmt::format("{} is labelled as a certificate, but its content is none", what));
  return x509;
}

std::shared_ptr<X509> decoded_of(const Certificate& certificate, std::string_view what) {
  if (certificate.decoded) return certificate.decoded;
  return decode(parse_one_pem(certificate.pem, what), what);
}

// ---- minting ----

void must(bool worked) {
  if (!worked) throw Error(Fault::Bug, "the crypto library failed: making a certificate");
}

bool is_printable(std::string_view text) {
  return text.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 '()+,-./:=?") ==
         std::string_view::npos;
}

/// Go puts all values of one attribute into one RDN, and takes PrintableString where it can.
void add_name(X509_NAME* name, int nid, const std::string& value, bool same_rdn) {
  const int type = is_printable(value) ? V_ASN1_PRINTABLESTRING : V_ASN1_UTF8STRING;
  must(X509_NAME_add_entry_by_NID(name, nid, type, in(value), static_cast<int>(value.size()), -1,
                                  same_rdn ? -1 : 0) == 1);
}

void set_time(ASN1_TIME* field, Instant instant) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(instant).time_since_epoch().count();
  must(ASN1_TIME_set(field, static_cast<time_t>(seconds)) != nullptr);
}

void add_extension(X509* x509, int nid, void* value, bool critical) {
  must(X509_add1_ext_i2d(x509, nid, value, critical ? 1 : 0, X509V3_ADD_APPEND) == 1);
}

struct Shape {
  std::vector<std::string> organizations;
  std::string common_name;
  Instant not_before;
  Instant not_after;
  std::vector<int> usage_bits;
  std::vector<int> extended_usage;  // NIDs
  bool authority = false;
  std::vector<std::string> dns_names;
  std::vector<IpAddress> addresses;
};

constexpr int digital_signature = 0;
constexpr int key_encipherment = 2;
constexpr int key_cert_sign = 5;

void add_usages(X509* x509, const Shape& shape) {
  const BitString usage{ASN1_BIT_STRING_new()};
  for (const int bit : shape.usage_bits) must(ASN1_BIT_STRING_set_bit(usage.get(), bit, 1) == 1);
  add_extension(x509, NID_key_usage, usage.get(), true);
  const ExtendedKeyUsage extended{EXTENDED_KEY_USAGE_new()};
  for (const int nid : shape.extended_usage)
    must(sk_ASN1_OBJECT_push(extended.get(), OBJ_nid2obj(nid)) > 0);
  add_extension(x509, NID_ext_key_usage, extended.get(), false);
}

void add_alternative_names(X509* x509, const Shape& shape) {
  if (shape.dns_names.empty() && shape.addresses.empty()) return;
  const GeneralNames names{GENERAL_NAMES_new()};
  const auto add = [&](int type, ASN1_STRING* text) {
    GENERAL_NAME* name = GENERAL_NAME_new();
    must(name != nullptr && text != nullptr);
    GENERAL_NAME_set0_value(name, type, text);
    must(sk_GENERAL_NAME_push(names.get(), name) > 0);
  };
  for (const std::string& dns : shape.dns_names) {
    ASN1_STRING* text = ASN1_STRING_type_new(V_ASN1_IA5STRING);
    must(text != nullptr && ASN1_STRING_set(text, dns.data(), static_cast<int>(dns.size())) == 1);
    add(GEN_DNS, text);
  }
  for (const IpAddress& address : shape.addresses) {
    const auto& bytes = address.bytes();
    const std::size_t skip = address.is_v4() ? 12 : 0;
    ASN1_STRING* text = ASN1_STRING_type_new(V_ASN1_OCTET_STRING);
    must(text != nullptr &&
         ASN1_STRING_set(text, bytes.data() + skip, static_cast<int>(bytes.size() - skip)) == 1);
    add(GEN_IPADD, text);
  }
  // RFC 5280 4.2.1.6: critical where there is no subject.
  add_extension(x509, NID_subject_alt_name, names.get(),
                shape.organizations.empty() && shape.common_name.empty());
}

/// Extensions stand in the order in which Go writes them.
void add_extensions(X509* x509, const Shape& shape, const Certificate* issuer) {
  add_usages(x509, shape);
  if (shape.authority) {
    const BasicConstraints basic{BASIC_CONSTRAINTS_new()};
    basic->ca = 0xff;
    add_extension(x509, NID_basic_constraints, basic.get(), true);
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    must(X509_pubkey_digest(x509, EVP_sha1(), digest.data(), &size) == 1);
    const OctetString id{ASN1_OCTET_STRING_new()};
    must(ASN1_OCTET_STRING_set(id.get(), digest.data(), static_cast<int>(size)) == 1);
    add_extension(x509, NID_subject_key_identifier, id.get(), false);
  }
  if (issuer != nullptr && !issuer->subject_key_id.empty()) {
    const AuthorityKeyId id{AUTHORITY_KEYID_new()};
    id->keyid = ASN1_OCTET_STRING_new();
    must(ASN1_OCTET_STRING_set(id->keyid, in(issuer->subject_key_id),
                               static_cast<int>(issuer->subject_key_id.size())) == 1);
    add_extension(x509, NID_authority_key_identifier, id.get(), false);
  }
  add_alternative_names(x509, shape);
}

std::string der_header(unsigned char tag, std::size_t size) {
  std::string header(1, static_cast<char>(tag));
  if (size < 0x80) return header + static_cast<char>(size);
  std::string length;
  for (; size != 0; size >>= 8) length.insert(0, 1, static_cast<char>(size & 0xff));
  return header + static_cast<char>(0x80 | length.size()) + length;
}

/// Ed25519 and RSA sign the same text in the same way every time. For ECDSA the library's signature
/// only fills in the algorithm; ours takes its place.
X509Handle sign(X509* x509, const PrivateKey& signer) {
  const EVP_MD* digest = signer.algorithm() == KeyAlgorithm::Ed25519 ? nullptr : EVP_sha256();
  must(X509_sign(x509, signer.data().key.get(), digest) > 0);
  const auto taken = [](unsigned char* bytes, int size) {
    must(size > 0);
    std::string der(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    OPENSSL_free(bytes);
    return der;
  };
  unsigned char* bytes = nullptr;
  int size = 0;
  std::string der;
  if (signer.algorithm() == KeyAlgorithm::EcdsaP256) {
    size = i2d_re_X509_tbs(x509, &bytes);
    const std::string body = taken(bytes, size);
    const X509_ALGOR* algorithm = nullptr;
    X509_get0_signature(nullptr, &algorithm, x509);
    bytes = nullptr;
    size = i2d_X509_ALGOR(algorithm, &bytes);
    const std::string signature = sign_p256(signer, body);
    der = body + taken(bytes, size) + der_header(0x03, signature.size() + 1) + '\0' + signature;
    der = der_header(0x30, der.size()) + der;
  } else {
    size = i2d_X509(x509, &bytes);
    der = taken(bytes, size);
  }
  const unsigned char* at = in(der);
  X509Handle result{d2i_X509(nullptr, &at, static_cast<long>(der.size()))};
  must(result != nullptr);
  return result;
}

CertifiedKey mint(PrivateKey key, const Shape& shape, const CertifiedKey* issuer,
                  Entropy& entropy) {
  const X509Handle x509{X509_new()};
  must(x509 && X509_set_version(x509.get(), X509_VERSION_3) == 1);
  const std::string serial = entropy.bytes(16);
  const Handle<BIGNUM, BN_free> number{
      BN_bin2bn(in(serial), static_cast<int>(serial.size()), nullptr)};
  must(number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x509.get())) != nullptr);
  set_time(X509_getm_notBefore(x509.get()), shape.not_before);
  set_time(X509_getm_notAfter(x509.get()), shape.not_after);

  X509_NAME* subject = X509_get_subject_name(x509.get());
  bool first = true;
  for (const std::string& organization : shape.organizations) {
    add_name(subject, NID_organizationName, organization, !first);
    first = false;
  }
  if (!shape.common_name.empty()) add_name(subject, NID_commonName, shape.common_name, false);
  std::shared_ptr<X509> parent;
  if (issuer != nullptr) parent = decoded_of(issuer->certificate, "the authority");
  must(X509_set_issuer_name(x509.get(), parent ? X509_get_subject_name(parent.get()) : subject) ==
       1);
  must(X509_set_pubkey(x509.get(), key.data().key.get()) == 1);
  add_extensions(x509.get(), shape, issuer != nullptr ? &issuer->certificate : nullptr);

  X509Handle signed_one = sign(x509.get(), issuer != nullptr ? issuer->key : key);
  return {describe(std::move(signed_one), "the new certificate"), std::move(key)};
}

KeyAlgorithm leaf_algorithm(const CertifiedKey& authority) {
  return authority.key.algorithm() == KeyAlgorithm::Ed25519 ? KeyAlgorithm::Ed25519
                                                            : KeyAlgorithm::EcdsaP256;
}

}  // namespace

Certificate Certificate::parse(std::string_view pem, std::string_view what) {
  return describe(decode(parse_one_pem(pem, what), what), what);
}

std::vector<Certificate> Certificate::parse_all(std::string_view pem, std::string_view what) {
  std::vector<Certificate> found;
  for (const PemBlock& block : parse_pem(pem, what))
    found.push_back(describe(decode(block, what), what));
  return found;
}

bool Certificate::issued_by(const Certificate& issuer_certificate) const {
  const auto leaf = decoded_of(*this, "the certificate");
  const auto parent = decoded_of(issuer_certificate, "the authority");
  const bool signed_by = X509_verify(leaf.get(), X509_get0_pubkey(parent.get())) == 1;
  ERR_clear_error();
  return signed_by &&
         X509_NAME_cmp(X509_get_issuer_name(leaf.get()), X509_get_subject_name(parent.get())) == 0;
}

std::string Certificate::fingerprint() const {
  return to_base64(crypto::sha256(public_key));
}

CertifiedKey mint_authority(Authority authority, Instant now, Entropy& entropy) {
  Shape shape;
  // The aggregator's is empty: Talos passes a name for it, but never uses it.
  if (authority == Authority::Os) shape.organizations = {"talos"};
  if (authority == Authority::Kubernetes) shape.organizations = {"kubernetes"};
  if (authority == Authority::Etcd) shape.organizations = {"etcd"};
  shape.not_before = now;
  shape.not_after = now + authority_lifetime;
  shape.usage_bits = {digital_signature, key_cert_sign};
  shape.extended_usage = {NID_server_auth, NID_client_auth};
  shape.authority = true;
  const auto algorithm =
      authority == Authority::Os ? KeyAlgorithm::Ed25519 : KeyAlgorithm::EcdsaP256;
  return mint(PrivateKey::generate(algorithm, entropy), shape, nullptr, entropy);
}

CertifiedKey mint_talos_client(const CertifiedKey& os, std::vector<std::string> roles, Instant now,
                               Entropy& entropy, Duration lifetime) {
  Shape shape;
  shape.organizations = std::move(roles);
  std::sort(shape.organizations.begin(), shape.organizations.end());
  shape.not_before = now;
  shape.not_after = now + lifetime;
  shape.usage_bits = {digital_signature};
  shape.extended_usage = {NID_client_auth};
  return mint(PrivateKey::generate(leaf_algorithm(os), entropy), shape, &os, entropy);
}

CertifiedKey mint_kubernetes_admin(const CertifiedKey& kubernetes, Instant now, Entropy& entropy,
                                   Duration lifetime) {
  Shape shape;
  shape.organizations = {"system:masters"};
  shape.common_name = "admin";
  shape.not_before = now - std::chrono::seconds(10);
  shape.not_after = now + lifetime;
  shape.usage_bits = {digital_signature, key_encipherment};
  shape.extended_usage = {NID_client_auth};
  return mint(PrivateKey::generate(leaf_algorithm(kubernetes), entropy), shape, &kubernetes,
              entropy);
}

CertifiedKey mint_leaf(const CertifiedKey& authority, const Leaf& leaf, Instant now,
                       Entropy& entropy) {
  Shape shape;
  shape.organizations = leaf.organizations;
  shape.common_name = leaf.common_name;
  shape.not_before = now - std::chrono::seconds(10);
  shape.not_after = now + leaf.lifetime;
  shape.usage_bits = {digital_signature};
  if (leaf_algorithm(authority) != KeyAlgorithm::Ed25519)
    shape.usage_bits.push_back(key_encipherment);
  if (leaf.use != LeafUse::Client) shape.extended_usage.push_back(NID_server_auth);
  if (leaf.use != LeafUse::Server) shape.extended_usage.push_back(NID_client_auth);
  shape.dns_names = leaf.dns_names;
  shape.addresses = leaf.addresses;
  return mint(PrivateKey::generate(leaf_algorithm(authority), entropy), shape, &authority, entropy);
}

Leaf apid_server(std::vector<std::string> dns_names, std::vector<IpAddress> addresses) {
  Leaf leaf;
  leaf.common_name = dns_names.empty() ? "apid" : dns_names.front();
  leaf.dns_names = std::move(dns_names);
  leaf.addresses = std::move(addresses);
  return leaf;
}

Leaf kube_apiserver(std::vector<std::string> dns_names, std::vector<IpAddress> addresses) {
  Leaf leaf;
  leaf.organizations = {"kube-master"};
  leaf.common_name = "kube-apiserver";
  leaf.dns_names = std::move(dns_names);
  leaf.addresses = std::move(addresses);
  return leaf;
}

Leaf kubelet_client() {
  Leaf leaf;
  leaf.organizations = {"system:masters"};
  leaf.common_name = "apiserver-kubelet-client";
  leaf.use = LeafUse::Client;
  return leaf;
}

Leaf front_proxy_client() {
  Leaf leaf;
  leaf.common_name = "front-proxy-client";
  leaf.use = LeafUse::Client;
  return leaf;
}

Leaf etcd_server(std::string name, std::vector<std::string> dns_names,
                 std::vector<IpAddress> addresses) {
  Leaf leaf;
  leaf.organizations = {"etcd"};
  leaf.common_name = std::move(name);
  leaf.use = LeafUse::Both;  // peers are servers to each other and clients of each other
  leaf.dns_names = std::move(dns_names);
  leaf.addresses = std::move(addresses);
  return leaf;
}

Leaf etcd_client(std::string name) {
  Leaf leaf;
  leaf.organizations = {"etcd"};
  leaf.common_name = std::move(name);
  leaf.use = LeafUse::Client;
  return leaf;
}

}  // namespace rocca::secrets
