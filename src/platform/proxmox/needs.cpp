#include "platform/proxmox/needs.hpp"

#include <algorithm>
#include <set>

namespace rocca::resources {

namespace {

using proxmox::Act;

/// How a node is found when its lease is not known beforehand.
bool asks_agent(const spec::Spec& spec, const spec::Machine& machine) {
  return *spec.network.addressing == spec::Addressing::Dhcp && *machine.agent;
}

}  // namespace

std::optional<unsigned> vlan_of(const spec::Spec& spec, const spec::Machine& machine,
                                std::size_t nic) {
  const auto& vlan = machine.nics[nic].vlan || nic > 0 ? machine.nics[nic].vlan : spec.network.vlan;
  if (!vlan) return std::nullopt;
  return static_cast<unsigned>(**vlan);
}

ProxmoxNeeds needs_of(const spec::Spec& spec, const spec::Lock& lock,
                      const std::map<std::string, std::string>& places,
                      const std::function<bool(const spec::Node&)>& counts) {
  const spec::Proxmox& proxmox = *spec.proxmox;
  ProxmoxNeeds needs;
  std::set<std::string> hosts, storages, pools, mappings;
  std::set<std::pair<std::string, std::optional<unsigned>>> links;
  bool agent = false;
  for (const spec::Node& node : spec.nodes) {
    if (node.machine == nullptr || !counts(node)) continue;
    const spec::Machine& machine = *node.machine;
    if (const auto place = places.find(node.name); place != places.end())
      hosts.insert(place->second);
    if (machine.pool) {
      needs.scope.pool = **machine.pool;
      pools.insert(**machine.pool);
    }
    agent = agent || asks_agent(spec, machine);
    const auto locked = lock.nodes.find(node.name);
    if (machine.vmid)
      needs.scope.vmid = static_cast<proxmox::Vmid>(**machine.vmid);
    else if (locked != lock.nodes.end() && locked->second.vmid)
      needs.scope.vmid = static_cast<proxmox::Vmid>(*locked->second.vmid);
    for (std::size_t i = 0; i < machine.nics.size(); ++i)
      links.emplace(machine.nics[i].bridge ? **machine.nics[i].bridge : *proxmox.bridge,
                    vlan_of(spec, machine, i));
    for (const spec::Disk& disk : machine.disks)
      storages.insert(disk.storage ? **disk.storage : *proxmox.disk_storage);
    for (const spec::PciDevice& device : machine.pci) mappings.insert(*device.mapping);
  }
  const spec::Boot boot = *spec.talos.boot;
  const bool clones = boot == spec::Boot::Template;
  needs.image_content = clones ? "" : boot == spec::Boot::Iso ? "iso" : "import";
  needs.pools.assign(pools.begin(), pools.end());
  needs.scope.hosts.assign(hosts.begin(), hosts.end());
  needs.scope.disk_storages.assign(storages.begin(), storages.end());
  needs.scope.pci_mappings.assign(mappings.begin(), mappings.end());
  if (!clones) needs.scope.image_storage = *proxmox.image_storage;
  for (const auto& [bridge, vlan] : links)
    needs.scope.links.push_back({bridge, vlan, "localnetwork"});
  needs.to_create = {Act::ListVms, Act::ListStorage, Act::ListBridges, Act::Power};
  needs.later = {Act::ReadCluster, Act::ChangeVm,         Act::ResizeDisk, Act::DestroyVm,
                 Act::DeleteImage, Act::RewriteCloudInit, Act::ReadTasks,  Act::ReadLog};
  const auto also = [&](Act act) { needs.to_create.push_back(act); };
  if (clones) {
    also(Act::CloneTemplate);
    also(Act::ChangeVm);
    // The clone gets its cloud-init drive and its addresses by changes.
    also(Act::ChangeCdrom);
    also(Act::RewriteCloudInit);
  } else {
    also(Act::DownloadImage);
    also(Act::CreateVm);
  }
  if (boot == spec::Boot::Iso) also(Act::ChangeCdrom);
  if (agent) also(Act::ReadAgent);
  if (!agent && std::any_of(spec.nodes.begin(), spec.nodes.end(), [](const spec::Node& node) {
        return node.machine != nullptr && *node.machine->agent;
      }))
    needs.later.push_back(Act::ReadAgent);
  if (proxmox.hosts.size() > 1) needs.later.push_back(Act::MigrateVm);
  return needs;
}

}  // namespace rocca::resources
