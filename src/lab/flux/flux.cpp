#include "lab/flux/flux.hpp"

#include "base/units.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/json.hpp"
#include "lab/sim/network.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::flux {

using namespace std::chrono_literals;
using kube::int_at;
using kube::map_at;
using kube::num;
using kube::set_at;
using kube::str;
using kube::text_at;
using text::Value;

namespace {

struct Looked {
  const char* resource;
  const char* controller;
};
constexpr Looked looked_at[] = {
    {"source.toolkit.fluxcd.io/gitrepositories", "source-controller"},
    {"source.toolkit.fluxcd.io/helmrepositories", "source-controller"},
    {"kustomize.toolkit.fluxcd.io/kustomizations", "kustomize-controller"},
    {"helm.toolkit.fluxcd.io/helmreleases", "helm-controller"},
    {"external-secrets.io/secretstores", "external-secrets"},
    {"external-secrets.io/clustersecretstores", "external-secrets"},
    {"external-secrets.io/externalsecrets", "external-secrets"}};

constexpr const char* request = "reconcile.fluxcd.io/requestedAt";

bool matters(const kube::Change& change) {
  if (!change.before || !change.after) return true;
  const auto field = [&](std::initializer_list<std::string_view> path) {
    return text_at(*change.before, path) != text_at(*change.after, path);
  };
  return field({"metadata", "generation"}) || field({"metadata", "deletionTimestamp"}) ||
         field({"metadata", "annotations", request});
}

}  // namespace

std::string go_duration(Duration duration) {
  const auto all = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  if (all < 60) return fmt::format("{}s", all);
  if (all < 3600) return fmt::format("{}m{}s", all / 60, all % 60);
  return fmt::format("{}h{}m{}s", all / 3600, all % 3600 / 60, all % 60);
}

Duration duration_at(const Value& object, std::initializer_list<std::string_view> path,
                     Duration otherwise) {
  return parse_duration(text_at(object, path)).value_or(otherwise);
}

Flux::Flux(World& world, kube::Api& api, Options options)
    : world_(world), api_(api), options_(options) {
  api_.storage().on_change(
      [this, alive = std::weak_ptr<const bool>(alive_)](const kube::Change& change) {
        if (alive.lock()) changed(change);
      });
}

Flux::~Flux() {
  for (const std::string& address : balanced_) world_.network().remove_address(address);
}

bool Flux::runs(std::string_view controller) const {
  if (options_.always) return true;
  const auto& all = api_.storage().all("apps/deployments");
  return std::any_of(all.begin(), all.end(), [&](const auto& each) {
    return (each.first.name == controller ||
            text_at(*each.second, {"metadata", "labels", "app.kubernetes.io/name"}) ==
                controller) &&
           int_at(*each.second, {"status", "availableReplicas"}) > 0;
  });
}

void Flux::changed(const kube::Change& change) {
  if (change.resource == "batch/jobs" && change.after && change.before &&
      kube::condition_status(*change.before, "Complete") != "True" &&
      kube::condition_status(*change.after, "Complete") == "True")
    return after(100ms, [this, job = change.after] { install(*job); });
  if (change.after && (change.resource == "apps/deployments" || change.resource == "/services" ||
                       change.resource == "metallb.io/ipaddresspools" ||
                       (change.resource == "/nodes" && !change.before) ||
                       change.resource == "certificates.k8s.io/certificatesigningrequests"))
    look_at_addons();
  if (change.resource == "apps/deployments") {
    // A controller that comes up looks at everything it is there for.
    if (!change.after || int_at(*change.after, {"status", "availableReplicas"}) == 0 ||
        (change.before && int_at(*change.before, {"status", "availableReplicas"}) != 0))
      return;
    for (const Looked& each : looked_at)
      if (change.key.name == each.controller ||
          text_at(*change.after, {"metadata", "labels", "app.kubernetes.io/name"}) ==
              each.controller)
        look_at_all(each.resource, 1s);
    return;
  }
  for (const Looked& each : looked_at) {
    if (change.resource != each.resource) continue;
    if (change.after && matters(change)) later(change.resource, change.key, 200ms);
    if (change.resource == looked_at[0].resource &&
        (!change.after || !change.before ||
         text_at(*change.before, {"status", "artifact", "revision"}) !=
             text_at(*change.after, {"status", "artifact", "revision"})))
      for (const auto& [key, object] : api_.storage().all(looked_at[2].resource)) {
        std::string space = text_at(*object, {"spec", "sourceRef", "namespace"});
        if (space.empty()) space = key.space;
        if (text_at(*object, {"spec", "sourceRef", "name"}) == change.key.name &&
            space == change.key.space && change.after)
          later(looked_at[2].resource, key, 300ms);
      }
    return;
  }
}

void Flux::look_at_addons() {
  if (std::exchange(looking_, true)) return;
  after(1s, [this] {
    looking_ = false;
    approve_requests();
    balance();
    look_at_nodes();
  });
}

void Flux::look_at_all(std::string_view resource, Duration delay) {
  for (const auto& [key, object] : api_.storage().all(resource))
    later(std::string(resource), key, delay);
}

void Flux::after(Duration delay, std::function<void()> then) {
  world_.after(delay, [alive = std::weak_ptr<const bool>(alive_), then = std::move(then)] {
    if (alive.lock()) then();
  });
}

void Flux::later(const std::string& resource, const Key& key, Duration delay) {
  const std::string id = fmt::format("{} {}/{}", resource, key.space, key.name);
  const Instant due = world_.now() + delay;
  const auto old = waits_.find(id);
  if (old != waits_.end()) {
    if (old->second.due <= due) return;
    world_.cancel(old->second.timer);
  }
  Wait wait;
  wait.due = due;
  wait.timer = world_.at(due, [this, alive = std::weak_ptr<const bool>(alive_), id, resource, key] {
    if (!alive.lock()) return;
    waits_.erase(id);
    visit(resource, key);
  });
  waits_[id] = wait;
}

void Flux::pushed() {
  for (const auto& [key, object] : api_.storage().all(looked_at[0].resource))
    later(looked_at[0].resource, key, duration_at(*object, {"spec", "interval"}, 60s));
}

void Flux::visit(const std::string& resource, const Key& key) {
  if (!find(resource, key)) return;
  for (const Looked& each : looked_at)
    if (resource == each.resource && !runs(each.controller)) return;
  if (!api_.server().has_quorum()) return later(resource, key, 10s);
  if (resource == looked_at[0].resource) return visit_git(key);
  if (resource == looked_at[1].resource) return visit_helm_repository(key);
  if (resource == looked_at[2].resource) return visit_kustomization(key);
  if (resource == looked_at[3].resource) return visit_release(key);
  if (resource == looked_at[6].resource) return visit_external_secret(key);
  visit_store(resource, key);
}

const kube::Resource* Flux::kind_of(std::string_view resource) const {
  const std::size_t slash = resource.find('/');
  return api_.server().kinds().find_any(resource.substr(0, slash), resource.substr(slash + 1));
}

void Flux::set_status(const std::string& resource, const Key& key, const std::string& manager,
                      const Edit& edit) {
  const kube::Resource* kind = kind_of(resource);
  if (kind == nullptr || !find(resource, key)) return;
  const kube::Write write{
      manager, {"system:" + manager, {"system:masters"}}, false, "status", nullptr, true};
  try {
    api_.server().update(
        *kind, key,
        [&](const Value& live) {
          Value object = live;
          edit(object);
          return object;
        },
        write);
  } catch (const kube::Failure&) {
    // Somebody else was quicker; what changed brings us back.
  }
}

void Flux::set_conditions(Value& object, const std::vector<Condition>& wanted) const {
  const Value before = object;
  Value list = Value::list();
  for (const Condition& each : wanted) {
    const Value* old = kube::find_condition(before, each.type);
    Value one = Value::map();
    const bool same = old != nullptr && text_at(*old, {"status"}) == each.status;
    one.set("lastTransitionTime",
            str(same ? text_at(*old, {"lastTransitionTime"}) : api_.server().timestamp()));
    one.set("message", str(each.message));
    one.set("observedGeneration", num(int_at(object, {"metadata", "generation"})));
    one.set("reason", str(each.reason));
    one.set("status", str(each.status));
    one.set("type", str(each.type));
    list.append(std::move(one));
  }
  map_at(object, {"status"}).set("conditions", std::move(list));
}

bool Flux::keep_finalizer(const std::string& resource, const Key& key, const std::string& manager,
                          const std::function<void()>& before_it_goes) {
  const kube::Object object = find(resource, key);
  const kube::Resource* kind = kind_of(resource);
  const bool leaving = object->find({"metadata", "deletionTimestamp"}) != nullptr;
  const Value* list = object->find({"metadata", "finalizers"});
  constexpr const char* ours = "finalizers.fluxcd.io";
  const bool there = list != nullptr && list->is_list() &&
                     std::any_of(list->items().begin(), list->items().end(),
                                 [&](const Value& one) { return one.text() == ours; });
  if (leaving && there && before_it_goes) before_it_goes();
  if (there == leaving) {
    const kube::Write write{manager, {"system:" + manager, {"system:masters"}}, false, "", nullptr,
                            true};
    try {
      api_.server().update(
          *kind, key,
          [&](const Value& live) {
            Value out = live;
            Value& metadata = map_at(out, {"metadata"});
            Value* names = metadata.find("finalizers");
            if (names == nullptr || !names->is_list())
              names = &metadata.set("finalizers", Value::list());
            if (leaving)
              std::erase_if(names->items(), [&](const Value& one) { return one.text() == ours; });
            else
              names->append(str(ours));
            return out;
          },
          write);
    } catch (const kube::Failure&) {
      return false;
    }
  }
  return !leaving;
}

void Flux::tell(const Value& about, bool warning, const std::string& reason,
                const std::string& message, const std::string& controller,
                const std::string& revision) {
  const std::string space = text_at(about, {"metadata", "namespace"});
  const std::string name = text_at(about, {"metadata", "name"});
  Value event = Value::map();
  event.set("apiVersion", str("v1"));
  event.set("kind", str("Event"));
  set_at(event, {"metadata", "name"},
         str(fmt::format("{}.{:016x}", name,
                         static_cast<std::uint64_t>(world_.now().time_since_epoch().count()) +
                             api_.storage().revision())));
  if (!revision.empty()) {
    const std::string group =
        controller == "source-controller" ? "source.toolkit" : "kustomize.toolkit";
    set_at(event, {"metadata", "annotations", group + ".fluxcd.io/revision"}, str(revision));
  }
  Value& object = map_at(event, {"involvedObject"});
  for (const char* field : {"apiVersion", "kind"}) object.set(field, str(text_at(about, {field})));
  object.set("namespace", str(space));
  object.set("name", str(name));
  object.set("uid", str(text_at(about, {"metadata", "uid"})));
  event.set("reason", str(reason));
  event.set("message", str(message.substr(0, 1000)));
  event.set("type", str(warning ? "Warning" : "Normal"));
  event.set("count", num(1));
  event.set("firstTimestamp", str(api_.server().timestamp()));
  event.set("lastTimestamp", str(api_.server().timestamp()));
  set_at(event, {"source", "component"}, str(controller));
  event.set("reportingComponent", str(controller));
  api_.send({"system:" + controller, {"system:masters"}}, "POST",
            fmt::format("/api/v1/namespaces/{}/events", space.empty() ? "default" : space),
            text::emit_json(event));
}

}  // namespace rocca::lab::flux
