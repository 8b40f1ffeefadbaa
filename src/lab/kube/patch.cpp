#include "lab/kube/patch.hpp"

#include "base/strings.hpp"
#include "lab/kube/json.hpp"
#include "lab/kube/schema/fields.hpp"
#include "lab/kube/status.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

/// evanphx/json-patch says more, the API server passes this on.
Failure refused() {
  return {422, "Invalid", "the server rejected our request due to an error in our request",
          Value::map()};
}

std::vector<std::string> pointer(const std::string& text) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  // What stands before the first slash is not looked at.
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) throw refused();
  for (const std::string& part : split(std::string_view(text).substr(slash + 1), '/'))
    parts.push_back(replace_all(replace_all(part, "~1", "/"), "~0", "~"));
  return parts;
}

Value* walk(Value& root, const std::vector<std::string>& path, std::size_t count) {
  Value* at = &root;
  for (std::size_t i = 0; i < count && at != nullptr; ++i) {
    if (at->is_list()) {
      const auto index = parse_uint(path[i]);
      at = index && *index < at->size() ? &at->items()[*index] : nullptr;
    } else {
      at = at->find(path[i]);
    }
  }
  return at;
}

void add(Value& root, const std::vector<std::string>& path, Value value) {
  if (path.empty()) {
    root = std::move(value);
    return;
  }
  Value* parent = walk(root, path, path.size() - 1);
  if (parent == nullptr) throw refused();
  if (parent->is_map()) {
    parent->set(path.back(), std::move(value));
    return;
  }
  if (!parent->is_list()) throw refused();
  if (path.back() == "-") {
    parent->append(std::move(value));
    return;
  }
  const auto index = parse_uint(path.back());
  if (!index || *index > parent->size()) throw refused();
  parent->items().insert(parent->items().begin() + static_cast<std::ptrdiff_t>(*index),
                         std::move(value));
}

Value take(Value& root, const std::vector<std::string>& path) {
  if (path.empty()) throw refused();
  Value* parent = walk(root, path, path.size() - 1);
  Value* found = walk(root, path, path.size());
  if (parent == nullptr || found == nullptr) throw refused();
  Value out = *found;
  if (parent->is_map())
    parent->erase(path.back());
  else
    parent->items().erase(parent->items().begin() +
                          static_cast<std::ptrdiff_t>(*parse_uint(path.back())));
  return out;
}

}  // namespace

Value json_patch(const Value& object, const Value& operations) {
  if (!operations.is_list())
    throw bad_request(
        "error decoding patch: json: cannot unmarshal object into Go value of type "
        "[]handlers.jsonPatchOp");
  Value out = object;
  for (const Value& step : operations.items()) {
    const std::string op = text_at(step, {"op"});
    const std::vector<std::string> path = pointer(text_at(step, {"path"}));
    // A value that is left out is null.
    const Value none = Value::null();
    const Value* value = step.find("value");
    if (value == nullptr && op == "add") value = &none;
    if (op == "add" && value != nullptr) {
      add(out, path, *value);
    } else if (op == "remove") {
      take(out, path);
    } else if (op == "replace" && value != nullptr) {
      Value* parent = path.empty() ? nullptr : walk(out, path, path.size() - 1);
      if (parent == nullptr) throw refused();
      if (parent->is_map()) {
        parent->set(path.back(), *value);
      } else {
        Value* found = walk(out, path, path.size());
        if (found == nullptr) throw refused();
        *found = *value;
      }
    } else if (op == "move" || op == "copy") {
      const std::vector<std::string> from = pointer(text_at(step, {"from"}));
      Value* found = walk(out, from, from.size());
      if (found == nullptr) throw refused();
      Value moved = *found;
      if (op == "move") take(out, from);
      add(out, path, std::move(moved));
    } else if (op == "test") {
      const Value* found = walk(out, path, path.size());
      const bool same = found == nullptr ? value == nullptr || value->is_null()
                                         : value != nullptr && *found == *value;
      if (!same) throw refused();
    } else {
      throw refused();
    }
  }
  return out;
}

Value merge_patch(const Value& object, const Value& patch) {
  if (!patch.is_map()) return patch;
  Value out = object.is_map() ? object : Value::map();
  for (const text::Entry& entry : patch.entries()) {
    if (entry.value.is_null()) {
      out.erase(entry.key);
      continue;
    }
    const Value* old = out.find(entry.key);
    out.set(entry.key, merge_patch(old == nullptr ? Value::null() : *old, entry.value));
  }
  return out;
}

namespace {

const Type& below(const Type& type, const std::string& key) {
  if (const Field* field = type.find(key)) return *field->type;
  return type.element ? *type.element : *any_type();
}

/// A map as Go's %v prints it.
std::string go_map(const Value& map) {
  std::map<std::string, std::string> words;
  for (const text::Entry& entry : map.entries())
    words[entry.key] = entry.value.is_map() ? go_map(entry.value) : entry.value.text();
  std::vector<std::string> parts;
  for (const auto& [key, value] : words) parts.push_back(key + ":" + value);
  return "map[" + join(parts, " ") + "]";
}

bool same_item(const Type& list, const Value& a, const Value& b) {
  // Strategic merge knows one key only, where apply may know several.
  const std::string& key = list.keys.front();
  const Value* left = a.find(key);
  const Value* right = b.find(key);
  return left != nullptr && right != nullptr && *left == *right;
}

Value strategic_list(const Type& type, const Value& object, const Value& patch) {
  if (type.lists == Type::Lists::Atomic || !object.is_list()) {
    Value out = Value::list();
    for (const Value& item : patch.items())
      if (text_at(item, {"$patch"}).empty()) out.append(item);
    return out;
  }
  for (const Value& item : patch.items())
    if (item.is_map() && item.size() == 1 && text_at(item, {"$patch"}) == "replace") {
      Value out = Value::list();
      for (const Value& other : patch.items())
        if (!(other == item)) out.append(other);
      return out;
    }
  Value out = object;
  Value fresh = Value::list();  // new elements come first
  if (type.lists == Type::Lists::Set) {
    for (const Value& item : patch.items())
      if (std::find(out.items().begin(), out.items().end(), item) == out.items().end())
        out.append(item);
    return out;
  }
  for (const Value& item : patch.items()) {
    const auto found = std::find_if(out.items().begin(), out.items().end(),
                                    [&](const Value& mine) { return same_item(type, mine, item); });
    const std::string directive = text_at(item, {"$patch"});
    if (directive.empty() && item.is_map() && item.find(type.keys.front()) == nullptr)
      throw plain_error(fmt::format("map: {} does not contain declared merge key: {}", go_map(item),
                                    type.keys.front()));
    if (directive == "delete") {
      if (found != out.items().end()) out.items().erase(found);
      continue;
    }
    if (found == out.items().end()) {
      fresh.append(item);
    } else if (directive == "replace") {
      Value whole = item;
      whole.erase("$patch");
      *found = std::move(whole);
    } else {
      *found = strategic_patch(*type.element, *found, item);
    }
  }
  for (Value& item : out.items()) fresh.append(std::move(item));
  return fresh;
}

void order_by(Value& list, const Value& order, const Type& type) {
  std::stable_sort(list.items().begin(), list.items().end(), [&](const Value& a, const Value& b) {
    const auto place = [&](const Value& item) {
      for (std::size_t i = 0; i < order.items().size(); ++i)
        if (type.lists == Type::Lists::Map ? same_item(type, item, order.items()[i])
                                           : item == order.items()[i])
          return i;
      return order.items().size();
    };
    return place(a) < place(b);
  });
}

}  // namespace

Value strategic_patch(const Type& type, const Value& object, const Value& patch) {
  if (!patch.is_map()) return patch;
  const std::string directive = text_at(patch, {"$patch"});
  if (directive == "replace") {
    Value out = patch;
    out.erase("$patch");
    return out;
  }
  if (directive == "delete") return Value::map();
  if (!directive.empty() && directive != "merge")
    throw bad_request(fmt::format("unknown patch type: {} in map: {}", directive, "map[]"));
  Value out = object.is_map() ? object : Value::map();
  if (const Value* retain = patch.find("$retainKeys")) {
    std::vector<std::string> gone;
    for (const text::Entry& entry : out.entries())
      if (std::find(retain->items().begin(), retain->items().end(), Value::string(entry.key)) ==
          retain->items().end())
        gone.push_back(entry.key);
    for (const std::string& key : gone) out.erase(key);
  }
  for (const text::Entry& entry : patch.entries()) {
    if (entry.key == "$patch" || entry.key == "$retainKeys" ||
        entry.key.starts_with("$setElementOrder/"))
      continue;
    if (entry.key.starts_with("$deleteFromPrimitiveList/")) {
      Value* list = out.find(entry.key.substr(entry.key.find('/') + 1));
      if (list != nullptr && list->is_list())
        std::erase_if(list->items(), [&](const Value& item) {
          return std::find(entry.value.items().begin(), entry.value.items().end(), item) !=
                 entry.value.items().end();
        });
      continue;
    }
    if (entry.value.is_null()) {
      out.erase(entry.key);
      continue;
    }
    const Type& inner = below(type, entry.key);
    const Value* old = out.find(entry.key);
    const Value before = old == nullptr ? Value::null() : *old;
    if (entry.value.is_list() && inner.form == Type::Form::List)
      out.set(entry.key, strategic_list(inner, before, entry.value));
    else if (entry.value.is_map())
      out.set(entry.key, strategic_patch(inner, before, entry.value));
    else
      out.set(entry.key, entry.value);
  }
  for (const text::Entry& entry : patch.entries())
    if (entry.key.starts_with("$setElementOrder/")) {
      const std::string key = entry.key.substr(entry.key.find('/') + 1);
      if (Value* list = out.find(key); list != nullptr && list->is_list())
        order_by(*list, entry.value, below(type, key));
    }
  return out;
}

}  // namespace rocca::lab::kube
