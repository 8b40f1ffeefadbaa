#include "kube/waits.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::kube {

namespace {

bool is_current(const Value& object) {
  return int_at(object, {"status", "observedGeneration"}) >=
         int_at(object, {"metadata", "generation"});
}

std::string with_reason(std::string what, const std::string& why) {
  return why.empty() ? what : fmt::format("{} ({})", what, why);
}

/// `MinimumReplicasUnavailable: Deployment does not have …`.
std::string words_of(const Value& condition) {
  const std::string reason = text_at(condition, {"reason"});
  const std::string message = text_at(condition, {"message"});
  if (reason.empty()) return message;
  return message.empty() ? reason : fmt::format("{}: {}", reason, message);
}

/// Why one container does not run.
std::string container_trouble(const Value& status) {
  const std::string name = text_at(status, {"name"});
  if (const Value* waiting = status.find({"state", "waiting"})) {
    const std::string reason = text_at(*waiting, {"reason"});
    if (reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing") return "";
    std::string words = words_of(*waiting);
    // A container that crashes says so only with how it ended last.
    if (reason == "CrashLoopBackOff")
      if (const Value* last = status.find({"lastState", "terminated"}))
        words += fmt::format("; it ended with {} {}", text_at(*last, {"exitCode"}),
                             text_at(*last, {"message"}));
    return fmt::format("container {}: {}", name, trim(words));
  }
  if (const Value* ended = status.find({"state", "terminated"});
      ended != nullptr && text_at(*ended, {"exitCode"}) != "0")
    return fmt::format("container {} ended with {}: {}", name, text_at(*ended, {"exitCode"}),
                       words_of(*ended));
  return "";
}

/// Flux tries again and again, but some things only a person can change: who may read the
/// repository, which branch and which folder there are.
bool will_heal(const Value& ready) {
  const std::string message = text_at(ready, {"message"});
  for (const char* words :
       {"authentication required", "authorization failed", "repository not found",
        "couldn't find remote ref", "kustomization path not found", "'known_hosts' is required",
        "unable to authenticate", "knownhosts: key mismatch", "key is unknown",
        "MalformedYAMLError", "missing metadata.name", "already registered id",
        "Error getting data key"})
    if (message.find(words) != std::string::npos) return false;
  return true;
}

}  // namespace

std::string pod_trouble(const Scene& scene) {
  std::string unready;
  for (const Value& pod : scene.pods) {
    if (pod.find({"metadata", "deletionTimestamp"}) != nullptr) continue;
    const std::string name = fmt::format("Pod {}/{}", text_at(pod, {"metadata", "namespace"}),
                                         text_at(pod, {"metadata", "name"}));
    for (const char* list : {"initContainerStatuses", "containerStatuses"})
      for (const Value& status : items_at(pod, {"status", list}))
        if (const std::string why = container_trouble(status); !why.empty())
          return fmt::format("{}: {}", name, why);
    if (const Value* scheduled = find_condition(pod, "PodScheduled");
        scheduled != nullptr && text_at(*scheduled, {"status"}) == "False")
      return fmt::format("{}: {}", name, words_of(*scheduled));
    if (text_at(pod, {"status", "phase"}) == "Failed")
      return with_reason(name + ": Failed", text_at(pod, {"status", "message"}));
    if (unready.empty() && !is_condition_true(pod, "Ready") &&
        text_at(pod, {"status", "phase"}) != "Succeeded") {
      const std::string warning =
          warning_about(scene.events, "Pod", text_at(pod, {"metadata", "name"}));
      unready = fmt::format(
          "{}: {}", name,
          !warning.empty() ? warning : text_at(pod, {"status", "phase"}) + ", not ready");
    }
  }
  return unready;
}

std::string warning_about(const std::vector<Value>& events, const std::string& kind,
                          const std::string& name) {
  const Value* newest = nullptr;
  const auto time_of = [](const Value& event) {
    const std::string last = text_at(event, {"lastTimestamp"});
    return !last.empty() ? last : text_at(event, {"eventTime"});
  };
  for (const Value& event : events) {
    if (text_at(event, {"type"}) != "Warning" ||
        text_at(event, {"involvedObject", "kind"}) != kind ||
        text_at(event, {"involvedObject", "name"}) != name)
      continue;
    if (newest == nullptr || time_of(event) >= time_of(*newest)) newest = &event;
  }
  return newest == nullptr ? "" : words_of(*newest);
}

Verdict crd_established(const Value& definition) {
  const std::string name = text_at(definition, {"metadata", "name"});
  if (const Value* accepted = find_condition(definition, "NamesAccepted");
      accepted != nullptr && text_at(*accepted, {"status"}) == "False")
    return Verdict::fail(fmt::format("CRD {}: {}", name, words_of(*accepted)));
  if (is_condition_true(definition, "NamesAccepted") &&
      is_condition_true(definition, "Established"))
    return Verdict::ready();
  const Value* schema = find_condition(definition, "NonStructuralSchema");
  const Value* established = find_condition(definition, "Established");
  return Verdict::wait(with_reason(fmt::format("CRD {} to be established", name),
                                   schema != nullptr && text_at(*schema, {"status"}) == "True"
                                       ? words_of(*schema)
                                   : established != nullptr ? words_of(*established)
                                                            : ""));
}

Verdict namespace_active(const Value& space) {
  const std::string name = text_at(space, {"metadata", "name"});
  const std::string phase = text_at(space, {"status", "phase"});
  if (phase == "Active") return Verdict::ready();
  std::string why;
  for (const char* type : {"NamespaceContentRemaining", "NamespaceFinalizersRemaining"})
    if (is_condition_true(space, type)) why = text_at(*find_condition(space, type), {"message"});
  return Verdict::wait(with_reason(phase == "Terminating"
                                       ? fmt::format("namespace {} to be gone", name)
                                       : fmt::format("namespace {} to be active", name),
                                   why));
}

Verdict deployment_rolled_out(const Value& deployment, const Scene& scene) {
  const Name name = name_of(deployment);
  const auto waiting = [&](const std::string& how) {
    return Verdict::wait(with_reason(fmt::format("Deployment {}/{} {}", name.space, name.name, how),
                                     pod_trouble(scene)));
  };
  if (!is_current(deployment)) return waiting("to be looked at");
  const Value* asked = deployment.find({"spec", "replicas"});
  const std::int64_t wanted = asked != nullptr ? asked->as_int().value_or(1) : 1;
  const std::int64_t updated = int_at(deployment, {"status", "updatedReplicas"});
  const std::int64_t all = int_at(deployment, {"status", "replicas"});
  const std::int64_t available = int_at(deployment, {"status", "availableReplicas"});
  if (updated == wanted && all == updated && available >= wanted &&
      (wanted == 0 || is_condition_true(deployment, "Available")))
    return Verdict::ready();
  if (const Value* progress = find_condition(deployment, "Progressing");
      progress != nullptr && text_at(*progress, {"reason"}) == "ProgressDeadlineExceeded") {
    // It goes on trying: a corrected image or node heals it.
    return waiting(fmt::format("to get on: {}", text_at(*progress, {"message"})));
  }
  if (const Value* failure = find_condition(deployment, "ReplicaFailure");
      failure != nullptr && text_at(*failure, {"status"}) == "True")
    return waiting("whose Pods are refused: " + text_at(*failure, {"message"}));
  return waiting(fmt::format("to roll out: {} of {} available", available, wanted));
}

Verdict daemon_set_rolled_out(const Value& set, const Scene& scene) {
  const Name name = name_of(set);
  const std::int64_t wanted = int_at(set, {"status", "desiredNumberScheduled"});
  const std::int64_t updated = int_at(set, {"status", "updatedNumberScheduled"});
  const std::int64_t available = int_at(set, {"status", "numberAvailable"});
  if (is_current(set) && set.find("status") != nullptr && updated == wanted && available == wanted)
    return Verdict::ready();
  return Verdict::wait(with_reason(fmt::format("DaemonSet {}/{} to roll out: {} of {} available",
                                               name.space, name.name, available, wanted),
                                   pod_trouble(scene)));
}

Verdict stateful_set_rolled_out(const Value& set, const Scene& scene) {
  const Name name = name_of(set);
  const Value* asked = set.find({"spec", "replicas"});
  const std::int64_t wanted = asked != nullptr ? asked->as_int().value_or(1) : 1;
  const std::int64_t ready = int_at(set, {"status", "readyReplicas"});
  const std::int64_t updated = int_at(set, {"status", "updatedReplicas"});
  const std::string revision = text_at(set, {"status", "updateRevision"});
  const bool by_hand = text_at(set, {"spec", "updateStrategy", "type"}) == "OnDelete";
  if (is_current(set) && ready == wanted &&
      (by_hand || updated == wanted || revision == text_at(set, {"status", "currentRevision"})))
    return Verdict::ready();
  return Verdict::wait(with_reason(fmt::format("StatefulSet {}/{} to roll out: {} of {} ready",
                                               name.space, name.name, ready, wanted),
                                   pod_trouble(scene)));
}

Verdict job_complete(const Value& job, const Scene& scene) {
  const Name name = name_of(job);
  if (is_condition_true(job, "Complete")) return Verdict::ready();
  if (const Value* failed = find_condition(job, "Failed");
      failed != nullptr && text_at(*failed, {"status"}) == "True")
    return Verdict::fail(
        with_reason(fmt::format("Job {}/{} failed: {}", name.space, name.name, words_of(*failed)),
                    pod_trouble(scene)));
  return Verdict::wait(
      with_reason(fmt::format("Job {}/{} to complete", name.space, name.name), pod_trouble(scene)));
}

Verdict endpoint_ready(const std::vector<Value>& slices, const std::string& service,
                       const std::string& port) {
  std::size_t endpoints = 0;
  for (const Value& slice : slices) {
    const auto& ports = items_at(slice, {"ports"});
    const bool fits =
        port.empty() || std::any_of(ports.begin(), ports.end(), [&](const Value& one) {
          return text_at(one, {"port"}) == port || text_at(one, {"name"}) == port;
        });
    for (const Value& endpoint : items_at(slice, {"endpoints"})) {
      ++endpoints;
      // `ready` left out means unknown, and unknown counts as ready.
      if (fits && text_at(endpoint, {"conditions", "ready"}) != "false") return Verdict::ready();
    }
  }
  return Verdict::wait(slices.empty() ? fmt::format("an EndpointSlice of Service {}", service)
                       : endpoints == 0
                           ? fmt::format("an endpoint of Service {}", service)
                           : fmt::format("a ready endpoint of Service {} ({} there, none ready)",
                                         service, plural(endpoints, "is", "are")));
}

Verdict webhook_answers(const std::variant<Value, Failure>& rehearsed) {
  const auto* failure = std::get_if<Failure>(&rehearsed);
  if (failure == nullptr) return Verdict::ready();
  if (const auto webhook = failure->unanswered_webhook())
    return Verdict::wait("webhook " + *webhook);
  if (failure->remedy() == Remedy::Retry || failure->remedy() == Remedy::Wait)
    return Verdict::wait(failure->message);
  // Kinds and namespaces may come a moment after what makes them.
  if (failure->status == 404) return Verdict::wait(failure->message);
  return Verdict::ready();  // denied: it was asked
}

Verdict flux_ready(const Value& object) {
  const Name name = name_of(object);
  if (text_at(object, {"spec", "suspend"}) == "true")
    return Verdict::fail(fmt::format("{} is suspended", name.text()));
  if (const Value* stalled = find_condition(object, "Stalled");
      stalled != nullptr && text_at(*stalled, {"status"}) == "True")
    return Verdict::fail(fmt::format("{} is stalled: {}", name.text(), words_of(*stalled)));
  // Somebody asked it to look again: what it says until then is of before.
  const std::string asked =
      text_at(object, {"metadata", "annotations", "reconcile.fluxcd.io/requestedAt"});
  const Value* ready = find_condition(object, "Ready");
  if (!asked.empty() && text_at(object, {"status", "lastHandledReconcileAt"}) != asked)
    return Verdict::wait(with_reason(
        fmt::format("{} to look again", name.text()),
        ready != nullptr && text_at(*ready, {"status"}) != "True" ? words_of(*ready) : ""));
  // Ready comes one write before observedGeneration: alone it may be of the spec before this one.
  if (ready != nullptr && text_at(*ready, {"status"}) == "True") {
    if (is_current(object)) return Verdict::ready();
    return Verdict::wait(fmt::format("{} to see its newest spec", name.text()));
  }
  std::string words = ready != nullptr ? words_of(*ready) : "";
  if (ready != nullptr && text_at(*ready, {"status"}) == "False" && !will_heal(*ready))
    return Verdict::fail(fmt::format("{}: {}", name.text(), words));
  if (ready != nullptr && text_at(*ready, {"status"}) == "Unknown")
    if (const Value* doing = find_condition(object, "Reconciling")) words = words_of(*doing);
  return Verdict::wait(with_reason(name.text() + " to be ready", words));
}

Verdict keeps_something(const Value& kustomization) {
  if (!items_at(kustomization, {"status", "inventory", "entries"}).empty()) return Verdict::ready();
  return Verdict::fail(fmt::format("{} is ready with nothing: {} of {} has no manifests",
                                   name_of(kustomization).text(),
                                   text_at(kustomization, {"spec", "path"}),
                                   text_at(kustomization, {"status", "lastAppliedRevision"})));
}

Verdict node_ready(const Value& node) {
  const std::string name = text_at(node, {"metadata", "name"});
  const Value* ready = find_condition(node, "Ready");
  if (ready == nullptr || text_at(*ready, {"status"}) != "True")
    return Verdict::wait(with_reason(fmt::format("node {} to be ready", name),
                                     ready != nullptr ? words_of(*ready) : ""));
  for (const Value& taint : items_at(node, {"spec", "taints"}))
    if (text_at(taint, {"key"}) == "node.kubernetes.io/not-ready")
      return Verdict::wait(fmt::format("node {} to lose its taint not-ready", name));
  return Verdict::ready();
}

}  // namespace rocca::kube
