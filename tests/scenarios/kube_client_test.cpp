#include "kube/evict.hpp"
#include "kube/lease.hpp"
#include "kube/watch.hpp"
#include "kube_rig.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

// Our client at the lab's Kubernetes API.

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using kube::text_at;
using kube::Value;
using kube::Wait;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* web = R"(
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: default }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [ { name: c, image: "img:1" } ] }
)";

Value yaml(const std::string& text) {
  return text::parse_yaml(text, "object");
}

TEST(KubeClient, AppliesRehearsesAndReleases) {
  KubeRig rig;
  kube::Client client = rig.client();
  const std::string path = "/api/v1/namespaces/default/configmaps/settings";
  const Value wanted =
      yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: one, b: two}}");
  const auto rehearsed = client.try_apply(path, wanted, true);
  EXPECT_TRUE(std::holds_alternative<Value>(rehearsed));
  EXPECT_FALSE(client.find(path));  // a rehearsal leaves nothing behind
  ASSERT_TRUE(std::holds_alternative<Value>(client.try_apply(path, wanted, false)));
  rig.apply_as("kustomize-controller",
               "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}, "
               "data: {a: flux}}");
  Value live = client.get(path);
  EXPECT_TRUE(kube::is_applied_by(live, "rocca"));
  EXPECT_EQ(kube::flux_owner(live), "kustomize-controller");
  EXPECT_EQ(text_at(live, {"data", "b"}), "two");
  // What only we own goes with us, what Flux owns stays.
  EXPECT_TRUE(client.release(path, live));
  live = client.get(path);
  EXPECT_FALSE(kube::is_applied_by(live, "rocca"));
  EXPECT_EQ(text_at(live, {"data", "a"}), "flux");
  EXPECT_EQ(live.find({"data", "b"}), nullptr);
  // One that is gone is not made by letting go of it.
  EXPECT_TRUE(client.remove(path));
  EXPECT_FALSE(client.release(path, live));
  EXPECT_FALSE(client.find(path));
}

TEST(KubeClient, ARolloutIsWaitedForAndAnImageThatIsNotThereIsNamed) {
  lab::kube::Api::Options options;
  options.refuse_image = [](const std::string& image) -> std::optional<std::string> {
    if (image != "gone:1") return std::nullopt;
    return "failed to resolve reference \"gone:1\": not found";
  };
  KubeRig rig{std::move(options)};
  kube::Client client = rig.client();
  kube::Discovery discovery{client};
  const Value wanted = yaml(web);
  const Wait wait = kube::waits_for(wanted).front();
  EXPECT_EQ(kube::check(client, discovery, wait).waiting_for,
            "Deployment default/web to roll out (it is not there)");
  const std::string path = discovery.find_path(kube::name_of(wanted)).value();
  client.try_apply(path, wanted, false);
  EXPECT_FALSE(kube::check(client, discovery, wait).done);
  rig.world.run_for(30s);
  EXPECT_TRUE(kube::check(client, discovery, wait).done);
  Value broken = wanted;
  broken.find({"spec", "template", "spec", "containers", "0"})
      ->set("image", Value::string("gone:1"));
  client.try_apply(path, broken, false);
  rig.world.run_for(60s);
  const kube::Verdict verdict = kube::check(client, discovery, wait);
  EXPECT_FALSE(verdict.done);
  EXPECT_THAT(verdict.waiting_for, HasSubstr("gone:1"));
  EXPECT_THAT(verdict.waiting_for, HasSubstr("not found"));
}

TEST(KubeClient, AWatchSeesWhatHappensAndAnswersARestartWithANewList) {
  KubeRig rig;
  kube::Client client = rig.client();
  const std::string maps = "/api/v1/namespaces/default/configmaps";
  kube::Watch watch{client, maps};
  const std::size_t before = watch.list().size();
  rig.world.after(2s, [&] {
    client.create(maps, yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}"));
  });
  std::vector<std::string> seen;
  const auto on = [&](const kube::WatchEvent& event) {
    if (event.type == kube::WatchEvent::Type::Added)
      seen.push_back(text_at(event.object, {"metadata", "name"}));
    return true;
  };
  EXPECT_EQ(watch.follow(on, 5s), kube::Watch::End::Closed);
  EXPECT_THAT(seen, ElementsAre("x"));
  client.create(maps, yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: y}}"));
  rig.api->restart();
  EXPECT_EQ(watch.follow(on, 5s), kube::Watch::End::TooOld);
  EXPECT_EQ(watch.list().size(), before + 2);
}

TEST(KubeClient, OneOfTwoHoldsALeaseUntilItFallsSilent) {
  KubeRig rig;
  kube::Client client = rig.client();
  kube::LeaseClaim one{client, rig.world.clock(), {"default", "rocca", "one"}};
  kube::LeaseClaim two{client, rig.world.clock(), {"default", "rocca", "two"}};
  EXPECT_TRUE(one.hold());
  EXPECT_FALSE(two.hold());
  EXPECT_EQ(two.holder(), "one");
  rig.world.run_for(10s);
  EXPECT_TRUE(one.hold());  // renewed
  EXPECT_FALSE(two.hold());
  rig.world.run_for(10s);
  EXPECT_FALSE(two.hold());  // only ten seconds since it changed
  rig.world.run_for(6s);
  EXPECT_TRUE(two.hold());
  EXPECT_FALSE(one.hold());
  two.release();
  EXPECT_TRUE(one.hold());  // at once
  const Value lease = client.get("/apis/coordination.k8s.io/v1/namespaces/default/leases/rocca");
  EXPECT_EQ(kube::int_at(lease, {"spec", "leaseTransitions"}), 2);
}

TEST(KubeClient, AnEvictionWaitsForItsBudget) {
  KubeRig rig;
  kube::Client client = rig.client();
  kube::Discovery discovery{client};
  const Value wanted = yaml(web);
  client.try_apply(discovery.find_path(kube::name_of(wanted)).value(), wanted, false);
  client.try_apply("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web",
                   yaml("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, "
                        "spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}"),
                   false);
  rig.world.run_for(30s);
  const auto pods = client.list("/api/v1/namespaces/default/pods", {{"labelSelector", "app=web"}});
  ASSERT_EQ(kube::leaving(pods).size(), 2u);
  const kube::Leaving first = kube::leaving(pods).front();
  const kube::Eviction blocked = kube::evict(client, first.space, first.name, first.uid);
  EXPECT_EQ(blocked.answer, kube::Eviction::Answer::Later);
  EXPECT_THAT(blocked.why, HasSubstr("needs 2 healthy pods"));
  client.remove("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web");
  EXPECT_EQ(kube::evict(client, first.space, first.name, first.uid).answer,
            kube::Eviction::Answer::Accepted);
  EXPECT_EQ(kube::evict(client, first.space, "nobody").answer, kube::Eviction::Answer::Gone);
}

TEST(KubeClient, KnowsACustomKindOnceItsDefinitionIsThere) {
  KubeRig rig;
  kube::Client client = rig.client();
  kube::Discovery discovery{client};
  const kube::Name foo{"a.io/v1", "Foo", "", "x"};
  EXPECT_FALSE(discovery.find_path(foo));
  const auto definition = kube::parse_manifests(R"(
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
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
)",
                                                "crd.yaml")
                              .front();
  client.try_apply(discovery.find_path(definition.name).value(), definition.object, false);
  rig.world.run_for(5s);
  EXPECT_TRUE(kube::check(client, discovery, kube::waits_for(definition.object).front()).done);
  EXPECT_EQ(discovery.find_path(foo), "/apis/a.io/v1/namespaces/default/foos/x");
  const auto all = discovery.all();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                          [](const kube::Kind& kind) { return kind.plural == "foos"; }));
}

}  // namespace
}  // namespace rocca::scenarios
