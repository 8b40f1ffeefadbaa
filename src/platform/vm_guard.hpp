#pragma once

#include "engine/guards.hpp"
#include "proxmox/owned_vm.hpp"
#include "proxmox/types.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// One VM as Proxmox shows it: its row of the cluster's list, and its own configuration.
struct SeenVm {
  proxmox::VmRow row;
  proxmox::VmConfig config;
};

/// What a node's VM must show.
struct ExpectedVm {
  engine::Identity identity;          // UUID and mark; of an adopted VM what rocca.lock says
  std::optional<proxmox::Vmid> vmid;  // where rocca creates it
  /// The random text that was written to the state before a clone of a template was asked for. The
  /// clone call takes no SMBIOS values, so this text in its notes is the proof until it is marked.
  /// Empty: no clone was asked for, or the state is lost.
  std::string nonce = {};
};

enum class VmStanding {
  Ours,      ///< UUID and mark agree
  OurClone,  ///< a clone that rocca asked for and has not marked yet: the journaled nonce is there
  Twin,      ///< more than one VM has the same proof: none of them is touched
  HasUuid,   ///< our UUID without our mark: the mark was removed or edited
  HasMark,   ///< our mark with another UUID: a clone that another user made
  Foreign,
};
const char* to_string(VmStanding standing) noexcept;

struct VmVerdict {
  VmStanding standing = VmStanding::Foreign;
  std::string reason;                    // for people, always
  std::optional<proxmox::OwnedVm> vm{};  // only of Ours and OurClone
};

/// Decides whether a VM is ours, and is the only code that can make an OwnedVm, which every
/// changing call of proxmox::Client takes. Pure: facts in, verdicts out. A VM's id, name, tags and
/// notes (but for the nonce) never change a verdict.
class VmGuard {
 public:
  /// One verdict for each VM, judged together: twins are seen only side by side.
  static std::vector<VmVerdict> judge(const std::vector<SeenVm>& seen, const ExpectedVm& expected);

  struct Claim {
    std::string refusal;  // not empty: why this VM cannot become the node's
    bool ours = false;    // it already is
    std::optional<proxmox::OwnedVm> vm{};
  };
  /// May the VM at `index`, which the user named, get the mark of this node? Refuses templates,
  /// containers, a VM with the mark of another node or cluster, and any VM while another one shows
  /// the node's UUID. `others`: the identities of the cluster's other nodes.
  static Claim may_claim(const std::vector<SeenVm>& seen, std::size_t index,
                         const ExpectedVm& expected, const std::vector<engine::Identity>& others);
};

/// The notes of a clone until it is marked.
std::string clone_notes(const engine::Identity& identity, const std::string& nonce);

/// What a VM shows of its identity.
engine::Shown shown_of(const proxmox::VmRow& row, const proxmox::VmConfig& config);
/// "VM 104 'db-1' on atlas".
std::string describe(const proxmox::VmRow& row);

}  // namespace rocca::resources
