// Our own client of Kubernetes at a real API server whose nodes and pods come and go.
//
//   peer_kube KUBECONFIG [controllers]     with a controller manager, workloads roll out, too

#include "base/files.hpp"
#include "checks.hpp"
#include "kube/evict.hpp"
#include "kube/lease.hpp"
#include "kube/manifests.hpp"
#include "kube/waits.hpp"
#include "kube/watch.hpp"
#include "net/curl_transport.hpp"
#include "text/yaml.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <thread>

namespace rocca::peers {
namespace {

using namespace std::chrono_literals;
using kube::text_at;
using kube::Value;

Value yaml(const std::string& text) {
  return text::parse_yaml(text, "object");
}

constexpr const char* maps = "/api/v1/namespaces/default/configmaps";

class Session {
 public:
  explicit Session(const std::string& path)
      : client(way_, files_, kube::load_kubeconfig(files_, path), "rocca"),
        flux(way_, files_, kube::load_kubeconfig(files_, path), "kustomize-controller"),
        discovery(client) {}

  void apply(const Value& object) {
    const auto path = discovery.find_path(kube::name_of(object));
    expect(path.has_value(), "its kind is not served");
    const auto made = client.try_apply(*path, object, false);
    if (const auto* refused = std::get_if<kube::Failure>(&made)) throw Failure(refused->message);
  }
  /// A real server takes the time it takes; asked again every fifth of a second.
  void wait(const kube::Wait& what, std::chrono::seconds at_most = 90s) {
    const Tick end = clock.tick() + at_most;
    while (true) {
      const kube::Verdict verdict = kube::check(client, discovery, what);
      if (verdict.done) return;
      expect(!verdict.hopeless && clock.tick() < end, verdict.waiting_for);
      std::this_thread::sleep_for(200ms);
    }
  }

 private:
  net::CurlTransport way_;
  RealFiles files_;

 public:
  SystemClock clock;
  kube::Client client;
  kube::Client flux;  // the same server under Flux's name
  kube::Discovery discovery;
};

void check_ownership(Session& at) {
  const std::string path = std::string(maps) + "/owned";
  at.apply(
      yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, namespace: default}, data: "
           "{a: one, b: two}}"));
  const Value theirs = yaml(
      "{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, namespace: default}, data: "
      "{a: flux}}");
  const auto refused = at.flux.apply(path, theirs, false);
  expect(std::holds_alternative<kube::Failure>(refused) &&
             std::get<kube::Failure>(refused).owned_by_others(),
         "a field of ours was taken without force");
  expect(std::holds_alternative<Value>(at.flux.apply(path, theirs, true)), "force did not take it");
  Value live = at.client.get(path);
  expect(kube::is_applied_by(live, "rocca") && kube::is_applied_by(live, "kustomize-controller"),
         "both should own fields");
  expect_equal(text_at(live, {"data", "b"}), "two", "what only we own");
  expect(at.client.release(path, live), "there was nothing to release");
  live = at.client.get(path);
  expect(!kube::is_applied_by(live, "rocca"), "we still own fields");
  expect_equal(text_at(live, {"data", "a"}), "flux", "what Flux owns");
  expect(live.find({"data", "b"}) == nullptr, "what only we owned is still there");
  const Value less = yaml(
      "{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, namespace: default}, data: {c: "
      "three}}");
  at.flux.apply(path, less, true);
  live = at.client.get(path);
  expect(live.find({"data", "a"}) == nullptr, "Flux cannot remove what it owns alone");
  expect(at.client.remove(path), "it was not there");
}

void check_rehearsal(Session& at) {
  const std::string path = std::string(maps) + "/rehearsed";
  const Value wanted = yaml(
      "{apiVersion: v1, kind: ConfigMap, metadata: {name: rehearsed, namespace: default}, data: "
      "{a: one}}");
  expect(std::holds_alternative<Value>(at.client.try_apply(path, wanted, true)), "it was refused");
  expect(!at.client.find(path), "a rehearsal left something behind");
}

void check_watch(Session& at) {
  kube::Watch watch{at.client, maps};
  watch.list();
  at.client.create(maps, yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: seen}}"));
  at.client.remove(std::string(maps) + "/seen");
  std::string seen;
  const auto end = watch.follow(
      [&](const kube::WatchEvent& event) {
        if (text_at(event.object, {"metadata", "name"}) != "seen") return true;
        seen += event.type == kube::WatchEvent::Type::Added ? "+" : "-";
        return event.type != kube::WatchEvent::Type::Deleted;
      },
      30s);
  expect(end == kube::Watch::End::Enough, "the watch did not see it go");
  expect_equal(seen, "+-", "what the watch saw");
  kube::Watch old{at.client, maps};
  old.list();
  expect(old.follow([](const kube::WatchEvent&) { return true; }, 1s) == kube::Watch::End::Closed,
         "a watch that is over in time is closed");
}

void check_lease(Session& at) {
  kube::LeaseClaim one{at.client, at.clock, {"default", "peer", "one"}};
  kube::LeaseClaim two{at.client, at.clock, {"default", "peer", "two"}};
  expect(one.hold(), "the first does not get it");
  expect(!two.hold(), "both have it");
  expect_equal(two.holder(), "one", "the holder");
  expect(one.hold(), "it cannot be renewed");
  one.release();
  expect(two.hold(), "it was not let go of");
  two.release();
}

void check_definition(Session& at) {
  const Value definition = yaml(R"(
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: foos.peers.rocca.dev }
spec:
  group: peers.rocca.dev
  scope: Namespaced
  names: { plural: foos, singular: foo, kind: Foo, listKind: FooList }
  versions:
    - name: v1
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, properties: { spec: { type: object, properties: { size: { type: integer } } } } } }
)");
  at.apply(definition);
  at.wait(kube::waits_for(definition).front());
  at.apply(
      yaml("{apiVersion: peers.rocca.dev/v1, kind: Foo, metadata: {name: one, namespace: default}, "
           "spec: {size: 3}}"));
  const auto wrong = at.client.try_apply(
      "/apis/peers.rocca.dev/v1/namespaces/default/foos/two",
      yaml("{apiVersion: peers.rocca.dev/v1, kind: Foo, metadata: {name: two, namespace: default}, "
           "spec: {size: big}}"),
      false);
  const auto* refused = std::get_if<kube::Failure>(&wrong);
  expect(refused != nullptr && refused->remedy() == kube::Remedy::Report,
         "what the schema forbids was taken");
}

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

void check_rollout(Session& at) {
  for (const std::string& text : {std::string(web), std::string(R"(
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: agent, namespace: default }
spec:
  selector: { matchLabels: { app: agent } }
  template:
    metadata: { labels: { app: agent } }
    spec: { tolerations: [ { operator: Exists } ], containers: [ { name: c, image: "img:1" } ] }
)"),
                                  std::string(R"(
apiVersion: batch/v1
kind: Job
metadata: { name: once, namespace: default }
spec: { template: { spec: { restartPolicy: Never, containers: [ { name: c, image: "img:1" } ] } } }
)")}) {
    const Value object = yaml(text);
    at.apply(object);
    for (const kube::Wait& wait : kube::waits_for(object)) at.wait(wait);
  }
  at.apply(
      yaml("{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: "
           "{selector: {app: web}, ports: [{port: 80}]}}"));
  at.wait({kube::Wait::For::Endpoint, {"v1", "Service", "default", "web"}});
}

void check_eviction(Session& at) {
  at.apply(
      yaml("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: "
           "default}, spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}}"));
  const auto pods =
      at.client.list("/api/v1/namespaces/default/pods", kube::Query{{"labelSelector", "app=web"}});
  const auto leaving = kube::leaving(pods);
  expect(leaving.size() == 2, fmt::format("{} pods would leave, not 2", leaving.size()));
  const kube::Leaving first = leaving.front();
  const Tick end = at.clock.tick() + 30s;
  kube::Eviction blocked = kube::evict(at.client, first.space, first.name, first.uid);
  // Until the budget was looked at for the first time it says only that it is being processed.
  while (blocked.answer == kube::Eviction::Answer::Later &&
         blocked.why.find("needs 2") == std::string::npos && at.clock.tick() < end) {
    std::this_thread::sleep_for(300ms);
    blocked = kube::evict(at.client, first.space, first.name, first.uid);
  }
  expect(blocked.answer == kube::Eviction::Answer::Later, "the budget did not hold it");
  expect(blocked.why.find("needs 2 healthy pods") != std::string::npos, blocked.why);
  at.client.remove("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web");
  expect(kube::evict(at.client, first.space, first.name, first.uid).answer ==
             kube::Eviction::Answer::Accepted,
         "the eviction was not accepted");
  at.wait({kube::Wait::For::Gone, {"v1", "Pod", first.space, first.name}});
  at.wait({kube::Wait::For::RolledOut, {"apps/v1", "Deployment", "default", "web"}});
  expect(kube::evict(at.client, "default", "nobody").answer == kube::Eviction::Answer::Gone,
         "a pod that is not there is gone");
}

void check_stateful_set(Session& at) {
  const Value set = yaml(R"(
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: kept, namespace: default }
spec:
  serviceName: kept
  replicas: 2
  selector: { matchLabels: { app: kept } }
  template:
    metadata: { labels: { app: kept } }
    spec: { containers: [ { name: c, image: "img:1" } ] }
)");
  at.apply(set);
  for (const kube::Wait& wait : kube::waits_for(set)) at.wait(wait);
}

/// A wait that cannot end says why in the words of who knows.
void check_blocked(Session& at) {
  Value nowhere = yaml(web);
  nowhere.find("metadata")->set("name", Value::string("nowhere"));
  for (const char* part : {"selector", "template"}) {
    Value& below = *nowhere.find({"spec", part});
    Value* labels = below.find("matchLabels");
    if (labels == nullptr) labels = below.find({"metadata", "labels"});
    labels->set("app", Value::string("nowhere"));
  }
  nowhere.find({"spec", "template", "spec"})
      ->set("nodeSelector", Value::map())
      .set("there", Value::string("is-none"));
  at.apply(nowhere);
  const kube::Wait wait{kube::Wait::For::RolledOut,
                        {"apps/v1", "Deployment", "default", "nowhere"}};
  const Tick end = at.clock.tick() + 60s;
  std::string why;
  while (why.find("affinity/selector") == std::string::npos && at.clock.tick() < end) {
    const kube::Verdict verdict = kube::check(at.client, at.discovery, wait);
    expect(!verdict.done, "it rolled out on no node");
    why = verdict.waiting_for;
    std::this_thread::sleep_for(200ms);
  }
  expect(why.find("affinity/selector") != std::string::npos, "the wait says only: " + why);
}

/// A webhook whose Service nobody listens at: too early, not wrong.
void check_webhook(Session& at) {
  at.apply(
      yaml("{apiVersion: v1, kind: Service, metadata: {name: hook, namespace: default}, spec: "
           "{selector: {app: hook}, ports: [{port: 443}]}}"));
  at.apply(yaml(R"(
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: { name: peers }
webhooks:
  - name: hook.peers.rocca.dev
    admissionReviewVersions: [v1]
    sideEffects: None
    objectSelector: { matchLabels: { hooked: "yes" } }
    clientConfig: { service: { namespace: default, name: hook } }
    rules: [ { apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps] } ]
)"));
  kube::Wait wait{kube::Wait::For::Webhook, {"v1", "ConfigMap", "default", "hooked"}};
  wait.probe = yaml(
      "{apiVersion: v1, kind: ConfigMap, metadata: {name: hooked, namespace: default, labels: "
      "{hooked: 'yes'}}}");
  // Until the server knows of its webhook everything is taken.
  const Tick end = at.clock.tick() + 30s;
  kube::Verdict verdict = kube::check(at.client, at.discovery, wait);
  while (verdict.done && at.clock.tick() < end) {
    std::this_thread::sleep_for(200ms);
    verdict = kube::check(at.client, at.discovery, wait);
  }
  expect(!verdict.done && !verdict.hopeless, "nobody listens, and yet: " + verdict.waiting_for);
  expect(verdict.waiting_for.find("hook") != std::string::npos, verdict.waiting_for);
  expect(at.client.remove("/apis/admissionregistration.k8s.io/v1/"
                          "validatingwebhookconfigurations/peers"),
         "it was not there");
  at.wait(wait);
}

void check_removal(Session& at) {
  kube::Removal removal;
  removal.propagation = "Foreground";
  const std::string path = "/apis/apps/v1/namespaces/default/deployments/web";
  expect(at.client.remove(path, removal), "it was not there");
  at.wait({kube::Wait::For::Gone, {"apps/v1", "Deployment", "default", "web"}});
  expect(at.client
             .list("/apis/apps/v1/namespaces/default/replicasets",
                   kube::Query{{"labelSelector", "app=web"}})
             .empty(),
         "it went before what it owned");
}

int run(const std::string& kubeconfig, bool controllers) {
  Session at{kubeconfig};
  Checks checks;
  checks.run("nodes are ready", [&] {
    const auto nodes = at.client.list("/api/v1/nodes");
    expect(!nodes.empty(), "there are none");
    for (const Value& node : nodes)
      at.wait({kube::Wait::For::Condition,
               {"v1", "Node", "", text_at(node, {"metadata", "name"})},
               "Ready"});
  });
  checks.run("ownership, conflict and release", [&] { check_ownership(at); });
  checks.run("a rehearsal", [&] { check_rehearsal(at); });
  checks.run("a watch", [&] { check_watch(at); });
  checks.run("a Lease", [&] { check_lease(at); });
  checks.run("a definition and its kind", [&] { check_definition(at); });
  if (controllers) {
    checks.run("rollouts", [&] { check_rollout(at); });
    checks.run("an eviction and its budget", [&] { check_eviction(at); });
    checks.run("a StatefulSet", [&] { check_stateful_set(at); });
    checks.run("a rollout that is blocked", [&] { check_blocked(at); });
    checks.run("a webhook that does not listen", [&] { check_webhook(at); });
    checks.run("a removal in the foreground", [&] { check_removal(at); });
  }
  return checks.exit_code();
}

}  // namespace
}  // namespace rocca::peers

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fmt::print(stderr, "usage: peer_kube KUBECONFIG [controllers]\n");
    return 2;
  }
  return rocca::peers::run(argv[1], argc == 3);
}
