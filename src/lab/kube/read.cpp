#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/kube/controllers/controllers.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/watch.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

std::optional<std::int64_t> number_option(const Call& call, std::string_view name) {
  const auto text = call.option(name);
  if (!text || text->empty()) return std::nullopt;
  const auto number = parse_int(*text);
  if (!number)
    throw bad_request(
        fmt::format("strconv.ParseInt: parsing {}: invalid syntax", in_quotes(*text)));
  return number;
}

Failure bad_list_options(std::vector<Cause> causes) {
  return invalid("meta.k8s.io", "ListOptions", "", causes);
}

void check_match(const Call& call) {
  const std::string match = call.option_or("resourceVersionMatch");
  const std::string revision = call.option_or("resourceVersion");
  const auto initial = call.option("sendInitialEvents");
  std::vector<Cause> causes;
  if (call.watch && !match.empty() && !initial)
    causes.push_back(Cause::forbidden("resourceVersionMatch",
                                      "resourceVersionMatch is forbidden for watch unless "
                                      "sendInitialEvents is provided"));
  if (call.watch && initial && match != "NotOlderThan")
    causes.push_back(Cause::forbidden("resourceVersionMatch",
                                      "sendInitialEvents requires setting resourceVersionMatch to "
                                      "NotOlderThan"));
  if (!call.watch && !match.empty()) {
    if (revision.empty())
      causes.push_back(
          Cause::forbidden("resourceVersionMatch",
                           "resourceVersionMatch is forbidden unless resourceVersion is provided"));
    else if (match != "Exact" && match != "NotOlderThan")
      causes.push_back(Cause::unsupported("resourceVersionMatch", in_quotes(match),
                                          {"Exact", "NotOlderThan", ""}));
    else if (match == "Exact" && revision == "0")
      causes.push_back(Cause::forbidden(
          "resourceVersionMatch",
          "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
    if (!call.option_or("continue").empty())
      causes.push_back(Cause::forbidden("resourceVersionMatch",
                                        "resourceVersionMatch is forbidden when continue is "
                                        "provided"));
  }
  if (!call.watch && initial)
    causes.push_back(
        Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
  if (!causes.empty()) throw bad_list_options(std::move(causes));
}

std::uint64_t read_revision(const std::string& text, bool watch) {
  const auto number = parse_uint(text);
  if (number) return *number;
  const std::string why = fmt::format(
      "resourceVersion: Invalid value: {}: strconv.ParseUint: parsing {}: invalid syntax",
      in_quotes(text), in_quotes(text));
  if (watch) throw plain_error(why);
  throw bad_request("invalid resource version: " + why);
}

void check_fields(const Resource& resource, const FieldSelector& selector) {
  static const std::map<std::string, std::vector<std::string>> more{
      {"/pods",
       {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs",
        "status.nominatedNodeName"}},
      {"/nodes", {"spec.unschedulable"}},
      {"/secrets", {"type"}},
      {"/namespaces", {"status.phase"}},
      {"/services", {"spec.clusterIP", "spec.type"}},
      {"/replicationcontrollers", {"status.replicas"}},
      {"/events",
       {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
        "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
        "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"}},
      {"batch/jobs", {"status.successful"}},
      {"certificates.k8s.io/certificatesigningrequests", {"spec.signerName"}}};
  const auto known = more.find(resource.key());
  for (const std::string& field : selector.fields()) {
    if (field == "metadata.name") continue;
    if (field == "metadata.namespace" && (resource.namespaced || known == more.end())) continue;
    if (known != more.end()) {
      if (std::find(known->second.begin(), known->second.end(), field) == known->second.end())
        throw bad_request(
            resource.key() == "batch/jobs"
                ? fmt::format("field label {} not supported for Job", in_quotes(field))
                : "field label not supported: " + field);
      continue;
    }
    if (std::find(resource.selectable.begin(), resource.selectable.end(), field) !=
        resource.selectable.end())
      continue;
    if (resource.custom()) throw bad_request("field label not supported: " + field);
    throw bad_request(fmt::format(
        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        in_quotes(field)));
  }
}

Failure too_large(std::uint64_t wanted, std::uint64_t current) {
  Failure failure{504, "Timeout",
                  fmt::format("Too large resource version: {}, current: {}", wanted, current),
                  Value::map()};
  failure.details.set(
      "causes",
      json(fmt::format(
          R"([{{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}}])")));
  failure.details.set("retryAfterSeconds", num(1));
  failure.headers.add("Retry-After", "1");
  return failure;
}

/// Opaque to clients; ours names the revision and where to go on.
std::string continue_token(std::uint64_t revision, const ObjectKey& last) {
  return to_base64url(fmt::format(R"({{"v":"meta.k8s.io/v1","rv":{},"start":"{}/{}\u0000"}})",
                                  revision, last.space, last.name));
}

struct Continue {
  std::uint64_t revision = 0;
  ObjectKey last;
};

Continue read_token(const std::string& token) {
  const auto bytes = from_base64url(token);
  if (!bytes) throw bad_request("continue key is not valid: illegal base64 data at input byte 0");
  try {
    const Body body = read_json(*bytes);
    Continue out;
    out.revision = static_cast<std::uint64_t>(int_at(body.value, {"rv"}));
    const std::string start = text_at(body.value, {"start"});
    const std::size_t slash = start.find('/');
    if (slash == std::string::npos || out.revision == 0) throw BadJson{"incorrect encoded start"};
    out.last = {start.substr(0, slash), start.substr(slash + 1, start.size() - slash - 2)};
    return out;
  } catch (const BadJson& bad) {
    throw bad_request("invalid continue token: continue key is not valid: " + bad.message);
  }
}

}  // namespace

Object Server::get(const Resource& resource, const ObjectKey& key) const {
  Object found = storage_.find(resource.key(), key);
  if (!found) throw not_found(resource.group, resource.plural, key.name);
  return found;
}

Value Server::shown(const Resource& resource, const Value& object) const {
  Value out = Value::map();
  out.set("kind", str(resource.kind));
  out.set("apiVersion", str(resource.api_version()));
  for (const text::Entry& entry : object.entries())
    if (entry.key != "kind" && entry.key != "apiVersion") out.set(entry.key, entry.value);
  // Kubelets renew their Leases every ten seconds; that costs nothing until somebody looks.
  if (resource.plural == "leases" &&
      text_at(object, {"metadata", "namespace"}) == "kube-node-lease" &&
      kubelets.contains(text_at(object, {"spec", "holderIdentity"})))
    set_at(out, {"spec", "renewTime"}, str(micro_timestamp()));
  return out;
}

Reply Server::read_one(Call& call) {
  const std::string revision = call.option_or("resourceVersion");
  if (!revision.empty() && read_revision(revision, true) > storage_.revision())
    throw too_large(*parse_uint(revision), storage_.revision());
  Reply reply;
  const Object found = get(*call.resource, key_of(call));
  check_conversion(*call.resource);
  reply.body = shown(*call.resource, *found);
  return reply;
}

Reply Server::list(Call& call) {
  const Resource& resource = *call.resource;
  const auto limit = number_option(call, "limit");
  number_option(call, "timeoutSeconds");
  check_match(call);
  const std::string token = call.option_or("continue");
  const std::string wanted = call.option_or("resourceVersion");
  const std::string match = call.option_or("resourceVersionMatch");
  if (!token.empty() && !wanted.empty() && wanted != "0")
    throw bad_request("specifying resource version is not allowed when using continue");
  const LabelSelector labels = LabelSelector::parse(call.option_or("labelSelector"));
  const FieldSelector fields = FieldSelector::parse(call.option_or("fieldSelector"));
  check_fields(resource, fields);

  std::uint64_t revision = storage_.revision();
  const Storage::Objects* objects = &storage_.all(resource.key());
  Storage::Objects past;
  Continue from;
  const auto gone = [](const std::string& text) { return Failure{410, "Expired", text, {}}; };
  if (!token.empty()) {
    from = read_token(token);
    revision = from.revision;
    if (revision < storage_.compacted()) {
      Failure failure = gone(
          "The provided continue parameter is too old to display a consistent list result. You can "
          "start a new list without the continue parameter, or use the continue token in this "
          "response to retrieve the remainder of the results. Continuing with the provided token "
          "results in an inconsistent list - objects that were created, modified, or deleted "
          "between the time the first chunk was returned and now may show up in the list.");
      failure.metadata.set("continue", str(continue_token(storage_.revision(), from.last)));
      throw failure;
    }
    past = storage_.at(resource.key(), revision);
    objects = &past;
  } else if (!wanted.empty()) {
    const std::uint64_t asked = read_revision(wanted, false);
    if (asked > storage_.revision()) throw too_large(asked, storage_.revision());
    if (match == "Exact") {
      if (asked < storage_.compacted())
        throw gone("The resourceVersion for the provided list is too old.");
      revision = asked;
      past = storage_.at(resource.key(), revision);
      objects = &past;
    }
  }
  if (!objects->empty()) check_conversion(resource);
  Value items = Value::list();
  std::optional<ObjectKey> last;
  std::size_t left = 0;
  // What comes from the cache comes whole.
  const bool cached = wanted == "0" && match != "Exact" && token.empty();
  const std::size_t most =
      !cached && limit && *limit > 0 ? static_cast<std::size_t>(*limit) : SIZE_MAX;
  for (const auto& [key, object] : *objects) {
    if (!call.space.empty() && key.space != call.space) continue;
    if (!token.empty() && key <= from.last) continue;
    // Whether more objects follow is seen without looking into them.
    if (items.size() >= most) {
      ++left;
      continue;
    }
    if (!labels.matches(*object) || !fields.matches(*object)) continue;
    last = key;
    if (resource.custom()) {
      items.append(shown(resource, *object));
    } else {
      Value item = *object;
      item.erase("kind");
      item.erase("apiVersion");
      items.append(std::move(item));
    }
  }
  Value metadata = Value::map();
  if (resource.custom()) metadata.set("continue", str(""));
  metadata.set("resourceVersion", str(std::to_string(revision)));
  if (left > 0) {
    metadata.set("continue", str(continue_token(revision, *last)));
    // With a selector the server does not count.
    if (labels.empty() && fields.empty())
      metadata.set("remainingItemCount", num(static_cast<std::int64_t>(left)));
  }
  Reply reply;
  reply.body = Value::map();
  reply.body.set("kind", str(resource.list_kind));
  reply.body.set("apiVersion", str(resource.api_version()));
  reply.body.set("metadata", std::move(metadata));
  reply.body.set("items", std::move(items));
  if (resource.custom()) {
    // Custom lists are written by key.
    Value sorted = Value::map();
    for (const char* key : {"apiVersion", "items", "kind", "metadata"})
      sorted.set(key, std::move(*reply.body.find(key)));
    reply.body = std::move(sorted);
  }
  return reply;
}

namespace {

std::string event_line(const char* type, const Value& object) {
  Value event = Value::map();
  event.set("type", str(type));
  event.set("object", object);
  return text::emit_json(event) + "\n";
}

}  // namespace

void Server::start_watch(Call& call, const std::shared_ptr<net::Responder>& to) {
  const Resource& resource = *call.resource;
  if (!resource.can("watch")) throw method_not_allowed();
  const auto timeout = number_option(call, "timeoutSeconds");
  number_option(call, "limit");
  check_match(call);
  Watch watch;
  watch.to = to;
  watch.resource = resource.key();
  watch.space = call.space;
  watch.labels = LabelSelector::parse(call.option_or("labelSelector"));
  std::string fields = call.option_or("fieldSelector");
  if (!call.name.empty()) fields = "metadata.name=" + call.name;
  watch.fields = FieldSelector::parse(fields);
  check_fields(resource, watch.fields);
  watch.bookmarks =
      call.option("allowWatchBookmarks") && !is_false(call.option_or("allowWatchBookmarks"));
  const std::string text = call.option_or("resourceVersion");
  const std::uint64_t from = text.empty() ? 0 : read_revision(text, true);
  const auto initial = call.option("sendInitialEvents");
  const bool stream_list = initial && !is_false(*initial);
  watch.call = call;
  watch.call.body.clear();

  net::Headers headers;
  headers.add("Content-Type", "application/json");
  headers.add("Cache-Control", "no-cache, private");
  if (from > storage_.revision()) throw too_large(from, storage_.revision());
  to->begin(200, "", std::move(headers));
  const auto write = [&](const char* type, const Value& object) {
    Reply reply;
    reply.body = object;
    reply = negotiate(watch.call, std::move(reply));
    to->write(event_line(type, reply.body));
  };
  const auto too_old = [&](std::uint64_t oldest) {
    const Failure failure{
        410, "Expired", fmt::format("too old resource version: {} ({})", from, oldest), {}};
    to->write(event_line("ERROR", failure.status()));
    to->finish({});
  };
  if (from != 0 && !stream_list &&
      (from < storage_.compacted() || (started_at_ != 0 && from <= started_at_)))
    return too_old(std::max(storage_.compacted(), started_at_) + 1);
  const bool quiet = initial && !stream_list && from == 0;
  if ((from == 0 || stream_list) && !quiet) {
    for (const auto& [key, object] : storage_.all(resource.key()))
      if (watch.wants(key, *object)) write("ADDED", shown(resource, *object));
    if (stream_list && watch.bookmarks) {
      Value mark = answer_bookmark(resource);
      set_at(mark, {"metadata", "annotations", "k8s.io/initial-events-end"}, str("true"));
      write("BOOKMARK", mark);
    }
  } else if (from != 0) {
    for (const Change& change : storage_.history()) {
      if (change.revision <= from || change.resource != watch.resource) continue;
      const bool was = change.before && watch.wants(change.key, *change.before);
      const bool is = change.after && watch.wants(change.key, *change.after);
      if (is)
        write(was ? "MODIFIED" : "ADDED", shown(resource, *change.after));
      else if (was && change.after)
        write("DELETED", shown(resource, *change.after));
      else if (was)
        write("DELETED", shown(resource, *change.last));
    }
  }
  watch.from = storage_.revision();
  // Without a wish the server ends a watch somewhere between 30 and 60 minutes.
  const Duration length =
      timeout ? Duration{std::chrono::seconds{*timeout}}
              : std::chrono::seconds{1800 + static_cast<std::int64_t>(entropy_.below(1800))};
  watch.deadline = world_.now() + length;
  watches_.push_back(std::move(watch));
  const auto place = std::prev(watches_.end());
  const auto end = [this, to] {
    const auto found = std::find_if(watches_.begin(), watches_.end(),
                                    [&](const Watch& one) { return one.to == to; });
    if (found == watches_.end()) return;
    world_.cancel(found->ends);
    if (found->marks != 0) world_.cancel(found->marks);
    watches_.erase(found);
  };
  place->ends = controllers_->later(length, [end, to] {
    end();
    to->finish({});
  });
  if (place->bookmarks) {
    // The watch cache sends one about every minute, and one two seconds before the end.
    const Duration first =
        length > std::chrono::seconds{2} ? length - std::chrono::seconds{2} : Duration{0};
    if (first > Duration{0})
      place->marks = controllers_->later(std::min<Duration>(first, std::chrono::minutes{1}),
                                         [this, to] { bookmark(to); });
  }
  to->on_gone(end);
}

void Server::bookmark(const std::shared_ptr<net::Responder>& to) {
  const auto found = std::find_if(watches_.begin(), watches_.end(),
                                  [&](const Watch& one) { return one.to == to; });
  if (found == watches_.end()) return;
  const Resource* resource =
      kinds_.find(found->call.group, found->call.version, found->call.plural);
  if (resource == nullptr) return;
  to->write(event_line("BOOKMARK", answer_bookmark(*resource)));
  // Two mark the end of a watch, a second apart.
  const bool at_the_end = found->deadline - world_.now() <= std::chrono::seconds{2};
  found->marks = controllers_->later(
      at_the_end ? Duration{std::chrono::seconds{1}}
                 : std::min<Duration>(std::chrono::minutes{1},
                                      found->deadline - world_.now() - std::chrono::seconds{2}),
      [this, to] { bookmark(to); });
}

Value Server::answer_bookmark(const Resource& resource) const {
  Value mark = Value::map();
  mark.set("kind", str(resource.kind));
  mark.set("apiVersion", str(resource.api_version()));
  set_at(mark, {"metadata", "resourceVersion"}, str(std::to_string(storage_.revision())));
  // Go writes the struct's fields that are never left out.
  if (!resource.custom())
    for (const Field& field : resource.type->fields)
      if (field.always && field.name != "metadata") {
        std::vector<std::string> unknown;
        const Value empty = Value::map();
        if (field.type->form == Type::Form::Struct)
          mark.set(field.name, decode(*field.type, empty, unknown));
      }
  return mark;
}

void Server::deliver(const Change& change) {
  std::vector<std::shared_ptr<net::Responder>> gone;
  for (Watch& watch : watches_) {
    if (watch.resource != change.resource || change.revision <= watch.from) continue;
    const bool was = change.before && watch.wants(change.key, *change.before);
    const bool is = change.after && watch.wants(change.key, *change.after);
    if (!was && !is) continue;
    const Resource* resource = kinds_.find(watch.call.group, watch.call.version, watch.call.plural);
    if (resource == nullptr) continue;
    const Value& object = change.after ? *change.after : *change.last;
    Reply reply;
    reply.body = shown(*resource, object);
    reply = negotiate(watch.call, std::move(reply));
    watch.to->write(event_line(is ? (was ? "MODIFIED" : "ADDED") : "DELETED", reply.body));
  }
}

}  // namespace rocca::lab::kube
