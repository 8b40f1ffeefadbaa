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
    EndTask,   ///< a task waits for the guest in vain and holds the VM's lock
    Stop,      ///< the guest does not listen
  };
  Next next = Next::Nothing;
  std::optional<proxmox::Upid> task;
  unsigned stops = 0;  // that failed lately
  bool by_ha = false;

  std::string text() const;  // for people, and different for every step on the way
};
Halt plan_halt(World& world, const proxmox::VmRow& row);
/// That one act; an empty receipt where there is nothing to do.
engine::Receipt halt_vm(World& world, const proxmox::VmRow& row);

/// The next act towards a VM's end: off, then destroyed. The VM has been proved to be ours. Never
/// blocks: what the act waits for is asked by `probe_removal`.
engine::Receipt remove_vm(World& world, const proxmox::VmRow& row);

/// Asks after such an act. A shutdown that the guest ignored is no failure: the next act is harder.
engine::Progress probe_removal(World& world, const engine::Receipt& receipt,
                               const std::string& doing);

}  // namespace rocca::resources
