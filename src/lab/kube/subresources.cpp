// Subresources: status, scale, finalize, eviction, binding, log, token.
#include "base/strings.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/patch.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/server.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

Reply created() {
  Reply reply;
  reply.status = 201;
  reply.body =
      json(R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201})");
  return reply;
}

/// The value a CRD's scale path points at: `.spec.replicas`.
Value* at_path(Value& object, std::string_view path, bool make) {
  Value* at = &object;
  for (const std::string& part : split(path, '.')) {
    if (part.empty()) continue;
    Value* next = at->find(part);
    if (next == nullptr) {
      if (!make) return nullptr;
      next = &at->set(part, Value::map());
    }
    at = next;
  }
  return at;
}

std::string selector_text(const Value* selector) {
  std::vector<std::string> parts;
  if (selector == nullptr) return "";
  if (const Value* labels = selector->find("matchLabels"))
    for (const text::Entry& entry : labels->entries())
      parts.push_back(entry.key + "=" + entry.value.text());
  std::sort(parts.begin(), parts.end());
  return join(parts, ",");
}

}  // namespace

Reply Server::subresource_request(Call& call) {
  const std::string& sub = call.subresource;
  if (sub == "scale") return scale_request(call);
  if (sub == "eviction") return evict(call);
  if (sub == "binding") return bind(call);
  if (sub == "log") return pod_log(call);
  if (sub == "token") return token(call);
  if (sub == "status" || sub == "finalize" || sub == "approval" || sub == "ephemeralcontainers" ||
      sub == "resize") {
    if (call.verb == "get") return read_one(call);
    if (call.verb == "update") return update_request(call);
    return patch_request(call);
  }
  if (sub == "proxy" && call.plural == "nodes") {
    const Object node = get(*call.resource, key_of(call));
    if (const Value* addresses = node->find({"status", "addresses"}))
      for (const Value& one : addresses->items())
        if (text_at(one, {"address"}).starts_with("127.")) throw bad_request("address not allowed");
  }
  throw Failure{501, "", fmt::format("the lab does not play {}/{}", call.plural, sub), {}};
}

Reply Server::scale_request(Call& call) {
  const Resource& resource = *call.resource;
  const ObjectKey key = key_of(call);
  const std::string wanted_path =
      resource.custom() ? text_at(resource.scale, {"specReplicasPath"}) : ".spec.replicas";
  const std::string status_path =
      resource.custom() ? text_at(resource.scale, {"statusReplicasPath"}) : ".status.replicas";
  const auto scale_of = [&](const Value& object) {
    Value scale = json(R"({"kind":"Scale","apiVersion":"autoscaling/v1"})");
    for (const char* field : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"})
      if (const Value* found = object.find({"metadata", field}))
        set_at(scale, {"metadata", field}, *found);
    Value copy = object;
    const Value* replicas = at_path(copy, wanted_path, false);
    scale.set("spec", Value::map());
    const std::int64_t count = replicas == nullptr ? 0 : replicas->as_int().value_or(0);
    if (count != 0) set_at(scale, {"spec", "replicas"}, num(count));
    const Value* now = at_path(copy, status_path, false);
    set_at(scale, {"status", "replicas"}, num(now == nullptr ? 0 : now->as_int().value_or(0)));
    const std::string selector =
        resource.custom() ? "" : selector_text(object.find({"spec", "selector"}));
    if (!selector.empty()) set_at(scale, {"status", "selector"}, str(selector));
    return scale;
  };
  Reply reply;
  if (call.verb == "get") {
    reply.body = scale_of(*get(resource, key));
    return reply;
  }
  Write write = write_of(call);
  const std::string type = call.header("Content-Type");
  Value sent;
  try {
    sent = type.find("yaml") != std::string::npos ? read_yaml(call.body).value
                                                  : read_json(call.body).value;
  } catch (const BadJson& bad) {
    throw bad_request("error decoding patch: " + bad.message);
  }
  const Value after = update(
      resource, key,
      [&](const Value& live) {
        Value scale = scale_of(live);
        if (call.verb == "update")
          scale = sent;
        else if (type.starts_with("application/json-patch"))
          scale = json_patch(scale, sent);
        else
          scale = merge_patch(scale, sent);
        std::vector<std::string> unknown;
        try {
          scale = decode(*schemas_.get("Scale"), scale, unknown);
        } catch (const BadType& bad) {
          throw bad_request(
              fmt::format("Scale in version \"v1\" cannot be handled as a Scale: {}", bad.message));
        }
        const std::int64_t replicas = int_at(scale, {"spec", "replicas"}, 0);
        if (replicas < 0 && resource.custom()) {
          const std::vector<Cause> causes{Cause::invalid(wanted_path, std::to_string(replicas),
                                                         "should be a non-negative integer")};
          throw invalid(resource.group, resource.kind, call.name, causes);
        }
        if (replicas < 0) {
          const std::vector<Cause> causes{Cause::invalid("spec.replicas", std::to_string(replicas),
                                                         "must be greater than or equal to 0")};
          throw invalid("autoscaling", "Scale", call.name, causes);
        }
        Value object = live;
        const std::string revision = text_at(scale, {"metadata", "resourceVersion"});
        if (call.verb == "update" && !revision.empty())
          set_at(object, {"metadata", "resourceVersion"}, str(revision));
        *at_path(object, wanted_path, true) = num(replicas);
        return object;
      },
      write);
  reply.body = scale_of(after);
  return reply;
}

Reply Server::evict(Call& call) {
  Resource eviction = *call.resource;
  eviction.kind = "Eviction";
  eviction.group = "policy";
  eviction.type = schemas_.get("Eviction");
  const Value sent = read_body(call, eviction);
  const std::string name = text_at(sent, {"metadata", "name"});
  if (!name.empty() && name != call.name)
    throw bad_request("name in URL does not match name in Eviction object");
  const Resource& pods = *call.resource;
  const ObjectKey key = key_of(call);
  const Object pod = get(pods, key);
  Write write = write_of(call);
  DeleteHow how;
  if (const Value* options = sent.find("deleteOptions"); options != nullptr && options->is_map()) {
    how.uid = text_at(*options, {"preconditions", "uid"});
    how.revision = text_at(*options, {"preconditions", "resourceVersion"});
    if (const Value* grace = options->find("gracePeriodSeconds")) how.grace = grace->as_int();
    if (!is_empty(options->find("dryRun"))) write.dry_run = true;
  }
  const std::string uid = text_at(*pod, {"metadata", "uid"});
  if (!how.uid.empty() && how.uid != uid)
    throw conflict("", "Pod", call.name,
                   fmt::format("the UID in the precondition ({}) does not match the UID in record "
                               "({}). The object might have been deleted and then recreated",
                               how.uid, uid));
  const std::string revision = text_at(*pod, {"metadata", "resourceVersion"});
  if (!how.revision.empty() && how.revision != revision)
    throw conflict("", "Pod", call.name,
                   fmt::format("the ResourceVersion in the precondition ({}) does not match the "
                               "ResourceVersion in record ({}). The object might have been "
                               "modified",
                               how.revision, revision));
  how.revision.clear();
  const std::string phase = text_at(*pod, {"status", "phase"});
  const bool free = phase == "Pending" || phase == "Succeeded" || phase == "Failed" ||
                    pod->find({"metadata", "deletionTimestamp"}) != nullptr;
  if (!free) spend_budget(*pod, write);
  if (!write.dry_run && pod->find({"metadata", "deletionTimestamp"}) == nullptr) {
    Value marked = *pod;
    set_condition(marked, "DisruptionTarget", "True", "EvictionByEvictionAPI",
                  "Eviction API: evicting", timestamp());
    // Nobody owns this condition: an eviction tells no manager of fields.
    storage_.put(pods.key(), key, ordered(pods, std::move(marked)));
  }
  remove(pods, key, how, write);
  return created();
}

void Server::spend_budget(const Value& pod, const Write& write) {
  const std::string space = text_at(pod, {"metadata", "namespace"});
  std::vector<ObjectKey> matching;
  for (const auto& [key, budget] : storage_.all("policy/poddisruptionbudgets")) {
    if (key.space != space) continue;
    const Value* selector = budget->find({"spec", "selector"});
    if (selector == nullptr || selector->is_null()) continue;
    if (LabelSelector::of(*selector).matches(pod)) matching.push_back(key);
  }
  if (matching.empty()) return;
  if (matching.size() > 1)
    throw plain_error(
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
        "support.");
  const Resource& budgets = *kinds_.find("policy", "v1", "poddisruptionbudgets");
  const Object budget = get(budgets, matching.front());
  const bool ready = [&] {
    const Value* conditions = pod.find({"status", "conditions"});
    if (conditions == nullptr) return false;
    return std::any_of(
        conditions->items().begin(), conditions->items().end(), [](const Value& one) {
          return text_at(one, {"type"}) == "Ready" && text_at(one, {"status"}) == "True";
        });
  }();
  const std::int64_t healthy = int_at(*budget, {"status", "currentHealthy"});
  const std::int64_t needed = int_at(*budget, {"status", "desiredHealthy"});
  if (!ready) {
    const std::string policy = text_at(*budget, {"spec", "unhealthyPodEvictionPolicy"});
    if (policy == "AlwaysAllow") return;
    if (healthy >= needed && needed > 0) return;
  }
  const auto refused = [&](std::string why, bool processing) {
    Failure failure{429, "TooManyRequests",
                    "Cannot evict pod as it would violate the pod's disruption budget.",
                    Value::map()};
    Value cause = Value::map();
    cause.set("reason", str("DisruptionBudget"));
    cause.set("message", str(why));
    failure.details.set("causes", Value::list({cause}));
    if (processing) {
      failure.details.set("retryAfterSeconds", num(10));
      failure.headers.add("Retry-After", "10");
    }
    return failure;
  };
  const std::string& name = matching.front().name;
  if (int_at(*budget, {"status", "observedGeneration"}) <
      int_at(*budget, {"metadata", "generation"}))
    throw refused(
        fmt::format("The disruption budget {} is still being processed by the server.", name),
        true);
  const std::int64_t allowed = int_at(*budget, {"status", "disruptionsAllowed"});
  if (allowed <= 0)
    throw refused(fmt::format("The disruption budget {} needs {} healthy pods and has {} "
                              "currently",
                              name, needed, healthy),
                  false);
  if (write.dry_run) return;
  Value spent = *budget;
  set_at(spent, {"status", "disruptionsAllowed"}, num(allowed - 1));
  set_at(spent, {"status", "disruptedPods", text_at(pod, {"metadata", "name"})}, str(timestamp()));
  storage_.put(budgets.key(), matching.front(), ordered(budgets, std::move(spent)));
}

Reply Server::bind(Call& call) {
  Resource binding = *kinds_.find("", "v1", "bindings");
  const Value sent = read_body(call, binding);
  const std::string given = text_at(sent, {"metadata", "name"});
  if (!call.name.empty() && given != call.name)
    throw bad_request("name in URL does not match name in Binding object");
  const std::string name = call.name.empty() ? given : call.name;
  const std::string target = text_at(sent, {"target", "kind"});
  // Errors of a binding are not made into a Status of their own.
  if (!target.empty() && target != "Node")
    throw plain_error(
        fmt::format("target.kind: Unsupported value: {}: supported values: \"Node\", "
                    "\"<empty>\"",
                    in_quotes(target)));
  if (text_at(sent, {"target", "name"}).empty()) throw plain_error("target.name: Required value");
  const Resource& pods = *kinds_.find("", "v1", "pods");
  const ObjectKey key{call.space, name};
  const Object pod = get(pods, key);
  const std::string node = text_at(*pod, {"spec", "nodeName"});
  if (!node.empty())
    throw conflict("", "pods/binding", name,
                   fmt::format("pod {} is already assigned to node {}", name, in_quotes(node)));
  assign(key, text_at(sent, {"target", "name"}));
  return created();
}

void Server::assign(const ObjectKey& key, const std::string& node) {
  const Resource& pods = *kinds_.find("", "v1", "pods");
  Value bound = *get(pods, key);
  set_at(bound, {"spec", "nodeName"}, str(node));
  Value* conditions = bound.find({"status", "conditions"});
  if (conditions == nullptr || !conditions->is_list()) {
    set_at(bound, {"status", "conditions"}, Value::list());
    conditions = bound.find({"status", "conditions"});
  }
  std::erase_if(conditions->items(),
                [](const Value& one) { return text_at(one, {"type"}) == "PodScheduled"; });
  Value condition = Value::map();
  condition.set("type", str("PodScheduled"));
  condition.set("status", str("True"));
  condition.set("lastProbeTime", Value::null());
  condition.set("lastTransitionTime", str(timestamp()));
  conditions->append(std::move(condition));
  storage_.put(pods.key(), key, ordered(pods, std::move(bound)));
}

Reply Server::pod_log(Call& call) {
  const Object pod = get(*call.resource, key_of(call));
  const std::string node = text_at(*pod, {"spec", "nodeName"});
  const Value* containers = pod->find({"spec", "containers"});
  std::string container = call.option_or("container");
  if (container.empty() && containers != nullptr && containers->size() > 1)
    throw bad_request(fmt::format("a container name must be specified for pod {}", call.name));
  if (container.empty()) container = text_at(containers->items().front(), {"name"});
  if (node.empty())
    throw bad_request(fmt::format("pod {} does not have a host assigned", call.name));
  // The API server looks the node up under the pods' name; that is what it says.
  if (!storage_.find("/nodes", {"", node})) throw not_found("", "pods", node);
  const std::string phase = text_at(*pod, {"status", "phase"});
  if (phase == "Pending") {
    const Value* statuses = pod->find({"status", "containerStatuses"});
    std::string reason = "ContainerCreating";
    if (statuses != nullptr && statuses->size() != 0) {
      const std::string given = text_at(statuses->items().front(), {"state", "waiting", "reason"});
      if (!given.empty()) reason = given;
    }
    throw bad_request(fmt::format("container {} in pod {} is waiting to start: {}",
                                  in_quotes(container), in_quotes(call.name), reason));
  }
  if (const auto trouble = kubelet_trouble(node); trouble && options_.kubelets)
    throw internal_error(fmt::format("Get \"https://{}:10250/containerLogs/{}/{}/{}\": {}",
                                     text_at(*pod, {"status", "hostIP"}), call.space, call.name,
                                     container, *trouble));
  Reply reply;
  reply.type = "text/plain";
  reply.text = fmt::format("{} {} started\n", timestamp(), container);
  return reply;
}

}  // namespace rocca::lab::kube
