#include "kube/manifests.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const std::vector<Manifest>& manifests) {
  std::vector<std::string> all;
  for (const Manifest& manifest : manifests) all.push_back(manifest.name.text());
  return all;
}

std::string refusal(const std::string& text) {
  try {
    ordered(parse_manifests(text, "a.yaml"));
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    return error.message();
  }
  return "taken";
}

TEST(Manifests, AreReadFromManyDocumentsAndLists) {
  const auto all = parse_manifests(R"(# only a comment
---
---
apiVersion: v1
kind: List
items:
  - { apiVersion: v1, kind: ConfigMap, metadata: { name: a, namespace: x } }
  - { apiVersion: v1, kind: ConfigMap, metadata: { name: b, namespace: x } }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, creationTimestamp: null }
status: {}
)",
                                   "a.yaml");
  EXPECT_THAT(names(all), ElementsAre("ConfigMap x/a", "ConfigMap x/b", "Deployment web"));
  EXPECT_EQ(all[2].place, "a.yaml:10:1");
  EXPECT_EQ(all[2].object.find("status"), nullptr);
  EXPECT_EQ(all[2].object.find({"metadata", "creationTimestamp"}), nullptr);
  EXPECT_EQ(all[2].name.group(), "apps");
}

TEST(Manifests, GoInTheOrderInWhichTheyNeedEachOther) {
  const auto all = ordered(parse_manifests(R"(
{ apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: { name: w } }
---
{ apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: { name: pool, namespace: m } }
---
{ apiVersion: apps/v1, kind: Deployment, metadata: { name: d, namespace: m } }
---
{ apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: { name: fast } }
---
{ apiVersion: v1, kind: Secret, metadata: { name: s, namespace: m } }
---
{ apiVersion: v1, kind: Namespace, metadata: { name: m } }
---
{ apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: { name: c } }
)",
                                           "a.yaml"));
  EXPECT_THAT(names(all), ElementsAre("CustomResourceDefinition c", "Namespace m",
                                      "StorageClass fast", "Secret m/s", "Deployment m/d",
                                      "IPAddressPool m/pool", "ValidatingWebhookConfiguration w"));
  EXPECT_EQ(stage_of(all.front().name), Stage::Definitions);
  EXPECT_EQ(stage_of(all.back().name), Stage::Admission);
}

TEST(Manifests, SayWhereTheyAreWrong) {
  EXPECT_THAT(refusal("apiVersion: v1\nkind: ConfigMap\ndata: [\n"), HasSubstr("a.yaml:"));
  EXPECT_EQ(refusal("---\n- 1\n"), "a.yaml:2:1: is no Kubernetes object");
  EXPECT_EQ(refusal("kind: ConfigMap\nmetadata: { name: x }\n"),
            "a.yaml:1:1: the object has no apiVersion");
  EXPECT_EQ(refusal("apiVersion: v1\nkind: ConfigMap\n"),
            "a.yaml:1:1: the ConfigMap has no metadata.name");
  EXPECT_THAT(refusal("apiVersion: batch/v1\nkind: Job\nmetadata: { generateName: x- }\n"),
              HasSubstr("generateName"));
  EXPECT_EQ(refusal("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n---\n"
                    "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n"),
            "a.yaml:3:1: ConfigMap x stands already at a.yaml:1:1");
}

TEST(Manifests, AreGivenANamespaceAndALabel) {
  auto all = parse_manifests("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}", "a.yaml");
  set_default_space(all[0], true, "apps");
  set_label(all[0].object, "rocca.dev/set", "base");
  EXPECT_EQ(all[0].name.text(), "ConfigMap apps/x");
  EXPECT_EQ(text_at(all[0].object, {"metadata", "namespace"}), "apps");
  EXPECT_EQ(text_at(all[0].object, {"metadata", "labels", "rocca.dev/set"}), "base");
  set_default_space(all[0], false, "apps");  // of the whole cluster
  EXPECT_EQ(all[0].object.find({"metadata", "namespace"}), nullptr);
}

TEST(Names, ComeBackFromTheirKeys) {
  const Name name{"apps/v1", "Deployment", "default", "web"};
  EXPECT_EQ(parse_key(to_key(name)), name);
  EXPECT_EQ(parse_key("a|b|c"), std::nullopt);
  EXPECT_EQ(parse_key("|Kind||name"), std::nullopt);
}

TEST(Objects, DifferWhereTheyDiffer) {
  const auto read = [](const char* text) { return parse_manifests(text, "x").front().object; };
  const Value a =
      read("{apiVersion: v1, kind: K, metadata: {name: x}, spec: {a: 1, b: [1, 2], c: 3}}");
  const Value b =
      read("{apiVersion: v1, kind: K, metadata: {name: x}, spec: {a: 2, b: [1, 9], d: 4}}");
  EXPECT_THAT(differing_fields(a, b), ElementsAre("spec.a", "spec.b[1]", "spec.c", "spec.d"));
  EXPECT_TRUE(differing_fields(a, a).empty());
  EXPECT_EQ(differing_fields(a, b, 2).size(), 2u);
}

}  // namespace
}  // namespace rocca::kube
