#pragma once

#include "base/uuid.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

// The three guards between a plan and the world. Pure: facts in, a verdict with its reason out.

namespace rocca::engine {

// ---- identity before destruction

/// What a VM must show to be ours.
struct Identity {
  std::string cluster;
  std::string node;
  Uuid uuid;  // derived from the cluster's id and the node's name
  /// There for a VM that another tool made and that was taken over as it is: it carries no mark,
  /// and its UUID is the one it had. Both were written down then, and both must still agree.
  std::optional<std::uint64_t> adopted_vmid = {};
};

/// The UUID of a node's VM: the same for ever, and another one for every cluster and node.
Uuid derive_uuid(const std::string& cluster_id, const std::string& node);
/// The mark in the SMBIOS sku: `blue/cp-1`.
std::string ownership_mark(const std::string& cluster, const std::string& node);
constexpr const char* ownership_family = "rocca";

/// What a VM shows.
struct Shown {
  std::string where;  // how to name it in a message: "VM 104 'db-1' on atlas"
  std::optional<Uuid> uuid;
  std::string family;
  std::string sku;
  std::uint64_t vmid = 0;
};

enum class Ownership {
  Ours,         ///< UUID and mark agree
  Foreign,      ///< neither says it is ours
  Contradicts,  ///< one says ours, the other does not: somebody copied or edited it
};

struct Proof {
  Ownership ownership = Ownership::Foreign;
  std::string reason;  // for people, always
};

/// Only UUID and mark count; an id, a name or a tag proves nothing. Of an adopted VM the UUID and
/// the id count together, and a mark that says something else counts against it. Twins are seen
/// only side by side: the platform's guard judges all VMs together.
Proof prove(const Shown& shown, const Identity& expected);

// ---- quorum before disruption

/// A control plane as etcd and Talos see it.
struct Member {
  std::string node;
  bool voting = true;    // not a learner
  bool healthy = false;  // answers, has a leader, no alarm
};

struct Verdict {
  bool allowed = false;
  std::string reason;
};

/// Members that must agree: more than half.
std::size_t quorum_of(std::size_t voting_members);

/// May this node be away for a while (reboot, power cycle, upgrade)? Only if the rest keeps quorum,
/// everybody else is healthy, and nobody else is being disturbed now. A single member may: there is
/// nothing to lose but availability, which the effect class already says.
Verdict may_disturb(const std::vector<Member>& members, const std::string& node,
                    const std::set<std::string>& disturbed_now);

/// May this member be taken out for good? What remains must have quorum without any member that is
/// not healthy.
Verdict may_remove(const std::vector<Member>& members, const std::string& node);

// ---- effect classes before surprise

enum class Effect { None, Live, Service, Reboot, PowerCycle, Replace, DataLoss };
const char* to_string(Effect effect) noexcept;
std::optional<Effect> parse_effect(const std::string& text);

struct EffectPolicy {
  std::set<Effect> allowed = {Effect::Live, Effect::Service, Effect::Reboot};
  bool protect = false;  // refuses replace and data-loss whatever is allowed
};

/// May a change of this class run? The reason of a refusal names the flag that allows it.
/// `confirmed`: the user has allowed it before, in a run that was interrupted; only `protect` still
/// refuses it.
Verdict may_run(Effect effect, const EffectPolicy& policy, bool confirmed = false);

}  // namespace rocca::engine
