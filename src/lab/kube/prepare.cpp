// What a kind's strategy does before an object is stored (pkg/registry/*/strategy.go).
#include "base/strings.hpp"
#include "lab/kube/server.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

/// Guaranteed, Burstable or BestEffort, from requests and limits of cpu and memory.
std::string qos_class(const Value& spec) {
  bool any = false;
  bool guaranteed = true;
  for (const char* list : {"containers", "initContainers"}) {
    const Value* containers = spec.find(list);
    if (containers == nullptr || !containers->is_list()) continue;
    for (const Value& container : containers->items())
      for (const char* resource : {"cpu", "memory"}) {
        const Value* limit = container.find({"resources", "limits", resource});
        const Value* request = container.find({"resources", "requests", resource});
        if (limit != nullptr || request != nullptr) any = true;
        if (limit == nullptr || (request != nullptr && !(*request == *limit))) guaranteed = false;
      }
  }
  return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

/// Ports of the nodes for a type that has them, from where no other Service is.
void allocate_node_ports(const Server& server, Value& spec) {
  const std::string type = text_at(spec, {"type"});
  if (type == "NodePort" || type == "LoadBalancer") {
    std::int64_t next = 30000;
    for (const auto& [key, other] : server.storage().all("/services"))
      if (const Value* ports = other->find({"spec", "ports"}))
        for (const Value& port : ports->items())
          next = std::max(next, int_at(port, {"nodePort"}) + 1);
    if (Value* ports = spec.find("ports"))
      for (Value& port : ports->items())
        if (int_at(port, {"nodePort"}) == 0) port.set("nodePort", num(next++));
  }
}

void prepare_service(Server& server, Value& object) {
  Value& spec = map_at(object, {"spec"});
  if (text_at(spec, {"type"}) == "ExternalName") return;
  const std::string given = text_at(spec, {"clusterIP"});
  const bool has_selector = !is_empty(spec.find("selector"));
  if (given.empty()) {
    const std::string address = server.allocate_cluster_ip();
    spec.set("clusterIP", str(address));
    spec.set("clusterIPs", Value::list({str(address)}));
  } else if (spec.find("clusterIPs") == nullptr) {
    spec.set("clusterIPs", Value::list({str(given)}));
  }
  if (given == "None" && !has_selector) {
    // Headless without selector: the API server cannot know, and takes both families.
    if (spec.find("ipFamilies") == nullptr)
      spec.set("ipFamilies", Value::list({str("IPv4"), str("IPv6")}));
    if (text_at(spec, {"ipFamilyPolicy"}).empty())
      spec.set("ipFamilyPolicy", str("RequireDualStack"));
  }
  if (spec.find("ipFamilies") == nullptr) spec.set("ipFamilies", Value::list({str("IPv4")}));
  if (text_at(spec, {"ipFamilyPolicy"}).empty()) spec.set("ipFamilyPolicy", str("SingleStack"));
  allocate_node_ports(server, spec);
}

/// What an earlier type of the Service needed goes with it, unless it was changed in the same
/// write.
void drop_for_type(const Value& live, Value& spec) {
  const std::string type = text_at(spec, {"type"});
  const Value* before = live.find("spec");
  if (before == nullptr || text_at(*before, {"type"}) == type) return;
  const auto drop = [&](const char* field) {
    const Value* old = before->find(field);
    const Value* now = spec.find(field);
    if (old != nullptr && now != nullptr && *old == *now) spec.erase(field);
  };
  if (type == "ExternalName")
    for (const char* field : {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"})
      drop(field);
  if (type != "LoadBalancer")
    for (const char* field : {"allocateLoadBalancerNodePorts", "loadBalancerClass"}) drop(field);
  if (type != "LoadBalancer" && type != "NodePort") {
    drop("externalTrafficPolicy");
    Value* ports = spec.find("ports");
    const Value* old = before->find("ports");
    if (ports != nullptr && ports->is_list() && old != nullptr && old->is_list())
      for (Value& port : ports->items())
        for (const Value& was : old->items())
          if (int_at(was, {"nodePort"}) == int_at(port, {"nodePort"})) port.erase("nodePort");
  }
}

/// The admission that lets every pod stay for five minutes on a node that is gone.
void add_tolerations(Value& spec) {
  Value& tolerations = spec.find("tolerations") == nullptr ? spec.set("tolerations", Value::list())
                                                           : *spec.find("tolerations");
  for (const char* key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const bool there =
        std::any_of(tolerations.items().begin(), tolerations.items().end(), [&](const Value& one) {
          const std::string effect = text_at(one, {"effect"});
          const std::string mine = text_at(one, {"key"});
          return (mine == key || (mine.empty() && text_at(one, {"operator"}) == "Exists")) &&
                 (effect == "NoExecute" || effect.empty());
        });
    if (there) continue;
    Value one = Value::map();
    one.set("key", str(key));
    one.set("operator", str("Exists"));
    one.set("effect", str("NoExecute"));
    one.set("tolerationSeconds", num(300));
    tolerations.append(std::move(one));
  }
}

void prepare_pod(Value& object) {
  set_at(object, {"status", "phase"}, str("Pending"));
  Value& spec = map_at(object, {"spec"});
  set_at(object, {"status", "qosClass"}, str(qos_class(spec)));
  add_tolerations(spec);
}

void prepare_job(Value& object) {
  if (bool_at(object, {"spec", "manualSelector"})) return;
  const std::string uid = text_at(object, {"metadata", "uid"});
  const std::string name = text_at(object, {"metadata", "name"});
  Value& labels = map_at(object, {"spec", "template", "metadata", "labels"});
  for (const auto& [key, value] :
       {std::pair<std::string, std::string>{"batch.kubernetes.io/controller-uid", uid},
        {"batch.kubernetes.io/job-name", name},
        {"controller-uid", uid},
        {"job-name", name}})
    labels.set(key, str(value));
  set_at(object, {"spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"},
         str(uid));
  if (is_empty(object.find({"metadata", "labels"})))
    set_at(object, {"metadata", "labels"},
           *object.find({"spec", "template", "metadata", "labels"}));
}

}  // namespace

void Server::prepare_create(const Resource& resource, Value& object) {
  if (resource.find("status") != nullptr && resource.kind != "Node") object.erase("status");
  if (resource.kind == "Namespace") {
    Value& list = map_at(object, {"spec"}).find("finalizers") == nullptr
                      ? map_at(object, {"spec"}).set("finalizers", Value::list())
                      : *object.find({"spec", "finalizers"});
    if (!list.is_list()) list = Value::list();
    if (std::find(list.items().begin(), list.items().end(), str("kubernetes")) ==
        list.items().end())
      list.append(str("kubernetes"));
    object.set("status", json(R"({"phase":"Active"})"));
  } else if (resource.kind == "Service") {
    prepare_service(*this, object);
  } else if (resource.kind == "Pod") {
    prepare_pod(object);
  } else if (resource.kind == "Job") {
    prepare_job(object);
  } else if (resource.kind == "DaemonSet") {
    set_at(object, {"metadata", "annotations", "deprecated.daemonset.template.generation"},
           str("1"));
  } else if (resource.kind == "PersistentVolumeClaim" || resource.kind == "PersistentVolume") {
    set_at(object, {"status", "phase"}, str("Pending"));
    // The admission that protects storage in use.
    const char* guard = resource.kind == "PersistentVolume" ? "kubernetes.io/pv-protection"
                                                            : "kubernetes.io/pvc-protection";
    Value& metadata = map_at(object, {"metadata"});
    if (is_empty(metadata.find("finalizers"))) metadata.set("finalizers", Value::list());
    Value& finalizers = *metadata.find("finalizers");
    if (std::find(finalizers.items().begin(), finalizers.items().end(), str(guard)) ==
        finalizers.items().end())
      finalizers.append(str(guard));
  } else if (resource.kind == "Lease") {
    // Behind a feature gate that is off.
    for (const char* field : {"strategy", "preferredHolder"}) map_at(object, {"spec"}).erase(field);
  } else if (resource.kind == "CustomResourceDefinition") {
    set_at(object, {"status", "conditions"}, Value::null());
    Value stored = Value::list();
    if (const Value* versions = object.find({"spec", "versions"}))
      for (const Value& version : versions->items())
        if (bool_at(version, {"storage"})) stored.append(str(text_at(version, {"name"})));
    set_at(object, {"status", "storedVersions"}, std::move(stored));
  } else if (resource.kind == "Node") {
    // The NodeRestriction and taint admission: a new node is not ready.
    Value& spec = map_at(object, {"spec"});
    Value* taints = spec.find("taints");
    if (taints == nullptr || !taints->is_list()) taints = &spec.set("taints", Value::list());
    const bool there = std::any_of(
        taints->items().begin(), taints->items().end(),
        [](const Value& one) { return text_at(one, {"key"}) == "node.kubernetes.io/not-ready"; });
    if (!there)
      taints->append(json(R"({"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"})"));
  }
}

void Server::prepare_update(const Resource& resource, const Value& live, Value& object,
                            const Write& write) const {
  const auto keep = [&](std::string_view field) {
    if (const Value* old = live.find(field))
      object.set(field, *old);
    else
      object.erase(field);
  };
  if (write.subresource == "status" || write.subresource == "approval") {
    Value status = object.find("status") == nullptr ? Value::null() : *object.find("status");
    const Value* managed = object.find({"metadata", "managedFields"});
    const Value owners = managed == nullptr ? Value::null() : *managed;
    // A built-in kind's status door lets annotations and finalizers pass, a custom one's does not.
    Value metadata = *object.find("metadata");
    object = live;
    if (!resource.custom()) {
      if (resource.group == "apps") {
        metadata.erase("labels");
        if (const Value* labels = live.find({"metadata", "labels"}))
          metadata.set("labels", *labels);
      }
      object.set("metadata", std::move(metadata));
    }
    if (!owners.is_null()) set_at(object, {"metadata", "managedFields"}, owners);
    if (status.is_null())
      object.erase("status");
    else
      object.set("status", std::move(status));
    return;
  }
  if (write.subresource == "finalize") {
    Value finalizers = object.find({"spec", "finalizers"}) == nullptr
                           ? Value::list()
                           : *object.find({"spec", "finalizers"});
    object = live;
    set_at(object, {"spec", "finalizers"}, std::move(finalizers));
    return;
  }
  if (write.subresource.empty() && resource.find("status") != nullptr && !write.internal)
    keep("status");
  if (resource.kind == "Namespace" && !write.internal) {
    keep("spec");
  }
  if (resource.key() == "/pods" && !write.internal) add_tolerations(map_at(object, {"spec"}));
  if (resource.kind == "DaemonSet") {
    const char* annotation = "deprecated.daemonset.template.generation";
    const Value* before = live.find({"spec", "template"});
    const Value* after = object.find({"spec", "template"});
    const std::int64_t old =
        parse_int(text_at(live, {"metadata", "annotations", annotation})).value_or(1);
    const bool same = before != nullptr && after != nullptr && *before == *after;
    set_at(object, {"metadata", "annotations", annotation},
           str(std::to_string(same ? old : old + 1)));
  }
  if (resource.kind == "CustomResourceDefinition" && !write.internal) {
    // A version that was ever stored stays on the list.
    Value stored = live.find({"status", "storedVersions"}) == nullptr
                       ? Value::list()
                       : *live.find({"status", "storedVersions"});
    if (const Value* versions = object.find({"spec", "versions"}); versions != nullptr)
      for (const Value& version : versions->items())
        if (bool_at(version, {"storage"}) &&
            std::find(stored.items().begin(), stored.items().end(),
                      str(text_at(version, {"name"}))) == stored.items().end())
          stored.append(str(text_at(version, {"name"})));
    set_at(object, {"status", "storedVersions"}, std::move(stored));
  }
  if (resource.kind == "Service") {
    Value& spec = map_at(object, {"spec"});
    for (const char* field : {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"}) {
      const Value* old = live.find({"spec", field});
      if (old != nullptr && is_empty(spec.find(field))) spec.set(field, *old);
    }
    const std::string address = text_at(spec, {"clusterIP"});
    drop_for_type(live, spec);
    if (text_at(spec, {"type"}) != "ExternalName") allocate_node_ports(*this, spec);
    // The single field leads, the list follows.
    if (!address.empty() && address != text_at(live, {"spec", "clusterIP"}))
      spec.set("clusterIPs", Value::list({str(address)}));
  }
}

}  // namespace rocca::lab::kube
