// The scheduler, and what a kubelet does with a pod.
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

bool tolerates(const Value& pod, const Value& taint) {
  const Value* list = pod.find({"spec", "tolerations"});
  if (list == nullptr || !list->is_list()) return false;
  return std::any_of(list->items().begin(), list->items().end(), [&](const Value& one) {
    const std::string effect = text_at(one, {"effect"});
    if (!effect.empty() && effect != text_at(taint, {"effect"})) return false;
    const std::string key = text_at(one, {"key"});
    const bool exists = text_at(one, {"operator"}) == "Exists";
    if (key.empty()) return exists;
    if (key != text_at(taint, {"key"})) return false;
    return exists || text_at(one, {"value"}) == text_at(taint, {"value"});
  });
}

bool term_fits(const Value& term, const Value& node) {
  const auto as_selector = [](const Value& expressions) {
    Value selector = Value::map();
    selector.set("matchExpressions", expressions);
    return LabelSelector::of(selector);
  };
  if (const Value* labels = term.find("matchExpressions"))
    if (!as_selector(*labels).matches(node)) return false;
  if (const Value* fields = term.find("matchFields")) {
    Value pretend = Value::map();
    set_at(pretend, {"metadata", "labels", "metadata.name"},
           str(text_at(node, {"metadata", "name"})));
    if (!as_selector(*fields).matches(pretend)) return false;
  }
  return true;
}

/// What Longhorn's manager says on a machine that it cannot work on; "" if it can.
std::string longhorn_trouble(const Kubelet& kubelet) {
  const auto has = [](const std::vector<std::string>& all, std::string_view wanted) {
    return std::find(all.begin(), all.end(), wanted) != all.end();
  };
  for (const char* extension : {"iscsi-tools", "util-linux-tools"})
    if (!has(kubelet.extensions, extension))
      return fmt::format(
          "failed to check environment, please make sure you have {} installed on "
          "the host: nsenter: failed to execute {}: No such file or directory",
          extension == std::string_view("iscsi-tools") ? "iscsiadm/open-iscsi" : "fstrim",
          extension == std::string_view("iscsi-tools") ? "iscsiadm" : "fstrim");
  if (!has(kubelet.mounts, "/var/lib/longhorn") && !has(kubelet.mounts, "/var/mnt/longhorn"))
    return "path \"/var/lib/longhorn/\" is mounted on \"/var\" but it is not a shared mount";
  return "";
}

// Talos lets nobody load a module, containers that call themselves privileged included.
constexpr const char* no_modules =
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
    "create failed: unable to start container process: unable to apply caps: can't apply "
    "capabilities: operation not permitted";

bool asks_for_modules(const Value& container) {
  const Value* added = container.find({"securityContext", "capabilities", "add"});
  return added != nullptr && added->is_list() &&
         std::any_of(added->items().begin(), added->items().end(), [](const Value& one) {
           return one.text() == "SYS_MODULE" || one.text() == "SYS_BOOT";
         });
}

void say(Value& pod, const char* type, bool holds, const std::string& reason,
         const std::string& message, const std::string& now) {
  Value& holder = map_at(pod, {"status"});
  Value* list = holder.find("conditions");
  if (list == nullptr || !list->is_list()) list = &holder.set("conditions", Value::list());
  Value* found = nullptr;
  for (Value& one : list->items())
    if (text_at(one, {"type"}) == type) found = &one;
  if (found == nullptr) {
    list->append(Value::map());
    found = &list->items().back();
    found->set("type", str(type));
    found->set("lastProbeTime", Value::null());
  }
  const char* status = holds ? "True" : "False";
  if (text_at(*found, {"status"}) != status) found->set("lastTransitionTime", str(now));
  found->set("observedGeneration", num(int_at(pod, {"metadata", "generation"})));
  found->set("status", str(status));
  reason.empty() ? static_cast<void>(found->erase("reason"))
                 : static_cast<void>(found->set("reason", str(reason)));
  message.empty() ? static_cast<void>(found->erase("message"))
                  : static_cast<void>(found->set("message", str(message)));
}

}  // namespace

std::optional<std::string> refuse_node(const Value& pod, const Value& node) {
  if (bool_at(node, {"spec", "unschedulable"})) {
    const Value taint = json(R"({"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"})");
    if (!tolerates(pod, taint)) return "were unschedulable";
  }
  if (const Value* taints = node.find({"spec", "taints"}); taints != nullptr && taints->is_list())
    for (const Value& taint : taints->items())
      if (text_at(taint, {"effect"}) != "PreferNoSchedule" && !tolerates(pod, taint))
        return fmt::format("had untolerated taint {{{}: {}}}", text_at(taint, {"key"}),
                           text_at(taint, {"value"}));
  if (const Value* selector = pod.find({"spec", "nodeSelector"})) {
    Value wanted = Value::map();
    wanted.set("matchLabels", *selector);
    if (!LabelSelector::of(wanted).matches(node))
      return "didn't match Pod's node affinity/selector";
  }
  const Value* required =
      pod.find({"spec", "affinity", "nodeAffinity",
                "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  if (required != nullptr && required->is_list() &&
      std::none_of(required->items().begin(), required->items().end(),
                   [&](const Value& term) { return term_fits(term, node); }))
    return "didn't match Pod's node affinity/selector";
  return std::nullopt;
}

void Controllers::schedule(const ObjectKey& key) {
  const Object pod = find("/pods", key);
  if (!pod || !text_at(*pod, {"spec", "nodeName"}).empty() || !is_pod_active(*pod)) return;
  if (!is_empty(pod->find({"spec", "schedulingGates"}))) return;
  std::map<std::string, int> load;
  for (const auto& [pod_key, other] : server_.storage().all("/pods"))
    ++load[text_at(*other, {"spec", "nodeName"})];
  std::string best;
  std::map<std::string, int> reasons;
  std::size_t nodes = 0;
  for (const auto& [node_key, node] : server_.storage().all("/nodes")) {
    ++nodes;
    if (const auto why = refuse_node(*pod, *node)) {
      ++reasons[*why];
      continue;
    }
    if (best.empty() || load[node_key.name] < load[best]) best = node_key.name;
  }
  if (!best.empty()) {
    server_.assign(key, best);
    return tell(*pod, "Pod", "v1", "Normal", "Scheduled",
                fmt::format("Successfully assigned {}/{} to {}", key.space, key.name, best),
                "default-scheduler");
  }
  std::vector<std::string> parts;
  for (const auto& [reason, count] : reasons)
    parts.push_back(fmt::format("{} node(s) {}", count, reason));
  const std::string message = nodes == 0
                                  ? "no nodes available to schedule pods"
                                  : fmt::format(
                                        "0/{} nodes are available: {}. preemption: 0/{} nodes are "
                                        "available: {} Preemption is not helpful for scheduling.",
                                        nodes, rocca::join(parts, ", "), nodes, nodes);
  const Value* condition = find_condition(*pod, "PodScheduled");
  if (condition != nullptr && text_at(*condition, {"message"}) == message) return;
  edit(
      "", "pods", key,
      [&](const Value& live) {
        Value out = live;
        say(out, "PodScheduled", false, "Unschedulable", message, server_.timestamp());
        return out;
      },
      as("kube-scheduler", "status"));
  tell(*pod, "Pod", "v1", "Warning", "FailedScheduling", message, "default-scheduler");
}

void Controllers::run_pod(const ObjectKey& key) {
  const Object pod = find("/pods", key);
  if (!pod) return;
  const std::string node = text_at(*pod, {"spec", "nodeName"});
  // Only where a kubelet is there to see it.
  if (!server_.kubelets.contains(node)) return;
  if (pod->find({"metadata", "deletionTimestamp"}) != nullptr) {
    soon("end", key, 1s, [this](const ObjectKey& of) { end_pod(of); });
    return;
  }
  if (text_at(*pod, {"status", "phase"}) == "Pending")
    soon("start", key, 1s, [this](const ObjectKey& of) { start_pod(of); });
}

void Controllers::start_pod(const ObjectKey& key) {
  const Object pod = find("/pods", key);
  if (!pod || !is_pod_active(*pod) || text_at(*pod, {"status", "phase"}) != "Pending") return;
  const std::string node = text_at(*pod, {"spec", "nodeName"});
  const auto kubelet = server_.kubelets.find(node);
  if (kubelet == server_.kubelets.end()) return;
  const bool host = bool_at(*pod, {"spec", "hostNetwork"});
  const std::string now = server_.timestamp();
  const Value* containers = pod->find({"spec", "containers"});
  std::map<std::string, std::string> refused;  // container -> why
  if (server_.options().refuse_image)
    for (const Value& one : containers->items())
      if (const auto why = server_.options().refuse_image(text_at(one, {"image"})))
        refused[text_at(one, {"name"})] = *why;
  // What the image itself would find missing on its node, and what the node refuses it.
  std::string lacks, forbidden;
  for (const Value& one : containers->items()) {
    const std::string image = text_at(one, {"image"});
    if (image.find("longhorn-manager") != std::string::npos)
      lacks = longhorn_trouble(kubelet->second);
    if (server_.options().crash_image)
      if (const auto why = server_.options().crash_image(image)) lacks = *why;
    if (asks_for_modules(one)) forbidden = text_at(one, {"name"});
  }
  const bool network = host || has_network(node);
  const bool runs = network && refused.empty() && lacks.empty() && forbidden.empty();
  const bool ends = text_at(*pod, {"spec", "restartPolicy"}) != "Always";
  const Value* old = pod->find({"status", "containerStatuses"});
  const bool tried = old != nullptr && old->size() != 0 && !refused.empty();
  const std::string address =
      host ? kubelet->second.address
           : fmt::format("10.244.{}.{}", next_pod_address_ / 250, next_pod_address_ % 250 + 1);
  if (runs && !host) ++next_pod_address_;
  edit(
      "", "pods", key,
      [&](const Value& live) {
        Value out = live;
        Value& status = map_at(out, {"status"});
        status.set("phase", str(runs ? "Running" : "Pending"));
        say(out, "PodReadyToStartContainers", network, "", "", now);
        say(out, "Initialized", true, "", "", now);
        const std::string reason = runs ? "" : "ContainersNotReady";
        std::vector<std::string> names;
        for (const Value& one : containers->items()) names.push_back(text_at(one, {"name"}));
        const std::string message =
            runs ? ""
                 : fmt::format("containers with unready status: [{}]", rocca::join(names, " "));
        say(out, "Ready", runs, reason, message, now);
        say(out, "ContainersReady", runs, reason, message, now);
        say(out, "PodScheduled", true, "", "", now);
        Value& fresh = map_at(out, {"status"});
        fresh.set("hostIP", str(kubelet->second.address));
        fresh.set("hostIPs", json(fmt::format(R"([{{"ip":"{}"}}])", kubelet->second.address)));
        if (runs) {
          fresh.set("podIP", str(address));
          fresh.set("podIPs", json(fmt::format(R"([{{"ip":"{}"}}])", address)));
        }
        if (text_at(fresh, {"startTime"}).empty()) fresh.set("startTime", str(now));
        Value list = Value::list();
        for (const Value& one : containers->items()) {
          const std::string name = text_at(one, {"name"});
          Value state = Value::map();
          state.set("name", str(name));
          if (runs) {
            set_at(state, {"state", "running", "startedAt"}, str(now));
          } else {
            const auto why = refused.find(name);
            const std::string image = text_at(one, {"image"});
            if (why == refused.end() && !lacks.empty()) {
              set_at(state, {"state", "waiting", "reason"}, str("CrashLoopBackOff"));
              set_at(state, {"state", "waiting", "message"}, str(lacks));
            } else if (why == refused.end() && name == forbidden) {
              set_at(state, {"state", "waiting", "reason"}, str("RunContainerError"));
              set_at(state, {"state", "waiting", "message"}, str(no_modules));
            } else if (why == refused.end()) {
              set_at(state, {"state", "waiting", "reason"}, str("ContainerCreating"));
            } else if (tried) {
              set_at(state, {"state", "waiting", "reason"}, str("ImagePullBackOff"));
              set_at(state, {"state", "waiting", "message"},
                     str(fmt::format("Back-off pulling image \"{}\": ErrImagePull: {}", image,
                                     why->second)));
            } else {
              set_at(state, {"state", "waiting", "reason"}, str("ErrImagePull"));
              set_at(state, {"state", "waiting", "message"}, str(why->second));
            }
          }
          state.set("ready", Value::boolean(runs));
          state.set("restartCount", num(0));
          state.set("image", str(text_at(one, {"image"})));
          state.set("imageID", str(""));
          state.set("started", Value::boolean(runs));
          list.append(std::move(state));
        }
        fresh.set("containerStatuses", std::move(list));
        return out;
      },
      as("kubelet", "status"));
  for (const auto& [container, why] : refused)
    tell(*pod, "Pod", "v1", "Warning", "Failed", fmt::format("Failed to pull image: {}", why),
         "kubelet");
  if (!forbidden.empty())
    tell(*pod, "Pod", "v1", "Warning", "Failed", fmt::format("Error: {}", no_modules), "kubelet");
  if (!lacks.empty()) {
    tell(*pod, "Pod", "v1", "Warning", "BackOff", lacks, "kubelet");
    soon("start", key, 60s, [this](const ObjectKey& of) { start_pod(of); });
  }
  if (!network)
    tell(*pod, "Pod", "v1", "Warning", "NetworkNotReady",
         "network is not ready: container runtime network not ready: NetworkReady=false "
         "reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not "
         "initialized",
         "kubelet");
  if (!refused.empty() || (!runs && server_.network_ready)) {
    // Again after 15, 30 … 240 seconds; a network is looked for more often.
    const unsigned tries = refused.empty() ? 0 : std::min(pulls_[key]++, 4u);
    soon("start", key, refused.empty() ? Duration{5s} : Duration{15s} * (1u << tries),
         [this](const ObjectKey& of) { start_pod(of); });
  } else if (ends)
    soon("finish", key, 3s, [this](const ObjectKey& of) {
      const Object then = find("/pods", of);
      if (!then || text_at(*then, {"status", "phase"}) != "Running") return;
      const int code = server_.options().exit_code ? server_.options().exit_code(*then) : 0;
      edit(
          "", "pods", of,
          [&](const Value& live) {
            Value out = live;
            const std::string end = server_.timestamp();
            say(out, "Ready", false, code == 0 ? "PodCompleted" : "PodFailed", "", end);
            say(out, "ContainersReady", false, code == 0 ? "PodCompleted" : "PodFailed", "", end);
            Value& status = map_at(out, {"status"});
            status.set("phase", str(code == 0 ? "Succeeded" : "Failed"));
            if (Value* list = status.find("containerStatuses"))
              for (Value& one : list->items()) {
                Value state = Value::map();
                set_at(state, {"terminated", "exitCode"}, num(code));
                set_at(state, {"terminated", "reason"}, str(code == 0 ? "Completed" : "Error"));
                set_at(state, {"terminated", "startedAt"},
                       str(text_at(one, {"state", "running", "startedAt"})));
                set_at(state, {"terminated", "finishedAt"}, str(end));
                one.set("state", std::move(state));
                one.set("ready", Value::boolean(false));
                one.set("started", Value::boolean(false));
              }
            return out;
          },
          as("kubelet", "status"));
    });
  const Object on = find("/nodes", {"", node});
  if (runs && on && condition_status(*on, "Ready") != "True")
    // The agent of a CNI makes its node ready.
    soon("heartbeat now", {"", node}, 100ms, [this](const ObjectKey& of) { heartbeat(of.name); });
}

void Controllers::end_pod(const ObjectKey& key) {
  pulls_.erase(key);
  const Object pod = find("/pods", key);
  if (!pod || pod->find({"metadata", "deletionTimestamp"}) == nullptr) return;
  DeleteHow how;
  how.grace = 0;
  server_.remove(resource("", "pods"), key, how, as("kubelet"));
}

}  // namespace rocca::lab::kube
