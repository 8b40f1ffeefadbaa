#pragma once

#include "engine/guards.hpp"
#include "engine/resource.hpp"
#include "platform/world.hpp"
#include "proxmox/types.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// What there is of a node's VM.
struct VmSight {
  /// The one VM that proved to be this node's, with its configuration and the proof.
  struct Found {
    proxmox::VmRow row;
    proxmox::VmConfig config;
    proxmox::OwnedVm vm;
  };
  std::optional<Found> found;
  /// Its id is taken by something that Proxmox is making or removing this moment: too early to say
  /// whose it is.
  std::optional<proxmox::VmRow> in_the_making;
  std::string lock;  // of what is in the making
  /// A clone that rocca asked for and that has not got its mark yet: its notes carry the nonce.
  std::optional<Found> unmarked;
  /// Why nothing may be touched or created: what was found instead.
  std::string refusal;
  bool twins = false;     // several VMs have the whole proof
  bool doubtful = false;  // a VM has the node's UUID without its mark
  std::string hint;
  std::optional<proxmox::VmRow> taken;  // a foreign VM or container with the node's id or name
};

struct VmSearch {
  engine::Identity identity;
  std::optional<proxmox::Vmid> vmid;  // where it should be
  std::string name;                   // what it should be called; empty: unknown
  bool everywhere = false;            // every VM of the data centre is asked for its mark
  bool but_our_ids = false;           // but for those at the ids of our other nodes
  bool goes = false;         // it is taken away: one that cannot be asked is another's business
  bool goes_anyway = false;  // all are: it does not even keep the proved one
  std::string nonce = {};    // journaled before a clone was asked for; empty: none
};

/// Looks for a node's VM: at its id, by its name and by our tags, on any host. These only say which
/// VMs to read; VmGuard decides. Error(Unreachable) if it may be on a host that is off.
VmSight find_vm(World& world, const VmSearch& search);

/// How the user makes this VM the node's.
std::string claim_hint(const std::string& node, const proxmox::VmRow& row);
/// "104 on atlas".
std::string id_of(const proxmox::VmRow& row);
/// What others ask for about a VM, and what is remembered of it.
engine::Fields facts_of(const VmSight::Found& vm, const engine::Identity& identity,
                        bool control_plane, const std::string& address);

}  // namespace rocca::resources
