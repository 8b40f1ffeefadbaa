#pragma once

#include "engine/guards.hpp"
#include "engine/resource.hpp"
#include "proxmox/types.hpp"
#include "resources/world.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// What there is of a node's VM.
struct VmSight {
  /// The one VM that proved to be this node's, with its configuration.
  struct Found {
    proxmox::VmRow row;
    proxmox::VmConfig config;
  };
  std::optional<Found> found;
  /// Its id is taken by something that Proxmox is making or removing this moment: too early to say
  /// whose it is.
  std::optional<proxmox::VmRow> in_the_making;
  std::string lock;  // of what is in the making
  /// A clone of ours that has not got its mark yet.
  std::optional<Found> unmarked;
  /// Why nothing may be touched or made: what was found instead.
  std::string refusal;
  bool doubtful = false;  // what was found shows our proof, or a part of it
  std::string hint;
};

struct VmSearch {
  engine::Identity identity;
  std::optional<proxmox::Vmid> vmid;  // where it should be
  std::string name;                   // what it should be called; empty: unknown
  bool everywhere = false;            // every VM of the data centre is asked for its mark
  bool but_our_ids = false;           // but for those at the ids of our other nodes
  bool goes = false;         // it is taken away: one that cannot be asked is another's business
  bool goes_anyway = false;  // all are: it does not even keep the proved one
};

/// Looks for a node's VM: at its id, by its name and by our tags, on any host. Only UUID and mark
/// prove it. Error(Unreachable) if it may be on a host that is off.
VmSight find_vm(World& world, const VmSearch& search);

/// "104 on atlas".
std::string id_of(const proxmox::VmRow& row);
/// What others ask for about a VM, and what is remembered of it.
engine::Fields facts_of(const VmSight::Found& vm, const engine::Identity& identity,
                        bool control_plane, const std::string& address);

}  // namespace rocca::resources
