// Kubelets that register and report, and the node controllers that judge them.
#include "base/encoding.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/controllers/controllers.hpp"
#include "lab/kube/requests.hpp"

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

Value node_owner(const Value& node, bool controller) {
  Value owner = Value::map();
  owner.set("apiVersion", str("v1"));
  owner.set("kind", str("Node"));
  owner.set("name", str(text_at(node, {"metadata", "name"})));
  owner.set("uid", str(text_at(node, {"metadata", "uid"})));
  if (controller) owner.set("controller", Value::boolean(true));
  return owner;
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
    server_.set_defaults(nodes, node);
    server_.create(nodes, "", std::move(node), as("kubelet"));
  }
  describe(kubelet);
  const Resource& leases = resource("coordination.k8s.io", "leases");
  if (!server_.storage().find(leases.key(), {"kube-node-lease", kubelet.name})) {
    const Object node = find("/nodes", key);
    Value lease = Value::map();
    set_at(lease, {"metadata", "name"}, str(kubelet.name));
    set_at(lease, {"metadata", "ownerReferences"}, Value::list({node_owner(*node, false)}));
    set_at(lease, {"spec", "holderIdentity"}, str(kubelet.name));
    set_at(lease, {"spec", "leaseDurationSeconds"}, num(40));
    set_at(lease, {"spec", "renewTime"}, str(server_.micro_timestamp()));
    server_.create(leases, "kube-node-lease", std::move(lease), as("kubelet"));
  }
  judge_pods(kubelet.name, true);  // its containers start again
  heartbeat(kubelet.name);
  if (kubelet.control_plane) make_mirror_pods(kubelet);
  if (kubelet.rotates_certificate) ask_certificate(kubelet);
  // What was bound to it while it was away starts now.
  for (const auto& [pod_key, pod] : server_.storage().all("/pods"))
    if (text_at(*pod, {"spec", "nodeName"}) == kubelet.name)
      sync("run", pod_key, &Controllers::run_pod, 50ms);
}

/// Labels, taints and annotations as the machine's config has them; Talos keeps them so.
void Controllers::describe(const Kubelet& kubelet) {
  const std::string role = "node-role.kubernetes.io/control-plane";
  std::vector<Kubelet::Taint> taints;
  if (kubelet.taints)
    taints = *kubelet.taints;
  else if (kubelet.control_plane)
    taints.push_back({role, "", "NoSchedule"});
  edit(
      "", "nodes", {"", kubelet.name},
      [&](const Value& live) {
        Value node = live;
        Value& labels = map_at(node, {"metadata", "labels"});
        for (const auto& [label, value] : kubelet.labels) labels.set(label, str(value));
        if (kubelet.control_plane) labels.set(role, str(""));
        for (const auto& [name, value] : kubelet.annotations)
          map_at(node, {"metadata", "annotations"}).set(name, str(value));
        for (const Kubelet::Taint& taint : taints) {
          // A kubelet asks for it once, when it registers.
          if (taint.key == "node.cloudprovider.kubernetes.io/uninitialized" &&
              !text_at(node, {"spec", "providerID"}).empty())
            continue;
          Value one = Value::map();
          one.set("key", str(taint.key));
          if (!taint.value.empty()) one.set("value", str(taint.value));
          one.set("effect", str(taint.effect));
          Value& spec = map_at(node, {"spec"});
          Value* list = spec.find("taints");
          if (list == nullptr || !list->is_list()) list = &spec.set("taints", Value::list());
          const bool there =
              std::any_of(list->items().begin(), list->items().end(), [&](const Value& old) {
                return text_at(old, {"key"}) == taint.key &&
                       text_at(old, {"effect"}) == taint.effect;
              });
          if (!there) list->append(std::move(one));
        }
        return node;
      },
      as("talos"));
}

/// Static pods of the control plane show themselves as pods that nobody can change.
void Controllers::make_mirror_pods(const Kubelet& kubelet) {
  const Object node = find("/nodes", {"", kubelet.name});
  if (!node) return;
  for (const char* component : {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}) {
    const ObjectKey key{"kube-system", fmt::format("{}-{}", component, kubelet.name)};
    if (find("/pods", key)) continue;
    Value pod = Value::map();
    Value& metadata = map_at(pod, {"metadata"});
    metadata.set("name", str(key.name));
    set_at(pod, {"metadata", "labels"},
           json(fmt::format(R"({{"component":"{0}","k8s-app":"{0}","tier":"control-plane"}})",
                            component)));
    const std::string hash = to_hex(fmt::format("{:16}", key.name).substr(0, 16));
    set_at(
        pod, {"metadata", "annotations"},
        json(fmt::format(
            R"({{"kubernetes.io/config.hash":"{0}","kubernetes.io/config.mirror":"{0}","kubernetes.io/config.seen":"{1}","kubernetes.io/config.source":"file"}})",
            hash, server_.timestamp())));
    set_at(pod, {"metadata", "ownerReferences"}, Value::list({node_owner(*node, true)}));
    Value& spec = map_at(pod, {"spec"});
    spec.set("nodeName", str(kubelet.name));
    spec.set("hostNetwork", Value::boolean(true));
    spec.set("priorityClassName", str("system-cluster-critical"));
    spec.set("automountServiceAccountToken", Value::boolean(false));
    spec.set("tolerations", json(R"([{"operator":"Exists","effect":"NoExecute"}])"));
    spec.set("containers",
             json(fmt::format(R"([{{"name":"{0}","image":"registry.k8s.io/{0}:{1}"}}])", component,
                              kubelet.version)));
    make("", "pods", "kube-system", std::move(pod), "kubelet");
  }
}

/// A kubelet that rotates its serving certificate asks for it when it starts.
void Controllers::ask_certificate(const Kubelet& kubelet) {
  if (!server_.kubelet_trouble(kubelet.name)) return;
  for (const auto& [key, request] :
       server_.storage().all("certificates.k8s.io/certificatesigningrequests"))
    if (text_at(*request, {"spec", "username"}) == "system:node:" + kubelet.name &&
        text_at(*request, {"status", "certificate"}).empty())
      return;
  Value request = Value::map();
  set_at(request, {"metadata", "name"}, str("csr-" + server_.random_suffix()));
  Value& spec = map_at(request, {"spec"});
  spec.set("request", str(certificate_request(kubelet)));
  spec.set("signerName", str("kubernetes.io/kubelet-serving"));
  spec.set("username", str("system:node:" + kubelet.name));
  spec.set("groups", json(R"(["system:nodes","system:authenticated"])"));
  spec.set("usages", json(R"(["digital signature","server auth"])"));
  make("certificates.k8s.io", "certificatesigningrequests", "", std::move(request), "kubelet");
}

std::optional<std::string> Server::kubelet_trouble(const std::string& node) const {
  const auto kubelet = kubelets.find(node);
  if (kubelet == kubelets.end()) return "dial tcp: connect: no route to host";
  if (!kubelet->second.rotates_certificate) return std::nullopt;
  for (const auto& [key, request] : storage_.all("certificates.k8s.io/certificatesigningrequests"))
    if (text_at(*request, {"spec", "username"}) == "system:node:" + node &&
        text_at(*request, {"spec", "signerName"}) == "kubernetes.io/kubelet-serving" &&
        !text_at(*request, {"status", "certificate"}).empty())
      return std::nullopt;
  return "remote error: tls: internal error";
}

void Controllers::judge_pods(const std::string& node, bool ready) {
  std::vector<ObjectKey> keys;
  for (const auto& [key, pod] : server_.storage().all("/pods"))
    if (text_at(*pod, {"spec", "nodeName"}) == node &&
        text_at(*pod, {"status", "phase"}) == "Running" && is_pod_ready(*pod) != ready)
      keys.push_back(key);
  for (const ObjectKey& key : keys)
    edit(
        "", "pods", key,
        [&](const Value& live) {
          Value pod = live;
          set_condition(pod, "Ready", ready ? "True" : "False", "", "", server_.timestamp());
          return pod;
        },
        as(ready ? "kubelet" : "kube-controller-manager", "status"));
}

void Controllers::forget_pods(const std::string& node) {
  if (find("/nodes", {"", node})) return;
  std::vector<ObjectKey> keys;
  for (const auto& [key, pod] : server_.storage().all("/pods"))
    if (text_at(*pod, {"spec", "nodeName"}) == node) keys.push_back(key);
  for (const ObjectKey& key : keys) {
    if (!find("/pods", key)) continue;
    DeleteHow how;
    how.grace = 0;
    server_.remove(resource("", "pods"), key, how, as("kube-controller-manager"));
  }
}

bool is_network_agent(const Value& labelled) {
  static const std::set<std::string> agents{"cilium", "flannel", "calico-node", "kube-router"};
  return agents.contains(text_at(labelled, {"metadata", "labels", "k8s-app"})) ||
         agents.contains(text_at(labelled, {"metadata", "labels", "app"}));
}

bool Controllers::has_network(const std::string& node) const {
  if (server_.network_ready) return server_.network_ready(node);
  // What a CNI has set up on a node stays while its agent restarts, and goes when the CNI is
  // deleted.
  const Object known = find("/nodes", {"", node});
  const bool had = known && condition_status(*known, "Ready") == "True";
  // A CNI is there when the agent of one of the usual ones runs on the node.
  for (const auto& [key, pod] : server_.storage().all("/pods"))
    if (text_at(*pod, {"spec", "nodeName"}) == node && is_network_agent(*pod) &&
        (had || condition_status(*pod, "Ready") == "True"))
      return true;
  if (!had) return false;
  const auto& sets = server_.storage().all("apps/daemonsets");
  return std::any_of(sets.begin(), sets.end(), [](const auto& entry) {
    const Value* pod = entry.second->find({"spec", "template"});
    return pod != nullptr && is_network_agent(*pod);
  });
}

void Controllers::heartbeat(const std::string& node) {
  const auto kubelet = server_.kubelets.find(node);
  if (kubelet == server_.kubelets.end()) return;
  const bool network = has_network(node);
  const Object before = find("/nodes", {"", node});
  const bool fresh = before && condition_status(*before, "Ready") != "True";
  const Kubelet& facts = kubelet->second;
  const std::string now = server_.timestamp();
  edit(
      "", "nodes", {"", node},
      [&](const Value& live) {
        Value object = live;
        Value& status = map_at(object, {"status"});
        const Value room = json(fmt::format(R"({{"cpu":"{}","memory":"{}Ki","pods":"110"}})",
                                            facts.cores, facts.memory >> 10));
        status.set("capacity", room);
        status.set("allocatable", room);
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
        info.set("osImage", str(facts.os_image));
        info.set("kernelVersion", str(facts.kernel));
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
  if (network && fresh)
    for (const auto& [key, pod] : server_.storage().all("/pods"))
      if (text_at(*pod, {"spec", "nodeName"}) == node)
        sync("run", key, &Controllers::run_pod, 50ms);
  // A pod that comes up on the node looks again (start_pod); only who is told from outside has to
  // ask.
  if (!network && server_.network_ready)
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
  judge_pods(node, false);
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
