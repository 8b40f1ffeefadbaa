#pragma once

#include "doctor/checkup.hpp"
#include "spec/spec.hpp"

namespace rocca::doctor {

/// What a spec will want of its Proxmox: the hosts, storages, bridges and pools it names, the space
/// its disks take on each host, its VM ids and MACs. Nodes without a host count for every host they
/// may be put on. The spec must have a `proxmox:` section.
Wish wish_of(const spec::Spec& spec);

}  // namespace rocca::doctor
