#include "kubernetes/object_set.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "kubernetes/blockers.hpp"
#include "platform/resource_base.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>

namespace rocca::resources {

using kube::Failure;
using kube::Name;
using kube::text_at;
using kube::Verdict;
using text::Value;

namespace {

constexpr const char* ours = "rocca";

/// The digest is a mark, not a proof: half of it is enough.
std::string mark_of(const Value& object) {
  return digest(text::emit_json(object)).substr(0, 32);
}

bool same(const Name& a, const Name& b) {
  return a.kind == b.kind && a.space == b.space && a.name == b.name && a.group() == b.group();
}

bool contains(const std::vector<Name>& names, const Name& name) {
  return std::any_of(names.begin(), names.end(), [&](const Name& one) { return same(one, name); });
}

/// Is everything that is declared there, in just these words?
bool covers(const Value& live, const Value& declared) {
  if (declared.is_map()) {
    if (!live.is_map()) return declared.size() == 0;
    return std::all_of(
        declared.entries().begin(), declared.entries().end(), [&](const text::Entry& entry) {
          const Value* found = live.find(entry.key);
          return found != nullptr ? covers(*found, entry.value) : entry.value.is_null();
        });
  }
  if (declared.is_list()) {
    if (!live.is_list() || live.size() != declared.size()) return false;
    for (std::size_t i = 0; i < declared.size(); ++i)
      if (!covers(live.items()[i], declared.items()[i])) return false;
    return true;
  }
  return live == declared;
}

/// Can it be tried again later?
bool is_late(const Failure& failure) {
  if (failure.unanswered_webhook()) return true;
  if (failure.status == 404) return true;  // its kind or its namespace is not there yet
  return failure.remedy() == kube::Remedy::Retry || failure.remedy() == kube::Remedy::Wait;
}

bool is_going(const Value& live) {
  return live.find({"metadata", "deletionTimestamp"}) != nullptr;
}

/// Who keeps an object that was deleted: ` (held by finalizers.fluxcd.io)`.
std::string holders(const Value& live) {
  std::vector<std::string> names;
  if (const Value* list = live.find({"metadata", "finalizers"}); list && list->is_list())
    for (const Value& one : list->items()) names.push_back(one.text());
  return names.empty() ? "" : fmt::format(" (held by {})", join(names, ", "));
}

/// How it differs from what is wanted; nothing: it does not.
std::optional<SetDifference> difference(kube::Client& client, const std::string& path,
                                        const kube::Manifest& wanted, const Value& live) {
  if (is_going(live))
    return SetDifference{wanted.name, "is going away" + holders(live), true, true};
  const std::string mark = text_at(wanted.object, {"metadata", "annotations", applied_annotation});
  const bool marked = text_at(live, {"metadata", "annotations", applied_annotation}) == mark;
  if (marked && kube::is_applied_by(live, ours) && covers(live, wanted.object)) return std::nullopt;
  // Kubernetes writes many things in its own words (`1000m` is `1`): it is asked how this would be.
  const auto rehearsed = client.try_apply(path, wanted.object, true);
  if (const auto* failure = std::get_if<Failure>(&rehearsed))
    return SetDifference{wanted.name, failure->message, is_late(*failure)};
  const auto fields = kube::differing_fields(
      kube::without_bookkeeping(live), kube::without_bookkeeping(std::get<Value>(rehearsed)), 4);
  if (fields.empty()) return std::nullopt;
  return SetDifference{wanted.name, join(fields, ", "), false};
}

/// The parameters of a StorageClass cannot be changed, and only new volumes read them: it is
/// deleted and created again.
bool is_fixed_class(const Name& name, const Failure& failure) {
  return name.kind == "StorageClass" && failure.reason == kube::Reason::Invalid;
}

[[noreturn]] void refuse_object(const kube::Manifest& manifest, const Failure& failure) {
  Error error = failure.error(fmt::format("applying {}", manifest.name.text()), true);
  if (failure.reason == kube::Reason::Invalid &&
      failure.message.find("immutable") != std::string::npos)
    error.hint("what changed cannot be changed in place: remove the object, and it is made anew");
  error.during(fmt::format("applying {} ({})", manifest.name.text(), manifest.place));
  throw error;
}

const kube::Manifest* find_manifest(const ObjectSet& set, const Name& name) {
  for (const kube::Manifest& manifest : set.objects)
    if (same(manifest.name, name)) return &manifest;
  return nullptr;
}

/// Some objects are others' work, and only fields of them are ours: a Node is made by its kubelet.
bool is_made_by_others(const Name& name) {
  return name.kind == "Node" && name.group().empty();
}

/// Ours, and nobody else's: its label and its fields say so.
bool is_ours(const Value& live, const std::string& set) {
  return text_at(live, {"metadata", "labels", set_label}) == set &&
         kube::is_applied_by(live, ours) && !kube::flux_owner(live);
}

}  // namespace

ObjectSet make_set(std::string name, std::vector<kube::Manifest> objects) {
  ObjectSet set;
  set.name = std::move(name);
  for (kube::Manifest& manifest : objects) {
    if (const auto kind = kube::stable_kind(manifest.name.api_version, manifest.name.kind))
      kube::set_default_space(manifest, kind->namespaced, "default");
    kube::set_label(manifest.object, set_label, set.name);
    const std::string mark = mark_of(manifest.object);
    Value* metadata = manifest.object.find("metadata");
    Value* annotations = metadata->find("annotations");
    if (annotations == nullptr || !annotations->is_map())
      annotations = &metadata->set("annotations", Value::map());
    annotations->set(applied_annotation, Value::string(mark));
  }
  set.objects = kube::ordered(std::move(objects));
  return set;
}

namespace {

/// What carries the label of a set, of all kinds that it has or had: also what a run that was cut
/// short left behind and nobody remembers.
std::vector<std::pair<Name, Value>> labelled(kube::Client& client, kube::Discovery& discovery,
                                             const ObjectSet& set,
                                             const std::vector<Name>& before) {
  std::set<std::pair<std::string, std::string>> kinds;
  for (const kube::Manifest& manifest : set.objects)
    kinds.emplace(manifest.name.api_version, manifest.name.kind);
  for (const Name& name : before) kinds.emplace(name.api_version, name.kind);
  std::vector<std::pair<Name, Value>> all;
  for (const auto& kind : kinds) {
    const auto served = discovery.find(kind.first, kind.second);
    if (!served) continue;
    for (Value& object :
         client.list(kube::path_of({served->group, served->version, served->plural}, ""),
                     {{"labelSelector", fmt::format("{}={}", set_label, set.name)}})) {
      // Items of a list leave these out.
      object.set("apiVersion", Value::string(kind.first));
      object.set("kind", Value::string(kind.second));
      all.emplace_back(kube::name_of(object), std::move(object));
    }
  }
  return all;
}

}  // namespace

namespace {

/// Why the Job that installs this set has to run again; empty: it runs, or has done its work.
std::string why_again(kube::Client& client, kube::Discovery& discovery, const ObjectSet& set,
                      const Value& job) {
  const Verdict verdict = kube::job_complete(job);
  if (verdict.hopeless) return "failed";
  if (!verdict.done) return "";
  for (const Name& name : set.installs) {
    const auto path = discovery.find_path(name);
    if (!path || !client.find(*path))
      return fmt::format("complete, but {} is missing", name.text());
  }
  return "";
}

}  // namespace

SetSight look(kube::Client& client, kube::Discovery& discovery, const ObjectSet& set,
              const std::vector<Name>& before) {
  SetSight sight;
  auto ours_by_label = labelled(client, discovery, set, before);
  const auto find = [&](const Name& name, const std::string& path) -> std::optional<Value> {
    for (auto& [known, object] : ours_by_label)
      if (same(known, name)) return std::move(object);
    return client.find(path);
  };
  bool any_live = false;
  std::optional<std::pair<Name, Value>> ended;  // the Job that installs the set
  for (const kube::Manifest& manifest : set.objects) {
    const auto path = discovery.find_path(manifest.name);
    const auto live = path ? find(manifest.name, *path) : std::nullopt;
    if (!live) {
      if (contains(set.handed, manifest.name))
        sight.kept.push_back(manifest.name);  // Flux has taken it, and then taken it away
      else if (!path)
        sight.differ.push_back({manifest.name, "absent; its kind is not served yet", true});
      else
        sight.differ.push_back({manifest.name, "absent", is_made_by_others(manifest.name)});
      continue;
    }
    any_live = true;
    if (kube::flux_owner(*live)) {
      sight.kept.push_back(manifest.name);
      if (kube::is_applied_by(*live, ours)) sight.release.push_back(manifest.name);
      continue;
    }
    sight.there.push_back(manifest.name);
    if (auto how = difference(client, *path, manifest, *live)) sight.differ.push_back(*how);
    if (manifest.name.kind == "Job" && !set.installs.empty()) ended = {manifest.name, *live};
  }
  if (set.returns && !any_live)
    for (Name& name : std::exchange(sight.kept, {}))
      sight.differ.push_back({std::move(name), "absent", false});
  for (const auto& [name, live] : ours_by_label) {
    if (find_manifest(set, name) != nullptr || !is_ours(live, set.name)) continue;
    sight.superfluous.push_back(name);
    sight.there.push_back(name);
  }
  if (sight.applied()) {
    ObjectSet ours_only = set;
    ours_only.handed = sight.kept;
    const Verdict verdict = until_ready(client, discovery, ours_only);
    if (!verdict.done) sight.waiting_for = verdict.waiting_for;
    sight.hopeless = verdict.hopeless;
    if (!verdict.done && ended)
      if (const std::string why = why_again(client, discovery, set, ended->second); !why.empty()) {
        sight.differ.push_back({ended->first, why + " → run again", false, false, true});
        sight.waiting_for.clear();
        sight.hopeless = false;
      }
  }
  return sight;
}

std::optional<Name> carry_out(kube::Client& client, kube::Discovery& discovery,
                              const ObjectSet& set, const SetSight& sight) {
  // To apply what is being deleted changes nothing: it goes all the same. While it holds its
  // namespace up, nothing else can be made there either.
  for (const SetDifference& one : sight.differ)
    if (one.going) return one.name;
  for (const SetDifference& one : sight.differ)
    if (one.again) {
      remove_objects(client, discovery, set.name, {one.name});
      return one.name;
    }
  std::vector<const kube::Manifest*> pending;  // applied, and others may need them
  for (const kube::Manifest& manifest : set.objects) {
    // What is of a later stage needs what came before it to be there.
    if (!pending.empty() &&
        kube::stage_of(manifest.name) != kube::stage_of(pending.front()->name)) {
      for (const kube::Manifest* earlier : pending)
        for (const kube::Wait& wait : kube::waits_for(earlier->object)) {
          if (kube::stage_of(earlier->name) != kube::Stage::Definitions) continue;
          const Verdict verdict = kube::check(client, discovery, wait);
          if (verdict.hopeless)
            throw Error(Fault::Rejected, verdict.waiting_for)
                .during(fmt::format("applying {} ({})", earlier->name.text(), earlier->place));
          if (!verdict.done) return earlier->name;
        }
      pending.clear();
    }
    const bool differs =
        std::any_of(sight.differ.begin(), sight.differ.end(),
                    [&](const SetDifference& one) { return same(one.name, manifest.name); });
    if (kube::stage_of(manifest.name) == kube::Stage::Definitions &&
        !contains(sight.kept, manifest.name))
      pending.push_back(&manifest);
    if (!differs) continue;
    const auto path = discovery.find_path(manifest.name);
    if (!path || (is_made_by_others(manifest.name) && !client.find(*path))) return manifest.name;
    auto answer = client.try_apply(*path, manifest.object, false);
    if (const auto* failure = std::get_if<Failure>(&answer);
        failure != nullptr && is_fixed_class(manifest.name, *failure)) {
      client.remove(*path);
      answer = client.try_apply(*path, manifest.object, false);
    }
    if (const auto* failure = std::get_if<Failure>(&answer)) {
      if (is_late(*failure)) return manifest.name;
      refuse_object(manifest, *failure);
    }
  }
  release_kept(client, discovery, sight.release);
  remove_objects(client, discovery, set.name, sight.superfluous);
  return std::nullopt;
}

Verdict until_applicable(kube::Client& client, kube::Discovery& discovery, const ObjectSet& set,
                         const Name& name) {
  const kube::Manifest* manifest = find_manifest(set, name);
  if (manifest == nullptr) return Verdict::ready();
  const auto path = discovery.find_path(manifest->name);
  if (!path)
    return Verdict::wait(
        fmt::format("{} to be served, for {}", manifest->name.api_version, manifest->name.text()));
  const auto live = client.find(*path);
  const bool there = live.has_value();
  if (there && is_going(*live))
    return Verdict::wait(fmt::format("{} to be gone, which somebody has deleted{}",
                                     manifest->name.text(), holders(*live)));
  if (!there && is_made_by_others(manifest->name))
    return Verdict::wait(fmt::format("{} to be there", manifest->name.text()));
  if (there) {
    // It is there: what others need of it is that it works.
    for (const kube::Wait& wait : kube::waits_for(manifest->object)) {
      if (kube::stage_of(manifest->name) != kube::Stage::Definitions) break;
      Verdict verdict = kube::check(client, discovery, wait);
      if (!verdict.done) return verdict;
    }
  }
  const auto rehearsed = client.try_apply(*path, manifest->object, true);
  Verdict verdict = kube::webhook_answers(rehearsed);
  if (verdict.done) return verdict;
  const auto& failure = std::get<Failure>(rehearsed);
  if (failure.unanswered_webhook())
    verdict.waiting_for += webhook_behind(client, discovery, failure.message);
  verdict.waiting_for = fmt::format("{}, for {}", verdict.waiting_for, manifest->name.text());
  return verdict;
}

namespace {

bool is_node_condition(const kube::Wait& wait) {
  return wait.what == kube::Wait::For::Condition && is_made_by_others(wait.name);
}

/// Conditions of many Nodes cost one list, not one question for each.
Verdict check_nodes(kube::Client& client, const std::vector<kube::Wait>& waits) {
  std::map<std::string, const kube::Wait*> open;
  for (const kube::Wait& wait : waits)
    if (is_node_condition(wait)) open.emplace(wait.name.name, &wait);
  if (open.empty()) return Verdict::ready();
  std::string unready;
  for (const Value& node : client.list(kube::path_of(kube::nodes, ""))) {
    const auto wait = open.find(text_at(node, {"metadata", "name"}));
    if (wait == open.end()) continue;
    const Value* condition = kube::find_condition(node, wait->second->detail);
    if (condition == nullptr || text_at(*condition, {"status"}) != "True") {
      if (unready.empty()) unready = wait->second->text();
      if (condition != nullptr && unready == wait->second->text())
        unready += fmt::format(" ({}: {})", text_at(*condition, {"reason"}),
                               text_at(*condition, {"message"}));
    }
    open.erase(wait);
  }
  if (!open.empty())
    return Verdict::wait(fmt::format("{} (it is not there)", open.begin()->second->text()));
  return unready.empty() ? Verdict::ready() : Verdict::wait(unready);
}

}  // namespace

Verdict until_ready(kube::Client& client, kube::Discovery& discovery, const ObjectSet& set) {
  std::vector<kube::Wait> waits;
  for (const kube::Manifest& manifest : set.objects)
    // Whether what Flux keeps is ready is Flux's to say.
    if (!contains(set.handed, manifest.name))
      for (kube::Wait& wait : kube::waits_for(manifest.object)) waits.push_back(std::move(wait));
  waits.insert(waits.end(), set.waits.begin(), set.waits.end());
  for (const kube::Wait& wait : waits) {
    if (is_node_condition(wait)) continue;
    if (Verdict verdict = kube::check(client, discovery, wait); !verdict.done) return verdict;
  }
  return check_nodes(client, waits);
}

std::string remove_objects(kube::Client& client, kube::Discovery& discovery, const std::string& set,
                           const std::vector<Name>& names) {
  std::string going;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const auto path = discovery.find_path(*name);
    const auto live = path ? client.find(*path) : std::nullopt;
    if (!live || !is_ours(*live, set)) continue;
    if (is_made_by_others(*name)) {
      client.release(*path, *live);
      continue;
    }
    if (live->find({"metadata", "deletionTimestamp"}) == nullptr) {
      kube::Removal removal;
      removal.uid = text_at(*live, {"metadata", "uid"});
      removal.propagation = "Background";
      client.remove(*path, removal);
    }
    if (going.empty() && client.find(*path)) going = name->text() + " to be gone";
  }
  return going;
}

std::size_t release_kept(kube::Client& client, kube::Discovery& discovery,
                         const std::vector<Name>& names) {
  std::size_t released = 0;
  for (const Name& name : names) {
    const auto path = discovery.find_path(name);
    const auto live = path ? client.find(*path) : std::nullopt;
    // Before Flux owns the fields, letting go of them would delete them.
    if (!live || !kube::flux_owner(*live) || !kube::is_applied_by(*live, ours)) continue;
    if (client.release(*path, *live)) ++released;
  }
  return released;
}

std::string to_text(const std::vector<Name>& names) {
  std::vector<std::string> keys;
  for (const Name& name : names) keys.push_back(kube::to_key(name));
  return join(keys, "\n");
}

std::vector<Name> parse_names(const std::string& text) {
  std::vector<Name> names;
  for (const std::string& line : split(text, '\n'))
    if (auto name = kube::parse_key(line)) names.push_back(std::move(*name));
  return names;
}

}  // namespace rocca::resources
