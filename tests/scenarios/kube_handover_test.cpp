#include "base/encoding.hpp"
#include "kube_rig.hpp"
#include "kubernetes/addons.hpp"
#include "kubernetes/handover.hpp"
#include "kubernetes/object_set_resource.hpp"
#include "platform/survey.hpp"
#include "scenarios/engine_rig.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

// The handover's things at the lab's Kubernetes API, with somebody who plays Flux: what is put
// there, what is waited for, what is said when it does not come, and that it is left alone after.

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using kube::text_at;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using text::Value;

std::string definition(const char* group, const char* version, const char* kind,
                       const char* plural) {
  return fmt::format(R"(---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{ name: {3}.{0} }}
spec:
  group: {0}
  scope: Namespaced
  names: {{ plural: {3}, singular: {4}, kind: {2}, listKind: {2}List }}
  versions:
    - name: {1}
      served: true
      storage: true
      subresources: {{ status: {{}} }}
      schema: {{ openAPIV3Schema: {{ type: object, x-kubernetes-preserve-unknown-fields: true }} }}
)",
                     group, version, kind, plural, to_lower(kind));
}

/// Flux's release, cut to what the handover looks at.
std::string flux_release() {
  std::string text = "{ apiVersion: v1, kind: Namespace, metadata: { name: flux-system } }\n";
  text += definition("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories");
  text += definition("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations");
  for (const char* name : {"source-controller", "kustomize-controller"})
    text += fmt::format(R"(---
apiVersion: apps/v1
kind: Deployment
metadata: {{ name: {0}, namespace: flux-system }}
spec:
  selector: {{ matchLabels: {{ app: {0} }} }}
  template:
    metadata: {{ labels: {{ app: {0} }} }}
    spec: {{ containers: [ {{ name: manager, image: "flux:1" }} ] }}
)",
                        name);
  return text;
}

constexpr const char* source_path =
    "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/flux-system";
constexpr const char* root_path =
    "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/flux-system";
constexpr const char* secret_path = "/api/v1/namespaces/flux-system/secrets/flux-system";

class HandoverTest : public testing::Test {
 protected:
  HandoverTest() {
    files.make_folder("/blue");
    secrets["flux.git"] = "token-one";
    load();
  }

  void load(const std::string& more = "") {
    const std::string yaml = fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos: {{ version: v1.11.5 }}
  kubernetes: {{ version: v1.34.1 }}
  network: {{ addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }}
  nodes:
    cp-1: {{ role: controlplane, address: 10.0.0.11, existing: true }}
  timeouts: {{ handover: 3m }}
  handover:
    flux: {{ url: "https://git.home/ann/fleet", path: clusters/blue, auth: {{ secret: flux.git }} }}
{})",
                                         more);
    spec::Loaded loaded = spec::load_text(files, yaml, "cluster.yaml", "/blue");
    if (loaded.diagnostics.has_errors()) throw Error(Fault::Usage, loaded.diagnostics.render());
    talos::Surroundings around;
    around.bundle = test_bundle();
    cluster = resources::make_cluster(std::move(loaded.spec), {}, std::move(around), {}, files,
                                      rig.world.clock(), entropy);
    outside = std::make_shared<resources::Outside>();
    outside->addon_texts["flux"] = flux_release();
    outside->search = [this](const spec::SecretRef& reference) -> std::optional<Secret> {
      const auto found = secrets.find(reference.path);
      return found == secrets.end() ? std::nullopt : std::optional{Secret{found->second}};
    };
    outside->secret = [this](const spec::SecretRef& reference, const std::string& who) {
      const auto found = secrets.find(reference.path);
      if (found == secrets.end()) throw Error(Fault::NotFound, reference.path + " for " + who);
      return Secret{found->second};
    };
    things.clear();
    const auto add = [this](const resources::Made& made) { things.push_back(made); };
    resources::make_addons(cluster, outside, add);
    resources::make_handover(cluster, outside, add);
    known.learn("bootstrap/blue", engine::Fields{{"done", "yes"}});
  }

  template <class Body>
  auto in_world(Body body) {
    const resources::Storage storage = resources::folder_storage(files, "/blue");
    resources::World world{cluster,           survey,  known, rig.transport, files, storage,
                           rig.world.clock(), entropy, {}};
    return body(world);
  }

  /// What a run would do about one thing.
  engine::Change plan(const resources::Resource& thing) {
    return in_world([&](resources::World& world) {
      const auto live = thing.read(world);
      known.learn(thing.address(), live ? std::optional{live->facts} : std::nullopt);
      return thing.diff(live);
    });
  }

  /// As the executor does it: read, compare, act, ask until it is over, read again.
  void settle(const resources::Resource& thing) {
    const Instant end = rig.world.now() + 5min;
    while (true) {
      const auto live = in_world([&](resources::World& world) { return thing.read(world); });
      if (live) known.learn(thing.address(), live->facts);
      const engine::Change change = thing.diff(live);
      if (change.none()) return;
      const auto receipt =
          in_world([&](resources::World& world) { return thing.apply(world, change, live); });
      while (true) {
        const auto progress =
            in_world([&](resources::World& world) { return thing.probe(world, receipt); });
        const auto* wait = std::get_if<engine::NotYet>(&progress);
        if (wait == nullptr) break;
        if (waits.empty() || waits.back() != wait->waiting_for) waits.push_back(wait->waiting_for);
        if (rig.world.now() > end) throw Error(Fault::Timeout, wait->waiting_for);
        rig.world.run_for(wait->ask_again);
        play_flux();
      }
    }
  }
  void up() {
    for (const resources::Made& thing : things) settle(*thing);
  }
  std::vector<std::string> differences() {
    std::vector<std::string> all;
    for (const resources::Made& thing : things) {
      const engine::Change change = plan(*thing);
      if (change.none()) continue;
      std::string line = thing->address() + ": " + change.reason;
      for (const engine::FieldChange& field : change.fields) line += " [" + field.field + "]";
      all.push_back(line);
    }
    return all;
  }
  std::string failure() {
    try {
      up();
    } catch (const Error& error) {
      return error.render();
    }
    return "came up";
  }

  /// Looks at both objects, and says what it thinks of them.
  void play_flux() {
    kube::Client flux = rig.client("gotk");
    for (const char* path : {source_path, root_path}) {
      const auto object = flux.find(path);
      if (!object) continue;
      const auto secret = flux.find(secret_path);
      const std::string password = secret ? text_at(*secret, {"data", "password"}) : "";
      const bool refused = path == source_path && password != to_base64(good_token);
      const std::string why = refused
                                  ? "failed to checkout and determine revision: unable to clone "
                                    "'https://git.home/ann/fleet': authentication required: "
                                    "Unauthorized"
                              : path == root_path ? root_trouble
                                                  : "";
      Value status = Value::map();
      status.set("observedGeneration",
                 Value::integer(kube::int_at(*object, {"metadata", "generation"})));
      const std::string asked =
          text_at(*object, {"metadata", "annotations", "reconcile.fluxcd.io/requestedAt"});
      if (!asked.empty()) status.set("lastHandledReconcileAt", Value::string(asked));
      if (path == root_path) {
        Value entry = Value::map();
        entry.set("id", Value::string("_shop__Namespace"));
        status.set("inventory", Value::map())
            .set("entries", Value::list())
            .append(std::move(entry));
      }
      Value condition = Value::map();
      condition.set("type", Value::string("Ready"));
      condition.set("status", Value::string(why.empty() ? "True" : "False"));
      condition.set("reason", Value::string(why.empty() ? "Succeeded" : "GitOperationFailed"));
      condition.set("message", Value::string(why));
      status.set("conditions", Value::list()).append(std::move(condition));
      Value change = Value::map();
      change.set("status", std::move(status));
      flux.send("PATCH", std::string{path} + "/status", {{"fieldManager", "gotk"}},
                "application/merge-patch+json", text::emit_json(change));
    }
  }

  KubeRig rig;
  MemoryFiles files;
  SeededEntropy entropy{5};
  std::map<std::string, std::string> secrets;
  std::string good_token = "token-one";
  std::string root_trouble;
  resources::Cluster cluster;
  std::shared_ptr<resources::Outside> outside;
  resources::Survey survey{rig.world.clock()};
  resources::Known known;
  std::vector<resources::Made> things;
  std::vector<std::string> waits;
};

TEST_F(HandoverTest, PutsFluxInChargeAndThenHasNothingToDo) {
  up();
  kube::Client client = rig.client();
  const Value source = client.get(source_path);
  EXPECT_EQ(text_at(source, {"spec", "url"}), "https://git.home/ann/fleet");
  EXPECT_EQ(text_at(source, {"spec", "secretRef", "name"}), "flux-system");
  EXPECT_EQ(text_at(client.get(root_path), {"spec", "path"}), "./clusters/blue");
  EXPECT_THAT(waits, Contains(HasSubstr("Deployment flux-system/source-controller")));
  EXPECT_THAT(differences(), IsEmpty());
}

TEST_F(HandoverTest, WhatFluxChangesOfItsOwnIsNeverPutBack) {
  up();
  // The repository has Flux's own files, as `flux bootstrap` writes them: Flux takes everything
  // over, in other words, with other values.
  rig.apply_as("kustomize-controller",
               replace_all(replace_all(flux_release(), "flux:1", "flux:2"), "replicas: 1", ""));
  rig.apply_as("kustomize-controller", R"(
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: { name: flux-system, namespace: flux-system }
spec: { interval: 9m, url: "https://git.home/ann/other", ref: { branch: next } }
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: { name: flux-system, namespace: flux-system }
spec: { interval: 9m, path: ./elsewhere, prune: true, sourceRef: { kind: GitRepository, name: flux-system } }
)");
  rig.world.run_for(30s);
  up();  // gives up what both own
  EXPECT_THAT(differences(), IsEmpty());
  kube::Client client = rig.client();
  const Value source = client.get(source_path);
  EXPECT_EQ(text_at(source, {"spec", "url"}), "https://git.home/ann/other");
  // Flux did not name the credential; nothing of ours holds it there.
  EXPECT_EQ(source.find({"spec", "secretRef"}), nullptr);
  EXPECT_FALSE(kube::is_applied_by(source, "rocca"));
  EXPECT_FALSE(kube::is_applied_by(
      client.get("/apis/apps/v1/namespaces/flux-system/deployments/source-controller"), "rocca"));
  // And what it takes away stays away.
  client.remove("/apis/apps/v1/namespaces/flux-system/deployments/source-controller");
  rig.world.run_for(10s);
  EXPECT_THAT(differences(), IsEmpty());
}

TEST_F(HandoverTest, ARefusedCredentialIsToldAtOnceAndTheNextRunGoesOn) {
  secrets["flux.git"] = "wrong";
  const std::string told = failure();
  EXPECT_THAT(told, HasSubstr("GitRepository flux-system/flux-system"));
  EXPECT_THAT(told, HasSubstr("authentication required: Unauthorized"));
  // The user corrects it, and Flux is asked to look again instead of waited for.
  secrets["flux.git"] = "token-one";
  up();
  EXPECT_THAT(differences(), IsEmpty());
  EXPECT_FALSE(text_at(rig.client().get(source_path),
                       {"metadata", "annotations", "reconcile.fluxcd.io/requestedAt"})
                   .empty());
}

TEST_F(HandoverTest, AFolderThatIsNotThereIsNamed) {
  root_trouble = "kustomization path not found: stat /tmp/x/clusters/blue: no such file";
  EXPECT_THAT(failure(), HasSubstr("kustomization path not found"));
  root_trouble.clear();  // somebody pushed it
  up();
  EXPECT_THAT(differences(), IsEmpty());
}

TEST_F(HandoverTest, ACredentialIsRotatedByTheNextRun) {
  up();
  secrets["flux.git"] = good_token = "token-two";
  EXPECT_THAT(differences(), ElementsAre(HasSubstr("handover/git")));
  up();
  EXPECT_EQ(text_at(rig.client().get(secret_path), {"data", "password"}), to_base64("token-two"));
  EXPECT_THAT(differences(), IsEmpty());
}

TEST_F(HandoverTest, WaitsForNamedEndpointSlices) {
  load("    waitFor: [ { endpointSlice: shop/web } ]\n");
  EXPECT_THAT(failure(), HasSubstr("an EndpointSlice of Service shop/web"));
  rig.apply_as("kubectl", "{ apiVersion: v1, kind: Namespace, metadata: { name: shop } }");
  rig.world.run_for(5s);
  rig.apply_as("kubectl", R"(
{ apiVersion: v1, kind: Service, metadata: { name: web, namespace: shop }, spec: { selector: { app: web }, ports: [ { port: 80 } ] } }
---
{ apiVersion: v1, kind: Pod, metadata: { name: web, namespace: shop, labels: { app: web } }, spec: { containers: [ { name: c, image: "img:1" } ] } }
)");
  rig.world.run_for(30s);
  up();
  EXPECT_THAT(differences(), IsEmpty());
}

TEST_F(HandoverTest, ACniThatNeverComesIsNamed) {
  rig.network = false;
  rig.world.run_for(1min);
  EXPECT_THAT(failure(), HasSubstr("cni plugin not initialized"));
  rig.network = true;
  rig.world.run_for(1min);
  up();
  EXPECT_THAT(differences(), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
