#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "secrets/bundle.hpp"
#include "secrets/pem_cleanup.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::secrets {

namespace {

using text::Value;

/// One value of a bundle and where it was looked for.
struct Field {
  std::string path;
  const Value* value = nullptr;  // absent
  const Value* near = nullptr;   // the deepest map that was there, for the place of a complaint
  bool plain = false;            // PEM itself, not base64 of it
};

struct AuthorityFields {
  Field crt;
  Field key;
};

struct Fields {
  Field cluster_id, cluster_secret, bootstrap_token, secretbox, aescbc, trustd_token,
      service_account;
  AuthorityFields etcd, kubernetes, aggregator, os;
};

Field look(const Value* root, const std::string& path, bool plain = false) {
  Field field{path, nullptr, root, plain};
  const Value* at = root;
  for (const std::string& key : split(path, '.')) {
    at = at != nullptr ? at->find(key) : nullptr;
    if (at != nullptr && at->is_map()) field.near = at;
  }
  if (at != nullptr && !at->is_null() && !(at->is_string() && at->text().empty())) field.value = at;
  return field;
}

AuthorityFields look_pair(const Value* root, const std::string& path, const char* crt = "crt",
                          bool plain = false) {
  return {look(root, path + "." + crt, plain), look(root, path + ".key", plain)};
}

class Reader {
 public:
  Reader(const std::string& file, Diagnostics& problems) : file_(file), problems_(problems) {}

  void complain(const Field& field, const std::string& message, const std::string& hint = "",
                const char* code = "secrets-bundle") {
    const Value* place = field.value != nullptr ? field.value : field.near;
    Problem& problem = problems_.error(position(place), message);
    problem.hint = hint;
    problem.code = code;
    failed_ = true;
  }

  void warn(const Value* place, const std::string& message, const std::string& hint) {
    Problem& problem = problems_.warning(position(place), message);
    problem.hint = hint;
    problem.code = "secrets-bundle";
  }

  /// The text of a value that must be there; empty after a complaint.
  std::string text(const Field& field) {
    if (field.value == nullptr) {
      complain(field, field.path + " is required", "", "secrets-bundle-missing");
      return "";
    }
    // A token of digits only is read as a number; its text is what was meant.
    if (!field.value->is_scalar() || field.value->kind() == text::Kind::Bool) {
      complain(field, fmt::format("{} must be a string, not a {}", field.path,
                                  to_string(field.value->kind())));
      return "";
    }
    const std::string& found = field.value->text();
    if (found.find_first_not_of('*') == std::string::npos) {
      complain(field, field.path + " is redacted: it holds only stars",
               "this file was printed without its secrets; take the one that was applied, or the "
               "secrets bundle");
      return "";
    }
    return found;
  }

  Secret token(const Field& field) {
    const std::string found = text(field);
    const auto right = [](std::string_view part) {
      return std::all_of(part.begin(), part.end(),
                         [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); });
    };
    if (!found.empty() &&
        (found.size() != 23 || found[6] != '.' || !right(std::string_view(found).substr(0, 6)) ||
         !right(std::string_view(found).substr(7))))
      complain(field, field.path + " is no token",
               "a token is six and sixteen of a-z and 0-9 with a dot between",
               "secrets-bundle-token");
    return Secret(found);
  }

  Secret key32(const Field& field) {
    const std::string found = text(field);
    if (found.empty()) return {};
    const auto bytes = from_base64(found);
    if (bytes && bytes->size() == 32) return Secret(found);
    try {
      Cleaned cleaned = clean_base64(found, field.path, 32);
      tell_mended(field, cleaned, "");
      return std::move(cleaned.text);
    } catch (const Error& error) {
      if (error.fault() != Fault::Usage) throw;  // cannot be repaired: reported below
    }
    if (!bytes)
      complain(field, field.path + " is not base64", "", "secrets-bundle-base64");
    else
      complain(field,
               fmt::format("{} holds {} bytes where 32 are needed", field.path, bytes->size()),
               from_base64(*bytes) ? "it is base64 of base64: decode it once" : "",
               "secrets-bundle-base64");
    return Secret(found);
  }

  void tell_mended(const Field& field, const Cleaned& cleaned, const std::string& otherwise) {
    warn(field.value,
         fmt::format("{} was mended: {}", field.path,
                     cleaned.mended.empty() ? otherwise : join(cleaned.mended, ", ")),
         "it works; write it anew with `rocca secrets edit` to be rid of this");
  }

  /// The PEM in a text, freed of what editors and variables do to it; nothing if it cannot be.
  std::optional<Secret> clean(const Field& field, const Secret& found, bool as_it_should) {
    try {
      Cleaned cleaned = clean_pem(found.reveal(), field.path);
      if (as_it_should && cleaned.mended.empty()) return found;
      tell_mended(field, cleaned, "it is PEM, where base64 of PEM is meant");
      return std::move(cleaned.text);
    } catch (const Error& error) {
      if (error.fault() != Fault::Usage) throw;
      return std::nullopt;
    }
  }

  /// The PEM text behind a value; empty after a complaint.
  Secret pem(const Field& field) {
    constexpr std::string_view mark = "-----BEGIN ";
    const Secret found = Secret::take(text(field));
    if (found.empty()) return {};
    if (field.plain) {
      if (auto good = clean(field, found, true)) return std::move(*good);
      if (found.reveal().starts_with(mark)) return found;
      complain(field, field.path + " does not begin with a -----BEGIN …----- line", "",
               "secrets-bundle-pem");
      return {};
    }
    if (auto bytes = from_base64(found.reveal()); bytes && bytes->starts_with(mark)) {
      Secret decoded = Secret::take(std::move(*bytes));
      if (auto good = clean(field, decoded, true)) return std::move(*good);
      return decoded;
    }
    if (auto good = clean(field, found, false)) return std::move(*good);
    if (found.reveal().find(mark) != std::string_view::npos) {
      complain(field, field.path + " is PEM, where base64 of PEM is meant", "encode it: base64 -w0",
               "secrets-bundle-base64");
      return {};
    }
    auto bytes = from_base64(found.reveal());
    if (!bytes) {
      complain(field, field.path + " is not base64", "one line, standard alphabet, padded with `=`",
               "secrets-bundle-base64");
      return {};
    }
    Secret decoded = Secret::take(std::move(*bytes));
    const auto inner = from_base64(trim(decoded.reveal()));
    if (inner && inner->starts_with(mark))
      complain(field, field.path + " is base64 of base64", "decode it once: base64 -d",
               "secrets-bundle-base64");
    else
      complain(field, field.path + " is base64, but of something that is no PEM", "",
               "secrets-bundle-pem");
    return {};
  }

  AuthorityPem authority(const AuthorityFields& fields) {
    const Secret crt = pem(fields.crt);
    AuthorityPem result{std::string(crt.reveal()), pem(fields.key)};
    const auto certificate =
        parsed(fields.crt, crt, [&] { return Certificate::parse(result.crt, fields.crt.path); });
    const auto key = parsed(fields.key, result.key, [&] {
      return PrivateKey::parse(result.key.reveal(), fields.key.path);
    });
    if (certificate && !certificate->authority)
      complain(fields.crt, fields.crt.path + " is a certificate, but of no authority", "",
               "secrets-bundle-pem");
    // A root signs itself: a changed bit anywhere in it shows.
    if (certificate && certificate->authority && certificate->issuer == certificate->subject &&
        !certificate->issued_by(*certificate))
      complain(fields.crt, fields.crt.path + " is damaged: its signature does not fit its content",
               "take it from a copy of the bundle", "secrets-bundle-pem");
    if (certificate && key && !certificate->belongs_to(*key))
      complain(fields.key,
               fmt::format("{} does not belong to {}", fields.key.path, fields.crt.path),
               "they come from two different bundles", "secrets-bundle-mismatch");
    if (certificate && key)
      result.read = std::make_shared<const CertifiedKey>(CertifiedKey{*certificate, *key});
    return result;
  }

  Secret private_key(const Field& field) {
    Secret found = pem(field);
    parsed(field, found, [&] { return PrivateKey::parse(found.reveal(), field.path); });
    return found;
  }

  Bundle read(const Fields& fields) {
    Bundle bundle;
    bundle.cluster_id = text(fields.cluster_id);
    bundle.cluster_secret = key32(fields.cluster_secret);
    bundle.bootstrap_token = token(fields.bootstrap_token);
    if (fields.secretbox.value != nullptr) bundle.secretbox_secret = key32(fields.secretbox);
    if (fields.aescbc.value != nullptr) bundle.aescbc_secret = key32(fields.aescbc);
    if (fields.secretbox.value == nullptr && fields.aescbc.value == nullptr)
      complain(
          fields.secretbox,
          fmt::format("one of [{}, {}] is required", fields.secretbox.path, fields.aescbc.path), "",
          "secrets-bundle-missing");
    bundle.trustd_token = token(fields.trustd_token);
    bundle.etcd = authority(fields.etcd);
    bundle.kubernetes = authority(fields.kubernetes);
    bundle.aggregator = authority(fields.aggregator);
    bundle.service_account_key = private_key(fields.service_account);
    bundle.os = authority(fields.os);
    return bundle;
  }

  bool failed() const { return failed_; }

 private:
  template <class Parse>
  auto parsed(const Field& field, const Secret& pem_text, Parse parse)
      -> std::optional<decltype(parse())> {
    if (pem_text.empty()) return std::nullopt;
    try {
      return parse();
    } catch (const Error& error) {
      complain(field, error.message(), "", "secrets-bundle-pem");
      return std::nullopt;
    }
  }

  Position position(const Value* value) const {
    if (value == nullptr) return {file_, 0, 0};
    return {file_, value->place().line, value->place().column};
  }

  const std::string& file_;
  Diagnostics& problems_;
  bool failed_ = false;
};

Fields bundle_fields(const Value& root) {
  Fields fields;
  fields.cluster_id = look(&root, "cluster.id");
  fields.cluster_secret = look(&root, "cluster.secret");
  fields.bootstrap_token = look(&root, "secrets.bootstraptoken");
  fields.secretbox = look(&root, "secrets.secretboxencryptionsecret");
  fields.aescbc = look(&root, "secrets.aescbcencryptionsecret");
  fields.trustd_token = look(&root, "trustdinfo.token");
  fields.etcd = look_pair(&root, "certs.etcd");
  fields.kubernetes = look_pair(&root, "certs.k8s");
  fields.aggregator = look_pair(&root, "certs.k8saggregator");
  fields.service_account = look(&root, "certs.k8sserviceaccount.key");
  fields.os = look_pair(&root, "certs.os");
  return fields;
}

/// Keys that talosctl would silently lose. Only inside the bundle's own maps: its root may stand
/// among other secrets.
void warn_of_unknown_keys(const Value& root, Reader& reader) {
  const auto check = [&](const std::string& path, const std::vector<std::string>& known) {
    const Value* map = look(&root, path).value;
    if (map == nullptr) return;
    for (const text::Entry& entry : map->entries())
      if (std::find(known.begin(), known.end(), entry.key) == known.end())
        reader.warn(&entry.value,
                    fmt::format("{}.{} is not part of a secrets bundle{}", path, entry.key,
                                did_you_mean(entry.key, known)),
                    "it is left out when the bundle is written");
  };
  check("cluster", {"id", "secret"});
  check("secrets", {"bootstraptoken", "secretboxencryptionsecret", "aescbcencryptionsecret"});
  check("trustdinfo", {"token"});
  check("certs", {"etcd", "k8s", "k8saggregator", "k8sserviceaccount", "os"});
  for (const char* name : {"certs.etcd", "certs.k8s", "certs.k8saggregator", "certs.os"})
    check(name, {"crt", "key"});
  check("certs.k8sserviceaccount", {"key"});
}

const Value* find_document(const std::vector<Value>& documents, std::string_view kind) {
  for (const Value& document : documents) {
    const Value* found = document.find("kind");
    if (found != nullptr && found->text() == kind) return &document;
  }
  return nullptr;
}

/// The first secretbox key of a KubeEtcdEncryptionConfig.
Field find_secretbox(const Value* document) {
  Field field{"config.resources.providers.secretbox.keys.secret", nullptr, document, false};
  const Value* resources = document->find({"config", "resources"});
  if (resources == nullptr) return field;
  for (const Value& resource : resources->items()) {
    const Value* providers = resource.find("providers");
    if (providers == nullptr) continue;
    for (const Value& provider : providers->items()) {
      const Value* secret = provider.find({"secretbox", "keys", "0", "secret"});
      if (secret != nullptr && field.value == nullptr) field.value = secret;
    }
  }
  return field;
}

Fields config_fields(const Value* main, const std::vector<Value>& documents) {
  Fields fields;
  fields.cluster_id = look(main, "cluster.id");
  fields.cluster_secret = look(main, "cluster.secret");
  fields.bootstrap_token = look(main, "cluster.token");
  fields.secretbox = look(main, "cluster.secretboxEncryptionSecret");
  fields.aescbc = look(main, "cluster.aescbcEncryptionSecret");
  fields.trustd_token = look(main, "machine.token");
  fields.etcd = look_pair(main, "cluster.etcd.ca");
  fields.kubernetes = look_pair(main, "cluster.ca");
  fields.aggregator = look_pair(main, "cluster.aggregatorCA");
  fields.service_account = look(main, "cluster.serviceAccount.key");
  fields.os = look_pair(main, "machine.ca");
  // From 1.14 on parts of it stand in documents of their own, certificates there as plain PEM.
  if (const Value* document = find_document(documents, "DiscoveryIdentityConfig")) {
    if (fields.cluster_id.value == nullptr) fields.cluster_id = look(document, "clusterID");
    if (fields.cluster_secret.value == nullptr)
      fields.cluster_secret = look(document, "clusterSecret");
  }
  if (const Value* document = find_document(documents, "KubeAPIServerCAConfig"))
    if (fields.kubernetes.crt.value == nullptr)
      fields.kubernetes = look_pair(document, "issuingCA", "cert", true);
  if (const Value* document = find_document(documents, "KubeAggregatorCAConfig"))
    if (fields.aggregator.crt.value == nullptr)
      fields.aggregator = look_pair(document, "issuingCA", "cert", true);
  if (const Value* document = find_document(documents, "KubeServiceAccountConfig"))
    if (fields.service_account.value == nullptr)
      fields.service_account = look(document, "issuer.privateKey", true);
  if (const Value* document = find_document(documents, "KubeEtcdEncryptionConfig"))
    if (fields.secretbox.value == nullptr) fields.secretbox = find_secretbox(document);
  return fields;
}

}  // namespace

std::optional<Bundle> read_bundle(const Value& value, const std::string& file,
                                  Diagnostics& problems) {
  Reader reader(file, problems);
  if (!value.is_map()) {
    reader.complain({"", &value, &value},
                    "a secrets bundle is a map with cluster, secrets, trustdinfo and certs");
    return std::nullopt;
  }
  const Fields fields = bundle_fields(value);
  warn_of_unknown_keys(value, reader);
  Bundle bundle = reader.read(fields);
  if (fields.secretbox.value != nullptr && fields.aescbc.value != nullptr)
    reader.complain(fields.aescbc, fmt::format("only one of [{}, {}] is allowed",
                                               fields.secretbox.path, fields.aescbc.path));
  if (reader.failed()) return std::nullopt;
  return bundle;
}

std::optional<Bundle> read_bundle(std::string_view yaml, const std::string& file,
                                  Diagnostics& problems) {
  const auto value = text::parse_yaml(yaml, file, problems);
  if (!value) return std::nullopt;
  return read_bundle(*value, file, problems);
}

std::optional<Bundle> read_bundle_from_config(std::string_view yaml, const std::string& file,
                                              Diagnostics& problems) {
  Reader reader(file, problems);
  std::vector<Value> documents;
  try {
    documents = text::parse_yaml_stream(yaml, file);
  } catch (const Error& error) {
    reader.complain({}, error.message(), error.hint());
    return std::nullopt;
  }
  const auto has_machine = [](const Value& document) {
    return document.find("machine") != nullptr;
  };
  const auto main = std::find_if(documents.begin(), documents.end(), has_machine);
  if (main == documents.end()) {
    reader.complain({}, "this is no Talos machine config: no document has `machine:`",
                    "give the controlplane.yaml of the cluster");
    return std::nullopt;
  }
  const Field type = look(&*main, "machine.type");
  if (type.value != nullptr && type.value->text() != "controlplane" &&
      type.value->text() != "init") {
    reader.complain(
        type,
        fmt::format("machine.type is `{}`: only a control plane's config holds the whole bundle",
                    type.value->text()),
        "give the controlplane.yaml of the cluster");
    return std::nullopt;
  }
  const Fields fields = config_fields(&*main, documents);
  Bundle bundle = reader.read(fields);
  if (fields.secretbox.value != nullptr && fields.aescbc.value != nullptr)
    reader.warn(fields.aescbc.value, "the config has two encryption secrets; both are kept",
                "talosctl takes a bundle with one of them only");
  if (reader.failed()) return std::nullopt;
  return bundle;
}

}  // namespace rocca::secrets
