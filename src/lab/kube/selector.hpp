#pragma once

#include "text/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::kube {

/// `a=b,c in (d,e),!f` over labels. Throws Failure 400.
class LabelSelector {
 public:
  static LabelSelector parse(std::string_view text);
  /// A `LabelSelector` object (matchLabels, matchExpressions).
  static LabelSelector of(const text::Value& selector);
  bool matches(const text::Value& object) const;  // by metadata.labels
  bool matches_labels(const text::Value* labels) const;
  bool empty() const { return terms_.empty(); }

 private:
  struct Term {
    std::string key, op;  // op: In, NotIn, Exists, DoesNotExist, Gt, Lt
    std::vector<std::string> values;
  };
  std::vector<Term> terms_;
};

/// `metadata.name=a,status.phase!=Running`. Which fields may be asked is the kind's matter.
class FieldSelector {
 public:
  static FieldSelector parse(std::string_view text);
  bool matches(const text::Value& object) const;
  std::vector<std::string> fields() const;
  bool empty() const { return terms_.empty(); }
  /// The one name that can match, if the selector asks for one.
  std::optional<std::string> name() const;

 private:
  struct Term {
    std::string field, value;
    bool equal = true;
  };
  std::vector<Term> terms_;
};

/// The value at `spec.nodeName`, "" if there is none.
std::string field_text(const text::Value& object, std::string_view path);

}  // namespace rocca::lab::kube
