#include "base/strings.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/controllers/controllers.hpp"
#include "lab/kube/selector.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using namespace std::chrono_literals;
using text::Value;

namespace {

constexpr const char* manager = "kube-controller-manager";

/// The port a Service's entry leads to in a pod: a number, or a container port's name.
std::optional<std::int64_t> target_port(const Value& port, const Value& pod) {
  const Value* target = port.find("targetPort");
  if (target == nullptr) return int_at(port, {"port"});
  if (const auto number = target->as_int()) return number;
  if (const Value* containers = pod.find({"spec", "containers"}))
    for (const Value& container : containers->items())
      if (const Value* ports = container.find("ports"))
        for (const Value& one : ports->items())
          if (text_at(one, {"name"}) == target->text()) return int_at(one, {"containerPort"});
  return std::nullopt;
}

}  // namespace

void Controllers::sync_service(const ObjectKey& key) {
  const Object service = find("/services", key);
  const std::string label = "kubernetes.io/service-name";
  std::vector<Object> slices;
  for (const auto& [slice_key, slice] : server_.storage().all("discovery.k8s.io/endpointslices"))
    if (slice_key.space == key.space && text_at(*slice, {"metadata", "labels", label}) == key.name)
      slices.push_back(slice);
  if (!service) return;  // the slices go with their owner
  const Value* selector = service->find({"spec", "selector"});
  if (is_empty(selector)) return;
  Value wanted = Value::map();
  wanted.set("matchLabels", *selector);
  const LabelSelector labels = LabelSelector::of(wanted);
  Value endpoints = Value::list();
  Value ports = Value::list();
  const Value* service_ports = service->find({"spec", "ports"});
  for (const auto& [pod_key, pod] : server_.storage().all("/pods")) {
    if (pod_key.space != key.space || !labels.matches(*pod)) continue;
    const std::string address = text_at(*pod, {"status", "podIP"});
    const std::string phase = text_at(*pod, {"status", "phase"});
    if (address.empty() || phase == "Succeeded" || phase == "Failed") continue;
    const bool leaving = pod->find({"metadata", "deletionTimestamp"}) != nullptr;
    const bool ready = is_pod_ready(*pod);
    Value one = Value::map();
    one.set("addresses", Value::list({str(address)}));
    Value& conditions = map_at(one, {"conditions"});
    conditions.set("ready", Value::boolean(ready && !leaving));
    conditions.set("serving", Value::boolean(ready));
    conditions.set("terminating", Value::boolean(leaving));
    Value& target = map_at(one, {"targetRef"});
    target.set("kind", str("Pod"));
    target.set("namespace", str(key.space));
    target.set("name", str(pod_key.name));
    target.set("uid", str(text_at(*pod, {"metadata", "uid"})));
    const std::string node = text_at(*pod, {"spec", "nodeName"});
    if (!node.empty()) one.set("nodeName", str(node));
    if (endpoints.size() == 0 && service_ports != nullptr)
      for (const Value& port : service_ports->items())
        if (const auto number = target_port(port, *pod)) {
          Value entry = Value::map();
          entry.set("name", str(text_at(port, {"name"})));
          entry.set("protocol", str(text_at(port, {"protocol"})));
          entry.set("port", num(*number));
          ports.append(std::move(entry));
        }
    endpoints.append(std::move(one));
  }
  if (slices.empty()) {
    Value slice = Value::map();
    set_at(slice, {"metadata", "generateName"}, str(key.name + "-"));
    set_at(slice, {"metadata", "labels", "endpointslice.kubernetes.io/managed-by"},
           str("endpointslice-controller.k8s.io"));
    set_at(slice, {"metadata", "labels", label}, str(key.name));
    Value owner = Value::map();
    owner.set("apiVersion", str("v1"));
    owner.set("kind", str("Service"));
    owner.set("name", str(key.name));
    owner.set("uid", str(text_at(*service, {"metadata", "uid"})));
    owner.set("controller", Value::boolean(true));
    owner.set("blockOwnerDeletion", Value::boolean(true));
    set_at(slice, {"metadata", "ownerReferences"}, Value::list({owner}));
    set_at(slice, {"metadata", "annotations", "endpoints.kubernetes.io/last-change-trigger-time"},
           str(text_at(*service, {"metadata", "creationTimestamp"})));
    slice.set("addressType", str("IPv4"));
    if (endpoints.size() != 0) slice.set("endpoints", std::move(endpoints));
    if (ports.size() != 0) slice.set("ports", std::move(ports));
    make("discovery.k8s.io", "endpointslices", key.space, std::move(slice), manager);
    return;
  }
  edit(
      "discovery.k8s.io", "endpointslices", kube::key_of(*slices.front()),
      [&](const Value& live) {
        Value out = live;
        out.set("endpoints", endpoints.size() == 0 ? Value::null() : endpoints);
        out.set("ports", ports.size() == 0 ? Value::null() : ports);
        return out;
      },
      as(manager));
}

void Controllers::sync_budget(const ObjectKey& key) {
  const Object found = find("policy/poddisruptionbudgets", key);
  if (!found || found->find({"metadata", "deletionTimestamp"}) != nullptr) return;
  const Value* selector = found->find({"spec", "selector"});
  if (selector == nullptr || selector->is_null()) return;
  const LabelSelector labels = LabelSelector::of(*selector);
  std::int64_t pods = 0, healthy = 0, expected = 0;
  std::set<std::string> owners;
  Value disrupted = Value::map();
  const Value* before = found->find({"status", "disruptedPods"});
  for (const auto& [pod_key, pod] : server_.storage().all("/pods")) {
    if (pod_key.space != key.space || !labels.matches(*pod)) continue;
    const bool leaving = pod->find({"metadata", "deletionTimestamp"}) != nullptr;
    if (before != nullptr && !leaving)
      if (const Value* since = before->find(pod_key.name)) {
        disrupted.set(pod_key.name, *since);
        continue;
      }
    const std::string phase = text_at(*pod, {"status", "phase"});
    if (phase == "Succeeded" || phase == "Failed") continue;
    ++pods;
    if (is_pod_ready(*pod) && !leaving) ++healthy;
  }
  expected = pods + static_cast<std::int64_t>(disrupted.size());
  const Value* least = found->find({"spec", "minAvailable"});
  const Value* most = found->find({"spec", "maxUnavailable"});
  std::int64_t needed = 0;
  if (most != nullptr && !most->is_null())
    needed = std::max<std::int64_t>(0, expected - scaled(most, expected, true));
  else if (least != nullptr)
    needed = scaled(least, expected, true);
  const std::int64_t allowed = std::max<std::int64_t>(0, expected == 0 ? 0 : healthy - needed);
  edit(
      "policy", "poddisruptionbudgets", key,
      [&](const Value& live) {
        Value out = live;
        Value& status = map_at(out, {"status"});
        const std::int64_t generation = int_at(out, {"metadata", "generation"});
        status.set("observedGeneration", num(generation));
        if (disrupted.size() != 0)
          status.set("disruptedPods", disrupted);
        else
          status.erase("disruptedPods");
        status.set("disruptionsAllowed", num(allowed));
        status.set("currentHealthy", num(healthy));
        status.set("desiredHealthy", num(needed));
        status.set("expectedPods", num(expected));
        set_condition(out, "DisruptionAllowed", allowed > 0 ? "True" : "False",
                      allowed > 0 ? "SufficientPods" : "InsufficientPods", "", server_.timestamp());
        for (Value& one : map_at(out, {"status"}).find("conditions")->items())
          one.set("observedGeneration", num(generation));
        return out;
      },
      as(manager, "status"));
}

}  // namespace rocca::lab::kube
