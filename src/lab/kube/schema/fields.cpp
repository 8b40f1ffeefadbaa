#include "lab/kube/schema/fields.hpp"

#include "base/strings.hpp"
#include "lab/kube/json.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;
using Form = Type::Form;

bool FieldSet::has_children() const {
  for (const auto& [key, child] : children)
    if (!child.empty()) return true;
  return false;
}

bool FieldSet::empty() const {
  return !member && !has_children();
}

bool operator==(const FieldSet& a, const FieldSet& b) {
  return subtract(a, b).empty() && subtract(b, a).empty();
}

FieldSet read_fields(const Value& fields) {
  FieldSet set;
  for (const text::Entry& entry : fields.entries()) {
    if (entry.key == ".") {
      set.member = true;
      continue;
    }
    FieldSet child = read_fields(entry.value);
    if (entry.value.size() == 0) child.member = true;
    set.children.emplace(entry.key, std::move(child));
  }
  return set;
}

Value write_fields(const FieldSet& set) {
  Value out = Value::map();
  for (const auto& [key, child] : set.children) {
    if (child.empty()) continue;
    Value below = write_fields(child);
    if (child.member && below.size() != 0) {
      Value dotted = Value::map();
      dotted.set(".", Value::map());
      for (text::Entry& entry : below.entries()) dotted.set(entry.key, std::move(entry.value));
      below = std::move(dotted);
    }
    out.set(key, std::move(below));
  }
  return out;
}

FieldSet unite(const FieldSet& a, const FieldSet& b) {
  FieldSet out = a;
  out.member = a.member || b.member;
  for (const auto& [key, child] : b.children) {
    FieldSet& mine = out.children[key];
    mine = unite(mine, child);
  }
  return out;
}

FieldSet subtract(const FieldSet& a, const FieldSet& b) {
  FieldSet out;
  out.member = a.member && !b.member;
  for (const auto& [key, child] : a.children) {
    const auto other = b.children.find(key);
    FieldSet rest = other == b.children.end() ? child : subtract(child, other->second);
    if (!rest.empty()) out.children.emplace(key, std::move(rest));
  }
  return out;
}

FieldSet subtract_below(const FieldSet& a, const FieldSet& b) {
  if (b.member) return {};
  FieldSet out;
  out.member = a.member;
  for (const auto& [key, child] : a.children) {
    const auto other = b.children.find(key);
    FieldSet rest = other == b.children.end() ? child : subtract_below(child, other->second);
    if (!rest.empty()) out.children.emplace(key, std::move(rest));
  }
  return out;
}

FieldSet intersect(const FieldSet& a, const FieldSet& b) {
  FieldSet out;
  out.member = a.member && b.member;
  for (const auto& [key, child] : a.children) {
    const auto other = b.children.find(key);
    if (other == b.children.end()) continue;
    FieldSet both = intersect(child, other->second);
    if (!both.empty()) out.children.emplace(key, std::move(both));
  }
  return out;
}

FieldSet with_parents(const FieldSet& set) {
  FieldSet out;
  out.member = set.member;
  for (const auto& [key, child] : set.children) {
    FieldSet below = with_parents(child);
    if (key.starts_with("f:") && !below.empty()) below.member = true;
    out.children.emplace(key, std::move(below));
  }
  return out;
}

namespace {

std::string shown(const std::string& key) {
  if (key.starts_with("f:")) return "." + key.substr(2);
  if (key.starts_with("v:")) return "[=" + key.substr(2) + "]";
  const Value keys = json(key.substr(2));
  std::vector<std::string> parts;
  for (const text::Entry& entry : keys.entries())
    parts.push_back(entry.key + "=" + text::emit_json(entry.value));
  return "[" + join(parts, ",") + "]";
}

void collect(const FieldSet& set, const std::string& path, std::vector<std::string>& out) {
  // Members of a level come before what lies deeper, as the Go set walks.
  for (const auto& [key, child] : set.children)
    if (child.member) out.push_back(path + shown(key));
  for (const auto& [key, child] : set.children)
    if (!child.children.empty()) collect(child, path + shown(key), out);
}

const Type& type_of(const Type& type, const std::string& key) {
  if (type.form == Form::Struct)
    if (const Field* field = type.find(key)) return *field->type;
  if (type.form == Form::Map) return *type.element;
  return *any_type();
}

bool is_declared(const Type& type, const std::string& key) {
  return type.form == Form::Struct && type.find(key) != nullptr;
}

/// How a value is walked: what is not declared is deduced from the value itself.
enum class Walk { Leaf, Map, List };
Walk walk_of(const Type& type, const Value& value) {
  switch (type.form) {
    case Form::Scalar:
      return Walk::Leaf;
    case Form::Struct:
    case Form::Map:
      return type.atomic || !value.is_map() ? Walk::Leaf : Walk::Map;
    case Form::List:
      return type.lists == Type::Lists::Atomic || !value.is_list() ? Walk::Leaf : Walk::List;
    case Form::Any:
      return value.is_map() && !type.atomic ? Walk::Map : Walk::Leaf;
  }
  return Walk::Leaf;
}

std::vector<std::pair<std::string, const Value*>> keyed_items(const Type& list,
                                                              const Value& value) {
  std::vector<std::pair<std::string, const Value*>> out;
  for (const Value& item : value.items()) out.emplace_back(item_key(list, item), &item);
  return out;
}

const Value* find_item(const Type& list, const Value& value, const std::string& key) {
  for (const Value& item : value.items())
    if (item_key(list, item) == key) return &item;
  return nullptr;
}

}  // namespace

std::vector<std::string> paths_of(const FieldSet& set) {
  std::vector<std::string> out;
  collect(set, "", out);
  return out;
}

std::string item_key(const Type& list, const Value& item) {
  if (list.lists == Type::Lists::Set) return "v:" + text::emit_json(item);
  std::vector<std::string> keys = list.keys;
  std::sort(keys.begin(), keys.end());
  Value out = Value::map();
  for (const std::string& key : keys) {
    const Value* given = item.find(key);
    if (given != nullptr && !given->is_null())
      out.set(key, *given);
    else if (const auto standard = list.key_values.find(key); standard != list.key_values.end())
      out.set(key, standard->second);
  }
  return "k:" + text::emit_json(out);
}

FieldSet fields_of(const Type& type, const Value& value) {
  FieldSet set;
  switch (walk_of(type, value)) {
    case Walk::Leaf:
      set.member = true;
      break;
    case Walk::Map:
      for (const text::Entry& entry : value.entries()) {
        const Type& below = type_of(type, entry.key);
        FieldSet child = fields_of(below, entry.value);
        // Keys of a map are owned themselves, fields of a struct only through what they hold.
        if (entry.value.is_null() || (entry.value.is_map() && entry.value.size() == 0) ||
            !is_declared(type, entry.key))
          child.member = true;
        set.children.emplace("f:" + entry.key, std::move(child));
      }
      break;
    case Walk::List:
      for (const auto& [key, item] : keyed_items(type, value)) {
        FieldSet child =
            type.lists == Type::Lists::Set ? FieldSet{} : fields_of(*type.element, *item);
        child.member = true;
        set.children.emplace(key, std::move(child));
      }
  }
  return set;
}

namespace {

void compare_into(const Type& type, const Value* before, const Value* after, FieldSet& removed,
                  FieldSet& modified, FieldSet& added) {
  if (before == nullptr && after == nullptr) return;
  const Walk walk = walk_of(type, after == nullptr ? *before : *after);
  // A Go list or map that is nil is there and empty.
  const Walk other = before == nullptr || before->is_null() ? walk : walk_of(type, *before);
  if (walk == Walk::Leaf || (after != nullptr && other != walk)) {
    if (before == nullptr)
      added.member = true;
    else if (after == nullptr)
      removed.member = true;
    else if (!(*before == *after))
      modified.member = true;
    return;
  }
  if (before == nullptr) added.member = true;
  if (after == nullptr) removed.member = true;
  static const Value nothing = Value::map();
  if (walk == Walk::Map) {
    const Value& old_map = before == nullptr || before->is_null() ? nothing : *before;
    const Value& new_map = after == nullptr ? nothing : *after;
    const auto one = [&](const std::string& key) {
      const std::string name = "f:" + key;
      compare_into(type_of(type, key), old_map.find(key), new_map.find(key), removed.children[name],
                   modified.children[name], added.children[name]);
    };
    for (const text::Entry& entry : old_map.entries()) one(entry.key);
    for (const text::Entry& entry : new_map.entries())
      if (old_map.find(entry.key) == nullptr) one(entry.key);
    return;
  }
  const Value none = Value::list();
  const Value& old_list = before == nullptr || before->is_null() ? none : *before;
  const Value& new_list = after == nullptr ? none : *after;
  const auto one = [&](const std::string& key, const Value* was, const Value* is) {
    if (type.lists == Type::Lists::Set) {
      if (was == nullptr) added.children[key].member = true;
      if (is == nullptr) removed.children[key].member = true;
      return;
    }
    compare_into(*type.element, was, is, removed.children[key], modified.children[key],
                 added.children[key]);
  };
  for (const auto& [key, item] : keyed_items(type, old_list))
    one(key, item, find_item(type, new_list, key));
  for (const auto& [key, item] : keyed_items(type, new_list))
    if (find_item(type, old_list, key) == nullptr) one(key, nullptr, item);
}

}  // namespace

Comparison compare(const Type& type, const Value* before, const Value* after) {
  Comparison out;
  compare_into(type, before, after, out.removed, out.modified, out.added);
  return out;
}

Value overlay(const Type& type, const Value& live, const Value& config) {
  const Walk walk = walk_of(type, config);
  if (walk == Walk::Leaf || walk_of(type, live) != walk) return config;
  if (walk == Walk::Map) {
    Value out = live;
    for (const text::Entry& entry : config.entries()) {
      const Value* mine = live.find(entry.key);
      out.set(entry.key, mine == nullptr || mine->is_null()
                             ? entry.value
                             : overlay(type_of(type, entry.key), *mine, entry.value));
    }
    return out;
  }
  // Both orders are kept as far as they agree; where they do not, the configuration's wins.
  Value out = Value::list();
  const auto mine = keyed_items(type, live);
  const auto theirs = keyed_items(type, config);
  std::vector<std::string> done;
  std::size_t next = 0;
  const auto is_done = [&](const std::string& key) {
    return std::find(done.begin(), done.end(), key) != done.end();
  };
  for (const auto& [key, item] : theirs) {
    for (; next < mine.size() &&
           (is_done(mine[next].first) || find_item(type, config, mine[next].first) == nullptr);
         ++next)
      if (!is_done(mine[next].first)) out.append(*mine[next].second);
    const Value* old = find_item(type, live, key);
    out.append(old == nullptr || type.lists == Type::Lists::Set
                   ? *item
                   : overlay(*type.element, *old, *item));
    done.push_back(key);
  }
  for (; next < mine.size(); ++next)
    if (!is_done(mine[next].first)) out.append(*mine[next].second);
  return out;
}

Value remove_fields(const Type& type, const Value& value, const FieldSet& set) {
  const Walk walk = walk_of(type, value);
  if (walk == Walk::Leaf) return value;
  if (walk == Walk::Map) {
    Value out = Value::map();
    for (const text::Entry& entry : value.entries()) {
      const auto child = set.children.find("f:" + entry.key);
      if (child == set.children.end()) {
        out.set(entry.key, entry.value);
        continue;
      }
      if (child->second.member) continue;
      out.set(entry.key, remove_fields(type_of(type, entry.key), entry.value, child->second));
    }
    return out;
  }
  Value out = Value::list();
  for (const auto& [key, item] : keyed_items(type, value)) {
    const auto child = set.children.find(key);
    if (child == set.children.end())
      out.append(*item);
    else if (!child->second.member)
      out.append(remove_fields(*type.element, *item, child->second));
  }
  return out;
}

}  // namespace rocca::lab::kube
