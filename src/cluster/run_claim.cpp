#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "cluster/run_impl.hpp"
#include "locking/choose.hpp"
#include "platform/kinds.hpp"
#include "platform/vm_guard.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

/// The VM that the user named, among all there are.
struct Named {
  ClaimPlan plan;
  VmGuard::Claim verdict;
  std::string digest;
};

std::string new_smbios(const std::string& before, const engine::Identity& identity) {
  proxmox::Smbios smbios = proxmox::Smbios::parse(before).value_or(proxmox::Smbios{});
  smbios.uuid = identity.uuid;
  smbios.family = engine::ownership_family;
  smbios.sku = engine::ownership_mark(identity.cluster, identity.node);
  return smbios.print();
}

Named look_at_named(World& world, const std::string& node, proxmox::Vmid vmid) {
  const Cluster& cluster = world.cluster;
  const engine::Identity identity = cluster.identity_of(node);
  proxmox::Client& client = world.proxmox();
  std::vector<SeenVm> seen;
  std::optional<std::size_t> index;
  for (const proxmox::VmRow& row : client.vms()) {
    SeenVm vm{row, {}};
    if (row.vmid == vmid) {
      if (!row.is_container)
        if (auto config = client.find_whole_config(row.node, row.vmid)) vm.config = *config;
      index = seen.size();
    } else if (row.is_container) {
      continue;
    } else if (auto config = world.survey.config_of_any(client, row)) {
      vm.config = *config;
    } else if (world.survey.is_off(row.node)) {
      throw Error(Fault::Unreachable, fmt::format("host {} is off, and {} may have the UUID of {}",
                                                  row.node, describe(row), node))
          .hint(fmt::format("once {} is back, run `rocca claim` again", row.node));
    }
    if (const std::string* name = vm.config.find("name")) vm.row.name = *name;
    seen.push_back(std::move(vm));
  }
  if (!index) throw Error(Fault::NotFound, fmt::format("there is no VM {}", vmid));
  std::vector<engine::Identity> others;
  for (const spec::Node& other : cluster.spec.nodes)
    if (other.name != node && other.machine) others.push_back(cluster.identity_of(other.name));
  const SeenVm& vm = seen[*index];
  Named named;
  named.verdict = VmGuard::may_claim(seen, *index, {identity, vmid}, others);
  named.digest = vm.config.digest;
  ClaimPlan& plan = named.plan;
  plan.node = node;
  plan.vmid = vmid;
  plan.vm = describe(vm.row);
  plan.host = vm.row.node;
  plan.before = vm.config.value_or("smbios1", "");
  plan.after = new_smbios(plan.before, identity);
  plan.uuid_before = vm.config.uuid();
  plan.uuid_after = identity.uuid;
  plan.ours = named.verdict.ours;
  if (const auto status = vm.row.is_container ? std::nullopt : client.find_status(plan.host, vmid))
    plan.running = status->status == "running";
  if (!named.verdict.refusal.empty())
    throw Error(Fault::Refused,
                fmt::format("VM {} cannot become {}: {}", vmid, node, named.verdict.refusal));
  return named;
}

void require_virtual_node(const Cluster& cluster, const std::string& name) {
  const spec::Node* node = cluster.spec.find_node(name);
  if (node != nullptr && node->machine && cluster.proxmox) return;
  std::vector<std::string> names;
  for (const spec::Node& each : cluster.spec.nodes)
    if (each.machine) names.push_back(each.name);
  if (node != nullptr)
    throw Error(Fault::Usage, fmt::format("{} is a machine that exists already, not a VM", name));
  throw Error(Fault::Usage, fmt::format("cluster {} has no node '{}'{}", cluster.name(), name,
                                        did_you_mean(name, names)))
      .hint("a node is claimed for the spec: add it there first");
}

}  // namespace

ClaimPlan Run::plan_claim(const std::string& node, proxmox::Vmid vmid) {
  Impl& impl = *impl_;
  require_virtual_node(impl.cluster, node);
  if (const auto& said = impl.cluster.spec.find_node(node)->machine->vmid;
      said && static_cast<std::uint64_t>(**said) != vmid)
    throw Error(Fault::Usage, fmt::format("the spec says that {} is VM {}", node, **said))
        .hint(fmt::format("nodes.{}.machine.vmid: {}", node, vmid));
  Look look{impl.doors.clock};
  impl.load(look);
  std::optional<Named> named;
  impl.with_proxmox(look, [&](World& world) { named = look_at_named(world, node, vmid); });
  return named->plan;
}

void Run::claim(const ClaimPlan& plan) {
  Impl& impl = *impl_;
  const auto lock = impl.take_lock();
  Look look{impl.doors.clock};
  impl.load(look);
  impl.with_proxmox(look, [&](World& world) {
    const Named now = look_at_named(world, plan.node, plan.vmid);
    if (now.plan.before != plan.before || now.plan.host != plan.host ||
        now.plan.running != plan.running)
      throw Error(Fault::Refused, fmt::format("{} has changed since it was shown", plan.vm))
          .hint("run `rocca claim` again");
    if (!now.verdict.vm) return;
    proxmox::VmUpdate update;
    update.set["smbios1"] = plan.after;
    update.digest = now.digest;
    world.proxmox().update(*now.verdict.vm, update);
  });
  spec::Lock written = impl.cluster.lock;
  written.cluster = impl.cluster.name();
  spec::LockedNode& chosen = written.nodes[plan.node];
  locking::place(chosen, plan.vmid);
  chosen.host = plan.host;
  impl.write_lock(written);
  impl.cluster.lock = written;
}

}  // namespace rocca::resources
