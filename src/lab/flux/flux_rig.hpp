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

/// A Secret that the program sops encrypted for the key below, which opens nothing else.
inline constexpr const char* sops_secret = R"(apiVersion: v1
kind: Secret
metadata:
    name: token
    namespace: fx
stringData:
    password: ENC[AES256_GCM,data:SxngAOI15xrQIGUH,iv:RcyjFay+n9CTMUiiPEyFJRlGtTndxlq4U6s+6sQT/8o=,tag:PTxL3xwOkdJdIKrRAehrRg==,type:str]
sops:
    age:
        - enc: |
            -----BEGIN AGE ENCRYPTED FILE-----
            YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSA0Wld4UnllQmVwMDNhcEtp
            N3AyeWo4SkFWdjFhZUxTTHJ2anNwV0l0aWhnCkY5THNTckZ3ckR2dTRFNmtMSFEz
            c3hXQ1l0Z1lMMW56N3ZQVHRFbmVzRWMKLS0tIFlxYTl3RGJMZ2tFNDBVSmdNWnFC
            TWN3T05icGpCVTNrRzRzRWl5UE9PWTQKL8FQLzkC+bkbdqTYmN5cKm1Twl7iBDx3
            hESzDkrCWFZ+FQKyHapTsOOp2BEjcfIuTfUbp+4PPd6xppm9mRqMYg==
            -----END AGE ENCRYPTED FILE-----
          recipient: age13vst5mj2y93ukzywhxt7xlguyzz76hw844zacgsgk74rnnjkyusss5jxva
    encrypted_regex: ^(data|stringData)$
    lastmodified: "2026-11-16T09:54:07Z"
    mac: ENC[AES256_GCM,data:bnRjVlBJclS624Fo84lKa3H19vdNcqVrv7wI36XTVdDhZZaN/7B7iOH+/YDgCUODYOnldWaMFgByMkqVDozMurYaVWvDXrlKGm71lCdf7bwCnpHUynhteDL65Zie3Jd6jLRparAaNSseG81zJFXi7WnXAfg+K+L1AK0H+vCX0Tw=,iv:Dx0V9VGujrsJOY8oqo9kLVn9EEafg7lUqwM/5MKvJ98=,tag:Jf0pK5AswekWsEPWDEAB9g==,type:str]
    version: 3.13.3
)";
inline constexpr const char* sops_identity =
    "# created: 2026-11-16T09:54:06Z\n"
    "# public key: age13vst5mj2y93ukzywhxt7xlguyzz76hw844zacgsgk74rnnjkyusss5jxva\n"
    "AGE-SECRET-KEY-14S0CHW9M6FTWFR8RRJ5DQG0JDCJ8EFW99WSQX4SPP3DCVJVL5Y2Q4VYTDG\n";

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
  /// As `flux reconcile` does it.
  kube::Api::Result request(const std::string& plural, const std::string& name,
                            const std::string& token) {
    return api->send(
        {"admin", {"system:masters"}}, "PATCH",
        fmt::format("/apis/{}.toolkit.fluxcd.io/v1/namespaces/flux-system/{}/{}",
                    plural == "kustomizations" ? "kustomize" : "source", plural, name),
        fmt::format(
            R"({{"metadata":{{"annotations":{{"reconcile.fluxcd.io/requestedAt":"{}"}}}}}})",
            token),
        "application/merge-patch+json");
  }
  void add_secret(const std::string& name, const std::string& key, const std::string& value) {
    text::Value secret = text::parse_yaml(
        fmt::format("{{apiVersion: v1, kind: Secret, metadata: {{name: {}, namespace: "
                    "flux-system}}, stringData: {{}}}}",
                    name),
        "secret");
    secret.find("stringData")->set(key, text::Value::string(value));
    api->apply(secret, "rocca");
  }

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
