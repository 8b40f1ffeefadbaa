#include "lab/sim/pki.hpp"

#include "base/address.hpp"
#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <unordered_map>

namespace rocca::lab {

namespace {

using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using Certificate = Handle<X509, X509_free>;
using Bio = Handle<BIO, BIO_free_all>;
using Store = Handle<X509_STORE, X509_STORE_free>;
using StoreContext = Handle<X509_STORE_CTX, X509_STORE_CTX_free>;
using Extension = Handle<X509_EXTENSION, X509_EXTENSION_free>;

struct StackFree {
  void operator()(STACK_OF(X509) * stack) const noexcept { sk_X509_pop_free(stack, X509_free); }
};
using Stack = std::unique_ptr<STACK_OF(X509), StackFree>;

[[noreturn]] void broken(const char* what) {
  throw Error(Fault::Bug, fmt::format("the lab's certificates: {} failed", what));
}

Key make_key(const std::string& raw) {
  Key key{EVP_PKEY_new_raw_private_key(
      EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(raw.data()), raw.size())};
  if (!key) broken("making a key");
  return key;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string to_pem(X509* certificate) {
  const Bio bio{BIO_new(BIO_s_mem())};
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) broken("writing a certificate");
  return text_of(bio.get());
}

std::string to_pem(EVP_PKEY* key) {
  const Bio bio{BIO_new(BIO_s_mem())};
  if (PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    broken("writing a key");
  return text_of(bio.get());
}

std::string der_of(X509* certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate, &der);
  if (size <= 0) broken("writing a certificate");
  std::string bytes(reinterpret_cast<char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  return bytes;
}

/// What OpenSSL made of texts lately. It takes longer to read a certificate than to verify it, and
/// the same few are shown in every exchange, in thousands of lives one after the other.
template <class T>
class Lately {
 public:
  const T* find(const std::string& text) const {
    const auto found = all_.find(text);
    return found == all_.end() ? nullptr : &found->second;
  }
  const T& keep(std::string text, T made) {
    constexpr std::size_t many = 512;
    if (all_.size() >= many) all_.clear();
    return all_.insert_or_assign(std::move(text), std::move(made)).first->second;
  }

 private:
  std::unordered_map<std::string, T> all_;
};

Lately<std::vector<Certificate>>& read_lately() {
  thread_local Lately<std::vector<Certificate>> texts;
  return texts;
}

Stack read_all(std::string_view text) {
  const std::string pem(text);
  const std::vector<Certificate>* known = read_lately().find(pem);
  if (known == nullptr) {
    std::vector<Certificate> read;
    const Bio bio{BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))};
    while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
      read.emplace_back(next);
    known = &read_lately().keep(pem, std::move(read));
  }
  Stack all{sk_X509_new_null()};
  for (const Certificate& each : *known) {
    X509_up_ref(each.get());
    sk_X509_push(all.get(), each.get());
  }
  return all;
}

std::time_t seconds(Instant instant) {
  return static_cast<std::time_t>(
      std::chrono::duration_cast<std::chrono::seconds>(instant.time_since_epoch()).count());
}

void add_extension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension{X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str())};
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1)
    broken("adding an extension");
}

void add_name(X509_NAME* name, const char* field, const std::string& value) {
  X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(value.data()),
                             static_cast<int>(value.size()), -1, 0);
}

Certificate blank(std::uint64_t serial, Instant from, Instant to) {
  Certificate certificate{X509_new()};
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial);
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), seconds(from));
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), seconds(to));
  return certificate;
}

std::string name_text(const X509_NAME* name) {
  const Bio bio{BIO_new(BIO_s_mem())};
  // Proxmox prints it the way openssl's compat form does: /CN=pve1.home
  char* line = X509_NAME_oneline(name, nullptr, 0);
  std::string text = line == nullptr ? "" : line;
  OPENSSL_free(line);
  return text;
}

std::int64_t unix_time(const ASN1_TIME* time) {
  std::tm parts{};
  ASN1_TIME_to_tm(time, &parts);
  return static_cast<std::int64_t>(timegm(&parts));
}

std::optional<std::string> verify(const Stack& chain, const std::string& authority_pem,
                                  std::string_view host, Instant now, int purpose) {
  if (sk_X509_num(chain.get()) == 0) return "no certificate";
  const Store store{X509_STORE_new()};
  const Stack anchors = read_all(authority_pem);
  for (int i = 0; i < sk_X509_num(anchors.get()); ++i)
    X509_STORE_add_cert(store.get(), sk_X509_value(anchors.get(), i));
  const StoreContext context{X509_STORE_CTX_new()};
  X509_STORE_CTX_init(context.get(), store.get(), sk_X509_value(chain.get(), 0), chain.get());
  X509_VERIFY_PARAM* param = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(param, seconds(now));
  X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
  X509_VERIFY_PARAM_set_purpose(param, purpose);
  if (!host.empty()) {
    const std::string name(host);
    if (IpAddress::parse(name))
      X509_VERIFY_PARAM_set1_ip_asc(param, name.c_str());
    else
      X509_VERIFY_PARAM_set1_host(param, name.c_str(), name.size());
  }
  if (X509_verify_cert(context.get()) == 1) return std::nullopt;
  return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

}  // namespace

Authority::Authority(SeededEntropy entropy, std::string common_name, Instant now)
    : Authority(std::move(entropy), Name{{"CN", std::move(common_name)}}, now) {}

Authority::Authority(SeededEntropy entropy, const Name& name, Instant now)
    : entropy_(std::move(entropy)), key_(entropy_.bytes(32)) {
  const std::uint64_t serial = entropy_.word() >> 1;
  thread_local Lately<std::string> made;
  std::string asked = fmt::format("{} {} {}", key_, serial, now.time_since_epoch().count());
  for (const auto& [field, value] : name) asked += "\n" + field + "=" + value;
  if (const std::string* known = made.find(asked)) {
    certificate_pem_ = *known;
    return;
  }
  const Key key = make_key(key_);
  const Certificate certificate =
      blank(serial, now - std::chrono::hours{24}, now + std::chrono::hours{24 * 3650});
  for (const auto& [field, value] : name) {
    add_name(X509_get_subject_name(certificate.get()), field.c_str(), value);
    add_name(X509_get_issuer_name(certificate.get()), field.c_str(), value);
  }
  X509_set_pubkey(certificate.get(), key.get());
  add_extension(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
  add_extension(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash");
  add_extension(certificate.get(), certificate.get(), NID_key_usage,
                "critical,keyCertSign,cRLSign");
  if (X509_sign(certificate.get(), key.get(), nullptr) == 0) broken("signing");
  certificate_pem_ = to_pem(certificate.get());
  made.keep(std::move(asked), certificate_pem_);
}

net::Identity Authority::issue(const Subject& subject, Instant now) {
  const std::string raw = entropy_.bytes(32);
  const std::uint64_t serial = entropy_.word() >> 1;
  thread_local Lately<net::Identity> made;
  std::string asked =
      fmt::format("{} {} {} {} {} {} {} {} {}", certificate_pem_, raw, serial,
                  now.time_since_epoch().count(), subject.valid_for.count(), subject.client,
                  subject.organization, subject.common_name, join(subject.names, ","));
  for (const auto& [field, value] : subject.before) asked += "\n" + field + "=" + value;
  if (const net::Identity* known = made.find(asked)) return *known;
  const Key signer = make_key(key_);
  const Key key = make_key(raw);
  const Stack issuer = read_all(certificate_pem_);
  X509* authority = sk_X509_value(issuer.get(), 0);
  const Certificate certificate =
      blank(serial, now - std::chrono::hours{1}, now + subject.valid_for);
  X509_NAME* name = X509_get_subject_name(certificate.get());
  for (const auto& [field, value] : subject.before) add_name(name, field.c_str(), value);
  if (!subject.organization.empty()) add_name(name, "O", subject.organization);
  add_name(name, "CN", subject.common_name);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(authority));
  X509_set_pubkey(certificate.get(), key.get());
  std::vector<std::string> names;
  for (const std::string& each : subject.names)
    names.push_back((IpAddress::parse(each) ? "IP:" : "DNS:") + each);
  if (!names.empty())
    add_extension(certificate.get(), authority, NID_subject_alt_name, join(names, ","));
  add_extension(certificate.get(), authority, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(certificate.get(), authority, NID_ext_key_usage,
                subject.client ? "clientAuth" : "serverAuth");
  if (X509_sign(certificate.get(), signer.get(), nullptr) == 0) broken("signing");
  return made.keep(std::move(asked), {to_pem(certificate.get()), Secret::take(to_pem(key.get()))});
}

std::optional<std::string> first_certificate_der(std::string_view pem) {
  const Stack chain = read_all(pem);
  if (sk_X509_num(chain.get()) == 0) return std::nullopt;
  return der_of(sk_X509_value(chain.get(), 0));
}

CertificateFacts certificate_facts(std::string_view pem) {
  const Stack chain = read_all(pem);
  if (sk_X509_num(chain.get()) == 0) broken("reading a certificate");
  X509* certificate = sk_X509_value(chain.get(), 0);
  CertificateFacts facts;
  facts.subject = name_text(X509_get_subject_name(certificate));
  facts.issuer = name_text(X509_get_issuer_name(certificate));
  const EVP_PKEY* key = X509_get0_pubkey(certificate);
  facts.key_type = OBJ_nid2ln(EVP_PKEY_get_base_id(key));
  facts.key_bits = EVP_PKEY_get_bits(key);
  facts.not_before = unix_time(X509_get0_notBefore(certificate));
  facts.not_after = unix_time(X509_get0_notAfter(certificate));
  using Names = Handle<GENERAL_NAMES, GENERAL_NAMES_free>;
  const Names names{static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr))};
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    const unsigned char* data = ASN1_STRING_get0_data(name->d.ia5);
    const std::string bytes(reinterpret_cast<const char*>(data),
                            static_cast<std::size_t>(ASN1_STRING_length(name->d.ia5)));
    if (name->type == GEN_DNS) facts.names.push_back(bytes);
    if (name->type == GEN_IPADD && bytes.size() == 16) {
      std::string groups;
      for (std::size_t at = 0; at < 16; at += 2)
        groups +=
            fmt::format("{}{:02X}{:02X}", at == 0 ? "" : ":", static_cast<unsigned char>(bytes[at]),
                        static_cast<unsigned char>(bytes[at + 1]));
      facts.names.push_back(groups);
    }
    if (name->type == GEN_IPADD && bytes.size() == 4) {
      std::uint32_t word = 0;
      for (const char c : bytes) word = word << 8 | static_cast<unsigned char>(c);
      facts.names.push_back(to_string(IpAddress::v4(word)));
    }
  }
  return facts;
}

std::optional<std::string> refuse_server(const std::string& chain_pem, const net::Tls& tls,
                                         std::string_view host, Instant now) {
  const std::string_view name = tls.server_name.empty() ? host : std::string_view(tls.server_name);
  switch (tls.trust) {
    case net::Tls::Trust::Unverified:
      return std::nullopt;
    case net::Tls::Trust::Pinned: {
      const auto der = first_certificate_der(chain_pem);
      if (der && net::Fingerprint::of_der(*der) == tls.pin) return std::nullopt;
      return "the certificate is not the pinned one";
    }
    case net::Tls::Trust::System:
      // The machine's roots know nothing of the simulated authorities.
      return verify(read_all(chain_pem), "", name, now, X509_PURPOSE_SSL_SERVER);
    case net::Tls::Trust::Authority:
      return verify(read_all(chain_pem), tls.authority_pem, name, now, X509_PURPOSE_SSL_SERVER);
  }
  return "unknown trust";
}

std::optional<std::string> refuse_client(const std::string& chain_pem,
                                         const std::string& authority_pem, Instant now) {
  return verify(read_all(chain_pem), authority_pem, "", now, X509_PURPOSE_SSL_CLIENT);
}

std::optional<LeafFacts> leaf_facts(std::string_view chain_pem) {
  const Stack chain = read_all(chain_pem);
  if (sk_X509_num(chain.get()) == 0) return std::nullopt;
  X509* leaf = sk_X509_value(chain.get(), 0);
  LeafFacts facts;
  facts.der = der_of(leaf);
  facts.not_before = unix_time(X509_get0_notBefore(leaf));
  facts.not_after = unix_time(X509_get0_notAfter(leaf));
  facts.only_client_usage = (X509_get_extension_flags(leaf) & EXFLAG_XKUSAGE) != 0 &&
                            X509_get_extended_key_usage(leaf) == XKU_SSL_CLIENT;
  return facts;
}

}  // namespace rocca::lab
