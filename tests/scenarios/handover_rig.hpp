#pragma once

#include "base/encoding.hpp"
#include "kubernetes/external_inputs.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/json.hpp"
#include "lab/machines/clusters.hpp"
#include "scenarios/engine_rig.hpp"
#include "secrets/age/age.hpp"
#include "secrets/sops/sops.hpp"

#include <map>
#include <memory>
#include <string>

namespace rocca::scenarios {

/// A site whose whole life is in Git: what a first repository for Flux holds.
inline const std::map<std::string, std::string> shop_files{{"clusters/blue/shop.yaml", R"(
apiVersion: v1
kind: Namespace
metadata: { name: shop }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: shop }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [ { name: web, image: "nginx:1" } ] }
---
apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec: { selector: { app: web }, ports: [ { port: 80 } ] }
)"}};

/// A cluster whose spec has a handover, with everything that is outside of it: a Git server,
/// secrets, another cluster that access files may be published to, Infisical.
class HandoverRig {
 public:
  static constexpr const char* url = "https://git.home/fleet";

  explicit HandoverRig(const lab::Home::Options& options = {}) : rig(options) {
    rig.home.estate.clusters().use_git(&git);
    secrets["flux.git"] = "token-one";
    secrets["infisical.clientId"] = rig.home.internet.client_id;
    secrets["infisical.clientSecret"] = rig.home.internet.client_secret;
    push(shop_files);
    repository().username = "git";
    repository().password = "token-one";
    lab::Network& network = rig.home.world.network();
    network.set_name("management.home", "10.0.0.9");
    network.open("10.0.0.9", 6443,
                 {"management", std::nullopt, management.handler({"admin", {"system:masters"}})});
  }

  std::string push(std::map<std::string, std::string> files) {
    return commit = git.push(url, "main", "a change", std::move(files));
  }
  lab::flux::MemoryGit::Repository& repository() { return git.repositories[url]; }

  /// One control plane and one worker; `handover` is all that stands below that key.
  void write(const std::string& handover, const std::string& more = "",
             const std::string& kubernetes = "") {
    std::string text =
        static_spec(pools(1, 1), "[pve1]",
                    "  timeouts: { handover: 5m }\n" + more + "  handover:\n" + handover);
    if (!kubernetes.empty())
      text = replace_all(text, "    endpoint:", "    " + kubernetes + "\n    endpoint:");
    rig.write_spec(text);
  }

  resources::RunOptions options() {
    auto outside = std::make_shared<resources::Outside>();
    outside->search = [this](const spec::SecretRef& reference) -> std::optional<Secret> {
      const auto found = secrets.find(reference.path);
      return found == secrets.end() ? std::nullopt : std::optional{Secret{found->second}};
    };
    outside->secret = [this](const spec::SecretRef& reference, const std::string& who) {
      const auto found = secrets.find(reference.path);
      if (found == secrets.end())
        throw Error(Fault::NotFound, fmt::format("no {} for {}", reference.path, who));
      return Secret{found->second};
    };
    if (keeps)
      outside->keep = [this](const spec::SecretRef& reference, const Secret& secret) {
        secrets[reference.path] = std::string{secret.reveal()};
      };
    outside->management = [] {
      kube::Access access;
      access.server = "http://management.home:6443";
      return access;
    };
    resources::RunOptions made;
    made.outside = std::move(outside);
    return made;
  }
  engine::Report up() { return rig.up(options()); }
  std::vector<std::string> plan() { return differences(rig.plan(options())); }
  engine::Report down() { return rig.down(options()); }
  /// What the run ended in, in full.
  std::string failure() {
    const engine::Report report = up();
    EXPECT_FALSE(report.ok()) << "it came up";
    return problems(report);
  }

  lab::kube::Api& api() {
    lab::Kubernetes* kubernetes = rig.home.estate.clusters().find("blue");
    if (kubernetes == nullptr || kubernetes->api() == nullptr)
      throw Error(Fault::NotFound, "the lab's cluster has no Kubernetes");
    return *kubernetes->api();
  }
  lab::kube::Object find(const char* resource, const char* space, const char* name) {
    return api().find(resource, space, name);
  }
  /// The revision that the root is at, if it is ready.
  std::string revision() {
    const lab::kube::Object root =
        find("kustomize.toolkit.fluxcd.io/kustomizations", "flux-system", "flux-system");
    if (!root || lab::kube::condition_status(*root, "Ready") != "True") return "not ready";
    return lab::kube::text_at(*root, {"status", "lastAppliedRevision"});
  }
  std::string data(const lab::kube::Object& object, const char* key) {
    if (!object) return "no such object";
    return from_base64(lab::kube::text_at(*object, {"data", key})).value_or("?");
  }
  const lab::Infisical::Entry* published(const char* key) {
    return rig.home.internet.infisical.find(rig.home.internet.project(), "prod", "/blue", key);
  }

  lab::flux::MemoryGit git;  // outlives the clusters that clone from it
  ClusterRig rig;
  lab::kube::Api management{rig.home.world, {}};
  std::map<std::string, std::string> secrets;
  bool keeps = true;  // rocca may write into them
  std::string commit;
};

inline const std::string plain_flux =
    "    flux: { url: \"https://git.home/fleet\", path: clusters/blue, auth: { secret: flux.git } "
    "}\n";

}  // namespace rocca::scenarios
