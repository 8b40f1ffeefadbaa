#include "base/strings.hpp"
#include "lab/kube/patch.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/server.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

std::string media_type(const std::string& header) {
  return std::string(trim(std::string_view(header).substr(0, header.find(';'))));
}

constexpr const char* modified =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The same but for the times of the owners.
bool equal_but_times(const Value& a, const Value& b) {
  const auto without = [](const Value& object) {
    Value out = object;
    if (Value* list = out.find({"metadata", "managedFields"}))
      for (Value& entry : list->items()) entry.erase("time");
    return out;
  };
  return without(a) == without(b);
}

FieldSet reset_fields(const Resource& resource, const std::string& subresource) {
  if (subresource == "status")
    return resource.custom() ? unite(one_field("spec"), one_field("metadata")) : one_field("spec");
  if (subresource == "finalize") return one_field("spec");
  if (subresource.empty() && resource.find("status") != nullptr) return one_field("status");
  return {};
}

}  // namespace

Value Server::update(const Resource& resource, const ObjectKey& key, const Edit& edit,
                     const Write& write) {
  const Object live = get(resource, key);
  Value object = edit(*live);
  Value& metadata = map_at(object, {"metadata"});
  const std::string name = text_at(metadata, {"name"});
  if (!name.empty() && name != key.name)
    throw bad_request(fmt::format(
        "the name of the object ({}) does not match the name on the URL ({})", name, key.name));
  metadata.set("name", str(key.name));
  if (resource.namespaced) {
    const std::string space = text_at(metadata, {"namespace"});
    if (!space.empty() && space != key.space)
      throw bad_request(
          "the namespace of the provided object does not match the namespace sent on the request");
    metadata.set("namespace", str(key.space));
  }
  const std::string uid = text_at(metadata, {"uid"});
  const std::string live_uid = text_at(*live, {"metadata", "uid"});
  if (!uid.empty() && uid != live_uid)
    throw conflict(resource.group, resource.plural, key.name,
                   fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: "
                               "{}",
                               uid, live_uid));
  const std::string revision = text_at(metadata, {"resourceVersion"});
  if (revision.empty() || revision == "0") {
    if (resource.conditional && !write.internal && write.subresource != "scale") {
      const std::vector<Cause> causes{
          Cause::invalid("metadata.resourceVersion", "0", "must be specified for an update")};
      throw invalid(resource.group, resource.plural, key.name, causes);
    }
  } else if (revision != text_at(*live, {"metadata", "resourceVersion"})) {
    throw conflict(resource.group, resource.plural, key.name, modified);
  }
  return store_update(resource, key, live, std::move(object), write, false);
}

Value Server::store_update(const Resource& resource, const ObjectKey& key, const Object& live,
                           Value object, const Write& write, bool owners_known) {
  Value& metadata = map_at(object, {"metadata"});
  // What only the server writes.
  for (const char* field : {"uid", "creationTimestamp", "generation", "deletionTimestamp",
                            "deletionGracePeriodSeconds", "resourceVersion", "selfLink"}) {
    metadata.erase(field);
    if (const Value* old = live->find({"metadata", field})) metadata.set(field, *old);
  }
  prepare_update(resource, *live, object, write);
  // Owners are told of what Go would write, not of zeros that were set on the way.
  object = ordered(resource, std::move(object));
  if (!owners_known)
    track_update(*resource.type, *live, object,
                 {write.manager, resource.api_version(), write.subresource, timestamp(),
                  reset_fields(resource, write.subresource)});
  drop_empty_slices(*resource.type, object);
  if (!write.internal) {
    call_webhooks(resource, "UPDATE", object, live.get(), write, true);
  }
  object = ordered(resource, std::move(object));
  if (resource.generation && write.subresource != "status")
    bump_generation(resource, *live, object);
  const std::vector<Cause> causes = validate(resource, object, live.get(), write);
  if (!causes.empty()) throw invalid(resource.group, resource.kind, key.name, causes);
  if (!write.internal) call_webhooks(resource, "UPDATE", object, live.get(), write, false);
  if (equal_but_times(*live, object)) return *live;
  if (write.dry_run) return object;
  const bool deleting = object.find({"metadata", "deletionTimestamp"}) != nullptr;
  const bool waits =
      !is_empty(object.find({"metadata", "finalizers"})) ||
      int_at(object, {"metadata", "deletionGracePeriodSeconds"}) > 0 ||
      (resource.key() == "/namespaces" && !is_empty(object.find({"spec", "finalizers"})));
  if (deleting && !waits) {
    storage_.remove(resource.key(), key);
    return object;
  }
  return *storage_.put(resource.key(), key, std::move(object));
}

void Server::bump_generation(const Resource& resource, const Value& live, Value& object) const {
  const auto wanted = [&](const Value& value) {
    Value out = value;
    out.erase("status");
    Value annotations = Value::map();
    // A Deployment also counts its annotations.
    if (resource.key() == "apps/deployments")
      if (const Value* found = value.find({"metadata", "annotations"})) annotations = *found;
    out.set("metadata", std::move(annotations));
    return out;
  };
  if (wanted(live) == wanted(object)) return;
  set_at(object, {"metadata", "generation"}, num(int_at(live, {"metadata", "generation"}, 0) + 1));
}

Server::Applied Server::apply_object(const Resource& resource, const ObjectKey& key,
                                     const Value& config, const Write& write, bool force) {
  const std::string where =
      fmt::format("({}/{}; {}, Kind={})", text_at(config, {"metadata", "namespace"}), key.name,
                  (resource.group.empty() ? "/" : "") + resource.api_version(), resource.kind);
  const std::vector<std::string> problems = misfits(*resource.type, config);
  if (!problems.empty())
    throw plain_error(fmt::format(
        "failed to create typed patch object {}: {}", where,
        problems.size() == 1 ? problems.front() : "errors:\n  " + join(problems, "\n  ")));
  const Object live = storage_.find(resource.key(), key);
  const Writer writer{write.manager, resource.api_version(), write.subresource, timestamp(),
                      reset_fields(resource, write.subresource)};
  const auto settle = [&](Value object) {
    std::vector<std::string> unknown;
    Value read;
    try {
      read = decode(*resource.type, object, unknown);
      drop_empty_slices(*resource.type, read);
    } catch (const BadType& bad) {
      throw plain_error(
          fmt::format("failed to convert new object {} to proper version: unable to convert "
                      "unstructured object to {}, Kind={}: {}",
                      where, resource.api_version(), resource.kind, bad.message));
    }
    if (resource.custom()) prune_custom(resource, read, unknown);
    read.erase("kind");
    read.erase("apiVersion");
    set_defaults(resource, read);
    return read;
  };
  const std::string revision = text_at(config, {"metadata", "resourceVersion"});
  if (!live) {
    if (!write.subresource.empty()) throw not_found(resource.group, resource.plural, key.name);
    const std::string uid = text_at(config, {"metadata", "uid"});
    if (!uid.empty())
      throw conflict(resource.group, resource.plural, key.name,
                     fmt::format("uid mismatch: the provided object specified uid {}, and no "
                                 "existing object was found",
                                 uid));
    Value fresh = apply(*resource.type, empty_object(resource), config, writer, force);
    set_at(fresh, {"metadata", "name"}, str(key.name));
    return {create(resource, key.space, settle(std::move(fresh)), write), true};
  }
  if (!revision.empty() && revision != text_at(*live, {"metadata", "resourceVersion"}))
    throw conflict(resource.group, resource.plural, key.name, modified);
  Value merged = apply(*resource.type, *live, config, writer, force);
  return {store_update(resource, key, live, settle(std::move(merged)), write, true), false};
}

Reply Server::update_request(Call& call) {
  check_options(call, "UpdateOptions");
  const Resource& resource = *call.resource;
  Value object = read_body(call, resource);
  Write write = write_of(call);
  Reply reply;
  const ObjectKey key = key_of(call);
  const std::string name = text_at(object, {"metadata", "name"});
  if (!name.empty() && name != call.name)
    throw bad_request(fmt::format(
        "the name of the object ({}) does not match the name on the URL ({})", name, call.name));
  if (name.empty())
    throw bad_request(fmt::format(
        "the name of the object ({}) does not match the name on the URL ({})", "", call.name));
  if (call.subresource.empty() && resource.create_on_update &&
      !storage_.find(resource.key(), key)) {
    if (!text_at(object, {"metadata", "resourceVersion"}).empty())
      throw conflict(resource.group, resource.plural, call.name, modified);
    map_at(object, {"metadata"}).erase("managedFields");
    reply.status = 201;
    reply.body = shown(resource, create(resource, call.space, std::move(object), write));
    return reply;
  }
  reply.body = shown(resource, update(
                                   resource, key, [&](const Value&) { return object; }, write));
  return reply;
}

Reply Server::patch_request(Call& call) {
  const Resource& resource = *call.resource;
  const std::string type = media_type(call.header("Content-Type"));
  const bool known = type == "application/json-patch+json" ||
                     type == "application/merge-patch+json" ||
                     (type == "application/strategic-merge-patch+json" && !resource.custom()) ||
                     type == "application/apply-patch+yaml";
  if (!known) {
    if (type == "application/strategic-merge-patch+json")
      throw Failure{415,
                    "UnsupportedMediaType",
                    "the body of the request was in an unknown format - accepted media types "
                    "include: application/json-patch+json, application/merge-patch+json, "
                    "application/apply-patch+yaml",
                    {}};
    throw Failure{415, "UnsupportedMediaType", "415: Unsupported Media Type", Value::map()};
  }
  check_options(call, "PatchOptions");
  Write write = write_of(call);
  Reply reply;
  const ObjectKey key = key_of(call);
  if (type == "application/apply-patch+yaml") return apply_request(call, write);
  Body patch;
  try {
    patch = read_json(call.body);
  } catch (const BadJson& bad) {
    throw bad_request("error decoding patch: " + bad.message);
  }
  if (type == "application/json-patch+json" && !patch.value.is_list())
    throw bad_request(
        "error decoding patch: json: cannot unmarshal object into Go value of type "
        "[]handlers.jsonPatchOp");
  reply.body = shown(resource, update(
                                   resource, key,
                                   [&](const Value& live) {
                                     const Value before = shown(resource, live);
                                     Value after;
                                     if (type == "application/json-patch+json")
                                       after = json_patch(before, patch.value);
                                     else if (type == "application/merge-patch+json")
                                       after = merge_patch(before, patch.value);
                                     else
                                       after = strategic_patch(*resource.type, before, patch.value);
                                     return read_object(resource, after, call, call.warnings,
                                                        patch.duplicates);
                                   },
                                   write));
  return reply;
}

Reply Server::apply_request(Call& call, const Write& write) {
  const Resource& resource = *call.resource;
  Body body;
  try {
    body = read_yaml(call.body);
  } catch (const BadJson& bad) {
    throw bad_request("error decoding YAML: " + bad.message);
  }
  Value& config = body.value;
  const std::string api_version = text_at(config, {"apiVersion"});
  const std::string kind = text_at(config, {"kind"});
  if (api_version.empty() || kind.empty())
    throw plain_error(
        fmt::format("failed to create typed patch object: invalid object type: {}, Kind={}",
                    api_version, kind));
  if (const Value* managed = config.find({"metadata", "managedFields"});
      managed != nullptr && !managed->is_null())
    throw bad_request("metadata.managedFields must be nil");
  if (Value* metadata = config.find("metadata")) metadata->erase("managedFields");
  if (api_version != resource.api_version())
    throw bad_request(fmt::format(
        "Incorrect version specified in apply patch. Specified patch version: {}, expected: {}",
        api_version, resource.api_version()));
  const std::string name = text_at(config, {"metadata", "name"});
  if (!name.empty() && name != call.name)
    throw bad_request(fmt::format(
        "the name of the object ({}) does not match the name on the URL ({})", name, call.name));
  const std::string space = text_at(config, {"metadata", "namespace"});
  if (resource.namespaced && !space.empty() && space != call.space)
    throw bad_request(
        "the namespace of the provided object does not match the namespace sent on the request");
  const std::string force = call.option_or("force", "false");
  Applied applied = apply_object(resource, key_of(call), config, write, !is_false(force));
  Reply reply;
  reply.status = applied.created ? 201 : 200;
  reply.body = shown(resource, applied.object);
  return reply;
}

}  // namespace rocca::lab::kube
