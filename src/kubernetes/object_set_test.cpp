#include "base/encoding.hpp"
#include "base/entropy.hpp"
#include "kube/object.hpp"
#include "kubernetes/object_set_resource.hpp"
#include "secrets/crypto.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

secrets::Bundle bundle_of(std::uint64_t seed) {
  SeededEntropy entropy{seed};
  secrets::BundleOptions options;
  options.service_account_key = [](Entropy& from) {
    return secrets::PrivateKey::generate(secrets::KeyAlgorithm::EcdsaP256, from);
  };
  return secrets::generate_bundle(options, Instant{std::chrono::seconds{1'763'000'000}}, entropy);
}

ObjectSet set_with(const std::string& password) {
  const text::Value object = text::parse_yaml(
      fmt::format("apiVersion: v1\nkind: Secret\nmetadata: {{ name: db, namespace: default }}\n"
                  "stringData: {{ password: {} }}\n",
                  password),
      "test");
  return make_set("db", kube::parse_manifests(text::emit_yaml(object), "test"));
}

// The state is no secret: with it alone, words cannot be tried against the digest.
TEST(ContentsDigest, CannotBeMadeWithoutTheSecretsBundle) {
  const secrets::Bundle ours = bundle_of(1), other = bundle_of(2);
  const ObjectSet set = set_with("hunter22");
  const std::string digest = contents_digest(set, ours);
  EXPECT_EQ(digest, contents_digest(set_with("hunter22"), ours)) << "the same set is known again";
  EXPECT_NE(digest, contents_digest(set_with("hunter23"), ours));
  EXPECT_NE(digest, contents_digest(set, other)) << "it is keyed";
  EXPECT_EQ(digest.size(), 32u);
}

// All that the bundle's public part and the set itself give is not enough either.
TEST(ContentsDigest, IsNoPlainDigestOfTheSet) {
  const secrets::Bundle ours = bundle_of(1);
  const ObjectSet set = set_with("hunter22");
  std::string all;
  for (const kube::Manifest& manifest : set.objects)
    all += kube::to_key(manifest.name) + "=" +
           kube::text_at(manifest.object, {"metadata", "annotations", applied_annotation}) + "\n";
  const std::string digest = contents_digest(set, ours);
  for (const std::string& guess : {all, "set\n" + all, ours.cluster_id + all})
    EXPECT_NE(digest, to_hex(secrets::crypto::sha256(guess)).substr(0, 32));
}

}  // namespace
}  // namespace rocca::resources
