#pragma once

#include "proxmox/upid.hpp"

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
}  // namespace rocca::resources
