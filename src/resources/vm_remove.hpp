#pragma once

#include "engine/resource.hpp"
#include "proxmox/types.hpp"
#include "resources/world.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

/// How a VM comes to be off, gently first: what is to be done next, from what is there and what was
/// tried lately.
struct Halt {
  enum class Next {
    Nothing,   ///< it is off
    Shutdown,  ///< ask the guest
    Follow,    ///< somebody is at it: wait for that task
    EndTask,   ///< a task holds the VM's lock: it waits for the guest in vain, or copies its disks
    Stop,      ///< the guest does not listen
    Unlock,    ///< its configuration is locked, and no task is there that would take the lock away
  };
  Next next = Next::Nothing;
  std::optional<proxmox::Upid> task;
  std::string lock;             // of its configuration: backup, migrate, snapshot…
  unsigned vain = 0;            // stops and destroys of this run that failed
  std::string last_words = {};  // of the last of those
  bool by_ha = false;

  std::string text() const;  // for people, and different for every step on the way
};
Halt plan_halt(World& world, const proxmox::VmRow& row);
/// That one act for a VM that stays; an empty receipt where there is nothing to do. Nobody's backup
/// or migration is ended for that: Busy while one goes on.
engine::Receipt halt_vm(World& world, const proxmox::VmRow& row);

/// A task that holds a VM's lock as long as it lasts and is none of the acts of this program.
bool holds_lock(const std::string& task_type);

/// The next act towards a VM's end: off, then destroyed. The VM has been proved to be ours. Never
/// blocks: what the act waits for is asked by `probe_removal`.
engine::Receipt remove_vm(World& world, const proxmox::VmRow& row);

/// Asks after such an act. A shutdown that the guest ignored is no failure: the next act is harder.
/// A backup job for many guests is over for `vmid` as soon as it has let go of its lock.
engine::Progress probe_removal(World& world, const engine::Receipt& receipt,
                               const std::string& doing,
                               std::optional<proxmox::Vmid> vmid = std::nullopt);

}  // namespace rocca::resources
