#pragma once

#include "base/diagnostics.hpp"
#include "spec/spec.hpp"

namespace rocca::talos {

/// Lays the spec's patches on the configurations they are meant for, with secrets that are none,
/// and tells at their own places what a node would refuse afterwards (`patch-refused`) or
/// warn of (`patch-warning`). Everything else about the spec must be right already.
void check_patches(const spec::Spec& spec, Diagnostics& diagnostics);

}  // namespace rocca::talos
