#pragma once

#include "proxmox/types.hpp"
#include "resources/survey.hpp"
#include "resources/thing.hpp"
#include "resources/world.hpp"

#include <string>

namespace rocca::resources {

// A stray carries our mark, the spec does not want it, and the state does not know it: it was lost.

/// "controlplane", "worker", or "unknown", which must be treated like a control plane. Its notes
/// say it, and etcd, where it answers, overrules them: whoever is a member is a control plane.
std::string role_of_stray(World& world, const std::string& node, const proxmox::VmConfig& config);

/// What the state would have told of its machine: role, host name, UUID and, where somebody tells
/// it, the address.
Fields facts_of_stray(World& world, const Marked& vm);

}  // namespace rocca::resources
