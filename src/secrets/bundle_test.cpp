#include "secrets/bundle.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

namespace rocca::secrets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;

const Instant now = *parse_instant("2026-11-16T03:04:05Z");

BundleOptions quick(Version talos = {1, 13, 0}) {
  return {talos,
          [](Entropy& entropy) { return PrivateKey::generate(KeyAlgorithm::EcdsaP256, entropy); }};
}

Bundle sample(std::uint64_t seed = 1) {
  SeededEntropy entropy(seed);
  return generate_bundle(quick(), now, entropy);
}

std::string text_of(const Bundle& bundle) {
  return std::string(write_bundle(bundle).reveal());
}

/// Every problem as "line:column message".
std::vector<std::string> problems_of(const std::string& yaml) {
  Diagnostics problems;
  const auto bundle = read_bundle(yaml, "secrets.yaml", problems);
  EXPECT_EQ(bundle.has_value(), !problems.has_errors());
  std::vector<std::string> messages;
  for (const Problem& problem : problems.problems()) messages.push_back(problem.message);
  return messages;
}

TEST(Bundle, SurvivesItsText) {
  const Bundle bundle = sample();
  Diagnostics problems;
  const auto again = read_bundle(text_of(bundle), "secrets.yaml", problems);
  ASSERT_TRUE(again) << problems.render();
  EXPECT_TRUE(*again == bundle);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(text_of(*again), text_of(bundle));
}

TEST(Bundle, ASeedIsABundle) {
  EXPECT_EQ(text_of(sample(3)), text_of(sample(3)));
}

TEST(Bundle, HasTheFormsOfTalos) {
  const Bundle bundle = sample();
  EXPECT_THAT(std::string(bundle.bootstrap_token.reveal()),
              MatchesRegex("[0-9a-z]{6}\\.[0-9a-z]{16}"));
  EXPECT_THAT(std::string(bundle.trustd_token.reveal()),
              MatchesRegex("[0-9a-z]{6}\\.[0-9a-z]{16}"));
  EXPECT_EQ(from_base64(bundle.cluster_secret.reveal())->size(), 32u);
  EXPECT_EQ(from_base64(bundle.secretbox_secret.reveal())->size(), 32u);
  EXPECT_EQ(bundle.cluster_id.size(), 44u);
}

TEST(Bundle, TheContractDecidesTheForm) {
  SeededEntropy entropy(1);
  const auto key_of = [&](Version talos) {
    SeededEntropy own(2);
    return PrivateKey::parse(generate_bundle({talos, {}}, now, own).service_account_key.reveal(),
                             "key")
        .description();
  };
  const Bundle old = generate_bundle(quick({1, 2, 0}), now, entropy);
  EXPECT_FALSE(old.aescbc_secret.empty());
  EXPECT_TRUE(old.secretbox_secret.empty());
  const Bundle young = generate_bundle(quick({1, 3, 0}), now, entropy);
  EXPECT_TRUE(young.aescbc_secret.empty());
  EXPECT_FALSE(young.secretbox_secret.empty());
  EXPECT_EQ(key_of({1, 6, 9}), "ECDSA secp256r1");
  EXPECT_EQ(key_of({1, 7, 0}), "RSA 4096");
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(generate_bundle(quick({1, 13, 0}), now, entropy).cluster_id,
                Not(testing::ContainsRegex("[+/]")));
    EXPECT_THAT(generate_bundle(quick({1, 14, 0}), now, entropy).cluster_id,
                Not(testing::ContainsRegex("[-_]")));
  }
}

TEST(Bundle, AMissingFieldIsNamedAtItsPlaceAndAllAtOnce) {
  EXPECT_THAT(
      problems_of("cluster: {id: x}\n"),
      ElementsAre(
          "cluster.secret is required", "secrets.bootstraptoken is required",
          "one of [secrets.secretboxencryptionsecret, secrets.aescbcencryptionsecret] is required",
          "trustdinfo.token is required", "certs.etcd.crt is required",
          "certs.etcd.key is required", "certs.k8s.crt is required", "certs.k8s.key is required",
          "certs.k8saggregator.crt is required", "certs.k8saggregator.key is required",
          "certs.k8sserviceaccount.key is required", "certs.os.crt is required",
          "certs.os.key is required"));
  EXPECT_THAT(problems_of("- a\n"), ElementsAre(HasSubstr("is a map")));
}

struct Damage {
  std::string name;
  std::string path;
  std::string value;
  std::string says;
};

class DamagedBundle : public testing::TestWithParam<Damage> {};

TEST_P(DamagedBundle, SaysWhatAndWhere) {
  text::Value value = to_value(sample());
  text::Value* at = &value;
  for (const std::string& key : split(GetParam().path, '.')) at = at->find(key);
  *at = text::Value::string(GetParam().value);
  text::EmitOptions options;
  options.indent = 4;
  const std::string yaml = text::emit_yaml(value, options);
  Diagnostics problems;
  EXPECT_FALSE(read_bundle(yaml, "secrets.yaml", problems));
  ASSERT_THAT(problems.problems(), SizeIs(1)) << problems.render();
  const Problem& problem = problems.problems().front();
  EXPECT_EQ(problem.message, GetParam().says);
  EXPECT_EQ(problem.where.file, "secrets.yaml");
  EXPECT_GT(problem.where.line, 0u);
  if (GetParam().value.size() > 8) {
    EXPECT_THAT(problems.render(), Not(HasSubstr(GetParam().value)));
  }
}

std::string other_key() {
  return std::string(sample(2).os.key.reveal());
}

std::string with_crlf(const std::string& text) {
  return replace_all(text, "\n", "\r\n");
}

TEST(Bundle, WhatEditorsAndVariablesDidToItIsMendedAndSaid) {
  const Bundle whole = sample();
  const std::string& crt = whole.os.crt;
  const std::string secret{whole.cluster_secret.reveal()};
  const std::vector<std::pair<std::string, std::string>> cases{
      {"certs.os.crt", crt},
      {"certs.os.crt", to_base64(to_base64(crt))},
      {"certs.os.crt", to_base64(with_crlf(crt))},
      {"certs.os.crt", to_base64(replace_all(crt, "\n", "\\n"))},
      {"certs.os.crt", to_base64(crt).substr(0, 40) + " \n " + to_base64(crt).substr(40)},
      {"cluster.secret", secret.substr(0, 20) + "\n" + secret.substr(20)},
      {"cluster.secret", to_base64(secret)}};
  for (const auto& [path, written] : cases) {
    text::Value value = to_value(whole);
    text::Value* at = &value;
    for (const std::string& key : split(path, '.')) at = at->find(key);
    *at = text::Value::string(written);
    Diagnostics problems;
    const auto read = read_bundle(value, "secrets.yaml", problems);
    ASSERT_TRUE(read) << written << "\n" << problems.render();
    EXPECT_EQ(read->os.crt, crt);
    EXPECT_EQ(read->cluster_secret.reveal(), secret);
    ASSERT_THAT(problems.problems(), SizeIs(1)) << written;
    EXPECT_THAT(problems.problems().front().message, HasSubstr(path + " was mended: "));
    EXPECT_THAT(problems.render(), Not(HasSubstr(written)));
  }
}

/// One bit of its serial number is another: still a certificate, but not the one that was signed.
std::string changed_certificate() {
  std::string pem = sample().os.crt;
  char& at = pem[28 + 30];
  at = at == 'A' ? 'B' : 'A';
  return pem;
}

INSTANTIATE_TEST_SUITE_P(
    All, DamagedBundle,
    testing::Values(
        Damage{"NotBase64", "certs.os.crt", "LS0tLS1C!", "certs.os.crt is not base64"},
        Damage{"NoPem", "certs.etcd.key", to_base64("hello, this is no key"),
               "certs.etcd.key is base64, but of something that is no PEM"},
        Damage{"CorruptPem", "certs.k8s.crt", to_base64(sample().kubernetes.crt.substr(0, 90)),
               "certs.k8s.crt is not valid PEM: the -----END CERTIFICATE----- line is missing"},
        Damage{"ChangedCertificate", "certs.os.crt", to_base64(changed_certificate()),
               "certs.os.crt is damaged: its signature does not fit its content"},
        Damage{"WrongLabel", "certs.k8s.key", to_base64(sample().kubernetes.crt),
               "certs.k8s.key holds a `CERTIFICATE` where a private key is meant"},
        Damage{"KeyForCertificate", "certs.k8s.crt", to_base64(sample().kubernetes.key.reveal()),
               "certs.k8s.crt holds a `EC PRIVATE KEY` where a certificate is meant"},
        Damage{"OtherKey", "certs.os.key", to_base64(other_key()),
               "certs.os.key does not belong to certs.os.crt"},
        Damage{"Token", "trustdinfo.token", "ABCDEF.0123456789abcdef",
               "trustdinfo.token is no token"},
        Damage{"ShortSecret", "cluster.secret", to_base64("too short"),
               "cluster.secret holds 9 bytes where 32 are needed"},
        Damage{"Redacted", "certs.os.key", "******",
               "certs.os.key is redacted: it holds only stars"},
        Damage{"ServiceAccount", "certs.k8sserviceaccount.key",
               to_base64("-----BEGIN X-----\nAAAA\n-----END X-----\n"),
               "certs.k8sserviceaccount.key holds a `X` where a private key is meant"}),
    [](const auto& row) { return row.param.name; });

TEST(Bundle, TwoEncryptionSecretsAreOneTooMany) {
  text::Value value = to_value(sample());
  value.find("secrets")->set("aescbcencryptionsecret",
                             text::Value::string(to_base64(std::string(32, 'x'))));
  EXPECT_THAT(problems_of(text::emit_yaml(value)), ElementsAre(HasSubstr("only one of [")));
}

TEST(Bundle, AMistypedKeyIsWarnedOf) {
  text::Value value = to_value(sample());
  value.find("cluster")->set("idd", text::Value::string("x"));
  EXPECT_THAT(problems_of(text::emit_yaml(value)),
              ElementsAre("cluster.idd is not part of a secrets bundle (did you mean `id`?)"));
}

TEST(Bundle, ALeafInPlaceOfAnAuthorityIsRefused) {
  Bundle bundle = sample();
  SeededEntropy entropy(9);
  const CertifiedKey leaf =
      mint_talos_client(bundle.authority(Authority::Os), {"os:admin"}, now, entropy);
  bundle.os = {leaf.certificate.pem, leaf.key.pem()};
  EXPECT_THAT(problems_of(text_of(bundle)),
              ElementsAre("certs.os.crt is a certificate, but of no authority"));
}

std::string indented(std::string_view text, const std::string& blanks) {
  return blanks + replace_all(trim(text), "\n", "\n" + blanks) + "\n";
}

TEST(BundleFromConfig, TheDocumentsOfTalos114AreUnderstood) {
  SeededEntropy entropy(4);
  const Bundle bundle = generate_bundle(quick({1, 14, 0}), now, entropy);
  const std::string yaml =
      "version: v1alpha1\nmachine:\n  type: controlplane\n  token: " +
      std::string(bundle.trustd_token.reveal()) + "\n  ca: {crt: " + to_base64(bundle.os.crt) +
      ", key: " + to_base64(bundle.os.key.reveal()) +
      "}\ncluster:\n  token: " + std::string(bundle.bootstrap_token.reveal()) +
      "\n  etcd:\n    ca: {crt: " + to_base64(bundle.etcd.crt) +
      ", key: " + to_base64(bundle.etcd.key.reveal()) +
      "}\n---\napiVersion: v1alpha1\nkind: DiscoveryIdentityConfig\nclusterID: " +
      bundle.cluster_id + "\nclusterSecret: " + std::string(bundle.cluster_secret.reveal()) +
      "\n---\napiVersion: v1alpha1\nkind: KubeAPIServerCAConfig\nissuingCA:\n  cert: |\n" +
      indented(bundle.kubernetes.crt, "    ") + "  key: |\n" +
      indented(bundle.kubernetes.key.reveal(), "    ") +
      "---\napiVersion: v1alpha1\nkind: KubeAggregatorCAConfig\nissuingCA:\n  cert: |\n" +
      indented(bundle.aggregator.crt, "    ") + "  key: |\n" +
      indented(bundle.aggregator.key.reveal(), "    ") +
      "---\napiVersion: v1alpha1\nkind: KubeServiceAccountConfig\nissuer:\n  privateKey: |\n" +
      indented(bundle.service_account_key.reveal(), "    ") +
      "---\napiVersion: v1alpha1\nkind: KubeEtcdEncryptionConfig\nconfig:\n  resources:\n    - "
      "providers:\n"
      "        - secretbox:\n            keys:\n              - name: key2\n                "
      "secret: " +
      std::string(bundle.secretbox_secret.reveal()) +
      "\n        - identity: {}\n      resources: [secrets]\n";
  Diagnostics problems;
  const auto read = read_bundle_from_config(yaml, "controlplane.yaml", problems);
  ASSERT_TRUE(read) << problems.render();
  EXPECT_TRUE(*read == bundle);
}

TEST(BundleFromConfig, WorkersAndOtherFilesAreRefusedByName) {
  const auto refused = [](const std::string& yaml) -> std::string {
    Diagnostics problems;
    EXPECT_FALSE(read_bundle_from_config(yaml, "worker.yaml", problems));
    return problems.problems().empty() ? "" : problems.problems().front().message;
  };
  EXPECT_EQ(refused("machine: {type: worker}\n"),
            "machine.type is `worker`: only a control plane's config holds the whole bundle");
  EXPECT_EQ(refused("kind: HostnameConfig\n"),
            "this is no Talos machine config: no document has `machine:`");
  EXPECT_THAT(refused("machine: [\n"), HasSubstr("worker.yaml:"));
}

TEST(Bundle, ShowsNamesKindsAndExpiriesButNoValue) {
  const Bundle bundle = sample();
  std::vector<std::string> lines;
  for (const BundleItem& item : describe(bundle))
    lines.push_back(item.name + " " + item.kind +
                    (item.expires ? " " + to_string(*item.expires) : ""));
  EXPECT_THAT(lines,
              ElementsAre("cluster.id name", "cluster.secret key", "secrets.bootstraptoken token",
                          "secrets.secretboxencryptionsecret key", "trustdinfo.token token",
                          "certs.etcd authority, ECDSA secp256r1 2036-11-13T03:04:05Z",
                          "certs.k8s authority, ECDSA secp256r1 2036-11-13T03:04:05Z",
                          "certs.k8saggregator authority, ECDSA secp256r1 2036-11-13T03:04:05Z",
                          "certs.k8sserviceaccount key, ECDSA secp256r1",
                          "certs.os authority, Ed25519 2036-11-13T03:04:05Z"));
}

TEST(Talosconfig, NamesThatLookLikeOtherThingsAreQuoted) {
  SeededEntropy entropy(5);
  TalosconfigOptions options;
  options.context = "123";
  options.endpoints = {"10.0.0.11", "10.0.0.12"};
  options.nodes = {"10.0.0.11"};
  const Secret config = mint_talosconfig(sample(), options, now, entropy);
  const text::Value value = text::parse_yaml(config.reveal(), "talosconfig");
  EXPECT_EQ(*value.find("context")->as_string(), "123");
  const text::Value* context = value.find({"contexts", "123"});
  ASSERT_NE(context, nullptr);
  EXPECT_THAT(context->find("endpoints")->items(), SizeIs(2));
  EXPECT_THAT(context->find("nodes")->items(), SizeIs(1));
}

TEST(Kubeconfig, TrustsOldAuthoritiesToo) {
  SeededEntropy entropy(5);
  const Bundle bundle = sample();
  KubeconfigOptions options{"true", "https://10.0.0.20:6443", sample(2).kubernetes.crt};
  const Secret config = mint_kubeconfig(bundle, options, now, entropy);
  const text::Value value = text::parse_yaml(config.reveal(), "kubeconfig");
  EXPECT_EQ(*value.find({"clusters", "0", "name"})->as_string(), "true");
  EXPECT_EQ(
      from_base64(value.find({"clusters", "0", "cluster", "certificate-authority-data"})->text()),
      sample(2).kubernetes.crt + bundle.kubernetes.crt);
}

}  // namespace
}  // namespace rocca::secrets
