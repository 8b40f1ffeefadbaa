#include "lab/kube/managed.hpp"

#include "base/strings.hpp"
#include "lab/kube/json.hpp"
#include "lab/kube/status.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

namespace rocca::lab::kube {

using text::Value;

namespace {

struct Owner {
  std::string manager, operation, api_version, time, subresource;
  FieldSet set;

  bool same_as(const Owner& other) const {
    return manager == other.manager && operation == other.operation &&
           subresource == other.subresource &&
           (operation == "Apply" || api_version == other.api_version);
  }
};

std::vector<Owner> read_owners(const Value& object) {
  std::vector<Owner> owners;
  const Value* list = object.find({"metadata", "managedFields"});
  if (list == nullptr || !list->is_list()) return owners;
  for (const Value& entry : list->items()) {
    if (text_at(entry, {"manager"}).empty() && text_at(entry, {"operation"}).empty()) continue;
    Owner owner{text_at(entry, {"manager"}),     text_at(entry, {"operation"}),
                text_at(entry, {"apiVersion"}),  text_at(entry, {"time"}),
                text_at(entry, {"subresource"}), {}};
    if (const Value* fields = entry.find("fieldsV1")) owner.set = read_fields(*fields);
    owners.push_back(std::move(owner));
  }
  return owners;
}

void write_owners(Value& object, const std::vector<Owner>& owners) {
  Value list = Value::list();
  for (const char* operation : {"Apply", "Update"})
    for (const Owner& owner : owners) {
      if (owner.operation != operation || owner.set.empty()) continue;
      Value entry = Value::map();
      entry.set("manager", str(owner.manager));
      entry.set("operation", str(owner.operation));
      entry.set("apiVersion", str(owner.api_version));
      if (!owner.time.empty()) entry.set("time", str(owner.time));
      entry.set("fieldsType", str("FieldsV1"));
      entry.set("fieldsV1", write_fields(owner.set));
      if (!owner.subresource.empty()) entry.set("subresource", str(owner.subresource));
      list.append(std::move(entry));
    }
  Value& metadata = map_at(object, {"metadata"});
  if (list.size() == 0)
    metadata.erase("managedFields");
  else
    metadata.set("managedFields", std::move(list));
}

/// Without what no one owns and no comparison looks at.
Value bare(const Value& object) {
  Value out = object;
  for (const char* key : {"apiVersion", "kind"}) out.erase(key);
  if (Value* metadata = out.find("metadata"))
    for (const char* key : {"name", "namespace", "creationTimestamp", "selfLink", "uid",
                            "generation", "managedFields", "resourceVersion"})
      metadata->erase(key);
  return out;
}

void take_from_others(std::vector<Owner>& owners, const Owner& writer, const FieldSet& taken,
                      const FieldSet& removed) {
  for (Owner& owner : owners) {
    if (owner.same_as(writer)) continue;
    owner.set = subtract(subtract(owner.set, taken), removed);
  }
}

/// The object itself and its metadata count as added in a create; nobody owns them.
void disown_roots(FieldSet& set) {
  set.member = false;
  const auto metadata = set.children.find("f:metadata");
  if (metadata == set.children.end()) return;
  metadata->second.member = false;
  if (metadata->second.empty()) set.children.erase(metadata);
}

std::string conflict_name(const Owner& owner) {
  std::string name = in_quotes(owner.manager);
  if (!owner.subresource.empty())
    name += fmt::format(" with subresource {}", in_quotes(owner.subresource));
  if (owner.operation == "Update") name += " using " + owner.api_version;
  return name;
}

Failure conflicts(const std::vector<std::pair<std::string, FieldSet>>& found) {
  Value causes = Value::list();
  std::vector<std::string> texts;
  std::size_t count = 0;
  for (const auto& [name, set] : found) {
    const std::vector<std::string> paths = paths_of(set);
    count += paths.size();
    for (const std::string& path : paths) {
      Value cause = Value::map();
      cause.set("reason", str("FieldManagerConflict"));
      cause.set("message", str("conflict with " + name));
      cause.set("field", str(path));
      causes.append(std::move(cause));
    }
    if (paths.size() == 1)
      texts.push_back(fmt::format("conflict with {}: {}", name, paths.front()));
    else
      texts.push_back(fmt::format("conflicts with {}:\n- {}", name, join(paths, "\n- ")));
  }
  Value details = Value::map();
  details.set("causes", std::move(causes));
  return {409, "Conflict",
          fmt::format("Apply failed with {} conflict{}: {}", count, count == 1 ? "" : "s",
                      join(texts, "\n")),
          std::move(details)};
}

}  // namespace

FieldSet one_field(std::string_view name) {
  FieldSet set;
  set.children["f:" + std::string(name)].member = true;
  return set;
}

FieldSet never_owned() {
  FieldSet set = unite(one_field("apiVersion"), one_field("kind"));
  FieldSet& metadata = set.children["f:metadata"];
  for (const char* key : {"name", "namespace", "creationTimestamp", "selfLink", "uid", "generation",
                          "managedFields", "resourceVersion"})
    metadata.children["f:" + std::string(key)].member = true;
  return set;
}

void track_update(const Type& type, const Value& live, Value& object, const Writer& writer) {
  const bool create =
      live.find("metadata") == nullptr || text_at(live, {"metadata", "uid"}).empty();
  const Value* sent = object.find({"metadata", "managedFields"});
  // An explicit empty list wipes the owners; what is left out stands as it was.
  const bool wiped = sent != nullptr && sent->is_list() &&
                     (sent->size() == 0 || (sent->size() == 1 && sent->items()[0].size() == 0));
  std::vector<Owner> owners = create ? std::vector<Owner>{}
                              : sent != nullptr && sent->is_list() && sent->size() != 0
                                  ? read_owners(object)
                                  : read_owners(live);
  if (wiped) owners.clear();
  if (!create && (wiped || owners.empty())) {
    map_at(object, {"metadata"}).erase("managedFields");
    return;
  }
  const Value before = bare(live);
  const Value after = bare(object);
  Comparison changes = compare(type, &before, &after);
  const FieldSet taken = unite(changes.modified, changes.added);
  Owner self{writer.manager, "Update", writer.api_version, writer.time, writer.subresource, {}};
  take_from_others(owners, self, taken, changes.removed);
  auto mine = std::find_if(owners.begin(), owners.end(),
                           [&](const Owner& owner) { return owner.same_as(self); });
  if (mine == owners.end()) mine = owners.insert(owners.end(), self);
  const FieldSet now = subtract_below(
      subtract_below(unite(subtract(mine->set, changes.removed), taken), writer.ignored),
      never_owned());
  if (!(now == mine->set)) mine->time = writer.time;
  mine->set = now;
  for (Owner& owner : owners) disown_roots(owner.set);
  write_owners(object, owners);
}

Value apply(const Type& type, const Value& live, const Value& config, const Writer& writer,
            bool force) {
  const Value before = bare(live);
  const Value wanted = bare(config);
  std::vector<Owner> owners = read_owners(live);
  const bool create = text_at(live, {"metadata", "uid"}).empty();
  if (!create && owners.empty()) {
    Owner first{"before-first-apply", "Update", writer.api_version, writer.time, "", {}};
    const Value nothing = Value::map();
    first.set = subtract_below(
        subtract_below(compare(type, &nothing, &before).added, writer.ignored), never_owned());
    disown_roots(first.set);
    if (!first.set.empty()) owners.push_back(std::move(first));
  }
  Owner self{writer.manager, "Apply", writer.api_version, writer.time, writer.subresource, {}};
  auto mine = std::find_if(owners.begin(), owners.end(),
                           [&](const Owner& owner) { return owner.same_as(self); });
  if (mine == owners.end()) mine = owners.insert(owners.end(), self);
  const std::size_t index = static_cast<std::size_t>(mine - owners.begin());
  const FieldSet last = mine->set;
  FieldSet set =
      subtract_below(subtract_below(fields_of(type, wanted), writer.ignored), never_owned());
  disown_roots(set);
  if (!(set == last)) mine->time = writer.time;
  mine->set = set;
  mine->api_version = writer.api_version;

  Value merged = overlay(type, before, wanted);
  if (!last.empty()) {
    const FieldSet merged_set = with_parents(fields_of(type, merged));
    Value pruned = remove_fields(type, merged, with_parents(last));
    FieldSet pruned_set = with_parents(fields_of(type, pruned));
    FieldSet managed;
    for (const Owner& owner : owners) managed = unite(managed, owner.set);
    pruned = remove_fields(type, merged,
                           subtract(subtract(merged_set, pruned_set), with_parents(managed)));
    pruned_set = with_parents(fields_of(type, pruned));
    // Only what this manager owned before may go.
    merged = remove_fields(type, merged,
                           intersect(subtract(merged_set, pruned_set), with_parents(last)));
  }
  const Comparison changes = compare(type, &before, &merged);
  const FieldSet taken = unite(changes.modified, changes.added);
  std::vector<std::pair<std::string, FieldSet>> found;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (i == index) continue;
    FieldSet both = intersect(owners[i].set, taken);
    if (!both.empty()) found.emplace_back(conflict_name(owners[i]), std::move(both));
  }
  if (!force && !found.empty()) throw conflicts(found);
  take_from_others(owners, owners[index], taken, changes.removed);

  Value out = live;
  for (const text::Entry& entry : merged.entries())
    if (entry.key != "metadata") out.set(entry.key, entry.value);
  std::vector<std::string> gone;
  for (const text::Entry& entry : out.entries())
    if (entry.key != "metadata" && entry.key != "apiVersion" && entry.key != "kind" &&
        merged.find(entry.key) == nullptr)
      gone.push_back(entry.key);
  for (const std::string& key : gone) out.erase(key);
  Value metadata = out.find("metadata") == nullptr ? Value::map() : *out.find("metadata");
  const Value bare_now =
      before.find("metadata") == nullptr ? Value::map() : *before.find("metadata");
  for (const text::Entry& entry : bare_now.entries()) metadata.erase(entry.key);
  if (const Value* more = merged.find("metadata"))
    for (const text::Entry& entry : more->entries()) metadata.set(entry.key, entry.value);
  out.set("metadata", std::move(metadata));
  write_owners(out, owners);
  return out;
}

}  // namespace rocca::lab::kube
