#pragma once

#include "text/value.hpp"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::kube {

using text::Value;

/// The text of a scalar at that path; empty if there is none, or null.
std::string text_at(const Value& object, std::initializer_list<std::string_view> path);
/// 0 where there is no number.
std::int64_t int_at(const Value& object, std::initializer_list<std::string_view> path);
/// The list at that path; empty if there is none.
const std::vector<Value>& items_at(const Value& object,
                                   std::initializer_list<std::string_view> path);

/// What an object is called: enough to find it again.
struct Name {
  std::string api_version;
  std::string kind;
  std::string space;  // empty: of the whole cluster, or not said
  std::string name;

  std::string group() const;  // "" is the core group
  /// `Deployment flux-system/source-controller`, for people.
  std::string text() const;

  friend auto operator<=>(const Name&, const Name&) = default;
};

Name name_of(const Value& object);
/// `apps/v1|Deployment|default|web`: kept in states, and read back.
std::string to_key(const Name& name);
std::optional<Name> parse_key(std::string_view key);

/// `status.conditions` of that type.
const Value* find_condition(const Value& object, std::string_view type);
bool is_condition_true(const Value& object, std::string_view type);

/// Does `manager` own fields of the object itself (not of its status) by server-side apply?
bool is_applied_by(const Value& object, std::string_view manager);
/// Flux keeps this object true: the Kustomization or HelmRelease whose labels it carries or whose
/// controller owns fields of it by apply. Nothing: it does not.
std::optional<std::string> flux_owner(const Value& object);

/// The same object without what the server writes into it by itself, so that two can be compared:
/// managedFields, resourceVersion, generation, uid, creationTimestamp, selfLink and status.
Value without_bookkeeping(Value object);

/// Where two objects differ: `spec.replicas`, `data.key`, at the most `limit` of them.
std::vector<std::string> differing_fields(const Value& a, const Value& b, std::size_t limit = 8);

}  // namespace rocca::kube
