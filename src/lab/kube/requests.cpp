#include "lab/kube/requests.hpp"

#include "base/encoding.hpp"
#include "base/handle.hpp"
#include "base/strings.hpp"
#include "lab/kube/json.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace rocca::lab::kube {

namespace {

using Bio = Handle<BIO, BIO_free_all>;
using Key = Handle<EVP_PKEY, EVP_PKEY_free>;
using Request = Handle<X509_REQ, X509_REQ_free>;
using Certificate = Handle<X509, X509_free>;
using Extension = Handle<X509_EXTENSION, X509_EXTENSION_free>;

Bio reader(const std::string& text) {
  return Bio{BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))};
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

void add_name(X509_NAME* name, const char* field, const std::string& value) {
  X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(value.data()),
                             static_cast<int>(value.size()), -1, 0);
}

void free_extensions(STACK_OF(X509_EXTENSION) * list) {
  sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
}

void extend(X509* certificate, int kind, const std::string& value) {
  const Extension made{X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str())};
  if (made) X509_add_ext(certificate, made.get(), -1);
}

}  // namespace

std::string certificate_request(const Kubelet& kubelet) {
  const Key key{EVP_EC_gen("P-256")};
  const Request request{X509_REQ_new()};
  if (!key || !request) return "";
  X509_NAME* subject = X509_REQ_get_subject_name(request.get());
  add_name(subject, "O", "system:nodes");
  add_name(subject, "CN", "system:node:" + kubelet.name);
  X509_REQ_set_pubkey(request.get(), key.get());
  const std::string names = fmt::format("DNS:{},IP:{}", kubelet.name, kubelet.address);
  const Handle<STACK_OF(X509_EXTENSION), free_extensions> list{sk_X509_EXTENSION_new_null()};
  if (X509_EXTENSION* made =
          X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str()))
    sk_X509_EXTENSION_push(list.get(), made);
  X509_REQ_add_extensions(request.get(), list.get());
  X509_REQ_sign(request.get(), key.get(), EVP_sha256());
  const Bio out{BIO_new(BIO_s_mem())};
  PEM_write_bio_X509_REQ(out.get(), request.get());
  return to_base64(text_of(out.get()));
}

std::string sign_request(const text::Value& request, const std::string& authority_pem,
                         const std::string& key_pem, Instant now) {
  const std::string asked = from_base64(text_at(request, {"spec", "request"})).value_or("");
  // OpenSSL does not know the label under which Talos keeps its own keys.
  const std::string key_text = replace_all(key_pem, "ED25519 PRIVATE KEY-----", "PRIVATE KEY-----");
  const Bio request_in = reader(asked), issuer_in = reader(authority_pem);
  const Bio key_in = reader(key_text);
  const Request wanted{PEM_read_bio_X509_REQ(request_in.get(), nullptr, nullptr, nullptr)};
  const Certificate issuer{PEM_read_bio_X509(issuer_in.get(), nullptr, nullptr, nullptr)};
  const Key signer{PEM_read_bio_PrivateKey(key_in.get(), nullptr, nullptr, nullptr)};
  const Certificate made{X509_new()};
  if (!wanted || !issuer || !signer || !made) return "";
  const auto seconds = [](Instant when) {
    return static_cast<time_t>(
        std::chrono::duration_cast<std::chrono::seconds>(when.time_since_epoch()).count());
  };
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.get()),
                          static_cast<std::uint64_t>(now.time_since_epoch().count()));
  ASN1_TIME_set(X509_getm_notBefore(made.get()), seconds(now - std::chrono::minutes{5}));
  ASN1_TIME_set(X509_getm_notAfter(made.get()), seconds(now + std::chrono::hours{8760}));
  X509_set_subject_name(made.get(), X509_REQ_get_subject_name(wanted.get()));
  X509_set_issuer_name(made.get(), X509_get_subject_name(issuer.get()));
  X509_set_pubkey(made.get(), X509_REQ_get0_pubkey(wanted.get()));
  extend(made.get(), NID_key_usage, "critical,digitalSignature");
  std::vector<std::string> usages;
  if (const text::Value* list = request.find({"spec", "usages"}))
    for (const text::Value& one : list->items()) {
      if (one.text() == "server auth") usages.emplace_back("serverAuth");
      if (one.text() == "client auth") usages.emplace_back("clientAuth");
    }
  if (!usages.empty()) extend(made.get(), NID_ext_key_usage, join(usages, ","));
  const Handle<STACK_OF(X509_EXTENSION), free_extensions> list{
      X509_REQ_get_extensions(wanted.get())};
  for (int i = 0; list && i < sk_X509_EXTENSION_num(list.get()); ++i)
    X509_add_ext(made.get(), sk_X509_EXTENSION_value(list.get(), i), -1);
  const bool plain = EVP_PKEY_get_base_id(signer.get()) == EVP_PKEY_ED25519;
  if (X509_sign(made.get(), signer.get(), plain ? nullptr : EVP_sha256()) == 0) return "";
  const Bio out{BIO_new(BIO_s_mem())};
  PEM_write_bio_X509(out.get(), made.get());
  return to_base64(text_of(out.get()));
}

}  // namespace rocca::lab::kube
