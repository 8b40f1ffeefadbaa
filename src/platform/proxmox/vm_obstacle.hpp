#pragma once

#include "engine/resource.hpp"
#include "proxmox/types.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

class World;

/// What a change asks of Proxmox that a setting of the VM may forbid.
struct VmDemands {
  bool switches_off = false;
  bool destroys = false;
  bool removes_disk = false;

  static VmDemands of(const engine::Change& change, bool running);
};

/// Why Proxmox would refuse it, or would not act, and what to do about it.
struct Obstacle {
  std::string reason;
  std::string hint;
};

/// Pure. Asked when a plan is made and again right before a VM is switched off: a stop works on a
/// VM whose destroy is refused, so that without this check it would be off for nothing.
std::optional<Obstacle> find_obstacle(const VmDemands& demands, const proxmox::VmRow& row,
                                      const proxmox::VmConfig& config);
/// Error(Refused) if there is one.
void refuse_obstacle(const VmDemands& demands, const proxmox::VmRow& row,
                     const proxmox::VmConfig& config);

/// A lock that no visible task holds: only root can remove it.
Obstacle dead_lock(World& world, const proxmox::VmRow& row, const std::string& lock);

}  // namespace rocca::resources
