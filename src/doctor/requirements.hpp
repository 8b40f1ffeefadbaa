#pragma once

#include "base/files.hpp"
#include "doctor/checkup.hpp"
#include "spec/lock.hpp"
#include "spec/spec.hpp"

namespace rocca::doctor {

/// What a spec will want of its Proxmox: the hosts, storages, bridges and pools it names, the space
/// its disks take on each host, its images, VM ids and MACs. Hosts and ids are those of the lock
/// where it has them, else the hosts are those that `up` would choose. `cluster_id`, of the secrets
/// bundle, is what our VMs are known by; without it none is. The spec must have a `proxmox:`
/// section.
Wish wish_of(Files& files, const spec::Spec& spec, const spec::Lock& lock,
             const std::optional<std::string>& cluster_id);

}  // namespace rocca::doctor
