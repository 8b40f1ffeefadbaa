#include "base/strings.hpp"
#include "kube/waits.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::kube {

namespace {

/// `app=web,tier=front` of a workload's selector.
std::string selector_of(const Value& workload) {
  const Value* labels = workload.find({"spec", "selector", "matchLabels"});
  std::vector<std::string> parts;
  if (labels != nullptr)
    for (const text::Entry& entry : labels->entries())
      parts.push_back(fmt::format("{}={}", entry.key, entry.value.text()));
  return join(parts, ",");
}

Scene scene_of(Client& client, const Value& workload) {
  const std::string space = text_at(workload, {"metadata", "namespace"});
  const std::string selector = selector_of(workload);
  Scene scene;
  if (!selector.empty())
    scene.pods = client.list(path_of({"", "v1", "pods"}, space), {{"labelSelector", selector}});
  scene.events =
      client.list(path_of({"", "v1", "events"}, space), {{"fieldSelector", "type=Warning"}});
  return scene;
}

using Judge = Verdict (*)(const Value&, const Scene&);

/// The scene is asked for only where there is something to explain.
Verdict judge(Client& client, const Value& object, Judge verdict) {
  const Verdict plain = verdict(object, {});
  if (plain.done) return plain;
  return verdict(object, scene_of(client, object));
}

Verdict rolled_out(Client& client, const Value& object) {
  const std::string kind = text_at(object, {"kind"});
  if (kind == "DaemonSet") return judge(client, object, daemon_set_rolled_out);
  if (kind == "StatefulSet") return judge(client, object, stateful_set_rolled_out);
  return judge(client, object, deployment_rolled_out);
}

/// Why a Service has no ready endpoint, as its Pods say, or those who cannot make them.
std::string service_trouble(Client& client, const Name& name) {
  const auto service = client.find(path_of({"", "v1", "services"}, name.space, name.name));
  if (!service) return "there is no such Service";
  const Value* labels = service->find({"spec", "selector"});
  if (labels == nullptr || labels->size() == 0) return "it selects no Pods";
  Value selecting = Value::map();  // in a workload's form
  selecting.set("metadata", Value::map()).set("namespace", Value::string(name.space));
  selecting.set("spec", Value::map()).set("selector", Value::map()).set("matchLabels", *labels);
  const Scene scene = scene_of(client, selecting);
  if (!scene.pods.empty()) return pod_trouble(scene);
  for (Value& one : client.list(path_of({"apps", "v1", "deployments"}, name.space))) {
    const bool chosen = std::all_of(
        labels->entries().begin(), labels->entries().end(), [&](const text::Entry& label) {
          return text_at(one, {"spec", "template", "metadata", "labels", label.key}) ==
                 label.value.text();
        });
    one.set("kind", Value::string("Deployment"));
    if (chosen) return deployment_rolled_out(one, scene).waiting_for;
  }
  return "it has no Pods";
}

Verdict endpoint(Client& client, const Wait& wait) {
  Verdict verdict = endpoint_ready(
      client.list(path_of({"discovery.k8s.io", "v1", "endpointslices"}, wait.name.space),
                  {{"labelSelector", "kubernetes.io/service-name=" + wait.name.name}}),
      fmt::format("{}/{}", wait.name.space, wait.name.name), wait.detail);
  if (verdict.done) return verdict;
  if (const std::string why = service_trouble(client, wait.name); !why.empty())
    verdict.waiting_for += fmt::format(" ({})", why);
  return verdict;
}

}  // namespace

std::string Wait::text() const {
  switch (what) {
    case For::Established:
      return name.text() + " to be established";
    case For::Active:
      return name.text() + " to be active";
    case For::RolledOut:
      return name.text() + " to roll out";
    case For::Complete:
      return name.text() + " to complete";
    case For::Endpoint:
      return fmt::format("a ready endpoint of Service {}/{}", name.space, name.name);
    case For::Webhook:
      return fmt::format("the webhook of {} to answer", name.text());
    case For::Flux:
      return name.text() + " to be ready";
    case For::Condition:
      return fmt::format("{} to be {}", name.text(), detail);
    case For::Untainted:
      return fmt::format("{} to lose its taint {}", name.text(), detail);
    case For::Gone:
      return name.text() + " to be gone";
  }
  return name.text();
}

Verdict check(Client& client, Discovery& discovery, const Wait& wait) {
  if (wait.what == Wait::For::Endpoint) return endpoint(client, wait);
  const auto path = discovery.find_path(wait.name);
  if (!path)
    return wait.what == Wait::For::Gone
               ? Verdict::ready()
               : Verdict::wait(
                     fmt::format("{} ({} is not served)", wait.text(), wait.name.api_version));
  if (wait.what == Wait::For::Webhook)
    return webhook_answers(client.try_apply(*path, wait.probe, true));
  auto object = client.find(*path);
  if (wait.what == Wait::For::Gone) return object ? Verdict::wait(wait.text()) : Verdict::ready();
  if (!object) return Verdict::wait(fmt::format("{} (it is not there)", wait.text()));
  // Items of lists and some answers leave these out; verdicts speak of them.
  if (object->find("kind") == nullptr) object->set("kind", Value::string(wait.name.kind));
  switch (wait.what) {
    case Wait::For::Established:
      return crd_established(*object);
    case Wait::For::Active:
      return namespace_active(*object);
    case Wait::For::RolledOut:
      return rolled_out(client, *object);
    case Wait::For::Complete:
      return judge(client, *object, job_complete);
    case Wait::For::Untainted:
      for (const Value& taint : items_at(*object, {"spec", "taints"}))
        if (text_at(taint, {"key"}) == wait.detail) return Verdict::wait(wait.text());
      return Verdict::ready();
    case Wait::For::Condition: {
      const Value* condition = find_condition(*object, wait.detail);
      if (condition != nullptr && text_at(*condition, {"status"}) == "True")
        return Verdict::ready();
      return Verdict::wait(condition == nullptr ? wait.text()
                                                : fmt::format("{} ({}: {})", wait.text(),
                                                              text_at(*condition, {"reason"}),
                                                              text_at(*condition, {"message"})));
    }
    default: {
      Verdict verdict = flux_ready(*object);
      return verdict.done && !wait.detail.empty() ? keeps_something(*object) : verdict;
    }
  }
}

std::vector<Wait> waits_for(const Value& object) {
  const Name name = name_of(object);
  const std::string group = name.group();
  if (name.kind == "CustomResourceDefinition") return {{Wait::For::Established, name}};
  if (name.kind == "Namespace" && group.empty()) return {{Wait::For::Active, name}};
  if (group == "apps" &&
      (name.kind == "Deployment" || name.kind == "DaemonSet" || name.kind == "StatefulSet"))
    return {{Wait::For::RolledOut, name}};
  if (group == "batch" && name.kind == "Job") return {{Wait::For::Complete, name}};
  return {};
}

}  // namespace rocca::kube
