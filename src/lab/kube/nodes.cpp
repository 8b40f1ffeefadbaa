// Kubelets that register and report, and the node controllers that judge them.
#include "lab/kube/conditions.hpp"
#include "lab/kube/controllers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using namespace std::chrono_literals;
using text::Value;

namespace {

// node-monitor-grace-period of v1.32 and later
constexpr Duration grace_period = 50s;

void set_taint(Value& node, const std::string& key, const std::string& effect, bool wanted,
               const std::string& time) {
  Value& spec = map_at(node, {"spec"});
  Value* taints = spec.find("taints");
  const auto is_it = [&](const Value& one) {
    return text_at(one, {"key"}) == key && text_at(one, {"effect"}) == effect;
  };
  const bool there = taints != nullptr && taints->is_list() &&
                     std::any_of(taints->items().begin(), taints->items().end(), is_it);
  if (there == wanted) return;
  if (!wanted) {
    std::erase_if(taints->items(), is_it);
    if (taints->size() == 0) spec.erase("taints");
    return;
  }
  if (taints == nullptr || !taints->is_list()) taints = &spec.set("taints", Value::list());
  Value taint = Value::map();
  taint.set("key", str(key));
  taint.set("effect", str(effect));
  taint.set("timeAdded", str(time));
  taints->append(std::move(taint));
}

void report(Value& node, const char* type, const char* status, const char* reason,
            const std::string& message, const std::string& now) {
  set_condition(node, type, status, reason, message, now);
  for (Value& one : map_at(node, {"status"}).find("conditions")->items())
    if (text_at(one, {"type"}) == type) one.set("lastHeartbeatTime", str(now));
}

}  // namespace

void Server::join_kubelet(Kubelet kubelet) {
  const std::string name = kubelet.name;
  kubelets.insert_or_assign(name, std::move(kubelet));
  controllers_->join(kubelets.find(name)->second);
}

void Server::leave_kubelet(std::string_view node) {
  const auto found = kubelets.find(node);
  if (found == kubelets.end()) return;
  kubelets.erase(found);
  controllers_->leave(std::string(node));
}

void Controllers::join(const Kubelet& kubelet) {
  const Resource& nodes = resource("", "nodes");
  const ObjectKey key{"", kubelet.name};
  if (!server_.storage().find(nodes.key(), key)) {
    Value node = Value::map();
    set_at(node, {"metadata", "name"}, str(kubelet.name));
    Value& labels = map_at(node, {"metadata", "labels"});
    labels.set("beta.kubernetes.io/arch", str("amd64"));
    labels.set("beta.kubernetes.io/os", str("linux"));
    labels.set("kubernetes.io/arch", str("amd64"));
    labels.set("kubernetes.io/hostname", str(kubelet.name));
    labels.set("kubernetes.io/os", str("linux"));
    for (const auto& [label, value] : kubelet.labels) labels.set(label, str(value));
    if (kubelet.control_plane) {
      labels.set("node-role.kubernetes.io/control-plane", str(""));
      Value taint =
          json(R"({"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"})");
      set_at(node, {"spec", "taints"}, Value::list({taint}));
    }
    server_.set_defaults(nodes, node);
    server_.create(nodes, "", std::move(node), as("kubelet"));
  }
  const Resource& leases = resource("coordination.k8s.io", "leases");
  if (!server_.storage().find(leases.key(), {"kube-node-lease", kubelet.name})) {
    Value lease = Value::map();
    set_at(lease, {"metadata", "name"}, str(kubelet.name));
    set_at(lease, {"spec", "holderIdentity"}, str(kubelet.name));
    set_at(lease, {"spec", "leaseDurationSeconds"}, num(40));
    set_at(lease, {"spec", "renewTime"}, str(server_.micro_timestamp()));
    server_.create(leases, "kube-node-lease", std::move(lease), as("kubelet"));
  }
  heartbeat(kubelet.name);
}

bool Controllers::has_network(const std::string& node) const {
  if (server_.network_ready) return server_.network_ready(node);
  // A CNI is there when the agent of one of the usual ones runs on the node.
  static const std::set<std::string> agents{"cilium", "flannel", "calico-node", "kube-router"};
  for (const auto& [key, pod] : server_.storage().all("/pods")) {
    if (text_at(*pod, {"spec", "nodeName"}) != node || condition_status(*pod, "Ready") != "True")
      continue;
    for (const char* label : {"k8s-app", "app"})
      if (agents.contains(text_at(*pod, {"metadata", "labels", label}))) return true;
  }
  return false;
}

void Controllers::heartbeat(const std::string& node) {
  const auto kubelet = server_.kubelets.find(node);
  if (kubelet == server_.kubelets.end()) return;
  const bool network = has_network(node);
  const Kubelet& facts = kubelet->second;
  const std::string now = server_.timestamp();
  edit(
      "", "nodes", {"", node},
      [&](const Value& live) {
        Value object = live;
        Value& status = map_at(object, {"status"});
        status.set("capacity", json(R"({"cpu":"4","memory":"8Gi","pods":"110"})"));
        status.set("allocatable", json(R"({"cpu":"4","memory":"8Gi","pods":"110"})"));
        Value addresses = Value::list();
        for (const auto& [type, address] :
             {std::pair{"InternalIP", facts.address}, {"Hostname", facts.name}}) {
          Value one = Value::map();
          one.set("type", str(type));
          one.set("address", str(address));
          addresses.append(std::move(one));
        }
        status.set("addresses", std::move(addresses));
        set_at(status, {"daemonEndpoints", "kubeletEndpoint", "Port"}, num(10250));
        Value& info = map_at(status, {"nodeInfo"});
        info.set("machineID", str(facts.machine_id));
        info.set("systemUUID", str(facts.system_uuid));
        info.set("osImage", str("Talos"));
        info.set("operatingSystem", str("linux"));
        info.set("architecture", str("amd64"));
        info.set("kubeletVersion", str(facts.version));
        info.set("containerRuntimeVersion", str("containerd://2.1.5"));
        report(object, "MemoryPressure", "False", "KubeletHasSufficientMemory",
               "kubelet has sufficient memory available", now);
        report(object, "DiskPressure", "False", "KubeletHasNoDiskPressure",
               "kubelet has no disk pressure", now);
        report(object, "PIDPressure", "False", "KubeletHasSufficientPID",
               "kubelet has sufficient PID available", now);
        if (network)
          report(object, "Ready", "True", "KubeletReady", "kubelet is posting ready status", now);
        else
          report(
              object, "Ready", "False", "KubeletNotReady",
              "container runtime network not ready: NetworkReady=false "
              "reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not "
              "initialized",
              now);
        return object;
      },
      as("kubelet", "status"));
  // A node that is not ready looks again; a ready one has nothing to report that anybody reads.
  if (!network)
    soon("heartbeat", {"", node}, 5s, [this](const ObjectKey& key) { heartbeat(key.name); });
}

void Controllers::leave(const std::string& node) {
  soon("lost", {"", node}, grace_period, [this](const ObjectKey& key) {
    if (!server_.kubelets.contains(key.name)) lose_node(key.name);
  });
}

void Controllers::lose_node(const std::string& node) {
  const std::string now = server_.timestamp();
  edit(
      "", "nodes", {"", node},
      [&](const Value& live) {
        Value object = live;
        for (const char* type : {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}) {
          const bool known = find_condition(live, type) != nullptr;
          set_condition(
              object, type, "Unknown", known ? "NodeStatusUnknown" : "NodeStatusNeverUpdated",
              known ? "Kubelet stopped posting node status." : "Kubelet never posted node status.",
              now);
        }
        return object;
      },
      as("kube-controller-manager", "status"));
}

void Controllers::sync_node(const ObjectKey& key) {
  const Object found = server_.storage().find("/nodes", key);
  if (!found) return;
  const std::string now = server_.timestamp();
  const std::string ready = condition_status(*found, "Ready");
  edit(
      "", "nodes", key,
      [&](const Value& live) {
        Value node = live;
        set_taint(node, "node.kubernetes.io/not-ready", "NoSchedule", ready == "False", now);
        set_taint(node, "node.kubernetes.io/not-ready", "NoExecute", ready == "False", now);
        set_taint(node, "node.kubernetes.io/unreachable", "NoSchedule", ready == "Unknown", now);
        set_taint(node, "node.kubernetes.io/unschedulable", "NoSchedule",
                  bool_at(node, {"spec", "unschedulable"}), now);
        if (text_at(node, {"spec", "podCIDR"}).empty()) {
          const auto kubelet = server_.kubelets.find(key.name);
          const std::string cidr =
              kubelet != server_.kubelets.end() && !kubelet->second.pod_cidr.empty()
                  ? kubelet->second.pod_cidr
                  : fmt::format("10.244.{}.0/24", next_pod_cidr_++);
          set_at(node, {"spec", "podCIDR"}, str(cidr));
          set_at(node, {"spec", "podCIDRs"}, Value::list({str(cidr)}));
        }
        set_at(node, {"metadata", "annotations", "node.alpha.kubernetes.io/ttl"}, str("0"));
        return node;
      },
      as("kube-controller-manager"));
  // A Node that nobody reports for becomes unknown after the grace period.
  if (!server_.kubelets.contains(key.name) && ready != "Unknown") leave(key.name);
}

}  // namespace rocca::lab::kube
