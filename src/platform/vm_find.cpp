#include "platform/vm_find.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "platform/survey.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::resources {

namespace {

/// Which VMs must be asked who they are. Those at the ids of our other nodes are asked by those.
std::vector<proxmox::VmRow> candidates(World& world, const VmSearch& search) {
  std::set<std::uint64_t> of_others;
  for (const auto& [node, chosen] : world.cluster.lock.nodes)
    if (chosen.vmid && node != search.identity.node) of_others.insert(*chosen.vmid);
  const std::string mark = engine::ownership_mark(search.identity.cluster, search.identity.node);
  return world.survey.select(world.proxmox(), [&](const Survey::Candidate& each) {
    const proxmox::VmRow& row = each.row;
    const bool at_its_id = search.vmid && row.vmid == *search.vmid;
    const bool by_name = !search.name.empty() && row.name == search.name;
    // A scan of everything may have met our mark where neither id, name nor tags would lead.
    const bool by_tags = (has_our_tags(row, search.identity.cluster) || each.marked) &&
                         !of_others.contains(row.vmid);
    if (at_its_id || by_name || by_tags) return true;
    if (!search.everywhere || row.is_container) return false;
    if (search.but_our_ids && each.shown == nullptr && of_others.contains(row.vmid)) return false;
    // Who has shown in this run that it is another one need not be asked again by each of many.
    return each.shown == nullptr || !search.vmid || each.shown->uuid == search.identity.uuid ||
           each.shown->sku == mark;
  });
}

bool being_made(const std::string& lock) {
  return lock == "create" || lock == "clone" || lock == "destroyed";
}

std::string taken_text(const proxmox::VmRow& row, const VmSearch& search) {
  if (search.vmid && row.vmid == *search.vmid)
    return fmt::format("VM id {} of {} is taken by {}, which is not ours", *search.vmid,
                       search.identity.node, describe(row));
  return fmt::format("{} has the name of {} and is not ours", describe(row), search.identity.node);
}

std::string taken_hint(const proxmox::VmRow& row, const VmSearch& search) {
  const std::string& node = search.identity.node;
  std::string hint = fmt::format(
      "give {0} another `vmid` (nodes.{0}.machine.vmid, or remove nodes.{0} from rocca.lock), or "
      "move that VM away",
      node);
  if (!row.is_container && !row.is_template) hint += "; " + claim_hint(node, row);
  return hint;
}

/// Of one whose host is off only the list tells: its id, its name, its tags.
bool may_be_its(World& world, const proxmox::VmRow& row, const VmSearch& search) {
  if (!search.name.empty() && row.name == search.name) return true;
  if (!has_our_tags(row, search.identity.cluster)) return false;
  const std::string node = world.survey.seems(row.vmid);
  return node.empty() || node == search.identity.node;
}

[[noreturn]] void throw_unasked(const proxmox::VmRow& row, const VmSearch& search) {
  throw Error(Fault::Unreachable, fmt::format("host {} is off, and {} may be {}", row.node,
                                              describe(row), search.identity.node))
      .hint(fmt::format("once {} is back, the same command goes on from here", row.node));
}

}  // namespace

std::string claim_hint(const std::string& node, const proxmox::VmRow& row) {
  return fmt::format("if this VM is to be {0}: `rocca claim {0} --vm {1}`", node, row.vmid);
}

VmSight find_vm(World& world, const VmSearch& search) {
  VmSight sight;
  std::vector<SeenVm> seen;
  std::vector<proxmox::VmRow> foreign;
  std::optional<proxmox::VmRow> unasked;
  const ExpectedVm expected{search.identity, search.vmid, search.nonce};
  for (proxmox::VmRow row : candidates(world, search)) {
    if (row.is_container) {
      foreign.push_back(row);
      continue;
    }
    const bool at_its_id = search.vmid && row.vmid == *search.vmid;
    auto config = at_its_id ? world.survey.config(world.proxmox(), row.node, row.vmid)
                            : world.survey.config_of_any(world.proxmox(), row);
    if (!config && !at_its_id && world.survey.is_off(row.node)) {
      if (may_be_its(world, row, search)) unasked = row;
      continue;
    }
    if (!config) {
      // It moved or went since the list was read.
      world.survey.refresh(world.proxmox());
      const auto again = world.survey.find(world.proxmox(), row.vmid);
      if (!again || again->is_container) continue;
      row = *again;
      config = world.survey.config(world.proxmox(), row.node, row.vmid);
      if (!config) continue;
    }
    if (const std::string* name = config->find("name")) row.name = *name;
    const std::string lock = config->value_or("lock", "");
    if (at_its_id && being_made(lock) &&
        engine::prove(shown_of(row, *config), search.identity).ownership !=
            engine::Ownership::Ours) {
      world.survey.forget(row.vmid);
      sight.in_the_making = row;
      sight.lock = lock;
      continue;
    }
    seen.push_back({row, std::move(*config)});
  }
  std::vector<VmVerdict> verdicts = VmGuard::judge(seen, expected);
  std::vector<std::string> doubts;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    VmVerdict& verdict = verdicts[i];
    switch (verdict.standing) {
      case VmStanding::Ours:
        sight.found = {seen[i].row, seen[i].config, std::move(*verdict.vm)};
        break;
      case VmStanding::OurClone:
        sight.unmarked = {seen[i].row, seen[i].config, std::move(*verdict.vm)};
        break;
      case VmStanding::Twin:
        sight.twins = true;
        sight.refusal = verdict.reason;
        sight.hint = "remove or change the VM that should not be there";
        break;
      case VmStanding::HasUuid:
        doubts.push_back(verdict.reason);
        if (sight.hint.empty()) sight.hint = claim_hint(search.identity.node, seen[i].row);
        break;
      case VmStanding::HasMark:
      case VmStanding::Foreign:
        foreign.push_back(seen[i].row);
        break;
    }
  }
  if (sight.twins) {
    sight.found.reset();
    sight.unmarked.reset();
    return sight;
  }
  if (sight.found) {
    if (unasked && search.everywhere && !search.goes_anyway) throw_unasked(*unasked, search);
    sight.hint.clear();
    return sight;
  }
  if (!doubts.empty()) {
    sight.refusal = join(doubts, "; ");
    sight.doubtful = true;
    sight.unmarked.reset();
    return sight;
  }
  if (sight.in_the_making || sight.unmarked) return sight;
  if (unasked && !search.goes) throw_unasked(*unasked, search);
  // Its id counts most: another VM of its name matters only if its id is free.
  std::stable_sort(foreign.begin(), foreign.end(), [&](const auto& a, const auto& b) {
    return (search.vmid && a.vmid == *search.vmid) > (search.vmid && b.vmid == *search.vmid);
  });
  for (const proxmox::VmRow& row : foreign) {
    const bool at_its_id = search.vmid && row.vmid == *search.vmid;
    if (!at_its_id && (search.name.empty() || row.name != search.name)) continue;
    // A clone with our mark, or a VM of ours of another node, is in nobody's way elsewhere.
    const auto config =
        row.is_container ? std::nullopt : world.survey.config(world.proxmox(), row.node, row.vmid);
    if (config && config->smbios("family").value_or("") == engine::ownership_family &&
        config->smbios("sku").value_or("").starts_with(search.identity.cluster + "/") && !at_its_id)
      continue;
    sight.refusal = taken_text(row, search);
    sight.hint = taken_hint(row, search);
    sight.taken = row;
    break;
  }
  return sight;
}

std::string id_of(const proxmox::VmRow& row) {
  return fmt::format("{} on {}", row.vmid, row.node);
}

engine::Fields facts_of(const VmSight::Found& vm, const engine::Identity& identity,
                        bool control_plane, const std::string& address) {
  const auto& [row, config, owned] = vm;
  engine::Fields facts{{"vmid", std::to_string(row.vmid)},
                       {"host", row.node},
                       {"uuid", to_string(identity.uuid)},
                       {"node", identity.node},
                       {"role", control_plane ? "controlplane" : "worker"}};
  if (const std::string* name = config.find("name")) facts["name"] = *name;
  if (const std::string* nic = config.find("net0"))
    facts["mac"] = proxmox::PropertyString::parse("net0", *nic).value_or("macaddr", "");
  if (!address.empty()) facts["address"] = address;
  if (identity.adopted_vmid) facts["adopted"] = "yes";
  return facts;
}

}  // namespace rocca::resources
