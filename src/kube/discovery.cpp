#include "kube/discovery.hpp"

#include "base/error.hpp"
#include "text/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::kube {

namespace {

struct Stable {
  const char* group;
  const char* version;
  const char* kind;
  const char* plural;
  bool namespaced;
};

constexpr std::array stable = {
    Stable{"", "v1", "Namespace", "namespaces", false},
    Stable{"", "v1", "Node", "nodes", false},
    Stable{"", "v1", "PersistentVolume", "persistentvolumes", false},
    Stable{"", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true},
    Stable{"", "v1", "Pod", "pods", true},
    Stable{"", "v1", "Service", "services", true},
    Stable{"", "v1", "ServiceAccount", "serviceaccounts", true},
    Stable{"", "v1", "ConfigMap", "configmaps", true},
    Stable{"", "v1", "Secret", "secrets", true},
    Stable{"", "v1", "Event", "events", true},
    Stable{"", "v1", "ResourceQuota", "resourcequotas", true},
    Stable{"", "v1", "LimitRange", "limitranges", true},
    Stable{"apps", "v1", "Deployment", "deployments", true},
    Stable{"apps", "v1", "DaemonSet", "daemonsets", true},
    Stable{"apps", "v1", "StatefulSet", "statefulsets", true},
    Stable{"apps", "v1", "ReplicaSet", "replicasets", true},
    Stable{"batch", "v1", "Job", "jobs", true},
    Stable{"batch", "v1", "CronJob", "cronjobs", true},
    Stable{"coordination.k8s.io", "v1", "Lease", "leases", true},
    Stable{"discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true},
    Stable{"networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true},
    Stable{"networking.k8s.io", "v1", "Ingress", "ingresses", true},
    Stable{"policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true},
    Stable{"rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false},
    Stable{"rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false},
    Stable{"rbac.authorization.k8s.io", "v1", "Role", "roles", true},
    Stable{"rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", true},
    Stable{"storage.k8s.io", "v1", "StorageClass", "storageclasses", false},
    Stable{"storage.k8s.io", "v1", "CSIDriver", "csidrivers", false},
    Stable{"scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false},
    Stable{"apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions",
           false},
    Stable{"apiregistration.k8s.io", "v1", "APIService", "apiservices", false},
    Stable{"admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration",
           "validatingwebhookconfigurations", false},
    Stable{"admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration",
           "mutatingwebhookconfigurations", false},
};

constexpr const char* aggregated =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

std::vector<std::string> texts(const Value& object, std::string_view key) {
  std::vector<std::string> all;
  for (const Value& item : items_at(object, {key})) all.push_back(item.text());
  return all;
}

Value read(const net::Answer& answer, const std::string& path) {
  if (answer.head.status >= 300)
    throw classify(answer.head.status, answer.head.headers, answer.body)
        .error("asking what is served at " + path, false);
  return text::parse_answer(answer.body, path, {.size = 64ull * 1024 * 1024, .values = 8'000'000});
}

std::string root_of(const std::string& api_version) {
  return (api_version.find('/') == std::string::npos ? "/api/" : "/apis/") + api_version;
}

}  // namespace

std::optional<Kind> stable_kind(std::string_view api_version, std::string_view kind) {
  for (const Stable& one : stable) {
    if (one.kind != kind) continue;
    Kind found{one.group, one.version, one.kind, one.plural, one.namespaced};
    if (found.api_version() == api_version) return found;
  }
  return std::nullopt;
}

std::vector<Kind> kinds_of_list(const Value& list) {
  const std::string api_version = text_at(list, {"groupVersion"});
  const std::size_t slash = api_version.find('/');
  std::vector<Kind> all;
  for (const Value& resource : items_at(list, {"resources"})) {
    Kind kind;
    kind.plural = text_at(resource, {"name"});
    if (kind.plural.find('/') != std::string::npos) continue;
    kind.group = slash == std::string::npos ? "" : api_version.substr(0, slash);
    kind.version = slash == std::string::npos ? api_version : api_version.substr(slash + 1);
    kind.kind = text_at(resource, {"kind"});
    kind.namespaced = text_at(resource, {"namespaced"}) == "true";
    kind.verbs = texts(resource, "verbs");
    all.push_back(std::move(kind));
  }
  return all;
}

std::vector<Kind> kinds_of_groups(const Value& groups) {
  std::vector<Kind> all;
  for (const Value& group : items_at(groups, {"items"}))
    for (const Value& version : items_at(group, {"versions"}))
      for (const Value& resource : items_at(version, {"resources"})) {
        Kind kind;
        kind.group = text_at(group, {"metadata", "name"});
        kind.version = text_at(version, {"version"});
        kind.kind = text_at(resource, {"responseKind", "kind"});
        kind.plural = text_at(resource, {"resource"});
        kind.namespaced = text_at(resource, {"scope"}) == "Namespaced";
        kind.verbs = texts(resource, "verbs");
        all.push_back(std::move(kind));
      }
  return all;
}

std::vector<Kind> Discovery::ask(const std::string& api_version) {
  const std::string path = root_of(api_version);
  const net::Answer answer = client_.send("GET", path);
  if (answer.head.status == 404) return {};  // no such group, or not this version of it
  return kinds_of_list(read(answer, path));
}

std::optional<Kind> Discovery::find(const std::string& api_version, const std::string& kind) {
  if (auto known = stable_kind(api_version, kind)) return known;
  const auto pick = [&](const std::vector<Kind>& kinds) -> std::optional<Kind> {
    const auto found =
        std::find_if(kinds.begin(), kinds.end(), [&](const Kind& one) { return one.kind == kind; });
    return found == kinds.end() ? std::nullopt : std::optional{*found};
  };
  if (const auto asked = known_.find(api_version); asked != known_.end())
    if (auto found = pick(asked->second)) return found;
  return pick(known_[api_version] = ask(api_version));
}

std::vector<Kind> Discovery::all() {
  std::vector<Kind> kinds;
  for (const char* path : {"/api", "/apis"}) {
    const net::Answer answer = client_.send("GET", path, {}, "", "", aggregated);
    const Value document = read(answer, path);
    if (text_at(document, {"kind"}) == "APIGroupDiscoveryList") {
      for (Kind& kind : kinds_of_groups(document)) kinds.push_back(std::move(kind));
      continue;
    }
    // A server before aggregated discovery: each version by itself.
    std::vector<std::string> versions = texts(document, "versions");
    for (const Value& group : items_at(document, {"groups"}))
      versions.push_back(text_at(group, {"preferredVersion", "groupVersion"}));
    for (const std::string& version : versions)
      for (Kind& kind : ask(version)) kinds.push_back(std::move(kind));
  }
  const auto lacks = [](const Kind& kind, const char* verb) {
    return std::find(kind.verbs.begin(), kind.verbs.end(), verb) == kind.verbs.end();
  };
  std::erase_if(kinds,
                [&](const Kind& kind) { return lacks(kind, "list") || lacks(kind, "delete"); });
  return kinds;
}

std::optional<std::string> Discovery::find_path(const Name& name,
                                                const std::string& default_space) {
  const auto kind = find(name.api_version, name.kind);
  if (!kind) return std::nullopt;
  std::string space;
  if (kind->namespaced) space = name.space.empty() ? default_space : name.space;
  return path_of({kind->group, kind->version, kind->plural}, space, name.name);
}

}  // namespace rocca::kube
