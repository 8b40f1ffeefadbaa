#include "base/strings.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/server.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

Value success(const Resource& resource, const Value& object) {
  Value status = Value::map();
  status.set("kind", str("Status"));
  status.set("apiVersion", str("v1"));
  status.set("metadata", Value::map());
  status.set("status", str("Success"));
  Value details = Value::map();
  details.set("name", str(text_at(object, {"metadata", "name"})));
  if (!resource.group.empty()) details.set("group", str(resource.group));
  details.set("kind", str(resource.plural));
  details.set("uid", str(text_at(object, {"metadata", "uid"})));
  status.set("details", std::move(details));
  return status;
}

DeleteHow read_how(Call& call, const Schemas& schemas) {
  DeleteHow how;
  Value options = Value::map();
  if (!call.body.empty()) {
    std::vector<std::string> unknown;
    try {
      const Value sent = read_json(call.body).value;
      const std::string kind = text_at(sent, {"kind"});
      if (!kind.empty() && kind != "DeleteOptions")
        throw plain_error(
            fmt::format("no kind {} is registered for version {} in scheme "
                        "\"pkg/runtime/scheme.go:110\"",
                        in_quotes(kind), in_quotes(text_at(sent, {"apiVersion"}))));
      options = decode(*schemas.get("DeleteOptions"), read_json(call.body).value, unknown);
    } catch (const BadJson& bad) {
      throw bad_request("couldn't get version/kind; json parse error: " + bad.message);
    } catch (const BadType& bad) {
      throw bad_request(bad.message);
    }
  }
  how.propagation = call.option_or("propagationPolicy", text_at(options, {"propagationPolicy"}));
  if (const auto grace = call.option("gracePeriodSeconds")) {
    how.grace = parse_int(*grace);
    if (!how.grace)
      throw bad_request(
          fmt::format("strconv.ParseInt: parsing {}: invalid syntax", in_quotes(*grace)));
  }
  if (const Value* grace = options.find("gracePeriodSeconds")) how.grace = grace->as_int();
  how.uid = text_at(options, {"preconditions", "uid"});
  how.revision = text_at(options, {"preconditions", "resourceVersion"});
  if (const Value* dry = options.find("dryRun"); dry != nullptr && dry->is_list())
    for (const Value& one : dry->items())
      if (one.text() != "All") {
        const std::vector<Cause> causes{
            Cause::unsupported("dryRun", text::emit_json(*dry), {"All"})};
        throw invalid("meta.k8s.io", "DeleteOptions", "", causes);
      }
  if (const Value* dry = options.find("dryRun"); dry != nullptr && dry->size() != 0)
    call.query.emplace_back("dryRun", "All");
  const auto orphan = options.find("orphanDependents");
  if (!how.propagation.empty() && orphan != nullptr) {
    const std::vector<Cause> causes{
        Cause::invalid("propagationPolicy", in_quotes(how.propagation),
                       "orphanDependents and deletionPropagation cannot be both set")};
    throw invalid("meta.k8s.io", "DeleteOptions", "", causes);
  }
  if (call.resource->key() == "batch/jobs" && how.propagation.empty() && orphan == nullptr)
    call.warnings.emplace_back(
        "child pods are preserved by default when jobs are deleted; set "
        "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress "
        "this warning");
  if (how.propagation.empty() && orphan != nullptr)
    how.propagation = orphan->as_bool() == true ? "Orphan" : "Background";
  if (!how.propagation.empty() && how.propagation != "Foreground" &&
      how.propagation != "Background" && how.propagation != "Orphan") {
    const std::vector<Cause> causes{
        Cause::unsupported("propagationPolicy", in_quotes(how.propagation),
                           {"Foreground", "Background", "Orphan", "nil"})};
    throw invalid("meta.k8s.io", "DeleteOptions", "", causes);
  }
  return how;
}

void add_finalizer(Value& object, const char* name) {
  Value& metadata = map_at(object, {"metadata"});
  Value* list = metadata.find("finalizers");
  if (list == nullptr || !list->is_list()) list = &metadata.set("finalizers", Value::list());
  for (const Value& one : list->items())
    if (one.text() == name) return;
  list->append(str(name));
}

void drop_finalizer(Value& object, const char* name) {
  if (Value* list = object.find({"metadata", "finalizers"}); list != nullptr && list->is_list())
    std::erase_if(list->items(), [&](const Value& one) { return one.text() == name; });
}

}  // namespace

Reply Server::remove(const Resource& resource, const ObjectKey& key, const DeleteHow& how,
                     const Write& write) {
  const Object live = get(resource, key);
  Value object = *live;
  const std::string uid = text_at(object, {"metadata", "uid"});
  const std::string revision = text_at(object, {"metadata", "resourceVersion"});
  // Namespaces and definitions are looked at before the common code.
  const bool early = resource.key() == "/namespaces" ||
                     resource.key() == "apiextensions.k8s.io/customresourcedefinitions";
  if (early && !how.uid.empty() && how.uid != uid)
    throw conflict(
        resource.group, resource.plural, key.name,
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", how.uid,
                    uid));
  if (early && !how.revision.empty() && how.revision != revision)
    throw conflict(resource.group, resource.plural, key.name,
                   fmt::format("Precondition failed: ResourceVersion in precondition: {}, "
                               "ResourceVersion in object meta: {}",
                               how.revision, revision));
  if (!how.uid.empty() && how.uid != uid)
    throw conflict(resource.group, resource.kind, key.name,
                   fmt::format("the UID in the precondition ({}) does not match the UID in record "
                               "({}). The object might have been deleted and then recreated",
                               how.uid, uid));
  if (!how.revision.empty() && how.revision != revision)
    throw conflict(resource.group, resource.kind, key.name,
                   fmt::format("the ResourceVersion in the precondition ({}) does not match the "
                               "ResourceVersion in record ({}). The object might have been "
                               "modified",
                               how.revision, revision));
  if (resource.key() == "/namespaces" && !write.internal &&
      (key.name == "default" || key.name == "kube-system" || key.name == "kube-public"))
    throw forbidden("", "namespaces", key.name, "this namespace may not be deleted");
  if (!write.internal) {
    Value copy = object;
    call_webhooks(resource, "DELETE", copy, live.get(), write, false);
  }
  Reply reply;
  const bool deleting = object.find({"metadata", "deletionTimestamp"}) != nullptr;
  std::int64_t grace = 0;
  if (resource.key() == "/pods") {
    const std::string phase = text_at(object, {"status", "phase"});
    grace = how.grace.value_or(int_at(object, {"spec", "terminationGracePeriodSeconds"}, 30));
    // A pod that runs nowhere, or has ended, needs no time to say goodbye.
    if (text_at(object, {"spec", "nodeName"}).empty() || phase == "Succeeded" || phase == "Failed")
      grace = 0;
    if (grace < 0) grace = 1;
  }
  // Jobs keep their pods unless told otherwise; Events have no dependents.
  const bool collected = resource.key() != "/events";
  const bool keeps = resource.key() == "batch/jobs" && !write.internal && how.propagation.empty();
  const bool orphan = collected && (how.propagation == "Orphan" || keeps);
  const bool foreground = collected && how.propagation == "Foreground";
  if (orphan) {
    drop_finalizer(object, "foregroundDeletion");
    add_finalizer(object, "orphan");
  }
  if (foreground) {
    drop_finalizer(object, "orphan");
    add_finalizer(object, "foregroundDeletion");
  }
  if (!orphan && !foreground && !how.propagation.empty()) {
    // Background drops what an earlier wish had put there.
    if (Value* list = object.find({"metadata", "finalizers"}))
      std::erase_if(list->items(), [](const Value& one) {
        return one.text() == "orphan" || one.text() == "foregroundDeletion";
      });
  }
  if (resource.key() == "apiextensions.k8s.io/customresourcedefinitions" && !deleting &&
      !write.internal) {
    // First the instances go, then the definition.
    add_finalizer(object, "customresourcecleanup.apiextensions.k8s.io");
    set_condition(object, "Terminating", "True", "InstanceDeletionPending",
                  "CustomResourceDefinition marked for deletion; CustomResource deletion will "
                  "begin soon",
                  timestamp());
  }
  const bool by_namespace =
      resource.key() == "/namespaces" && !is_empty(object.find({"spec", "finalizers"}));
  const bool held = !is_empty(object.find({"metadata", "finalizers"})) || by_namespace;
  if (deleting) {
    const std::int64_t left = int_at(object, {"metadata", "deletionGracePeriodSeconds"}, 0);
    const bool shorter = resource.key() == "/pods" && grace < left;
    if (!shorter && (held || left > 0)) {
      // A second request may change its mind about the dependents.
      if (!(object == *live) && !write.dry_run)
        object = *storage_.put(resource.key(), key, std::move(object));
      reply.body = shown(resource, object);
      return reply;
    }
    if (shorter && (grace > 0 || held)) {
      set_at(object, {"metadata", "deletionGracePeriodSeconds"}, num(grace));
      if (!write.dry_run) object = *storage_.put(resource.key(), key, std::move(object));
      reply.body = shown(resource, object);
      return reply;
    }
  }
  if (held || grace > 0) {
    if (!deleting) {
      const Instant at = world_.now() + std::chrono::seconds{grace};
      const auto seconds =
          std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count();
      set_at(object, {"metadata", "deletionTimestamp"}, str(timestamp_of(seconds)));
      const bool definition = resource.key() == "apiextensions.k8s.io/customresourcedefinitions";
      if (!by_namespace && !definition)
        set_at(object, {"metadata", "deletionGracePeriodSeconds"}, num(grace));
      if (by_namespace) set_at(object, {"status", "phase"}, str("Terminating"));
      if (resource.generation && !definition)
        set_at(object, {"metadata", "generation"},
               num(int_at(object, {"metadata", "generation"}, 0) + 1));
    }
    object = ordered(resource, std::move(object));
    if (!write.dry_run) object = *storage_.put(resource.key(), key, std::move(object));
    reply.body = shown(resource, object);
    return reply;
  }
  if (resource.key() == "/pods") {
    // A pod that goes at once is marked all the same, though nobody sees it so.
    if (!deleting) {
      set_at(object, {"metadata", "deletionTimestamp"}, str(timestamp()));
      set_at(object, {"metadata", "generation"},
             num(int_at(object, {"metadata", "generation"}, 0) + 1));
    }
    set_at(object, {"metadata", "deletionGracePeriodSeconds"}, num(0));
    object = ordered(resource, std::move(object));
  }
  if (!write.dry_run) {
    storage_.remove(resource.key(), key);
    set_at(object, {"metadata", "resourceVersion"}, str(std::to_string(storage_.revision())));
  }
  // Pods and custom kinds answer with the object, others with a Status.
  const bool returns_object =
      resource.key() == "/pods" || resource.key() == "/services" ||
      resource.key() == "/serviceaccounts" || resource.key() == "/persistentvolumeclaims" ||
      resource.key() == "/persistentvolumes" || resource.key() == "/podtemplates" ||
      resource.key() == "/resourcequotas" || resource.key() == "storage.k8s.io/csidrivers" ||
      resource.key() == "storage.k8s.io/storageclasses";
  reply.body = returns_object ? shown(resource, object) : success(resource, object);
  return reply;
}

Reply Server::delete_request(Call& call) {
  check_options(call, "DeleteOptions");
  const DeleteHow how = read_how(call, schemas_);
  return remove(*call.resource, key_of(call), how, write_of(call));
}

Reply Server::delete_collection(Call& call) {
  const DeleteHow how = read_how(call, schemas_);
  Call as_list = call;
  as_list.body.clear();
  Reply reply = list(as_list);
  const Write write = write_of(call);
  std::vector<ObjectKey> keys;
  for (const Value& item : reply.body.find("items")->items()) keys.push_back(kube::key_of(item));
  for (const ObjectKey& key : keys)
    if (storage_.find(call.resource->key(), key)) remove(*call.resource, key, how, write);
  return reply;
}

}  // namespace rocca::lab::kube
