#include "doctor/wish_of.hpp"

#include <algorithm>
#include <set>

namespace rocca::doctor {

namespace {

// What a VM takes beside its disks: EFI variables and the cloud-init drive.
constexpr Bytes small_disks = Bytes::mib(8);

}  // namespace

Wish wish_of(const spec::Spec& spec) {
  const spec::Proxmox& proxmox = *spec.proxmox;
  Wish wish;
  std::set<std::string> hosts, storages;
  std::set<std::pair<std::string, std::optional<unsigned>>> links;
  for (const auto& host : proxmox.hosts) hosts.insert(*host);
  bool agent = false, clones = false;
  for (const spec::Node& node : spec.nodes) {
    if (node.machine == nullptr) continue;
    const spec::Machine& machine = *node.machine;
    if (machine.host) hosts.insert(**machine.host);
    if (machine.pool) wish.scope.pool = **machine.pool;
    agent = agent || *machine.agent;
    Wish::Machine wanted{node.name, std::nullopt, {}, std::nullopt};
    if (machine.vmid) wanted.vmid = static_cast<proxmox::Vmid>(**machine.vmid);
    if (wanted.vmid) wish.scope.vmid = *wanted.vmid;
    for (const spec::Nic& nic : machine.nics) {
      std::optional<unsigned> vlan;
      if (nic.vlan)
        vlan = static_cast<unsigned>(**nic.vlan);
      else if (spec.network.vlan)
        vlan = static_cast<unsigned>(**spec.network.vlan);
      links.emplace(nic.bridge ? **nic.bridge : *proxmox.bridge, vlan);
      if (nic.mac) wanted.macs.push_back(**nic.mac);
    }
    for (const spec::Disk& disk : machine.disks) {
      const std::string storage = disk.storage ? **disk.storage : *proxmox.disk_storage;
      storages.insert(storage);
      if (machine.host || hosts.size() == 1)
        wish.space.push_back(
            {machine.host ? **machine.host : *hosts.begin(), storage, *disk.size + small_disks});
    }
    wish.machines.push_back(std::move(wanted));
  }
  clones = *spec.talos.boot == spec::Boot::Template;
  wish.scope.hosts.assign(hosts.begin(), hosts.end());
  wish.scope.disk_storages.assign(storages.begin(), storages.end());
  wish.scope.image_storage = *proxmox.image_storage;
  for (const auto& [bridge, vlan] : links)
    wish.scope.links.push_back({bridge, vlan, "localnetwork"});
  // Only what this cluster will do: rights it never uses are not asked for.
  std::erase_if(wish.acts, [&](proxmox::Act act) {
    return (act == proxmox::Act::ReadAgent && !agent) ||
           (act == proxmox::Act::CloneTemplate && !clones) ||
           (act == proxmox::Act::MigrateVm && hosts.size() < 2);
  });
  return wish;
}

}  // namespace rocca::doctor
