#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "secrets/bundle.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

// Every bundle of tests/reference/talos/secrets against what identities.json says of it. "Now" is
// the recorded certificate's own.
namespace rocca::secrets {
namespace {

using text::Value;

const std::string folder = "talos/secrets";

std::string path_of(std::string_view name) {
  return test::reference_path(folder + "/" + std::string(name));
}

/// identities.json, one entry for each bundle; its `file` names are beside it.
Value identities() {
  return text::parse_json(test::read_file(path_of("identities.json")), "identities.json");
}

std::string get(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  if (found == nullptr) throw Error(Fault::NotFound, "no " + std::string(key));
  return found->text();
}

Bundle read(const Value& entry) {
  Diagnostics problems;
  const std::string file = get(entry, "file");
  const auto bundle = read_bundle(test::read_file(path_of(file)), file, problems);
  if (!bundle || !problems.empty()) throw Error(Fault::Bug, problems.render());
  return *bundle;
}

/// A certificate in the words of identities.json.
Value shape_of(const Certificate& certificate, const PrivateKey& key) {
  const auto list = [](const std::vector<std::string>& items) {
    Value value = Value::list();
    for (const std::string& item : items) value.append(Value::string(item));
    return value;
  };
  Value shape = Value::map();
  shape.set("subject", list(certificate.subject));
  shape.set("issuer", list(certificate.issuer));
  shape.set("version", Value::integer(certificate.version));
  shape.set("key", Value::string(certificate.key));
  shape.set("signature_algorithm_oid", Value::string(certificate.signature_algorithm));
  const double hours = std::chrono::duration<double, std::ratio<3600>>(certificate.not_after -
                                                                       certificate.not_before)
                           .count();
  shape.set("validity_hours", Value::floating(std::round(hours * 10000) / 10000));
  shape.set("serial_fits", Value::boolean(certificate.serial.size() * 8 <= 128));
  shape.set("pem_ends_with_newline", Value::boolean(certificate.pem.ends_with("-----\n")));
  Value extensions = Value::list();
  for (const CertificateExtension& extension : certificate.extensions) {
    Value item = Value::map();
    item.set("oid", Value::string(extension.oid));
    item.set("critical", Value::boolean(extension.critical));
    if (extension.oid == "2.5.29.15") item.set("keyUsage", list(certificate.key_usage));
    if (extension.oid == "2.5.29.37")
      item.set("extendedKeyUsage", list(certificate.extended_key_usage));
    if (extension.oid == "2.5.29.19") {
      item.set("ca", Value::boolean(certificate.authority));
      item.set("path_length",
               certificate.path_length ? Value::integer(*certificate.path_length) : Value::null());
    }
    if (extension.oid == "2.5.29.14")
      item.set("subjectKeyIdentifier", Value::string(to_hex(certificate.subject_key_id)));
    if (extension.oid == "2.5.29.35")
      item.set("authorityKeyIdentifier", Value::string(to_hex(certificate.authority_key_id)));
    extensions.append(std::move(item));
  }
  shape.set("extensions", std::move(extensions));
  Value own = Value::map();
  own.set("pem_label", Value::string(key.pem_label()));
  own.set("key", Value::string(key.description()));
  shape.set("private", std::move(own));
  shape.set("key_matches", Value::boolean(certificate.belongs_to(key)));
  return shape;
}

/// What was recorded, key by key, without what must differ: dates, and the fingerprint of the key.
Value recorded_shape(Value recorded) {
  recorded.erase("not_before");
  recorded.erase("not_after");
  recorded.erase("spki_fingerprint");
  EXPECT_EQ(get(recorded, "serial_bits_max"), "128");
  recorded.erase("serial_bits_max");
  recorded.set("serial_fits", Value::boolean(true));
  const double hours = *recorded.find("validity_hours")->as_float();
  recorded.set("validity_hours", Value::floating(hours));
  return recorded;
}

/// Key identifiers of authorities made anew differ; only their length can be compared.
Value without_subject_key_id(Value shape) {
  for (Value& extension : shape.find("extensions")->items())
    if (Value* id = extension.find("subjectKeyIdentifier"))
      extension.set("subjectKeyIdentifier",
                    Value::integer(static_cast<std::int64_t>(id->text().size() / 2)));
  return shape;
}

/// One line an entry, maps by key: what two values have in common, whatever file they came from.
void print(std::string& out, const std::string& path, const Value& value) {
  if (value.is_map()) {
    std::map<std::string, const Value*> sorted;
    for (const text::Entry& entry : value.entries()) sorted[entry.key] = &entry.value;
    for (const auto& [key, inner] : sorted) print(out, path + "." + key, *inner);
  } else if (value.is_list()) {
    out += path + " has " + std::to_string(value.size()) + "\n";
    for (std::size_t i = 0; i < value.size(); ++i)
      print(out, path + "." + std::to_string(i), value.items()[i]);
  } else {
    out += path + " = " + (value.is_null() ? "nothing" : value.text()) + "\n";
  }
}

std::string printed(const Value& value) {
  std::string out;
  print(out, "", value);
  return out;
}

Instant recorded_time(const Value& certificate, const char* key) {
  return *parse_instant(get(certificate, key));
}

const std::vector<std::pair<std::string, Authority>> authorities{
    {"os", Authority::Os},
    {"k8s", Authority::Kubernetes},
    {"k8saggregator", Authority::Aggregator},
    {"etcd", Authority::Etcd}};

/// Runs `check` for every bundle, and makes sure that every bundle file has an entry.
template <class Check>
void for_each_bundle(Check check) {
  const Value all = identities();
  for (const text::Entry& entry : all.entries()) {
    SCOPED_TRACE(entry.key);
    check(entry.value);
    test::count_case();
  }
}

TEST(TalosSecrets, EveryBundleFileHasAnEntry) {
  std::size_t bundles = 0;
  for (const std::string& path : test::reference_files(folder, ".yaml")) {
    const bool derived = path.ends_with(".talosconfig.yaml") ||
                         path.ends_with(".kubeconfig.yaml") || path.ends_with(".controlplane.yaml");
    bundles += derived ? 0 : 1;
  }
  EXPECT_EQ(bundles, identities().size());
}

TEST(TalosSecrets, BundlesAreWrittenBackByteForByte) {
  for_each_bundle([](const Value& entry) {
    const Bundle bundle = read(entry);
    EXPECT_EQ(write_bundle(bundle).reveal(), test::read_file(path_of(get(entry, "file"))));
    EXPECT_EQ(bundle.bootstrap_token.reveal(), get(entry, "bootstrap_token"));
    EXPECT_EQ(bundle.trustd_token.reveal(), get(entry, "trustd_token"));
  });
}

TEST(TalosSecrets, AuthoritiesAreReadAsRecorded) {
  for_each_bundle([](const Value& entry) {
    const Bundle bundle = read(entry);
    for (const auto& [name, kind] : authorities) {
      SCOPED_TRACE(name);
      const Value& recorded = *entry.find({"authorities", name});
      const CertifiedKey pair = bundle.authority(kind);
      EXPECT_EQ(printed(shape_of(pair.certificate, pair.key)), printed(recorded_shape(recorded)));
      EXPECT_EQ(pair.certificate.fingerprint(), get(recorded, "spki_fingerprint"));
      EXPECT_EQ(pair.certificate.not_before, recorded_time(recorded, "not_before"));
      EXPECT_EQ(pair.certificate.not_after, recorded_time(recorded, "not_after"));
      EXPECT_EQ(pair.certificate.pem, bundle.pem_of(kind).crt);
      EXPECT_EQ(pair.key.pem(), bundle.pem_of(kind).key);
    }
    const PrivateKey key =
        PrivateKey::parse(bundle.service_account_key.reveal(), "the service account's key");
    EXPECT_EQ(key.pem_label(), get(*entry.find("service_account"), "pem_label"));
    EXPECT_EQ(key.description(), get(*entry.find("service_account"), "key"));
    EXPECT_EQ(key.pem(), bundle.service_account_key);
  });
}

TEST(TalosSecrets, AuthoritiesOfOursHaveTheRecordedShape) {
  for_each_bundle([](const Value& entry) {
    SeededEntropy entropy(1);
    for (const auto& [name, kind] : authorities) {
      SCOPED_TRACE(name);
      const Value& recorded = *entry.find({"authorities", name});
      const CertifiedKey made =
          mint_authority(kind, recorded_time(recorded, "not_before"), entropy);
      EXPECT_EQ(printed(without_subject_key_id(shape_of(made.certificate, made.key))),
                printed(without_subject_key_id(recorded_shape(recorded))));
      EXPECT_EQ(made.certificate.not_after, recorded_time(recorded, "not_after"));
    }
  });
}

TEST(TalosSecrets, TheTalosconfigIsTheRecordedOneButForItsKey) {
  for_each_bundle([](const Value& entry) {
    const Bundle bundle = read(entry);
    const Value& recorded = *entry.find("talosconfig");
    const Value& certificate = *recorded.find("certificate");
    SeededEntropy entropy(1);
    TalosconfigOptions options;
    options.context = get(recorded, "context");
    const Secret text =
        mint_talosconfig(bundle, options, recorded_time(certificate, "not_before"), entropy);
    Value ours = text::parse_yaml(text.reveal(), "ours");
    Value theirs = text::parse_yaml(test::read_file(path_of(get(recorded, "file"))), "theirs");
    Value& context = *ours.find("contexts")->find(options.context);
    const Certificate crt = Certificate::parse(*from_base64(get(context, "crt")), "crt");
    const PrivateKey key = PrivateKey::parse(*from_base64(get(context, "key")), "key");
    EXPECT_EQ(printed(shape_of(crt, key)), printed(recorded_shape(certificate)));
    EXPECT_EQ(crt.not_after, recorded_time(certificate, "not_after"));
    EXPECT_TRUE(crt.issued_by(bundle.authority(Authority::Os).certificate));
    // With their certificate in it, the file is theirs.
    Value& their_context = *theirs.find("contexts")->find(options.context);
    std::string mine(text.reveal());
    for (const char* part : {"crt", "key"}) {
      const std::string from = get(context, part);
      mine.replace(mine.find(from), from.size(), get(their_context, part));
    }
    EXPECT_EQ(mine, test::read_file(path_of(get(recorded, "file"))));
  });
}

TEST(TalosSecrets, TheKubeconfigIsTheRecordedOneButForItsKey) {
  for_each_bundle([](const Value& entry) {
    const Bundle bundle = read(entry);
    const Value& recorded = *entry.find("kubeconfig");
    const Value& certificate = *recorded.find("certificate");
    SeededEntropy entropy(1);
    KubeconfigOptions options;
    options.cluster = get(recorded, "cluster");
    options.server = get(recorded, "server");
    // Talos makes it valid from ten seconds before it was asked.
    const Instant now = recorded_time(certificate, "not_before") + std::chrono::seconds(10);
    const Secret text = mint_kubeconfig(bundle, options, now, entropy);
    const Value ours = text::parse_yaml(text.reveal(), "ours");
    const Value theirs =
        text::parse_yaml(test::read_file(path_of(get(recorded, "file"))), "theirs");
    const Value& user = *ours.find({"users", "0", "user"});
    const Certificate crt =
        Certificate::parse(*from_base64(get(user, "client-certificate-data")), "crt");
    const PrivateKey key = PrivateKey::parse(*from_base64(get(user, "client-key-data")), "key");
    EXPECT_EQ(printed(shape_of(crt, key)), printed(recorded_shape(certificate)));
    EXPECT_EQ(crt.not_after, recorded_time(certificate, "not_after"));
    EXPECT_TRUE(crt.issued_by(bundle.authority(Authority::Kubernetes).certificate));
    const Value& their_user = *theirs.find({"users", "0", "user"});
    std::string mine(text.reveal());
    for (const char* part : {"client-certificate-data", "client-key-data"}) {
      const std::string from = get(user, part);
      mine.replace(mine.find(from), from.size(), get(their_user, part));
    }
    EXPECT_EQ(mine, test::read_file(path_of(get(recorded, "file"))));
  });
}

TEST(TalosSecrets, AControlPlanesConfigGivesTheBundleBack) {
  for_each_bundle([](const Value& entry) {
    std::string file = get(entry, "file");
    file.insert(file.rfind(".yaml"), ".controlplane");
    Diagnostics problems;
    const auto bundle = read_bundle_from_config(test::read_file(path_of(file)), file, problems);
    ASSERT_TRUE(bundle) << problems.render();
    const Value& recorded = *entry.find("from_controlplane_config");
    EXPECT_EQ(write_bundle(*bundle).reveal() == test::read_file(path_of(get(entry, "file"))),
              recorded.find("equals_bundle_bytes")->as_bool());
    EXPECT_EQ(*bundle == read(entry), recorded.find("equals_bundle_values")->as_bool());
  });
}

}  // namespace
}  // namespace rocca::secrets
