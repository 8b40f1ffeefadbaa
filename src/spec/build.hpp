#pragma once

#include "spec/patches.hpp"
#include "spec/resolve.hpp"
#include "spec/spec.hpp"
#include "spec/validation/findings.hpp"

#include <set>
#include <string>

namespace rocca::spec {

/// Makes the typed spec of the resolved tree. `merged` is the tree before pools were made into
/// nodes. The paths of all fields that were asked for go into `touched`, so that a test can say
/// which key of the table nobody reads.
Spec build(const Resolved& resolved, const TreePtr& merged, PatchReader& patches,
           Findings& findings, std::set<std::string>* touched = nullptr);

}  // namespace rocca::spec
