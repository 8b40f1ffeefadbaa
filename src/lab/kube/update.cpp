#include "base/strings.hpp"
#include "lab/kube/patch.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/server.hpp"
#include "lab/kube/warnings.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

std::string media_type(const std::string& header) {
  return std::string(trim(std::string_view(header).substr(0, header.find(';'))));
}

Failure nameless(const std::string& name) {
  return bad_request(fmt::format(
      "the name of the object ({} based on URL) was undeterminable: name must be provided", name));
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

/// Where etcd keeps an object: what a failed precondition names.
std::string registry_key(const Resource& resource, const ObjectKey& key, bool dry_run) {
  static const std::map<std::string, std::string> special{
      {"/services", "services/specs"},
      {"/endpoints", "services/endpoints"},
      {"/nodes", "minions"},
      {"networking.k8s.io/ingresses", "ingress"},
      {"apiextensions.k8s.io/customresourcedefinitions",
       "apiextensions.k8s.io/customresourcedefinitions"},
      {"apiregistration.k8s.io/apiservices", "apiregistration.k8s.io/apiservices"}};
  const auto found = special.find(resource.key());
  std::string path = found != special.end() ? found->second
                     : resource.custom()    ? resource.key()
                                            : resource.plural;
  if (resource.namespaced) path += "/" + key.space;
  return fmt::format("{}/{}/{}", dry_run ? "" : "/registry", path, key.name);
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
  } else {
    metadata.erase("namespace");
  }
  const std::string uid = text_at(metadata, {"uid"});
  const std::string live_uid = text_at(*live, {"metadata", "uid"});
  if (!uid.empty() && uid != live_uid && !write.patch)
    throw conflict(resource.group, resource.plural, key.name,
                   fmt::format("StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: "
                               "0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
                               "{}, UID in object meta: {}",
                               registry_key(resource, key, write.dry_run), uid, live_uid));
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
  const Value sent = metadata;
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
  // Behind a feature gate that is off; who sent them owns them all the same.
  if (resource.kind == "Lease" && !resource.custom())
    for (const char* field : {"strategy", "preferredHolder"}) map_at(object, {"spec"}).erase(field);
  if (!write.internal) {
    call_webhooks(resource, "UPDATE", object, live.get(), write, true);
  }
  object = ordered(resource, std::move(object));
  // Drivers have no generation until their first change.
  const bool counted = resource.generation || resource.key() == "storage.k8s.io/csidrivers";
  if (counted && write.subresource != "status") bump_generation(resource, *live, object);
  Write checked = write;
  checked.sent = &sent;
  const std::vector<Cause> causes = validate(resource, object, live.get(), checked);
  if (!causes.empty()) throw invalid(resource.group, resource.kind, key.name, causes);
  if (!write.internal) call_webhooks(resource, "UPDATE", object, live.get(), write, false);
  if (write.warnings != nullptr && !write.internal && write.subresource.empty())
    for (std::string& one : warnings_of(resource, object)) {
      const std::vector<std::string> known = warnings_of(resource, *live);
      const bool old = std::find(known.begin(), known.end(), one) != known.end();
      if (!old || one.find("terminationGracePeriodSeconds") == std::string::npos)
        write.warnings->push_back(std::move(one));
    }
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
    // An EndpointSlice its labels.
    if (resource.key() == "discovery.k8s.io/endpointslices")
      if (const Value* found = value.find({"metadata", "labels"})) annotations = *found;
    out.set("metadata", std::move(annotations));
    return out;
  };
  // Counted at creation and never again.
  if (resource.key() == "scheduling.k8s.io/priorityclasses") return;
  if (wanted(live) == wanted(object)) return;
  set_at(object, {"metadata", "generation"}, num(int_at(live, {"metadata", "generation"}, 0) + 1));
}

namespace {

/// A patch whose outcome cannot be decoded is invalid, where a body would be a bad request.
Value read_patched(const Server& server, const Resource& resource, const Value& after, Call& call,
                   const std::vector<std::string>& duplicates) {
  try {
    return server.read_object(resource, after, call, call.warnings, duplicates);
  } catch (const Failure& failure) {
    const std::size_t reason = failure.message.find(" cannot be handled as a ");
    if (failure.code != 400 || reason == std::string::npos) throw;
    const std::size_t why = failure.message.find(": ", reason);
    const std::vector<Cause> causes{Cause::invalid("patch", in_quotes(text::emit_json(after)),
                                                   failure.message.substr(why + 2))};
    throw invalid("", "", "", causes);
  }
}

/// The times of the metadata are decoded like all others, though nobody owns them.
void check_times(const Value& config, const std::string& where, const Resource& resource) {
  for (const char* field : {"creationTimestamp", "deletionTimestamp"})
    if (const std::string text = text_at(config, {"metadata", field});
        !text.empty() && !is_time(text))
      throw plain_error(fmt::format(
          "failed to convert new object {} to proper version: unable to convert unstructured "
          "object to {}, Kind={}: parsing time {} as \"2006-01-02T15:04:05Z07:00\": cannot parse "
          "{} as \"2006\"",
          where, resource.api_version(), resource.kind, in_quotes(text), in_quotes(text)));
}

}  // namespace

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
  if (!resource.custom()) check_times(config, where, resource);
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
  const std::string uid = text_at(config, {"metadata", "uid"});
  if (!uid.empty() && uid != text_at(*live, {"metadata", "uid"})) {
    const std::vector<Cause> causes{
        Cause::invalid("metadata.uid", in_quotes(uid), "field is immutable")};
    throw invalid(resource.group, resource.kind, key.name, causes);
  }
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
  if (name.empty()) throw nameless(call.name);
  if (call.subresource.empty() && resource.create_on_update &&
      !storage_.find(resource.key(), key)) {
    if (const std::string uid = text_at(object, {"metadata", "uid"}); !uid.empty())
      throw conflict(resource.group, resource.plural, call.name,
                     fmt::format("StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: "
                                 "0, AdditionalErrorMsg: Precondition failed: UID in "
                                 "precondition: {}, UID in object meta: ",
                                 registry_key(resource, key, write.dry_run), uid));
    const std::string space = text_at(object, {"metadata", "namespace"});
    if (resource.namespaced && !space.empty() && space != call.space)
      throw bad_request(
          "the namespace of the provided object does not match the namespace sent on the request");
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
    if (type == "application/strategic-merge-patch+json" || resource.custom())
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
  write.patch = true;
  Reply reply;
  const ObjectKey key = key_of(call);
  if (type == "application/apply-patch+yaml") return apply_request(call, write);
  Body patch;
  try {
    patch = read_json(call.body);
  } catch (const BadJson& bad) {
    throw bad_request("error decoding patch: " + bad.message);
  }
  // Everything below reads the object first.
  get(resource, key);
  if (type != "application/json-patch+json" && !patch.value.is_map())
    throw bad_request(
        fmt::format("{}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    type == "application/merge-patch+json" ? "error decoding patch: " : "",
                    patch.value.is_list() ? "array" : "string"));
  if (type == "application/json-patch+json" && !patch.value.is_list())
    throw bad_request(
        "error decoding patch: json: cannot unmarshal object into Go value of type "
        "[]handlers.jsonPatchOp");
  reply.body =
      shown(resource, update(
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
                            if (text_at(after, {"metadata", "name"}).empty())
                              throw nameless(call.name);
                            return read_patched(*this, resource, after, call, patch.duplicates);
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
  if (!config.is_map() && !config.is_null())
    throw bad_request(fmt::format(
        "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
        "{} into Go value of type map[string]interface {{}}",
        config.is_list() ? "array" : "string"));
  if (const Value* managed = config.find({"metadata", "managedFields"});
      managed != nullptr && !managed->is_null())
    throw bad_request("metadata.managedFields must be nil");
  if (Value* metadata = config.find("metadata")) metadata->erase("managedFields");
  const Resource* typed = kinds_.find_kind(api_version, kind);
  if (typed == nullptr || kind != resource.kind)
    throw bad_request(fmt::format("invalid object type: {}{}, Kind={}",
                                  api_version.find('/') == std::string::npos ? "/" : "",
                                  api_version, kind));
  if (typed->key() != resource.key() || api_version != resource.api_version())
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
