#pragma once

#include "text/value.hpp"

#include <string>

namespace rocca::spec {

/// The JSON Schema (2020-12) of a spec, made from the table that parses. What needs the whole
/// picture (bases, machines that inherit, addresses) is left to `validate`: an editor must never
/// redden a file that is right.
text::Value json_schema();

/// What `explain` prints for a key (`machine.memory`, `nodes.cp-1.address`) or for the code of a
/// rule (`slot-clash`). Throws NotFound, with the nearest name, for anything else.
std::string explain(const std::string& what);

/// docs/spec.md: every key and every rule.
std::string reference_markdown();

}  // namespace rocca::spec
