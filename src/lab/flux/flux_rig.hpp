#pragma once

#include "lab/flux/charts.hpp"
#include "lab/flux/flux.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/json.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace rocca::lab::flux {

/// A cluster with two nodes, the kinds of Flux, and controllers that run although no Deployment
/// says so.
class FluxRig {
 public:
  explicit FluxRig(Duration dependency = std::chrono::seconds{5}) {
    kube::Api::Options options;
    options.refuse_image = [](const std::string& image) -> std::optional<std::string> {
      if (image.find("gone") == std::string::npos) return std::nullopt;
      return "not found";
    };
    api = std::make_unique<kube::Api>(world, options);
    api->set_network_ready([](const std::string&) { return true; });
    api->join({"w1", "10.0.0.21"});
    api->join({"w2", "10.0.0.22"});
    Flux::Options how;
    how.git = &git;
    how.always = true;
    how.dependency = dependency;
    flux = std::make_unique<Flux>(world, *api, how);
    git.on_push = [this] { flux->pushed(); };
    for (const auto& [group, kind, plural] :
         {std::tuple{"source.toolkit.fluxcd.io", "GitRepository", "gitrepositories"},
          {"source.toolkit.fluxcd.io", "HelmRepository", "helmrepositories"},
          {"kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations"}})
      api->apply(open_definition(group, kind, plural, true, "v1"), "test");
    api->apply(open_definition("helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases", true, "v2"),
               "test");
    apply("{apiVersion: v1, kind: Namespace, metadata: {name: flux-system}}");
    world.run_for(std::chrono::seconds{5});
  }

  kube::Api::Result apply(const std::string& yaml, const std::string& manager = "rocca") {
    return api->apply(text::parse_yaml(yaml, "test"), manager);
  }
  void run(Duration duration) { world.run_for(duration); }

  void add_git(const std::string& name, const std::string& url, const std::string& more = "") {
    apply(
        fmt::format("{{apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, metadata: "
                    "{{name: {}, namespace: flux-system}}, spec: {{interval: 1h, url: '{}', ref: "
                    "{{branch: main}}{}}}}}",
                    name, url, more));
  }
  void add_kustomization(const std::string& name, const std::string& path,
                         const std::string& more = "") {
    apply(
        fmt::format("{{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: "
                    "{{name: {}, namespace: flux-system}}, spec: {{interval: 1h, retryInterval: "
                    "10s, path: {}, prune: true, sourceRef: {{kind: GitRepository, name: fleet}}"
                    "{}}}}}",
                    name, path, more));
  }
  kube::Object kustomization(const std::string& name) const {
    return api->find("kustomize.toolkit.fluxcd.io/kustomizations", "flux-system", name);
  }
  /// `True ReconciliationSucceeded` of an object; "" if it is not there or says nothing.
  static std::string ready(const kube::Object& object) {
    const text::Value* found = object ? kube::find_condition(*object, "Ready") : nullptr;
    return found == nullptr ? ""
                            : fmt::format("{} {}", kube::text_at(*found, {"status"}),
                                          kube::text_at(*found, {"reason"}));
  }
  static std::string message(const kube::Object& object) {
    const text::Value* found = object ? kube::find_condition(*object, "Ready") : nullptr;
    return found == nullptr ? "" : kube::text_at(*found, {"message"});
  }

  World world;
  MemoryGit git;
  std::unique_ptr<kube::Api> api;
  std::unique_ptr<Flux> flux;
};

}  // namespace rocca::lab::flux
