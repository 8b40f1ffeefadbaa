// What admission does to a pod: its service account, its priority, and PodSecurity.
#include "base/strings.hpp"
#include "lab/kube/server.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

const char* const token_path = "/var/run/secrets/kubernetes.io/serviceaccount";

void mount_token(Value& spec, const std::string& volume_name) {
  for (const char* list : {"containers", "initContainers"}) {
    Value* containers = spec.find(list);
    if (containers == nullptr || !containers->is_list()) continue;
    for (Value& container : containers->items()) {
      Value* mounts = container.find("volumeMounts");
      if (mounts == nullptr || !mounts->is_list())
        mounts = &container.set("volumeMounts", Value::list());
      if (std::any_of(mounts->items().begin(), mounts->items().end(),
                      [](const Value& one) { return text_at(one, {"mountPath"}) == token_path; }))
        continue;
      Value mount = Value::map();
      mount.set("name", str(volume_name));
      mount.set("readOnly", Value::boolean(true));
      mount.set("mountPath", str(token_path));
      mounts->append(std::move(mount));
    }
  }
  Value volume = json(R"({"projected":{"sources":[
      {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
      {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
      {"downwardAPI":{"items":[{"path":"namespace","fieldRef":
        {"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}})");
  volume.set("name", str(volume_name));
  Value* volumes = spec.find("volumes");
  if (volumes == nullptr || !volumes->is_list()) volumes = &spec.set("volumes", Value::list());
  volumes->append(std::move(volume));
}

/// What the `baseline` level of the Pod Security Standards does not allow, as far as add-ons trip
/// over it.
std::vector<std::string> baseline_violations(const Value& spec) {
  std::vector<std::string> out;
  std::vector<std::string> host;
  for (const char* field : {"hostNetwork", "hostPID", "hostIPC"})
    if (bool_at(spec, {field})) host.push_back(fmt::format("{}=true", field));
  if (!host.empty()) out.push_back(fmt::format("host namespaces ({})", join(host, ", ")));
  std::vector<std::string> paths;
  if (const Value* volumes = spec.find("volumes"); volumes != nullptr && volumes->is_list())
    for (const Value& volume : volumes->items())
      if (volume.find("hostPath") != nullptr) paths.push_back(in_quotes(text_at(volume, {"name"})));
  if (!paths.empty())
    out.push_back(fmt::format("hostPath volumes (volume{} {})", paths.size() == 1 ? "" : "s",
                              join(paths, ", ")));
  std::vector<std::string> strong;
  std::vector<std::string> ports;
  for (const char* list : {"initContainers", "containers"})
    if (const Value* containers = spec.find(list); containers != nullptr && containers->is_list())
      for (const Value& container : containers->items()) {
        const std::string name = in_quotes(text_at(container, {"name"}));
        if (bool_at(container, {"securityContext", "privileged"})) strong.push_back(name);
        if (const Value* all = container.find("ports"); all != nullptr && all->is_list())
          for (const Value& port : all->items())
            if (int_at(port, {"hostPort"}) != 0) ports.push_back(name);
      }
  if (!strong.empty())
    out.push_back(
        fmt::format("privileged (container{} {} must not set "
                    "securityContext.privileged=true)",
                    strong.size() == 1 ? "" : "s", join(strong, ", ")));
  if (!ports.empty()) out.push_back(fmt::format("hostPort (container {})", join(ports, ", ")));
  return out;
}

/// How the admission names a pod: its name is drawn later.
std::string shown_name(const Value& object) {
  const std::string name = text_at(object, {"metadata", "name"});
  if (!name.empty()) return name;
  const std::string begin = text_at(object, {"metadata", "generateName"});
  return begin.empty() ? "Unknown" : begin;
}

}  // namespace

void Server::admit_pod(Value& object, const std::string& space) {
  Value& spec = map_at(object, {"spec"});
  const std::string name = text_at(object, {"metadata", "name"});
  // What a kubelet shows of its static pods runs already.
  if (object.find({"metadata", "annotations", "kubernetes.io/config.mirror"}) != nullptr) return;
  if (text_at(spec, {"serviceAccountName"}).empty()) {
    spec.set("serviceAccountName", str("default"));
    spec.set("serviceAccount", str("default"));
  }
  const std::string account = text_at(spec, {"serviceAccountName"});
  const Object found = storage_.find("/serviceaccounts", {space, account});
  if (!found)
    throw forbidden("", "pods", shown_name(object),
                    fmt::format("error looking up service account {}/{}: serviceaccount {} not "
                                "found",
                                space, account, in_quotes(account)));
  const Value* mount = spec.find("automountServiceAccountToken");
  if (mount == nullptr) mount = found->find("automountServiceAccountToken");
  if (mount == nullptr || mount->as_bool() != false)
    mount_token(spec, "kube-api-access-" + random_suffix());
  if (spec.find("priority") == nullptr) spec.set("priority", num(0));
  if (text_at(spec, {"preemptionPolicy"}).empty())
    spec.set("preemptionPolicy", str("PreemptLowerPriority"));
  if (const std::string priority = text_at(spec, {"priorityClassName"}); !priority.empty()) {
    const Object known = storage_.find("scheduling.k8s.io/priorityclasses", {"", priority});
    if (!known)
      throw forbidden("", "pods", shown_name(object),
                      fmt::format("no PriorityClass with name {} was found", priority));
    spec.set("priority", num(int_at(*known, {"value"})));
  }
  const Object home = storage_.find("/namespaces", {"", space});
  std::string level =
      home ? text_at(*home, {"metadata", "labels", "pod-security.kubernetes.io/enforce"}) : "";
  if (level.empty()) level = space == "kube-system" ? "privileged" : options_.pod_security;
  if (level == "baseline" || level == "restricted")
    if (const auto wrong = baseline_violations(spec); !wrong.empty())
      throw forbidden(
          "", "pods", name,
          fmt::format("violates PodSecurity \"{}:latest\": {}", level, join(wrong, ", ")));
}

}  // namespace rocca::lab::kube
