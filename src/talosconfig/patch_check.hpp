#pragma once

#include "base/diagnostics.hpp"
#include "base/secret.hpp"
#include "spec/spec.hpp"

#include <map>
#include <string>

namespace rocca::talos {

/// Lays the spec's patches on the configurations they are meant for, with secrets that are none,
/// and tells at their own places what a node would refuse afterwards (`patch-refused`) or
/// warn of (`patch-warning`). Everything else about the spec must be right already.
void check_patches(const spec::Spec& spec, Diagnostics& diagnostics);
/// The same with the secrets themselves, by `secret_key`: what only they can get wrong (a key that
/// is too short) is told before a node refuses it. No message repeats one.
void check_patches(const spec::Spec& spec, const std::map<std::string, Secret>& secrets,
                   Diagnostics& diagnostics);

}  // namespace rocca::talos
