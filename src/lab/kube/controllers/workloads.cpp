// Deployments, ReplicaSets, StatefulSets and DaemonSets.
#include "base/strings.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/controllers/controllers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using namespace std::chrono_literals;
using text::Value;

namespace {

constexpr const char* manager = "kube-controller-manager";

bool is_leaving(const Value& object) {
  return object.find({"metadata", "deletionTimestamp"}) != nullptr;
}

Value owner_of(const Value& owner, const std::string& kind, const std::string& api_version) {
  Value out = Value::map();
  out.set("apiVersion", str(api_version));
  out.set("kind", str(kind));
  out.set("name", str(text_at(owner, {"metadata", "name"})));
  out.set("uid", str(text_at(owner, {"metadata", "uid"})));
  out.set("controller", Value::boolean(true));
  out.set("blockOwnerDeletion", Value::boolean(true));
  return out;
}

Value without_hash(Value pod_template) {
  if (Value* labels = pod_template.find({"metadata", "labels"})) labels->erase("pod-template-hash");
  return pod_template;
}

/// A condition of a Deployment has a time of its last update besides that of its last change.
void progress(Value& object, const char* type, const char* status, const char* reason,
              const std::string& message, const std::string& now) {
  const Value* old = find_condition(object, type);
  if (old != nullptr && text_at(*old, {"status"}) == status && text_at(*old, {"reason"}) == reason)
    return;
  // A changed condition moves to the end of the list.
  const std::string since = old != nullptr && text_at(*old, {"status"}) == status
                                ? text_at(*old, {"lastTransitionTime"})
                                : now;
  Value& holder = map_at(object, {"status"});
  Value* list = holder.find("conditions");
  if (list == nullptr || !list->is_list()) list = &holder.set("conditions", Value::list());
  std::erase_if(list->items(), [&](const Value& one) { return text_at(one, {"type"}) == type; });
  Value fresh = Value::map();
  fresh.set("type", str(type));
  fresh.set("status", str(status));
  fresh.set("lastUpdateTime", str(now));
  fresh.set("lastTransitionTime", str(since));
  fresh.set("reason", str(reason));
  fresh.set("message", str(message));
  list->append(std::move(fresh));
}

}  // namespace

std::optional<std::string> Controllers::make_pod(const Value& owner, const std::string& kind,
                                                 const Value& pod_template,
                                                 const std::string& name) {
  Value pod = Value::map();
  Value& metadata = map_at(pod, {"metadata"});
  if (name.empty())
    metadata.set("generateName", str(text_at(owner, {"metadata", "name"}) + "-"));
  else
    metadata.set("name", str(name));
  for (const char* field : {"labels", "annotations"})
    if (const Value* found = pod_template.find({"metadata", field})) metadata.set(field, *found);
  metadata.set("ownerReferences",
               Value::list({owner_of(owner, kind, kind == "Job" ? "batch/v1" : "apps/v1")}));
  if (kind == "Job") metadata.set("finalizers", json(R"(["batch.kubernetes.io/job-tracking"])"));
  pod.set("spec", *pod_template.find("spec"));
  return make("", "pods", text_at(owner, {"metadata", "namespace"}), std::move(pod), manager);
}

void Controllers::sync_deployment(const ObjectKey& key) {
  const Object found = find("apps/deployments", key);
  if (!found || is_leaving(*found)) return;
  const Value& deployment = *found;
  const Value wanted = without_hash(*deployment.find({"spec", "template"}));
  const std::int64_t replicas = int_at(deployment, {"spec", "replicas"}, 1);
  std::vector<Object> sets = owned("apps/replicasets", deployment);
  Object current;
  std::int64_t revision = 0;
  for (const Object& set : sets) {
    if (!current && without_hash(*set->find({"spec", "template"})) == wanted) current = set;
    revision = std::max(
        revision,
        parse_int(text_at(*set, {"metadata", "annotations", "deployment.kubernetes.io/revision"}))
            .value_or(0));
  }
  const Value* rolling = deployment.find({"spec", "strategy", "rollingUpdate"});
  const bool recreate = text_at(deployment, {"spec", "strategy", "type"}) == "Recreate";
  std::int64_t surge =
      recreate || rolling == nullptr ? 0 : scaled(rolling->find("maxSurge"), replicas, true);
  std::int64_t slack =
      recreate || rolling == nullptr ? 0 : scaled(rolling->find("maxUnavailable"), replicas, false);
  if (!recreate && surge == 0 && slack == 0) slack = 1;
  std::int64_t total = 0;
  std::int64_t old_wanted = 0;
  std::int64_t old_pods = 0;
  for (const Object& set : sets) {
    total += int_at(*set, {"spec", "replicas"});
    if (set == current) continue;
    old_wanted += int_at(*set, {"spec", "replicas"});
    old_pods += int_at(*set, {"status", "replicas"});
  }
  const bool paused = bool_at(deployment, {"spec", "paused"});
  if (!current && !paused) {
    const std::string hash = template_hash(wanted);
    const std::string name = key.name + "-" + hash;
    Value set = Value::map();
    Value& metadata = map_at(set, {"metadata"});
    metadata.set("name", str(name));
    Value labels = wanted.find({"metadata", "labels"}) == nullptr
                       ? Value::map()
                       : *wanted.find({"metadata", "labels"});
    labels.set("pod-template-hash", str(hash));
    metadata.set("labels", labels);
    Value annotations = Value::map();
    annotations.set("deployment.kubernetes.io/desired-replicas", str(std::to_string(replicas)));
    annotations.set("deployment.kubernetes.io/max-replicas", str(std::to_string(replicas + surge)));
    annotations.set("deployment.kubernetes.io/revision", str(std::to_string(revision + 1)));
    metadata.set("annotations", std::move(annotations));
    metadata.set("ownerReferences", Value::list({owner_of(deployment, "Deployment", "apps/v1")}));
    Value pod_template = wanted;
    set_at(pod_template, {"metadata", "labels"}, labels);
    const std::int64_t first =
        recreate && (old_wanted > 0 || old_pods > 0)
            ? 0
            : std::max<std::int64_t>(0, std::min(replicas, replicas + surge - total));
    Value& spec = map_at(set, {"spec"});
    spec.set("replicas", num(first));
    Value selector = *deployment.find({"spec", "selector"});
    set_at(selector, {"matchLabels", "pod-template-hash"}, str(hash));
    spec.set("selector", std::move(selector));
    spec.set("template", std::move(pod_template));
    if (const Value* least = deployment.find({"spec", "minReadySeconds"}))
      spec.set("minReadySeconds", *least);
    make("apps", "replicasets", key.space, std::move(set), manager);
    if (first > 0)
      tell(deployment, "Deployment", "apps/v1", "Normal", "ScalingReplicaSet",
           fmt::format("Scaled up replica set {} from 0 to {}", name, first),
           "deployment-controller");
    return deployment_status(key, name, true);
  }
  if (!current) return deployment_status(key, "", false);
  const auto scale = [&](const Object& set, std::int64_t to) {
    const std::int64_t from = int_at(*set, {"spec", "replicas"});
    if (from == to) return;
    const ObjectKey of = kube::key_of(*set);
    edit(
        "apps", "replicasets", of,
        [&](const Value& live) {
          Value out = live;
          set_at(out, {"spec", "replicas"}, num(to));
          set_at(out, {"metadata", "annotations", "deployment.kubernetes.io/desired-replicas"},
                 str(std::to_string(replicas)));
          return out;
        },
        as(manager));
    tell(deployment, "Deployment", "apps/v1", "Normal", "ScalingReplicaSet",
         fmt::format("Scaled {} replica set {} from {} to {}", to > from ? "up" : "down", of.name,
                     from, to),
         "deployment-controller");
  };
  const std::int64_t mine = int_at(*current, {"spec", "replicas"});
  if (recreate) {
    for (const Object& set : sets)
      if (set != current) scale(set, 0);
    if (old_pods == 0) scale(current, replicas);
  } else if (old_wanted == 0) {
    scale(current, replicas);
  } else {
    if (mine < replicas)
      scale(current,
            std::min(replicas, mine + std::max<std::int64_t>(0, replicas + surge - total)));
    if (mine > replicas) scale(current, replicas);
    std::int64_t available = 0;
    for (const Object& set : sets) available += int_at(*set, {"status", "availableReplicas"});
    std::int64_t spare = available - (replicas - slack);
    // Pods of old sets that never came up may go at once.
    for (const Object& set : sets) {
      if (set == current) continue;
      const std::int64_t has = int_at(*set, {"spec", "replicas"});
      const std::int64_t well = int_at(*set, {"status", "availableReplicas"});
      const std::int64_t go =
          std::min(has, (has - well) + std::clamp<std::int64_t>(spare, 0, well));
      spare -= std::max<std::int64_t>(0, go - (has - well));
      scale(set, has - go);
    }
  }
  deployment_status(key, text_at(*current, {"metadata", "name"}), false);
}

namespace {

void erase_condition(Value& object, std::string_view type) {
  if (Value* list = object.find({"status", "conditions"}); list != nullptr && list->is_list())
    std::erase_if(list->items(), [&](const Value& one) { return text_at(one, {"type"}) == type; });
}

/// What is behind the Pod's name in `pods "web-5d9c-x7k2p" is forbidden: …`.
std::string reason_of(const std::string& refused) {
  const std::size_t colon = refused.find(": ");
  return colon == std::string::npos ? refused : refused.substr(colon);
}

}  // namespace

void Controllers::deployment_status(const ObjectKey& key, const std::string& new_set, bool fresh) {
  const Object found = find("apps/deployments", key);
  if (!found) return;
  const Object set = new_set.empty() ? nullptr : find("apps/replicasets", {key.space, new_set});
  const std::string now = server_.timestamp();
  const std::vector<Object> sets = owned("apps/replicasets", *found);
  edit(
      "apps", "deployments", key,
      [&](const Value& live) {
        Value out = live;
        if (set)
          set_at(
              out, {"metadata", "annotations", "deployment.kubernetes.io/revision"},
              str(text_at(*set, {"metadata", "annotations", "deployment.kubernetes.io/revision"})));
        const std::int64_t replicas = int_at(out, {"spec", "replicas"}, 1);
        std::int64_t pods = 0, ready = 0, available = 0, wanted = 0;
        for (const Object& one : sets) {
          pods += int_at(*one, {"status", "replicas"});
          ready += int_at(*one, {"status", "readyReplicas"});
          available += int_at(*one, {"status", "availableReplicas"});
          wanted += int_at(*one, {"spec", "replicas"});
        }
        const std::int64_t updated = set ? int_at(*set, {"status", "replicas"}) : 0;
        if (fresh) {
          progress(out, "Progressing", "True", "NewReplicaSetCreated",
                   fmt::format("Created new replica set {}", in_quotes(new_set)), now);
          return out;  // the rest follows when the set is seen
        }
        Value& status = map_at(out, {"status"});
        status.set("observedGeneration", num(int_at(out, {"metadata", "generation"})));
        status.set("replicas", num(pods));
        status.set("updatedReplicas", num(updated));
        status.set("readyReplicas", num(ready));
        status.set("availableReplicas", num(available));
        status.set("unavailableReplicas", num(std::max<std::int64_t>(0, wanted - available)));
        const Value* rolling = out.find({"spec", "strategy", "rollingUpdate"});
        const std::int64_t slack =
            rolling == nullptr ? 0 : scaled(rolling->find("maxUnavailable"), replicas, false);
        if (available >= replicas - slack)
          progress(out, "Available", "True", "MinimumReplicasAvailable",
                   "Deployment has minimum availability.", now);
        else
          progress(out, "Available", "False", "MinimumReplicasUnavailable",
                   "Deployment does not have minimum availability.", now);
        const bool done = updated == replicas && pods == replicas && available == replicas;
        if (done && !new_set.empty())
          progress(out, "Progressing", "True", "NewReplicaSetAvailable",
                   fmt::format("ReplicaSet {} has successfully progressed.", in_quotes(new_set)),
                   now);
        else if (updated > 0) {
          const Value* old = find_condition(out, "Progressing");
          const std::string reason = old == nullptr ? "" : text_at(*old, {"reason"});
          if (reason != "ProgressDeadlineExceeded" && reason != "ReplicaSetUpdated")
            progress(out, "Progressing", "True", "ReplicaSetUpdated",
                     fmt::format("ReplicaSet {} is progressing.", in_quotes(new_set)), now);
        }
        const Value* failure = set ? find_condition(*set, "ReplicaFailure") : nullptr;
        if (failure != nullptr)
          set_condition(out, "ReplicaFailure", "True", text_at(*failure, {"reason"}),
                        text_at(*failure, {"message"}), now);
        else
          erase_condition(out, "ReplicaFailure");
        return out;
      },
      as(manager, "status"));
  const std::int64_t limit = int_at(*found, {"spec", "progressDeadlineSeconds"}, 600);
  const std::int64_t generation = int_at(*found, {"metadata", "generation"});
  soon(fmt::format("deadline {}", generation), key, std::chrono::seconds{limit},
       [this, new_set, generation](const ObjectKey& of) {
         const Object then = find("apps/deployments", of);
         if (!then || int_at(*then, {"metadata", "generation"}) != generation) return;
         const Value* condition = find_condition(*then, "Progressing");
         if (condition == nullptr || text_at(*condition, {"reason"}) == "NewReplicaSetAvailable")
           return;
         edit(
             "apps", "deployments", of,
             [&](const Value& live) {
               Value out = live;
               progress(out, "Progressing", "False", "ProgressDeadlineExceeded",
                        fmt::format("ReplicaSet {} has timed out progressing.", in_quotes(new_set)),
                        server_.timestamp());
               return out;
             },
             as(manager, "status"));
       });
}

void Controllers::sync_replica_set(const ObjectKey& key) {
  const Object found = find("apps/replicasets", key);
  if (!found) return;
  const std::int64_t wanted = is_leaving(*found) ? -1 : int_at(*found, {"spec", "replicas"}, 1);
  std::vector<Object> pods;
  for (const Object& pod : owned("/pods", *found))
    if (is_pod_active(*pod)) pods.push_back(pod);
  auto have = static_cast<std::int64_t>(pods.size());
  std::string refused;
  for (; wanted >= 0 && have < wanted; ++have)
    if (const auto why = make_pod(*found, "ReplicaSet", *found->find({"spec", "template"}), "")) {
      refused = *why;
      break;
    }
  if (wanted >= 0 && have > wanted) {
    // Those that are not ready go first.
    std::stable_sort(pods.begin(), pods.end(), [](const Object& a, const Object& b) {
      return !is_pod_ready(*a) && is_pod_ready(*b);
    });
    for (std::int64_t i = 0; i < have - wanted; ++i)
      remove("", "pods", kube::key_of(*pods[static_cast<std::size_t>(i)]));
  }
  if (!refused.empty()) {
    tell(*found, "ReplicaSet", "apps/v1", "Warning", "FailedCreate", "Error creating: " + refused,
         "replicaset-controller");
    soon("replicaset again", key, 10s, [this](const ObjectKey& of) { sync_replica_set(of); });
  }
  std::int64_t count = 0, ready = 0;
  for (const Object& pod : owned("/pods", *found)) {
    if (!is_pod_active(*pod)) continue;
    ++count;
    if (is_pod_ready(*pod)) ++ready;
  }
  edit(
      "apps", "replicasets", key,
      [&](const Value& live) {
        Value out = live;
        Value& status = map_at(out, {"status"});
        status.set("replicas", num(count));
        status.set("fullyLabeledReplicas", num(count));
        status.set("readyReplicas", num(ready));
        status.set("availableReplicas", num(ready));
        status.set("observedGeneration", num(int_at(out, {"metadata", "generation"})));
        // Every try has a Pod of another name: who wrote that down each time would wake itself.
        const Value* before = find_condition(out, "ReplicaFailure");
        if (refused.empty())
          erase_condition(out, "ReplicaFailure");
        else if (before == nullptr ||
                 reason_of(text_at(*before, {"message"})) != reason_of(refused))
          set_condition(out, "ReplicaFailure", "True", "FailedCreate", refused,
                        server_.timestamp());
        return out;
      },
      as(manager, "status"));
}

void Controllers::sync_stateful_set(const ObjectKey& key) {
  const Object found = find("apps/statefulsets", key);
  if (!found || is_leaving(*found)) return;
  const std::int64_t wanted = int_at(*found, {"spec", "replicas"}, 1);
  const std::string revision = key.name + "-" + template_hash(*found->find({"spec", "template"}));
  const bool parallel = text_at(*found, {"spec", "podManagementPolicy"}) == "Parallel";
  std::int64_t count = 0, ready = 0, updated = 0;
  bool held = false;
  for (std::int64_t i = 0; i < wanted && !held; ++i) {
    const std::string name = fmt::format("{}-{}", key.name, i);
    const Object pod = find("/pods", {key.space, name});
    if (!pod) {
      Value pod_template = *found->find({"spec", "template"});
      Value& labels = map_at(pod_template, {"metadata", "labels"});
      labels.set("apps.kubernetes.io/pod-index", str(std::to_string(i)));
      labels.set("controller-revision-hash", str(revision));
      labels.set("statefulset.kubernetes.io/pod-name", str(name));
      Value& spec = map_at(pod_template, {"spec"});
      spec.set("hostname", str(name));
      spec.set("subdomain", str(text_at(*found, {"spec", "serviceName"})));
      if (make_pod(*found, "StatefulSet", pod_template, name)) break;
      ++count;
      ++updated;
      held = !parallel;
      continue;
    }
    ++count;
    const bool new_one =
        text_at(*pod, {"metadata", "labels", "controller-revision-hash"}) == revision;
    if (new_one) ++updated;
    if (is_pod_ready(*pod)) ++ready;
    if (!is_pod_ready(*pod) || is_leaving(*pod)) {
      held = !parallel;
    } else if (!new_one) {
      remove("", "pods", {key.space, name});
      held = true;
    }
  }
  for (const Object& pod : owned("/pods", *found)) {
    const std::string name = text_at(*pod, {"metadata", "name"});
    const auto index = parse_int(std::string_view(name).substr(name.rfind('-') + 1));
    if (index && *index >= wanted && !is_leaving(*pod)) remove("", "pods", kube::key_of(*pod));
  }
  edit(
      "apps", "statefulsets", key,
      [&](const Value& live) {
        Value out = live;
        Value& status = map_at(out, {"status"});
        status.set("observedGeneration", num(int_at(out, {"metadata", "generation"})));
        status.set("replicas", num(count));
        status.set("readyReplicas", num(ready));
        status.set("currentReplicas", num(updated));
        status.set("updatedReplicas", num(updated));
        status.set("currentRevision", str(revision));
        status.set("updateRevision", str(revision));
        status.set("collisionCount", num(0));
        status.set("availableReplicas", num(ready));
        return out;
      },
      as(manager, "status"));
}

void Controllers::sync_daemon_set(const ObjectKey& key) {
  const Object found = find("apps/daemonsets", key);
  if (!found || is_leaving(*found)) return;
  const std::string hash = template_hash(*found->find({"spec", "template"}));
  std::map<std::string, Object> by_node;
  for (const Object& pod : owned("/pods", *found)) {
    std::string node = text_at(*pod, {"spec", "nodeName"});
    if (node.empty())
      node = text_at(*pod, {"spec", "affinity", "nodeAffinity",
                            "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
                            "0", "matchFields", "0", "values", "0"});
    if (is_pod_active(*pod)) by_node[node] = pod;
  }
  std::int64_t wanted = 0, now_there = 0, ready = 0, updated = 0;
  std::int64_t may_go = 1;
  for (const auto& [node_key, node] : server_.storage().all("/nodes")) {
    Value pod_template = *found->find({"spec", "template"});
    map_at(pod_template, {"metadata", "labels"}).set("controller-revision-hash", str(hash));
    Value& spec = map_at(pod_template, {"spec"});
    Value* tolerations = spec.find("tolerations");
    if (tolerations == nullptr || !tolerations->is_list())
      tolerations = &spec.set("tolerations", Value::list());
    for (const auto& [taint, effect] : {std::pair{"not-ready", "NoExecute"},
                                        {"unreachable", "NoExecute"},
                                        {"disk-pressure", "NoSchedule"},
                                        {"memory-pressure", "NoSchedule"},
                                        {"pid-pressure", "NoSchedule"},
                                        {"unschedulable", "NoSchedule"},
                                        {"network-unavailable", "NoSchedule"}}) {
      Value one = Value::map();
      one.set("key", str(fmt::format("node.kubernetes.io/{}", taint)));
      one.set("operator", str("Exists"));
      one.set("effect", str(effect));
      if (std::find(tolerations->items().begin(), tolerations->items().end(), one) ==
          tolerations->items().end())
        tolerations->append(std::move(one));
    }
    Value as_pod = Value::map();
    as_pod.set("spec", spec);
    const auto there = by_node.find(node_key.name);
    if (refuse_node(as_pod, *node)) {
      if (there != by_node.end()) remove("", "pods", kube::key_of(*there->second));
      continue;
    }
    ++wanted;
    if (there == by_node.end()) {
      set_at(
          spec, {"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"},
          json(fmt::format(
              R"({{"nodeSelectorTerms":[{{"matchFields":[{{"key":"metadata.name","operator":"In","values":["{}"]}}]}}]}})",
              node_key.name)));
      if (const auto why = make_pod(*found, "DaemonSet", pod_template, ""))
        tell(*found, "DaemonSet", "apps/v1", "Warning", "FailedCreate", "Error creating: " + *why,
             "daemonset-controller");
      continue;
    }
    const Value& pod = *there->second;
    ++now_there;
    if (is_pod_ready(pod)) ++ready;
    if (text_at(pod, {"metadata", "labels", "controller-revision-hash"}) == hash) {
      ++updated;
      if (!is_pod_ready(pod)) may_go = 0;
    } else if (may_go > 0 || !is_pod_ready(pod)) {
      remove("", "pods", kube::key_of(pod));
      --may_go;
    }
  }
  edit(
      "apps", "daemonsets", key,
      [&](const Value& live) {
        Value out = live;
        Value& status = map_at(out, {"status"});
        status.set("currentNumberScheduled", num(now_there));
        status.set("desiredNumberScheduled", num(wanted));
        status.set("numberMisscheduled", num(0));
        status.set("numberReady", num(ready));
        status.set("observedGeneration", num(int_at(out, {"metadata", "generation"})));
        status.set("updatedNumberScheduled", num(updated));
        status.set("numberAvailable", num(ready));
        status.set("numberUnavailable", num(wanted - ready));
        return out;
      },
      as(manager, "status"));
}

}  // namespace rocca::lab::kube
