#include "kube/evict.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "kube/object.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::kube {

Eviction read_eviction(const net::Answer& answer, const std::string& pod) {
  if (answer.head.status < 300) return {};
  const Failure failure = classify(answer.head.status, answer.head.headers, answer.body);
  if (failure.reason == Reason::NotFound) return {Eviction::Answer::Gone};
  // Another Pod of that name by now: the one that was meant is gone.
  if (failure.reason == Reason::Conflict && failure.message.find("UID") != std::string::npos)
    return {Eviction::Answer::Gone};
  switch (failure.remedy()) {
    case Remedy::Wait:
    case Remedy::Retry:
    case Remedy::Reread: {
      std::vector<std::string> causes;
      for (const Cause& cause : failure.causes) causes.push_back(cause.message);
      return {Eviction::Answer::Later, causes.empty() ? failure.message : join(causes, "; "),
              failure.retry_after};
    }
    default:
      throw failure.error("evicting " + pod, true);
  }
}

Eviction evict(Client& client, const std::string& space, const std::string& pod,
               const std::string& uid) {
  Value body = Value::map();
  body.set("apiVersion", Value::string("policy/v1"));
  body.set("kind", Value::string("Eviction"));
  Value& metadata = body.set("metadata", Value::map());
  metadata.set("name", Value::string(pod));
  metadata.set("namespace", Value::string(space));
  if (!uid.empty()) {
    Value& options = body.set("deleteOptions", Value::map());
    options.set("preconditions", Value::map()).set("uid", Value::string(uid));
  }
  const std::string path = path_of({"", "v1", "pods"}, space, pod) + "/eviction";
  const net::Answer answer =
      client.send("POST", path, {}, "application/json", text::emit_json(body));
  return read_eviction(answer, fmt::format("{}/{}", space, pod));
}

std::vector<Leaving> leaving(const std::vector<Value>& pods) {
  std::vector<Leaving> all;
  for (const Value& pod : pods) {
    const Value* annotations = pod.find({"metadata", "annotations"});
    if (annotations != nullptr && annotations->find("kubernetes.io/config.mirror") != nullptr)
      continue;
    const auto& owners = items_at(pod, {"metadata", "ownerReferences"});
    const auto controller = std::find_if(owners.begin(), owners.end(), [](const Value& owner) {
      return text_at(owner, {"controller"}) == "true";
    });
    const std::string phase = text_at(pod, {"status", "phase"});
    const bool ended = phase == "Succeeded" || phase == "Failed";
    if (controller != owners.end() && text_at(*controller, {"kind"}) == "DaemonSet" && !ended)
      continue;
    const auto& volumes = items_at(pod, {"spec", "volumes"});
    all.push_back({text_at(pod, {"metadata", "namespace"}), text_at(pod, {"metadata", "name"}),
                   text_at(pod, {"metadata", "uid"}), controller == owners.end(),
                   std::any_of(volumes.begin(), volumes.end(), [](const Value& volume) {
                     return volume.find("emptyDir") != nullptr;
                   })});
  }
  return all;
}

}  // namespace rocca::kube
