#include "lab/kube/controllers/controllers.hpp"

#include "base/strings.hpp"
#include "lab/kube/conditions.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <cmath>

namespace rocca::lab::kube {

using namespace std::chrono_literals;
using text::Value;

Controllers::Controllers(Server& server) : server_(server) {
  server.storage().on_change([this](const Change& change) { changed(change); });
}

World::Timer Controllers::later(Duration delay, std::function<void()> then) {
  constexpr Duration horizon = 1min;
  if (settling_ && ahead_ + delay <= horizon) {
    due_.emplace(ahead_ + delay, std::move(then));
    return 0;
  }
  return server_.world().after(delay,
                               [alive = std::weak_ptr<const bool>(alive_), then = std::move(then)] {
                                 if (alive.lock()) then();
                               });
}

void Controllers::settle(const std::function<void()>& work) {
  if (settling_) return work();
  settling_ = true;
  ahead_ = {};
  work();
  while (!due_.empty()) {
    auto next = due_.extract(due_.begin());
    ahead_ = next.key();
    next.mapped()();
  }
  settling_ = false;
}

void Server::settle(const std::function<void()>& work) {
  controllers_->settle(work);
}

void Controllers::soon(const std::string& what, const ObjectKey& key, Duration delay,
                       std::function<void(const ObjectKey&)> act) {
  const std::string id = fmt::format("{} {}/{}", what, key.space, key.name);
  if (!pending_.insert(id).second) return;
  later(delay, [this, what, id, key, act = std::move(act)] {
    pending_.erase(id);
    if (server_.has_quorum())
      act(key);
    else
      soon(what, key, 5s, act);  // controllers wait for etcd like everybody else
  });
}

void Controllers::sync(const char* what, const ObjectKey& key, Act act, Duration delay) {
  soon(what, key, delay, [this, act](const ObjectKey& of) { (this->*act)(of); });
}

Write Controllers::as(const std::string& manager, const std::string& subresource) const {
  return {manager, {"system:" + manager, {"system:masters"}}, false, subresource, nullptr, true};
}

const Resource& Controllers::resource(std::string_view group, std::string_view plural) const {
  return *server_.kinds().find_any(group, plural);
}

void Controllers::edit(std::string_view group, std::string_view plural, const ObjectKey& key,
                       const Server::Edit& change, const Write& write) {
  const Resource& kind = resource(group, plural);
  if (!find(kind.key(), key)) return;
  try {
    server_.update(kind, key, change, write);
  } catch (const Failure&) {
    // A conflict or a refusal: the next change brings the controller back.
  }
}

void Controllers::remove(std::string_view group, std::string_view plural, const ObjectKey& key,
                         const std::string& propagation) {
  const Resource& kind = resource(group, plural);
  if (!find(kind.key(), key)) return;
  DeleteHow how;
  how.propagation = propagation;
  server_.remove(kind, key, how, as("kube-controller-manager"));
}

std::optional<std::string> Controllers::make(std::string_view group, std::string_view plural,
                                             const std::string& space, Value object,
                                             const std::string& manager) {
  const Resource& kind = resource(group, plural);
  try {
    object = server_.ordered(kind, std::move(object));
    server_.set_defaults(kind, object);
    server_.create(kind, space, std::move(object), as(manager));
    return std::nullopt;
  } catch (const Failure& failure) {
    return failure.message;
  }
}

std::vector<Object> Controllers::owned(std::string_view of, const Value& owner) const {
  std::vector<Object> out;
  const std::string uid = text_at(owner, {"metadata", "uid"});
  const std::string space = text_at(owner, {"metadata", "namespace"});
  const Storage::Objects& all = server_.storage().all(of);
  for (auto place = all.lower_bound({space, ""}); place != all.end(); ++place) {
    if (place->first.space != space) break;
    const Value* owners = place->second->find({"metadata", "ownerReferences"});
    if (owners == nullptr || !owners->is_list()) continue;
    for (const Value& one : owners->items())
      if (bool_at(one, {"controller"}) && text_at(one, {"uid"}) == uid) {
        out.push_back(place->second);
        break;
      }
  }
  return out;
}

void Controllers::tell(const Value& about, const std::string& kind, const std::string& api_version,
                       const std::string& type, const std::string& reason,
                       const std::string& message, const std::string& component) {
  const std::string name = text_at(about, {"metadata", "name"});
  std::string space = text_at(about, {"metadata", "namespace"});
  const std::string involved = space;
  if (space.empty()) space = "default";
  const std::string now = server_.timestamp();
  // The same event again raises its count.
  const Storage::Objects& events = server_.storage().all("/events");
  for (auto place = events.lower_bound({space, name + "."}); place != events.end(); ++place) {
    if (place->first.space != space || !place->first.name.starts_with(name + ".")) break;
    const Value& old = *place->second;
    if (text_at(old, {"reason"}) != reason || text_at(old, {"message"}) != message ||
        text_at(old, {"involvedObject", "uid"}) != text_at(about, {"metadata", "uid"}))
      continue;
    const ObjectKey key = place->first;
    edit(
        "", "events", key,
        [&](const Value& live) {
          Value event = live;
          event.set("count", num(int_at(event, {"count"}, 1) + 1));
          event.set("lastTimestamp", str(now));
          return event;
        },
        as(component));
    return;
  }
  Value event = Value::map();
  set_at(
      event, {"metadata", "name"},
      str(fmt::format("{}.{:016x}", name,
                      static_cast<std::uint64_t>(server_.world().now().time_since_epoch().count()) +
                          events.size())));
  Value& object = map_at(event, {"involvedObject"});
  object.set("kind", str(kind));
  if (!involved.empty()) object.set("namespace", str(involved));
  object.set("name", str(name));
  object.set("uid", str(text_at(about, {"metadata", "uid"})));
  object.set("apiVersion", str(api_version));
  object.set("resourceVersion", str(text_at(about, {"metadata", "resourceVersion"})));
  event.set("reason", str(reason));
  event.set("message", str(message));
  set_at(event, {"source", "component"}, str(component));
  event.set("firstTimestamp", str(now));
  event.set("lastTimestamp", str(now));
  event.set("count", num(1));
  event.set("type", str(type));
  event.set("reportingComponent", str(component));
  make("", "events", space, std::move(event), "kube-controller-manager");
}

void Controllers::changed(const Change& change) {
  const Api::Options& options = server_.options();
  const Value& object = change.after ? *change.after : *change.last;
  if (options.scheduler && change.resource == "/pods" && change.after &&
      text_at(object, {"spec", "nodeName"}).empty())
    sync("schedule", change.key, &Controllers::schedule, 20ms);
  if (options.kubelets && change.resource == "/pods" && change.after &&
      !text_at(object, {"spec", "nodeName"}).empty())
    sync("run", change.key, &Controllers::run_pod, 50ms);
  if (!options.controllers) return;
  collect(change);
  if (change.resource == "/nodes") {
    if (change.after) sync("node", change.key, &Controllers::sync_node, 20ms);
    if (!change.after)
      // The pod garbage collector gives a lost node some time to come back.
      soon("lost pods", change.key, 40s, [this](const ObjectKey& key) { forget_pods(key.name); });
    for (const auto& [key, set] : server_.storage().all("apps/daemonsets"))
      sync("daemonset", key, &Controllers::sync_daemon_set, 50ms);
    if (options.scheduler)
      for (const auto& [key, pod] : server_.storage().all("/pods"))
        if (text_at(*pod, {"spec", "nodeName"}).empty())
          sync("schedule", key, &Controllers::schedule, 60ms);
    return;
  }
  static const std::map<std::string, std::pair<const char*, Act>> own{
      {"apps/deployments", {"deployment", &Controllers::sync_deployment}},
      {"apps/replicasets", {"replicaset", &Controllers::sync_replica_set}},
      {"apps/daemonsets", {"daemonset", &Controllers::sync_daemon_set}},
      {"apps/statefulsets", {"statefulset", &Controllers::sync_stateful_set}},
      {"batch/jobs", {"job", &Controllers::sync_job}},
      {"/services", {"service", &Controllers::sync_service}},
      {"policy/poddisruptionbudgets", {"budget", &Controllers::sync_budget}},
      {"/namespaces", {"namespace", &Controllers::sync_namespace}},
      {"certificates.k8s.io/certificatesigningrequests", {"csr", &Controllers::sync_request}}};
  if (const auto found = own.find(change.resource); found != own.end())
    sync(found->second.first, change.key, found->second.second, 30ms);
  // Who controls it wants to know, too.
  if (const Value* owners = object.find({"metadata", "ownerReferences"});
      owners != nullptr && owners->is_list())
    for (const Value& one : owners->items()) {
      if (!bool_at(one, {"controller"})) continue;
      const ObjectKey owner{change.key.space, text_at(one, {"name"})};
      const std::string kind = text_at(one, {"kind"});
      if (kind == "Deployment") sync("deployment", owner, &Controllers::sync_deployment, 40ms);
      if (kind == "ReplicaSet") sync("replicaset", owner, &Controllers::sync_replica_set, 40ms);
      if (kind == "DaemonSet") sync("daemonset", owner, &Controllers::sync_daemon_set, 40ms);
      if (kind == "StatefulSet") sync("statefulset", owner, &Controllers::sync_stateful_set, 40ms);
      if (kind == "Job") sync("job", owner, &Controllers::sync_job, 40ms);
    }
  // The kubelet of a node notices that its network is gone.
  if (change.resource == "/pods" && !change.after && is_network_agent(object) &&
      !server_.network_ready)
    if (const std::string node = text_at(object, {"spec", "nodeName"}); !node.empty())
      soon("heartbeat", {"", node}, 5s, [this](const ObjectKey& key) { heartbeat(key.name); });
  if (change.resource == "/pods") {
    for (const auto& [key, service] : server_.storage().all("/services"))
      if (key.space == change.key.space) sync("service", key, &Controllers::sync_service, 60ms);
    for (const auto& [key, budget] : server_.storage().all("policy/poddisruptionbudgets"))
      if (key.space == change.key.space) sync("budget", key, &Controllers::sync_budget, 60ms);
  }
  if (change.resource != "/namespaces" && !change.after && !change.key.space.empty()) {
    const Object space = find("/namespaces", {"", change.key.space});
    if (space && space->find({"metadata", "deletionTimestamp"}) != nullptr)
      sync("namespace", {"", change.key.space}, &Controllers::sync_namespace, 100ms);
  }
}

std::string template_hash(const Value& pod_template) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text::emit_json(pod_template)) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 16777619u;
  }
  static constexpr std::string_view letters = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  for (const char digit : std::to_string(hash))
    out += letters[static_cast<std::size_t>(digit) % letters.size()];
  return out;
}

bool is_pod_ready(const Value& pod) {
  return condition_status(pod, "Ready") == "True";
}

bool is_pod_active(const Value& pod) {
  const std::string phase = text_at(pod, {"status", "phase"});
  return phase != "Succeeded" && phase != "Failed" &&
         pod.find({"metadata", "deletionTimestamp"}) == nullptr;
}

std::int64_t scaled(const Value* value, std::int64_t of, bool up) {
  if (value == nullptr || value->is_null()) return 0;
  if (const auto number = value->as_int()) return *number;
  const auto percent = parse_int(replace_all(value->text(), "%", ""));
  const double part = static_cast<double>(percent.value_or(0)) * static_cast<double>(of) / 100.0;
  return static_cast<std::int64_t>(up ? std::ceil(part) : std::floor(part));
}

}  // namespace rocca::lab::kube
