#pragma once

#include "platform/resource_base.hpp"
#include "platform/survey.hpp"
#include "platform/world.hpp"
#include "proxmox/types.hpp"

#include <string>

namespace rocca::resources {

// A stray carries our mark, the spec does not want it, and the state does not know it: it was lost.

/// "controlplane", "worker", or "unknown", which must be treated like a control plane. A member of
/// etcd is a control plane. "worker" needs two witnesses: its notes, and either an etcd that
/// answers and does not know the node, or the machine itself at `address`, which runs no etcd.
/// Notes alone never make a VM one that may go.
std::string role_of_stray(World& world, const std::string& node, const proxmox::VmConfig& config,
                          const std::string& address);

/// What the state would have told of its machine: role, host name, UUID and, where somebody tells
/// it, the address.
Fields facts_of_stray(World& world, const Marked& vm);

}  // namespace rocca::resources
