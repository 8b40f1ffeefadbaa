#include "engine/guards.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::engine {

namespace {

// Our own namespace for UUIDs of version 5; random once, fixed for ever.
constexpr Uuid rocca_space{std::array<std::uint8_t, 16>{0x5f, 0x0c, 0xca, 0x3a, 0x8e, 0x21, 0x4b,
                                                        0x6d, 0x9a, 0x4e, 0x21, 0x7d, 0x90, 0x3b,
                                                        0x52, 0xf1}};

constexpr std::array effects = {std::pair{Effect::None, "none"},
                                std::pair{Effect::Live, "live"},
                                std::pair{Effect::Service, "service"},
                                std::pair{Effect::Reboot, "reboot"},
                                std::pair{Effect::PowerCycle, "power-cycle"},
                                std::pair{Effect::Replace, "replace"},
                                std::pair{Effect::DataLoss, "data-loss"}};

Verdict allow() {
  return {true, ""};
}
Verdict refuse(std::string reason) {
  return {false, std::move(reason)};
}

std::vector<std::string> unhealthy_but(const std::vector<Member>& members,
                                       const std::string& node) {
  std::vector<std::string> names;
  for (const Member& member : members)
    if (member.node != node && !member.healthy) names.push_back(member.node);
  return names;
}

const Member* find(const std::vector<Member>& members, const std::string& node) {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.node == node; });
  return found == members.end() ? nullptr : &*found;
}

/// A VM that was taken over: nobody marked it, so its UUID and its id stand for the proof.
Proof prove_adopted(const Shown& shown, const Identity& expected) {
  const std::string mark = ownership_mark(expected.cluster, expected.node);
  const bool by_uuid = shown.uuid == expected.uuid;
  const bool by_id = shown.vmid == *expected.adopted_vmid;
  const bool marked = shown.family == ownership_family;
  const bool by_mark = marked && shown.sku == mark;
  if (by_uuid && marked && !by_mark)
    return {Ownership::Contradicts, fmt::format("{} has the UUID of {}, but carries the mark {}",
                                                shown.where, mark, shown.sku)};
  if (by_uuid && by_id)
    return {Ownership::Ours, fmt::format("{} has the UUID and the id that {} was taken over with",
                                         shown.where, mark)};
  if (by_uuid)
    return {Ownership::Contradicts,
            fmt::format("{} has the UUID of {}, which was taken over as VM {}: a restored backup?",
                        shown.where, mark, *expected.adopted_vmid)};
  if (by_mark)
    return {Ownership::Contradicts,
            fmt::format("{} carries the mark {}, but its UUID is {} and not {}", shown.where, mark,
                        shown.uuid ? to_string(*shown.uuid) : "absent", to_string(expected.uuid))};
  return {Ownership::Foreign,
          fmt::format("{} is not the VM that {} was taken over as", shown.where, mark)};
}

std::size_t voters(const std::vector<Member>& members) {
  return static_cast<std::size_t>(
      std::count_if(members.begin(), members.end(), [](const Member& m) { return m.voting; }));
}

}  // namespace

Uuid derive_uuid(const std::string& cluster_id, const std::string& node) {
  return Uuid::v5(rocca_space, cluster_id + "/" + node);
}

std::string ownership_mark(const std::string& cluster, const std::string& node) {
  return cluster + "/" + node;
}

Proof prove(const Shown& shown, const Identity& expected) {
  if (expected.adopted_vmid) return prove_adopted(shown, expected);
  const std::string mark = ownership_mark(expected.cluster, expected.node);
  const bool by_uuid = shown.uuid == expected.uuid;
  const bool by_mark = shown.family == ownership_family && shown.sku == mark;
  if (by_uuid && by_mark)
    return {Ownership::Ours, fmt::format("{} carries our UUID and the mark {}", shown.where, mark)};
  if (by_uuid && shown.family.empty() && shown.sku.empty())
    return {Ownership::Contradicts,
            fmt::format("{} has the UUID of {}, but no mark", shown.where, mark)};
  if (by_uuid)
    return {Ownership::Contradicts,
            fmt::format("{} has the UUID of {}, but its mark is '{}/{}' and not '{}/{}'",
                        shown.where, mark, shown.family, shown.sku, ownership_family, mark)};
  if (by_mark)
    return {Ownership::Contradicts,
            fmt::format("{} carries the mark {}, but its UUID is {} and not {}", shown.where, mark,
                        shown.uuid ? to_string(*shown.uuid) : "absent", to_string(expected.uuid))};
  return {Ownership::Foreign,
          fmt::format("{} is not ours: no UUID and no mark of {}", shown.where, mark)};
}

std::size_t quorum_of(std::size_t voting_members) {
  return voting_members / 2 + 1;
}

Verdict may_disturb(const std::vector<Member>& members, const std::string& node,
                    const std::set<std::string>& disturbed_now) {
  const Member* member = find(members, node);
  if (member == nullptr) return allow();  // no control plane: etcd does not notice
  for (const std::string& other : disturbed_now)
    if (other != node && find(members, other) != nullptr)
      return refuse(
          fmt::format("{} is being disturbed already; control planes go one at a time", other));
  const std::size_t all = voters(members);
  if (all <= 1 || !member->voting) return allow();
  if (const auto sick = unhealthy_but(members, node); !sick.empty())
    return refuse(
        fmt::format("{} {} not healthy; without {} as well etcd could lose its quorum of {} of {}",
                    enumerate(sick), sick.size() == 1 ? "is" : "are", node, quorum_of(all), all));
  if (all - 1 < quorum_of(all))
    return refuse(
        fmt::format("etcd has {} members and needs {} of them: without {} it stands still. Two "
                    "control planes are worse than "
                    "one, because either failing stops both",
                    all, quorum_of(all), node));
  return allow();
}

Verdict may_remove(const std::vector<Member>& members, const std::string& node) {
  const Member* member = find(members, node);
  if (member == nullptr) return refuse(fmt::format("{} is no member of etcd", node));
  if (!member->voting) return allow();
  const std::size_t all = voters(members);
  if (all == 1)
    return refuse(fmt::format("{} is the last member of etcd: all data would be gone", node));
  std::size_t healthy = 0;
  for (const Member& other : members)
    healthy += other.node != node && other.voting && other.healthy;
  // The removal itself needs a quorum of the present members, and what remains needs one of its
  // own.
  const std::size_t now = healthy + (member->healthy ? 1 : 0);
  if (now < quorum_of(all))
    return refuse(fmt::format(
        "only {} of {} members are healthy: etcd has no quorum to agree on the removal of {}", now,
        all, node));
  if (healthy < quorum_of(all - 1))
    return refuse(
        fmt::format("without {} only {} of {} members would be healthy, and {} are needed", node,
                    healthy, all - 1, quorum_of(all - 1)));
  return allow();
}

const char* to_string(Effect effect) noexcept {
  for (const auto& [value, name] : effects)
    if (value == effect) return name;
  return "?";
}

std::optional<Effect> parse_effect(const std::string& text) {
  for (const auto& [value, name] : effects)
    if (text == name && value != Effect::None) return value;
  return std::nullopt;
}

Verdict may_run(Effect effect, const EffectPolicy& policy, bool confirmed) {
  if (effect == Effect::None) return allow();
  if (policy.protect && (effect == Effect::Replace || effect == Effect::DataLoss))
    return refuse(fmt::format("the cluster has protect: true, and this is a change of class {}",
                              to_string(effect)));
  if (confirmed || policy.allowed.contains(effect)) return allow();
  return refuse(
      fmt::format("a change of class {} is not allowed without being asked for: --allow {}",
                  to_string(effect), to_string(effect)));
}

}  // namespace rocca::engine
