#pragma once

#include "lab/kube/schema/schema.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rocca::lab::kube {

/// A set of paths into an object, in the form managedFields stores them (FieldsV1): keys are
/// `f:name`, `k:{"name":"a"}` and `v:"x"`.
struct FieldSet {
  bool member = false;  // this path itself
  std::map<std::string, FieldSet> children;

  bool empty() const;  // no member here or below
  bool has_children() const;
  friend bool operator==(const FieldSet& a, const FieldSet& b);
};

FieldSet read_fields(const text::Value& fields_v1);
text::Value write_fields(const FieldSet& set);

FieldSet unite(const FieldSet& a, const FieldSet& b);
FieldSet subtract(const FieldSet& a, const FieldSet& b);
/// Also everything below a member of `b`.
FieldSet subtract_below(const FieldSet& a, const FieldSet& b);
FieldSet intersect(const FieldSet& a, const FieldSet& b);
/// Every field on the way to a member becomes one too.
FieldSet with_parents(const FieldSet& set);
/// `.spec.containers[name="a"].image`, one for each member.
std::vector<std::string> paths_of(const FieldSet& set);

/// The item's key in its list, as FieldsV1 writes it.
std::string item_key(const Type& list, const text::Value& item);

/// What an applied configuration says anything about.
FieldSet fields_of(const Type& type, const text::Value& value);

struct Comparison {
  FieldSet removed, modified, added;
  bool same() const { return removed.empty() && modified.empty() && added.empty(); }
};
Comparison compare(const Type& type, const text::Value* before, const text::Value* after);

/// An applied configuration laid over an object.
text::Value overlay(const Type& type, const text::Value& live, const text::Value& config);
text::Value remove_fields(const Type& type, const text::Value& value, const FieldSet& set);

}  // namespace rocca::lab::kube
