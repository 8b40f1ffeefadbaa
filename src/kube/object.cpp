#include "kube/object.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::kube {

std::string text_at(const Value& object, std::initializer_list<std::string_view> path) {
  const Value* found = object.find(path);
  return found != nullptr && found->is_scalar() && !found->is_null() ? found->text() : "";
}

std::int64_t int_at(const Value& object, std::initializer_list<std::string_view> path) {
  const Value* found = object.find(path);
  return found != nullptr ? found->as_int().value_or(0) : 0;
}

const std::vector<Value>& items_at(const Value& object,
                                   std::initializer_list<std::string_view> path) {
  static const std::vector<Value> none;
  const Value* found = object.find(path);
  return found != nullptr && found->is_list() ? found->items() : none;
}

std::string Name::group() const {
  const std::size_t slash = api_version.find('/');
  return slash == std::string::npos ? "" : api_version.substr(0, slash);
}

std::string Name::text() const {
  return space.empty() ? fmt::format("{} {}", kind, name)
                       : fmt::format("{} {}/{}", kind, space, name);
}

Name name_of(const Value& object) {
  return {text_at(object, {"apiVersion"}), text_at(object, {"kind"}),
          text_at(object, {"metadata", "namespace"}), text_at(object, {"metadata", "name"})};
}

std::string to_key(const Name& name) {
  return fmt::format("{}|{}|{}|{}", name.api_version, name.kind, name.space, name.name);
}

std::optional<Name> parse_key(std::string_view key) {
  const std::vector<std::string> parts = split(key, '|');
  if (parts.size() != 4 || parts[0].empty() || parts[1].empty() || parts[3].empty())
    return std::nullopt;
  return Name{parts[0], parts[1], parts[2], parts[3]};
}

const Value* find_condition(const Value& object, std::string_view type) {
  for (const Value& condition : items_at(object, {"status", "conditions"}))
    if (text_at(condition, {"type"}) == type) return &condition;
  return nullptr;
}

bool is_condition_true(const Value& object, std::string_view type) {
  const Value* condition = find_condition(object, type);
  return condition != nullptr && text_at(*condition, {"status"}) == "True";
}

bool is_applied_by(const Value& object, std::string_view manager) {
  const auto& entries = items_at(object, {"metadata", "managedFields"});
  return std::any_of(entries.begin(), entries.end(), [&](const Value& entry) {
    return text_at(entry, {"manager"}) == manager && text_at(entry, {"operation"}) == "Apply" &&
           text_at(entry, {"subresource"}).empty();
  });
}

std::optional<std::string> flux_owner(const Value& object) {
  for (const char* kind : {"kustomize", "helm"}) {
    const std::string prefix = fmt::format("{}.toolkit.fluxcd.io/", kind);
    const std::string name = text_at(object, {"metadata", "labels", prefix + "name"});
    const std::string space = text_at(object, {"metadata", "labels", prefix + "namespace"});
    if (!name.empty())
      return fmt::format("{} {}/{}",
                         std::string_view{kind} == "helm" ? "HelmRelease" : "Kustomization", space,
                         name);
  }
  for (const char* controller : {"kustomize-controller", "helm-controller"})
    if (is_applied_by(object, controller)) return controller;
  return std::nullopt;
}

Value without_bookkeeping(Value object) {
  object.erase("status");
  if (Value* metadata = object.find("metadata"))
    for (const char* key :
         {"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"})
      metadata->erase(key);
  return object;
}

namespace {

void compare(const Value& a, const Value& b, const std::string& path, std::size_t limit,
             std::vector<std::string>& found) {
  if (found.size() >= limit || a == b) return;
  if (a.is_map() && b.is_map()) {
    const auto below = [&](const std::string& key) {
      return path.empty() ? key : path + "." + key;
    };
    for (const text::Entry& entry : a.entries()) {
      const Value* other = b.find(entry.key);
      compare(entry.value, other != nullptr ? *other : Value::null(), below(entry.key), limit,
              found);
    }
    for (const text::Entry& entry : b.entries())
      if (a.find(entry.key) == nullptr && found.size() < limit) found.push_back(below(entry.key));
    return;
  }
  if (a.is_list() && b.is_list() && a.size() == b.size()) {
    for (std::size_t i = 0; i < a.size(); ++i)
      compare(a.items()[i], b.items()[i], fmt::format("{}[{}]", path, i), limit, found);
    return;
  }
  found.push_back(path);
}

}  // namespace

std::vector<std::string> differing_fields(const Value& a, const Value& b, std::size_t limit) {
  std::vector<std::string> found;
  compare(a, b, "", limit, found);
  return found;
}

}  // namespace rocca::kube
