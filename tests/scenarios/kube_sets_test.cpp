#include "kube_rig.hpp"
#include "kubernetes/blockers.hpp"
#include "kubernetes/object_set.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

// Sets of objects at the lab's Kubernetes API: applied in order, compared, left to Flux, removed.

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using kube::text_at;
using resources::ObjectSet;
using resources::SetSight;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Written backwards, as people do; and in words that Kubernetes would not use.
constexpr const char* operator_yaml = R"(
apiVersion: a.io/v1
kind: Foo
metadata: { name: first, namespace: ops }
spec: { size: 3 }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: op, namespace: ops }
spec:
  selector: { matchLabels: { app: op } }
  template:
    metadata: { labels: { app: op } }
    spec:
      containers: [ { name: c, image: "img:1", resources: { requests: { cpu: 1000m } } } ]
---
apiVersion: v1
kind: Namespace
metadata: { name: ops }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: foos.a.io }
spec:
  group: a.io
  scope: Namespaced
  names: { plural: foos, singular: foo, kind: Foo, listKind: FooList }
  versions:
    - name: v1
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, properties: { spec: { type: object, properties: { size: { type: integer } } } } } }
)";

/// A set's life without an engine: apply, wait, look again.
class SetLife {
 public:
  explicit SetLife(KubeRig& rig) : rig_(rig) {}

  SetSight look(const ObjectSet& set) {
    SetSight sight = resources::look(client_, discovery_, set, before_);
    before_ = sight.there;
    return sight;
  }

  /// Until nothing differs; what it waited for on the way.
  std::vector<std::string> bring_up(const ObjectSet& set, Duration at_most = 5min) {
    std::vector<std::string> waits;
    const auto add = [&](const std::string& what) {
      if (waits.empty() || waits.back() != what) waits.push_back(what);
    };
    const Instant end = rig_.world.now() + at_most;
    while (rig_.world.now() < end) {
      const SetSight sight = look(set);
      if (sight.hopeless) throw Error(Fault::Rejected, sight.waiting_for);
      if (sight.applied() && sight.waiting_for.empty()) return waits;
      if (sight.applied()) {
        add(sight.waiting_for);
        rig_.world.run_for(2s);
        continue;
      }
      if (const auto late = resources::carry_out(client_, discovery_, set, sight)) {
        const auto verdict = resources::until_applicable(client_, discovery_, set, *late);
        if (!verdict.done) add(verdict.waiting_for);
        rig_.world.run_for(1s);
      }
    }
    ADD_FAILURE() << "still waits for " << (waits.empty() ? "" : waits.back());
    return waits;
  }

  kube::Client& client() { return client_; }
  kube::Discovery& discovery() { return discovery_; }
  std::vector<kube::Name> before() const { return before_; }

 private:
  KubeRig& rig_;
  kube::Client client_ = rig_.client();
  kube::Discovery discovery_{client_};
  std::vector<kube::Name> before_;
};

ObjectSet set_of(const std::string& yaml) {
  return resources::make_set("ops", kube::parse_manifests(yaml, "ops.yaml"));
}

TEST(KubeSets, ComeUpInOrderAndAreThenAsDeclared) {
  KubeRig rig;
  SetLife life{rig};
  const ObjectSet set = set_of(operator_yaml);
  EXPECT_EQ(life.look(set).differ.size(), 4u);
  life.bring_up(set);
  const std::size_t asked = rig.transport.exchanges;
  const SetSight sight = life.look(set);
  EXPECT_TRUE(sight.applied());
  EXPECT_EQ(sight.there.size(), 4u);
  // Nobody writes to find out that nothing differs; a quantity in other words costs one question.
  EXPECT_LE(rig.transport.exchanges - asked, 4u + 1u + 4u);
}

TEST(KubeSets, DriftIsFoundAndPutRight) {
  KubeRig rig;
  SetLife life{rig};
  const ObjectSet set = set_of(operator_yaml);
  life.bring_up(set);
  rig.apply_as(
      "kubectl-edit",
      "{apiVersion: a.io/v1, kind: Foo, metadata: {name: first, namespace: ops}, spec: {size: 9}}");
  const SetSight sight = life.look(set);
  ASSERT_EQ(sight.differ.size(), 1u);
  EXPECT_EQ(sight.differ.front().name.text(), "Foo ops/first");
  EXPECT_THAT(sight.differ.front().how, HasSubstr("spec.size"));
  life.bring_up(set);
  EXPECT_EQ(text_at(life.client().get("/apis/a.io/v1/namespaces/ops/foos/first"), {"spec", "size"}),
            "3");
}

TEST(KubeSets, WhatFluxTakesIsReleasedAndNoLongerOurs) {
  KubeRig rig;
  SetLife life{rig};
  const ObjectSet set = set_of(operator_yaml);
  life.bring_up(set);
  // Flux changes what it keeps; our set differs in nothing but that we still own fields of it.
  rig.apply_as("kustomize-controller",
               "{apiVersion: a.io/v1, kind: Foo, metadata: {name: first, namespace: ops, labels: "
               "{kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: "
               "flux-system}}, spec: {size: 7}}");
  SetSight sight = life.look(set);
  EXPECT_THAT(sight.differ, IsEmpty());
  ASSERT_EQ(sight.release.size(), 1u);
  life.bring_up(set);
  sight = life.look(set);
  EXPECT_TRUE(sight.applied());
  EXPECT_EQ(sight.kept.size(), 1u);
  kube::Value foo = life.client().get("/apis/a.io/v1/namespaces/ops/foos/first");
  EXPECT_EQ(text_at(foo, {"spec", "size"}), "7");
  EXPECT_FALSE(kube::is_applied_by(foo, "rocca"));
  EXPECT_EQ(foo.find({"metadata", "annotations", resources::applied_annotation}), nullptr);
  // Now Flux may even take a field away.
  rig.apply_as("kustomize-controller",
               "{apiVersion: a.io/v1, kind: Foo, metadata: {name: first, namespace: ops, labels: "
               "{kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: "
               "flux-system}}}");
  foo = life.client().get("/apis/a.io/v1/namespaces/ops/foos/first");
  EXPECT_EQ(foo.find({"spec", "size"}), nullptr);
  EXPECT_TRUE(life.look(set).applied());
}

TEST(KubeSets, OnlyWhatIsProvenToBeOursIsRemoved) {
  KubeRig rig;
  SetLife life{rig};
  const std::string map =
      "{apiVersion: v1, kind: ConfigMap, metadata: {name: x-NAME, namespace: default}, data: {a: "
      "b}}\n";
  std::string yaml;
  for (const char* name : {"stays", "goes", "taken", "relabelled"})
    yaml += replace_all(map, "NAME", name) + "---\n";
  life.bring_up(set_of(yaml));
  rig.apply_as("kustomize-controller", replace_all(map, "NAME", "taken"));
  // Somebody made it theirs by another label.
  life.client().patch("/api/v1/namespaces/default/configmaps/x-relabelled", kube::Patch::Merge,
                      kube::parse_manifests("{apiVersion: v1, kind: ConfigMap, metadata: {name: "
                                            "x-relabelled, labels: {rocca.dev/set: other}}}",
                                            "x")
                          .front()
                          .object);
  const ObjectSet smaller = set_of(replace_all(map, "NAME", "stays"));
  const SetSight sight = life.look(smaller);
  ASSERT_EQ(sight.superfluous.size(), 1u);
  EXPECT_EQ(sight.superfluous.front().name, "x-goes");
  life.bring_up(smaller);
  EXPECT_FALSE(life.client().find("/api/v1/namespaces/default/configmaps/x-goes"));
  EXPECT_TRUE(life.client().find("/api/v1/namespaces/default/configmaps/x-taken"));
  EXPECT_TRUE(life.client().find("/api/v1/namespaces/default/configmaps/x-relabelled"));
  EXPECT_TRUE(life.look(smaller).applied());
}

TEST(KubeSets, ARefusedObjectIsNamedWithItsPlace) {
  KubeRig rig;
  SetLife life{rig};
  const ObjectSet set = set_of(
      "\n\n{apiVersion: v1, kind: Service, metadata: {name: s, namespace: default}, spec: {ports: "
      "[{port: 99999999}]}}");
  try {
    life.bring_up(set);
    FAIL() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Rejected);
    EXPECT_THAT(error.render(), HasSubstr("Service default/s (ops.yaml:3:1)"));
  }
}

TEST(KubeSets, ACrdWhoseNamesAreTakenEndsTheWaitWithItsReason) {
  KubeRig rig;
  SetLife life{rig};
  life.bring_up(set_of(operator_yaml));
  const std::string clash = R"(
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: bars.a.io }
spec:
  group: a.io
  scope: Namespaced
  names: { plural: bars, singular: foo, kind: Foo, listKind: FooList }
  versions: [ { name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object } } } ]
---
{ apiVersion: v1, kind: ConfigMap, metadata: { name: after, namespace: default } }
)";
  SetLife second{rig};
  try {
    second.bring_up(resources::make_set("clash", kube::parse_manifests(clash, "clash.yaml")));
    FAIL() << "was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Rejected);
    EXPECT_THAT(error.render(), HasSubstr("in use"));
  }
}

/// MetalLB's race: the pool comes while the webhook that checks it is not listening yet.
class LateWebhook : public testing::TestWithParam<int> {};

TEST_P(LateWebhook, IsWaitedForByItsEndpointAndNeverAFailure) {
  lab::kube::Api::Options options;
  lab::World* world = nullptr;
  Instant listens{};
  options.webhook_listens = [&](const std::string&, const std::string&) {
    return world->now() >= listens;
  };
  KubeRig rig{std::move(options)};
  world = &rig.world;
  SetLife life{rig};
  const std::string manager = std::string{operator_yaml} + R"(
---
apiVersion: v1
kind: Service
metadata: { name: webhook-service, namespace: ops }
spec: { selector: { app: op }, ports: [ { port: 443, targetPort: 9443 } ] }
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: { name: foos }
webhooks:
  - name: foo.a.io
    failurePolicy: Fail
    sideEffects: None
    admissionReviewVersions: [v1]
    clientConfig: { caBundle: Zm9v, service: { name: webhook-service, namespace: ops, path: /validate } }
    rules: [ { apiGroups: [a.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [foos] } ]
)";
  listens = rig.world.now() + std::chrono::seconds{GetParam()};
  life.bring_up(set_of(manager));
  // A second object of the kind is what meets the webhook.
  const bool late = rig.world.now() < listens;
  SetLife pool{rig};
  const auto waits = pool.bring_up(resources::make_set(
      "pool", kube::parse_manifests("{apiVersion: a.io/v1, kind: Foo, metadata: {name: pool, "
                                    "namespace: ops}, spec: {size: 1}}",
                                    "pool.yaml")));
  if (!late) {
    EXPECT_THAT(waits, IsEmpty());
    return;
  }
  ASSERT_FALSE(waits.empty());
  EXPECT_THAT(waits.front(), HasSubstr("webhook foo.a.io"));
  EXPECT_THAT(waits.front(), HasSubstr("ops/webhook-service"));
  EXPECT_THAT(waits.front(), HasSubstr("Foo ops/pool"));
}

INSTANTIATE_TEST_SUITE_P(By, LateWebhook, testing::Values(0, 7, 31, 60, 97, 120));

/// What is said behind Flux's own words, from nothing at all to a webhook that should answer.
TEST(Webhooks, HowTheServiceBehindOneStandsIsSaid) {
  KubeRig rig;
  kube::Client client = rig.client();
  kube::Discovery discovery{client};
  const auto behind = [&] {
    return resources::webhook_behind(
        client, discovery,
        "Internal error occurred: failed calling webhook \"foo.a.io\": failed to call webhook: "
        "Post "
        "\"https://webhook-service.ops.svc:443/validate?timeout=10s\": no endpoints available");
  };
  const std::string slice = "(it waits for an EndpointSlice of Service ops/webhook-service";
  EXPECT_EQ(behind(), " " + slice + " (there is no such Service))");
  rig.apply_as("theirs", "{ apiVersion: v1, kind: Namespace, metadata: { name: ops } }");
  rig.apply_as("theirs", R"(
apiVersion: v1
kind: Service
metadata: { name: webhook-service, namespace: ops }
spec: { ports: [ { port: 443, targetPort: 9443 } ] }
)");
  rig.world.run_for(5s);
  EXPECT_EQ(behind(), " " + slice + " (it selects no Pods))");
  const auto endpoint_is = [&](const char* ready) {
    rig.apply_as("theirs", fmt::format(R"(
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: by-hand, namespace: ops, labels: {{ kubernetes.io/service-name: webhook-service }} }}
addressType: IPv4
ports: [ {{ port: 9443 }} ]
endpoints: [ {{ addresses: [10.244.0.9], conditions: {{ ready: {} }} }} ]
)",
                                       ready));
  };
  endpoint_is("false");
  EXPECT_EQ(behind(),
            " (it waits for a ready endpoint of Service ops/webhook-service (1 is there, none "
            "ready) (it selects no Pods))");
  endpoint_is("true");
  EXPECT_EQ(behind(), " (Service ops/webhook-service has a ready endpoint)");
  EXPECT_EQ(resources::webhook_behind(client, discovery, "HelmChart 'flux/x' is not ready"), "");
  EXPECT_EQ(
      resources::webhook_behind(client, discovery, "Get \"https://charts.io/index.yaml\": EOF"), "")
      << "no Service of the cluster";
}

}  // namespace
}  // namespace rocca::scenarios
