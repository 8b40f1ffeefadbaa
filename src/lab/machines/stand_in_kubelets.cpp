#include "lab/machines/stand_in_kubelets.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "lab/flux/charts.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/controllers/controllers.hpp"
#include "lab/kube/json.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab {

using namespace std::chrono_literals;
using kube::set_at;
using kube::str;
using kube::text_at;

namespace {

constexpr const char* merge = "application/merge-patch+json";

std::string path_of(const text::Value& object, const std::string& plural) {
  const std::string api = text_at(object, {"apiVersion"});
  const std::string space = text_at(object, {"metadata", "namespace"});
  return fmt::format("/{}/{}/{}{}/{}", api.find('/') == std::string::npos ? "api" : "apis", api,
                     space.empty() ? "" : fmt::format("namespaces/{}/", space), plural,
                     text_at(object, {"metadata", "name"}));
}

std::string pod_path(const text::Value& pod) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", text_at(pod, {"metadata", "namespace"}),
                     text_at(pod, {"metadata", "name"}));
}

/// As the kubelets' names for kinds go; only what charts and Talos bring is asked for.
std::string plural_of(const std::string& kind) {
  std::string out;
  for (const char c : kind) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (out.ends_with("y")) return out.substr(0, out.size() - 1) + "ies";
  return out.ends_with("s") ? out + "es" : out + "s";
}

bool is_agent(const text::Value& pod) {
  static const std::set<std::string> agents{"cilium", "flannel", "calico-node", "kube-router"};
  return agents.contains(text_at(pod, {"metadata", "labels", "k8s-app"})) ||
         agents.contains(text_at(pod, {"metadata", "labels", "app"}));
}

std::string now_text(const Clock& clock, bool micro = false) {
  const std::string text = to_string(clock.now());
  const std::string seconds = text.substr(0, 19);
  return micro ? seconds + ".000000Z" : seconds + "Z";
}

text::Value condition(const char* type, const char* status, const std::string& reason,
                      const std::string& message, const std::string& now) {
  text::Value out = text::Value::map();
  out.set("type", str(type));
  out.set("status", str(status));
  if (!reason.empty()) out.set("reason", str(reason));
  if (!message.empty()) out.set("message", str(message));
  out.set("lastTransitionTime", str(now));
  return out;
}

}  // namespace

StandInKubelets::StandInKubelets(net::Transport& transport, std::string server,
                                 std::string authority_pem,
                                 std::shared_ptr<const net::Identity> identity,
                                 std::vector<Value> manifests, bool has_network, bool has_manager)
    : transport_(transport),
      server_(std::move(server)),
      authority_pem_(std::move(authority_pem)),
      identity_(std::move(identity)),
      manifests_(std::move(manifests)),
      has_network_(has_network),
      has_manager_(has_manager) {}

StandInKubelets::Said StandInKubelets::ask(const std::string& method, const std::string& path,
                                           const std::string& body, const std::string& type) {
  net::Request request;
  request.method = method;
  request.url = server_ + path;
  request.tls = net::Tls::authority(authority_pem_);
  request.tls.identity = identity_;
  request.timeout = 20s;
  if (!body.empty()) {
    request.body = body;
    request.headers.add("Content-Type", type);
  }
  try {
    const net::Answer answer = net::fetch(transport_, request, stop_);
    Said said{answer.head.status, {}};
    if (answer.body.starts_with("{")) said.body = kube::read_json(answer.body).value;
    return said;
  } catch (const Error&) {
    return {};
  } catch (const kube::BadJson&) {
    return {};
  }
}

std::vector<text::Value> StandInKubelets::list(const std::string& path) {
  const Said said = ask("GET", path);
  const Value* items = said.body.find("items");
  return items == nullptr || !items->is_list() ? std::vector<Value>{} : items->items();
}

bool StandInKubelets::ready(const std::stop_token& stop) {
  stop_ = stop;
  // It answers before its own namespaces are there.
  return ask("GET", "/readyz").status == 200 &&
         ask("GET", "/api/v1/namespaces/kube-system").status == 200;
}

void StandInKubelets::apply(const Value& object, const std::string& manager) {
  ask("PATCH",
      fmt::format("{}?fieldManager={}&force=true",
                  path_of(object, plural_of(text_at(object, {"kind"}))), manager),
      text::emit_json(object), "application/apply-patch+yaml");
}

void StandInKubelets::register_node(const kube::Kubelet& kubelet) {
  Value node = kube::json(R"({"apiVersion":"v1","kind":"Node"})");
  set_at(node, {"metadata", "name"}, str(kubelet.name));
  const auto label = [&](const std::string& key, const std::string& value) {
    set_at(node, {"metadata", "labels", key}, str(value));
  };
  label("kubernetes.io/hostname", kubelet.name);
  label("kubernetes.io/arch", "amd64");
  label("kubernetes.io/os", "linux");
  if (kubelet.control_plane) label("node-role.kubernetes.io/control-plane", "");
  for (const auto& [key, value] : kubelet.labels) label(key, value);
  for (const auto& [key, value] : kubelet.annotations)
    set_at(node, {"metadata", "annotations", key}, str(value));
  const Value described = node;
  std::vector<kube::Kubelet::Taint> taints;
  if (kubelet.taints)
    taints = *kubelet.taints;
  else if (kubelet.control_plane)
    taints.push_back({"node-role.kubernetes.io/control-plane", "", "NoSchedule"});
  Value list = Value::list();
  for (const kube::Kubelet::Taint& taint : taints) {
    Value one = Value::map();
    one.set("key", str(taint.key));
    if (!taint.value.empty()) one.set("value", str(taint.value));
    one.set("effect", str(taint.effect));
    list.append(std::move(one));
  }
  if (list.size() != 0) set_at(node, {"spec", "taints"}, std::move(list));
  const Said made = ask("POST", "/api/v1/nodes?fieldManager=kubelet", text::emit_json(node));
  if (made.status == 409)
    ask("PATCH", "/api/v1/nodes/" + kubelet.name + "?fieldManager=talos",
        text::emit_json(described), merge);
  if (made.status == 201 || made.status == 409) {
    known_[kubelet.name] = kubelet;
    told_.erase(kubelet.name);
  }
}

void StandInKubelets::report(const kube::Kubelet& kubelet, bool network) {
  const std::string now = now_text(clock_);
  Value status = kube::json(fmt::format(
      R"({{"capacity":{{"cpu":"{0}","memory":"{1}Ki","pods":"110"}},"allocatable":{{"cpu":"{0}","memory":"{1}Ki","pods":"110"}},"addresses":[{{"type":"InternalIP","address":"{2}"}},{{"type":"Hostname","address":"{3}"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":10250}}}},"nodeInfo":{{"machineID":"{4}","systemUUID":"{5}","bootID":"{5}","osImage":"{6}","kernelVersion":"{7}","operatingSystem":"linux","architecture":"amd64","kubeletVersion":"{8}","kubeProxyVersion":"","containerRuntimeVersion":"containerd://2.1.5"}}}})",
      kubelet.cores, kubelet.memory >> 10, kubelet.address, kubelet.name, kubelet.machine_id,
      kubelet.system_uuid, kubelet.os_image, kubelet.kernel, kubelet.version));
  Value conditions = Value::list();
  for (const auto& [type, reason, message] :
       {std::tuple{"MemoryPressure", "KubeletHasSufficientMemory",
                   "kubelet has sufficient memory available"},
        {"DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"},
        {"PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"}})
    conditions.append(condition(type, "False", reason, message, now));
  conditions.append(
      network ? condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now)
              : condition("Ready", "False", "KubeletNotReady",
                          "container runtime network not ready: NetworkReady=false "
                          "reason:NetworkPluginNotReady message:Network plugin returns error: cni "
                          "plugin not initialized",
                          now));
  for (Value& one : conditions.items()) one.set("lastHeartbeatTime", str(now));
  status.set("conditions", std::move(conditions));
  Value patch = Value::map();
  patch.set("status", std::move(status));
  const Said said = ask("PATCH", "/api/v1/nodes/" + kubelet.name + "/status?fieldManager=kubelet",
                        text::emit_json(patch), merge);
  if (said.status == 200) told_[kubelet.name] = network;
  // Where no controller does it: a Node that is ready is no longer tainted as one that is not.
  if (has_manager_ || said.status != 200) return;
  const Value* taints = said.body.find({"spec", "taints"});
  if (taints == nullptr || !taints->is_list()) return;
  Value kept = Value::list();
  for (const Value& taint : taints->items())
    if (!text_at(taint, {"key"}).starts_with("node.kubernetes.io/")) kept.append(taint);
  if (network && kept.size() != taints->size()) {
    Value without = Value::map();
    set_at(without, {"spec", "taints"}, std::move(kept));
    ask("PATCH", "/api/v1/nodes/" + kubelet.name, text::emit_json(without), merge);
  }
}

void StandInKubelets::lose(const Value& node) {
  Value conditions = Value::list();
  for (const char* type : {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"})
    conditions.append(condition(type, "Unknown", "NodeStatusUnknown",
                                "Kubelet stopped posting node status.", now_text(clock_)));
  Value patch = Value::map();
  set_at(patch, {"status", "conditions"}, std::move(conditions));
  ask("PATCH", "/api/v1/nodes/" + text_at(node, {"metadata", "name"}) + "/status",
      text::emit_json(patch), merge);
}

void StandInKubelets::renew(const std::string& node) {
  apply(
      kube::json(fmt::format(
          R"({{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"{0}","namespace":"kube-node-lease"}},"spec":{{"holderIdentity":"{0}","leaseDurationSeconds":40,"renewTime":"{1}"}}}})",
          node, now_text(clock_, true))),
      "kubelet");
}

void StandInKubelets::bind(const Value& pod, const std::vector<Value>& nodes) {
  for (const Value& node : nodes) {
    if (kube::refuse_node(pod, node)) continue;
    ask("POST", pod_path(pod) + "/binding",
        fmt::format(
            R"({{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{}"}},"target":{{"apiVersion":"v1","kind":"Node","name":"{}"}}}})",
            text_at(pod, {"metadata", "name"}), text_at(node, {"metadata", "name"})));
    return;
  }
}

void StandInKubelets::run_pod(const Value& pod, const kube::Kubelet& kubelet, bool network,
                              const std::map<std::string, std::string>& refused) {
  const std::string uid = text_at(pod, {"metadata", "uid"});
  const std::string phase = text_at(pod, {"status", "phase"});
  const bool ends = text_at(pod, {"spec", "restartPolicy"}) != "Always";
  const std::string now = now_text(clock_);
  if (pod.find({"metadata", "deletionTimestamp"}) != nullptr) {
    ask("DELETE", pod_path(pod) + "?gracePeriodSeconds=0");
    return;
  }
  const bool finish =
      phase == "Running" && ends && started_.contains(uid) && clock_.tick() - started_[uid] > 1s;
  if (phase != "Pending" && !finish) return;
  const bool host = kube::bool_at(pod, {"spec", "hostNetwork"});
  bool runs = host || network;
  Value statuses = Value::list();
  const Value* containers = pod.find({"spec", "containers"});
  for (const Value& container : containers->items()) {
    const std::string image = text_at(container, {"image"});
    Value one = Value::map();
    one.set("name", str(text_at(container, {"name"})));
    one.set("image", str(image));
    one.set("imageID", str(""));
    one.set("restartCount", kube::num(0));
    std::string why;
    for (const auto& [part, text] : refused)
      if (image.find(part) != std::string::npos) why = text;
    if (!why.empty()) {
      runs = false;
      set_at(one, {"state", "waiting", "reason"}, str("ImagePullBackOff"));
      set_at(one, {"state", "waiting", "message"},
             str(fmt::format("Back-off pulling image \"{}\": {}", image, why)));
    } else if (finish) {
      set_at(one, {"state", "terminated"},
             kube::json(fmt::format(
                 R"({{"exitCode":0,"reason":"Completed","startedAt":"{0}","finishedAt":"{0}"}})",
                 now)));
    } else {
      set_at(one, {"state", "running", "startedAt"}, str(now));
    }
    statuses.append(std::move(one));
  }
  if (!runs && phase == "Pending" && pod.find({"status", "containerStatuses"}) != nullptr) return;
  const bool up = runs && !finish;
  for (Value& one : statuses.items()) {
    if (!runs && one.find({"state", "waiting"}) == nullptr) {
      one.erase("state");
      set_at(one, {"state", "waiting", "reason"}, str("ContainerCreating"));
    }
    one.set("ready", Value::boolean(up));
    one.set("started", Value::boolean(up));
  }
  Value status = Value::map();
  status.set("phase", str(!runs ? "Pending" : finish ? "Succeeded" : "Running"));
  Value conditions = Value::list();
  const std::string reason = up ? "" : finish ? "PodCompleted" : "ContainersNotReady";
  conditions.append(condition("PodScheduled", "True", "", "", now));
  conditions.append(condition("Initialized", "True", "", "", now));
  conditions.append(condition("Ready", up ? "True" : "False", reason, "", now));
  conditions.append(condition("ContainersReady", up ? "True" : "False", reason, "", now));
  status.set("conditions", std::move(conditions));
  status.set("hostIP", str(kubelet.address));
  status.set("startTime", str(now));
  if (runs && !finish) {
    const std::string address =
        host ? kubelet.address
             : fmt::format("10.244.{}.{}", next_address_ / 250, next_address_ % 250 + 1);
    if (!host) ++next_address_;
    status.set("podIP", str(address));
    status.set("podIPs", kube::json(fmt::format(R"([{{"ip":"{}"}}])", address)));
  }
  status.set("containerStatuses", std::move(statuses));
  Value patch = Value::map();
  patch.set("status", std::move(status));
  const Said said =
      ask("PATCH", pod_path(pod) + "/status?fieldManager=kubelet", text::emit_json(patch), merge);
  if (said.status == 200 && up) started_.emplace(uid, clock_.tick());
}

/// Without a controller manager nobody makes the accounts that pods need.
void StandInKubelets::make_accounts() {
  for (const Value& space : list("/api/v1/namespaces")) {
    const std::string name = text_at(space, {"metadata", "name"});
    if (!scaffolded_.insert(name).second) continue;
    ask("POST", fmt::format("/api/v1/namespaces/{}/serviceaccounts", name),
        R"({"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}})");
  }
}

void StandInKubelets::install_charts() {
  for (const Value& job : list("/apis/batch/v1/jobs")) {
    if (kube::condition_status(job, "Complete") != "True" ||
        !installed_.insert(text_at(job, {"metadata", "uid"})).second)
      continue;
    const auto wanted = flux::installation_of(job);
    if (!wanted) continue;
    Value values;
    const Said map =
        ask("GET", fmt::format("/api/v1/namespaces/{}/configmaps/{}",
                               text_at(job, {"metadata", "namespace"}), wanted->config_map));
    if (const std::string text = text_at(map.body, {"data", wanted->values}); !text.empty())
      values = text::parse_yaml(text, wanted->values);
    if (const auto objects =
            flux::chart_objects(wanted->chart, wanted->release, wanted->space, &values))
      for (const Value& object : *objects) apply(object, "Helm");
  }
}

std::map<std::string, StandInKubelets::Seen> StandInKubelets::act(
    const std::map<std::string, kube::Kubelet>& kubelets,
    const std::map<std::string, std::string>& refused, const std::stop_token& stop) {
  stop_ = stop;
  for (const Value& manifest : std::exchange(manifests_, {})) apply(manifest, "talos");
  if (!has_manager_) make_accounts();
  std::erase_if(known_, [&](const auto& each) { return !kubelets.contains(each.first); });
  for (const auto& [name, kubelet] : kubelets) {
    lost_.erase(name);
    const auto known = known_.find(name);
    if (known == known_.end() || !(known->second == kubelet)) register_node(kubelet);
  }
  const std::vector<Value> nodes = list("/api/v1/nodes");
  const std::vector<Value> pods = list("/api/v1/pods");
  std::set<std::string> connected;
  for (const Value& pod : pods)
    if (is_agent(pod) && kube::condition_status(pod, "Ready") == "True")
      connected.insert(text_at(pod, {"spec", "nodeName"}));
  std::map<std::string, Seen> seen;
  for (const Value& node : nodes) {
    const std::string name = text_at(node, {"metadata", "name"});
    seen[name] = {kube::condition_status(node, "Ready") == "True",
                  kube::bool_at(node, {"spec", "unschedulable"})};
    const auto kubelet = kubelets.find(name);
    if (kubelet == kubelets.end()) {
      const auto since = lost_.emplace(name, clock_.tick()).first->second;
      if (!has_manager_ && clock_.tick() - since > 10s &&
          kube::condition_status(node, "Ready") != "Unknown")
        lose(node);
      continue;
    }
    const bool network = has_network_ || connected.contains(name);
    const auto told = told_.find(name);
    const auto renewed = renewed_.find(name);
    if (renewed == renewed_.end() || clock_.tick() - renewed->second > 10s) {
      renew(name);
      renewed_[name] = clock_.tick();
      report(kubelet->second, network);
    } else if (told == told_.end() || told->second != network) {
      report(kubelet->second, network);
    }
  }
  for (const Value& pod : pods) {
    const std::string node = text_at(pod, {"spec", "nodeName"});
    if (node.empty()) {
      if (pod.find({"metadata", "deletionTimestamp"}) == nullptr) bind(pod, nodes);
      continue;
    }
    if (const auto kubelet = kubelets.find(node); kubelet != kubelets.end())
      run_pod(pod, kubelet->second, has_network_ || connected.contains(node), refused);
  }
  install_charts();
  return seen;
}

}  // namespace rocca::lab
