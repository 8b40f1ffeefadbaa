#pragma once

#include "spec/tree.hpp"
#include "spec/validation/findings.hpp"

#include <string>
#include <vector>

namespace rocca::spec {

/// A node of the resolved tree and where it came from.
struct Origin {
  std::string pool;  // "" for a written node
  TreePtr pool_patches;
  TreePtr own_patches;
};

struct Resolved {
  TreePtr tree;                 // the whole document
  std::vector<Origin> origins;  // beside spec.nodes, in order
};

/// Pools become nodes, machines and images inherit, defaults are filled in. Works on what
/// read_merged gives.
Resolved resolve(const TreePtr& merged, Findings& findings);

}  // namespace rocca::spec
