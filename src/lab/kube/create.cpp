#include "base/strings.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/server.hpp"
#include "lab/kube/warnings.hpp"

#include <fmt/format.h>

namespace rocca::lab::kube {

using text::Value;

namespace {

FieldSet ignored_for(const Resource& resource, const std::string& subresource) {
  if (subresource == "status") return one_field("spec");
  if (resource.find("status") != nullptr) return one_field("status");
  return {};
}

}  // namespace

Value Server::create(const Resource& resource, const std::string& space, Value object,
                     const Write& write) {
  Value& metadata = map_at(object, {"metadata"});
  if (resource.namespaced) {
    if (text_at(metadata, {"namespace"}).empty()) metadata.set("namespace", str(space));
    check_namespace(resource, space, write, text_at(metadata, {"name"}));
  } else {
    metadata.erase("namespace");
  }
  for (const char* key : {"uid", "resourceVersion", "creationTimestamp", "selfLink"})
    metadata.erase(key);
  // Where the server does not count generations, it keeps what was sent.
  if (resource.generation || resource.custom()) metadata.erase("generation");
  if (!write.patch)
    for (const char* key : {"deletionTimestamp", "deletionGracePeriodSeconds"}) metadata.erase(key);
  const bool applied = object.find({"metadata", "managedFields"}) != nullptr && write.internal;
  if (!applied) {
    const Value* managed = metadata.find("managedFields");
    const bool by_apply = managed != nullptr;
    if (!by_apply) {
      // A field of its own inside, an annotation outside: who creates the object owns it.
      if (resource.kind == "DaemonSet")
        set_at(object, {"metadata", "annotations", "deprecated.daemonset.template.generation"},
               str("1"));
      const Value empty = empty_object(resource);
      track_update(*resource.type, empty, object,
                   {write.manager, resource.api_version(), write.subresource, timestamp(),
                    ignored_for(resource, "")});
    }
  }
  drop_empty_slices(*resource.type, object);
  if (resource.custom() && !write.internal)
    if (const Object crd =
            storage_.find("apiextensions.k8s.io/customresourcedefinitions", {"", resource.crd});
        crd && crd->find({"metadata", "deletionTimestamp"}) != nullptr)
      throw forbidden(resource.group, resource.plural, text_at(metadata, {"name"}),
                      "create not allowed while custom resource definition is terminating");
  if (!write.internal) call_webhooks(resource, "CREATE", object, nullptr, write, true);
  Value& data = map_at(object, {"metadata"});
  const auto generate = [&] {
    Value& fresh = map_at(object, {"metadata"});
    if (!text_at(fresh, {"name"}).empty() || text_at(fresh, {"generateName"}).empty()) return;
    fresh.set("name", str(text_at(fresh, {"generateName"}).substr(0, 58) + random_suffix()));
    if (resource.key() == "/namespaces")
      set_at(object, {"metadata", "labels", "kubernetes.io/metadata.name"},
             str(text_at(object, {"metadata", "name"})));
  };
  // A pod is admitted before its name is drawn.
  if (resource.key() != "/pods") generate();
  data.set("uid", str(new_uid()));
  data.set("creationTimestamp", str(timestamp()));
  if (resource.generation) data.set("generation", num(1));
  if (resource.key() == "/pods") {
    admit_pod(object, space);
    generate();
  }
  prepare_create(resource, object);
  const std::string name = text_at(object, {"metadata", "name"});
  const std::vector<Cause> causes = validate(resource, object, nullptr, write);
  if (!causes.empty()) throw invalid(resource.group, resource.kind, name, causes);
  if (!write.internal) call_webhooks(resource, "CREATE", object, nullptr, write, false);
  const ObjectKey key{resource.namespaced ? space : "", name};
  if (write.warnings != nullptr && !write.internal)
    for (std::string& one : warnings_of(resource, object))
      write.warnings->push_back(std::move(one));
  if (const Object there = storage_.find(resource.key(), key)) {
    Failure failure = already_exists(resource.group, resource.plural, name);
    if (there->find({"metadata", "deletionTimestamp"}) != nullptr)
      failure.message = "object is being deleted: " + failure.message;
    else if (!text_at(object, {"metadata", "generateName"}).empty()) {
      failure.message += ", the server was not able to generate a unique name for the object";
      failure.details.set("retryAfterSeconds", num(1));
      failure.headers.add("Retry-After", "1");
    }
    throw failure;
  }
  object = ordered(resource, std::move(object));
  if (write.dry_run) return object;
  return *storage_.put(resource.key(), key, std::move(object));
}

Value Server::empty_object(const Resource& resource) const {
  if (resource.custom()) return Value::map();
  return zero_value(*resource.type);
}

Reply Server::create_request(Call& call) {
  check_options(call, "CreateOptions");
  const Resource& resource = *call.resource;
  if (resource.group == "authorization.k8s.io" || resource.group == "authentication.k8s.io")
    return review(call);
  if (resource.plural == "bindings" && resource.group.empty()) return bind(call);
  Value object = read_body(call, resource);
  const std::string space = text_at(object, {"metadata", "namespace"});
  if (resource.namespaced && !space.empty() && space != call.space)
    throw bad_request(
        "the namespace of the provided object does not match the namespace sent on the request");
  if (parse_uint(text_at(object, {"metadata", "resourceVersion"})).value_or(0) != 0)
    throw plain_error("resourceVersion should not be set on objects to be created");
  // What comes with a create says nothing about owners.
  map_at(object, {"metadata"}).erase("managedFields");
  Write write = write_of(call);
  Reply reply;
  reply.status = 201;
  reply.body = shown(resource, create(resource, call.space, std::move(object), write));
  return reply;
}

}  // namespace rocca::lab::kube
