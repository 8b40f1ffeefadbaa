#pragma once

#include "kube/object.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace rocca::kube {

/// One object that somebody wrote down.
struct Manifest {
  Value object;
  Name name;
  std::string place;  // `metallb.yaml:12:1`
};

/// Every object of a YAML stream (or JSON): empty documents are dropped, `kind: List` is taken
/// apart. Throws Error(Usage) `name:line:column: …` for text that is no YAML, and for what is no
/// object that can be applied: without apiVersion, kind or name, or with generateName.
std::vector<Manifest> parse_manifests(std::string_view text, const std::string& name);

/// What must be there before the rest can be: each stage is waited for.
enum class Stage {
  Definitions,  ///< namespaces, CRDs, cluster roles
  Classes,      ///< storage classes and their like
  Rest,
  Admission,  ///< webhook configurations, which may stand in the way of all others
};
Stage stage_of(const Name& name);

/// In the order in which they are applied; of one rank, as they were written. Removal goes the
/// other way. Error(Usage) for an object that stands twice, with both places.
std::vector<Manifest> ordered(std::vector<Manifest> manifests);

/// Sets the namespace of those that have none and may have one, and a label on each.
void set_default_space(Manifest& manifest, bool namespaced, const std::string& space);
void set_label(Value& object, const std::string& key, const std::string& value);

}  // namespace rocca::kube
