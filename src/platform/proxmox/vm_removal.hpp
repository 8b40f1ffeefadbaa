#pragma once

#include "engine/resource.hpp"
#include "platform/halt.hpp"
#include "platform/world.hpp"
#include "proxmox/owned_vm.hpp"
#include "proxmox/types.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

/// How far back the task log may still say something about the guest that runs now.
constexpr Duration halt_lookback = std::chrono::minutes{15};

Halt plan_halt(World& world, const proxmox::VmRow& row);
/// That one act for a VM that stays; an empty receipt where there is nothing to do. Nobody's backup
/// or migration is ended for that: Busy while one goes on.
engine::Receipt halt_vm(World& world, const proxmox::VmRow& row, const proxmox::OwnedVm& vm);

/// A task that holds a VM's lock as long as it lasts and is none of the acts of this program.
bool holds_lock(const std::string& task_type);

/// The next act towards a VM's end: off, then destroyed. Never
/// blocks: what the act waits for is asked by `probe_removal`. `known`: what was planned a moment
/// ago.
engine::Receipt remove_vm(World& world, const proxmox::VmRow& row, const proxmox::OwnedVm& vm,
                          const std::optional<Halt>& known = std::nullopt);

/// Asks after such an act. A shutdown that the guest ignored is no failure: the next act is harder.
/// A backup job for many guests is over for `vmid` as soon as it has let go of its lock.
engine::Progress probe_removal(World& world, const engine::Receipt& receipt,
                               const std::string& doing,
                               std::optional<proxmox::Vmid> vmid = std::nullopt);

}  // namespace rocca::resources
