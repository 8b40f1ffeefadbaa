// What the API server refuses: metadata of every kind, and the kinds we meet most.
#include "lab/kube/schema/validate.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/kube/schema/names.hpp"
#include "lab/kube/server.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

constexpr std::size_t annotations_limit = 256 * 1024;
constexpr std::size_t data_limit = 1024 * 1024;

std::vector<std::string> wrong_name(const Resource& resource, const std::string& name) {
  const std::string key = resource.key();
  if (key == "/namespaces" || key == "apps/statefulsets") return wrong_label(name);
  if (key == "/services") return wrong_old_label(name);
  if (resource.group == "rbac.authorization.k8s.io") return wrong_path_segment(name);
  return wrong_subdomain(name);
}

void check_owners(const Value& metadata, Causes& causes) {
  const Value* list = metadata.find("ownerReferences");
  if (list == nullptr || !list->is_list()) return;
  std::size_t controllers = 0;
  for (const Value& one : list->items()) {
    const std::string version = text_at(one, {"apiVersion"});
    if (version.substr(version.find('/') + 1).empty() || version.empty())
      causes.push_back(Cause::invalid("metadata.ownerReferences.apiVersion", in_quotes(version),
                                      "version must not be empty"));
    for (const char* field : {"kind", "name", "uid"})
      if (text_at(one, {field}).empty())
        causes.push_back(Cause::invalid(fmt::format("metadata.ownerReferences.{}", field), "\"\"",
                                        "must not be empty"));
    if (bool_at(one, {"controller"})) ++controllers;
  }
  if (controllers > 1)
    causes.push_back(Cause::invalid("metadata.ownerReferences", text::emit_json(*list),
                                    "Only one reference can have Controller set to true."));
}

/// What a client may send back only as it is.
void check_server_fields(const Value& sent, const Value& live, Causes& causes) {
  for (const char* field : {"uid", "deletionTimestamp"}) {
    const std::string now = text_at(sent, {field});
    const std::string before = text_at(live, {"metadata", field});
    const bool fixed = std::string_view(field) == "deletionTimestamp" && !before.empty();
    if (!now.empty() && !fixed && now != before)
      causes.push_back(
          Cause::invalid(fmt::format("metadata.{}", field), in_quotes(now), "field is immutable"));
  }
}

/// Custom and extension kinds may have any qualified name, others only one with a prefix.
void check_finalizers(const Value& metadata, bool custom, std::vector<Cause>& causes) {
  const Value* list = metadata.find("finalizers");
  if (list == nullptr || !list->is_list()) return;
  for (std::size_t i = 0; i < list->items().size(); ++i) {
    const std::string& name = list->items()[i].text();
    const std::vector<std::string> wrong = wrong_qualified_name(name);
    for (const std::string& why : wrong)
      causes.push_back(Cause::invalid("metadata.finalizers", in_quotes(name), why));
    const bool standard = name == "orphan" || name == "foregroundDeletion" || name == "kubernetes";
    if (wrong.empty() && !custom && !standard && name.find('/') == std::string::npos)
      causes.push_back(Cause::invalid(fmt::format("metadata.finalizers[{}]", i), in_quotes(name),
                                      "name is neither a standard finalizer name nor is it fully "
                                      "qualified"));
  }
}

std::vector<Cause> check_metadata(const Resource& resource, const Value& object,
                                  const Value* live) {
  std::vector<Cause> causes;
  const Value& metadata = *object.find("metadata");
  const std::string name = text_at(metadata, {"name"});
  if (name.empty())
    causes.push_back(Cause::required("metadata.name", "name or generateName is required"));
  else if (live == nullptr)
    for (const std::string& why : wrong_name(resource, name))
      causes.push_back(Cause::invalid("metadata.name", in_quotes(name), why));
  check_label_map(metadata.find("labels"), "metadata.labels", causes);
  if (const Value* annotations = metadata.find("annotations");
      annotations != nullptr && annotations->is_map()) {
    std::size_t total = 0;
    for (const text::Entry& entry : annotations->entries()) {
      for (const std::string& why : wrong_qualified_name(to_lower(entry.key)))
        causes.push_back(Cause::invalid("metadata.annotations", in_quotes(entry.key), why));
      total += entry.key.size() + entry.value.text().size();
    }
    if (total > annotations_limit)
      causes.push_back(
          Cause::too_long("metadata.annotations", "may not be more than 262144 bytes"));
  }
  check_owners(metadata, causes);
  const bool any_finalizer = resource.custom() ||
                             resource.group == "admissionregistration.k8s.io" ||
                             resource.group == "apiextensions.k8s.io";
  check_finalizers(metadata, any_finalizer, causes);
  if (live != nullptr && live->find({"metadata", "deletionTimestamp"}) != nullptr) {
    std::vector<std::string> fresh;
    const Value* before = live->find({"metadata", "finalizers"});
    if (const Value* now = metadata.find("finalizers"); now != nullptr)
      for (const Value& one : now->items())
        if (before == nullptr ||
            std::find(before->items().begin(), before->items().end(), one) == before->items().end())
          fresh.push_back(in_quotes(one.text()));
    if (!fresh.empty()) {
      // Found twice on the way: by the generic and by the kind's own check.
      const Cause cause = Cause::forbidden(
          "metadata.finalizers",
          fmt::format("no new finalizers can be added if the object is being deleted, found new "
                      "finalizers []string{{{}}}",
                      join(fresh, ", ")));
      causes.push_back(cause);
      if (!resource.custom()) causes.push_back(cause);
    }
  }
  return causes;
}

void check_data(const Resource& resource, const Value& object, const Value* live,
                std::vector<Cause>& causes) {
  std::size_t total = 0;
  const Value* data = object.find("data");
  const Value* binary = object.find("binaryData");
  const bool secret = resource.kind == "Secret";
  for (const auto& [field, map] : {std::pair{"data", data}, {"binaryData", binary}}) {
    if (map == nullptr || !map->is_map()) continue;
    for (const text::Entry& entry : map->entries()) {
      for (const std::string& why : wrong_config_key(entry.key))
        causes.push_back(
            Cause::invalid(fmt::format("{}[{}]", field, entry.key), in_quotes(entry.key), why));
      total +=
          secret || map == binary ? entry.value.text().size() * 3 / 4 : entry.value.text().size();
      if (map == data && binary != nullptr && binary->find(entry.key) != nullptr)
        causes.push_back(Cause::invalid(fmt::format("data[{}]", entry.key), in_quotes(entry.key),
                                        "duplicate of key present in binaryData"));
    }
  }
  if (total > data_limit)
    causes.push_back(Cause::too_long(secret ? "data" : "[]", "may not be more than 1048576 bytes"));
  if (live == nullptr) return;
  if (bool_at(*live, {"immutable"})) {
    if (!bool_at(object, {"immutable"}))
      causes.push_back(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
    for (const char* field : {"data", "binaryData"}) {
      const Value* before = live->find(field);
      const Value* now = object.find(field);
      const bool same = before == nullptr || now == nullptr ? before == now : *before == *now;
      if (!same)
        causes.push_back(Cause::forbidden(field, "field is immutable when `immutable` is set"));
    }
  }
  if (secret && text_at(*live, {"type"}) != text_at(object, {"type"}))
    causes.push_back(
        Cause::invalid("type", in_quotes(text_at(object, {"type"})), "field is immutable"));
}

void check_secret_type(const Value& object, std::vector<Cause>& causes) {
  const std::string type = text_at(object, {"type"});
  const auto has = [&](const char* key) { return object.find({"data", key}) != nullptr; };
  const auto need = [&](const char* key) {
    if (!has(key)) causes.push_back(Cause::required(fmt::format("data[{}]", key)));
  };
  if (type == "kubernetes.io/tls") {
    need("tls.crt");
    need("tls.key");
  } else if (type == "kubernetes.io/dockerconfigjson") {
    need(".dockerconfigjson");
  } else if (type == "kubernetes.io/ssh-auth") {
    need("ssh-privatekey");
  } else if (type == "kubernetes.io/basic-auth" && !has("username") && !has("password")) {
    need("username");
    need("password");
  } else if (type == "kubernetes.io/service-account-token") {
    const char* account = "kubernetes.io/service-account.name";
    if (text_at(object, {"metadata", "annotations", account}).empty())
      causes.push_back(Cause::required(fmt::format("metadata.annotations[{}]", account)));
  }
}

}  // namespace

std::vector<Cause> Server::validate(const Resource& resource, const Value& object,
                                    const Value* live, const Write& write) {
  if (write.internal) return {};
  check_escalation(resource, object, write);
  std::vector<Cause> causes = check_metadata(resource, object, live);
  if (live != nullptr && write.sent != nullptr) check_server_fields(*write.sent, *live, causes);
  if (resource.custom()) {
    for (Cause& cause : validate_custom(resource, object, live, write.subresource))
      causes.push_back(std::move(cause));
    return causes;
  }
  if (resource.key() == "/configmaps" || resource.key() == "/secrets") {
    check_data(resource, object, live, causes);
    if (resource.kind == "Secret") check_secret_type(object, causes);
  }
  check_workload(resource, object, live, write.subresource, causes);
  check_network(resource, object, live, write.subresource, causes);
  check_access(resource, object, live, causes);
  check_cluster(resource, object, live, write.subresource, causes);
  if (write.subresource != "status") check_more(resource, object, live, causes);
  return causes;
}

}  // namespace rocca::lab::kube
