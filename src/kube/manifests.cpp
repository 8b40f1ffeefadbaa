#include "kube/manifests.hpp"

#include "base/error.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace rocca::kube {

namespace {

// Flux's order (fluxcd/pkg ssa): what others refer to goes first, what can refuse others goes last.
constexpr std::array first = {"CustomResourceDefinition",
                              "Namespace",
                              "ClusterRole",
                              "ClusterClass",
                              "RuntimeClass",
                              "PriorityClass",
                              "StorageClass",
                              "VolumeSnapshotClass",
                              "IngressClass",
                              "GatewayClass",
                              "ClusterRoleBinding",
                              "ResourceQuota",
                              "ServiceAccount",
                              "Role",
                              "RoleBinding",
                              "ConfigMap",
                              "Secret",
                              "Service",
                              "LimitRange",
                              "Deployment",
                              "StatefulSet",
                              "CronJob",
                              "PodDisruptionBudget"};

std::pair<Stage, std::size_t> rank(const Name& name) {
  const auto found = std::find(first.begin(), first.end(), name.kind);
  return {stage_of(name), static_cast<std::size_t>(found - first.begin())};
}

std::string place_in(const std::string& name, const Value& value) {
  return fmt::format("{}:{}:{}", name, value.place().line, value.place().column);
}

void add(const Value& document, const std::string& name, std::vector<Manifest>& all) {
  if (document.is_null() || (document.is_map() && document.size() == 0)) return;
  const std::string place = place_in(name, document);
  if (!document.is_map())
    throw Error(Fault::Usage, fmt::format("{}: is no Kubernetes object", place));
  const std::string kind = text_at(document, {"kind"});
  if (kind.ends_with("List") && document.find("items") != nullptr) {
    for (const Value& item : items_at(document, {"items"})) add(item, name, all);
    return;
  }
  for (const char* key : {"apiVersion", "kind"})
    if (text_at(document, {key}).empty())
      throw Error(Fault::Usage, fmt::format("{}: the object has no {}", place, key));
  if (text_at(document, {"metadata", "name"}).empty()) {
    const bool generated = document.find({"metadata", "generateName"}) != nullptr;
    throw Error(Fault::Usage,
                fmt::format("{}: the {} {}", place, kind,
                            generated ? "has generateName, and so a second one would come each time"
                                      : "has no metadata.name"));
  }
  Manifest made{document, name_of(document), place};
  // An apply that names them is refused, or would be wrong.
  made.object.erase("status");
  if (Value* metadata = made.object.find("metadata"))
    for (const char* key :
         {"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"})
      metadata->erase(key);
  all.push_back(std::move(made));
}

}  // namespace

std::vector<Manifest> parse_manifests(std::string_view text, const std::string& name) {
  std::vector<Manifest> all;
  for (const Value& document :
       text::parse_yaml_stream(text, name, {.size = 32ull * 1024 * 1024, .values = 4'000'000}))
    add(document, name, all);
  return all;
}

Stage stage_of(const Name& name) {
  if (name.kind == "CustomResourceDefinition" || name.kind == "Namespace" ||
      name.kind == "ClusterRole")
    return Stage::Definitions;
  if (name.kind.ends_with("Class")) return Stage::Classes;
  if (name.kind.ends_with("WebhookConfiguration")) return Stage::Admission;
  return Stage::Rest;
}

std::vector<Manifest> ordered(std::vector<Manifest> manifests) {
  std::map<Name, std::string> places;
  for (const Manifest& manifest : manifests) {
    Name key = manifest.name;
    key.api_version = key.group();  // another version of it is the same object
    const auto [at, fresh] = places.emplace(key, manifest.place);
    if (!fresh)
      throw Error(Fault::Usage, fmt::format("{}: {} stands already at {}", manifest.place,
                                            manifest.name.text(), at->second))
          .hint("each object can be said once only: whose word should count?");
  }
  std::stable_sort(manifests.begin(), manifests.end(), [](const Manifest& a, const Manifest& b) {
    return rank(a.name) < rank(b.name);
  });
  return manifests;
}

void set_default_space(Manifest& manifest, bool namespaced, const std::string& space) {
  Value* metadata = manifest.object.find("metadata");
  if (metadata == nullptr) return;
  if (!namespaced) {
    metadata->erase("namespace");
    manifest.name.space.clear();
  } else if (manifest.name.space.empty()) {
    metadata->set("namespace", Value::string(space));
    manifest.name.space = space;
  }
}

void set_label(Value& object, const std::string& key, const std::string& value) {
  Value* metadata = object.find("metadata");
  if (metadata == nullptr) metadata = &object.set("metadata", Value::map());
  Value* labels = metadata->find("labels");
  if (labels == nullptr || !labels->is_map()) labels = &metadata->set("labels", Value::map());
  labels->set(key, Value::string(value));
}

}  // namespace rocca::kube
