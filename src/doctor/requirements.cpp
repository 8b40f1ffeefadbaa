#include "doctor/requirements.hpp"

#include "engine/guards.hpp"
#include "factory/node_image.hpp"
#include "locking/choose.hpp"
#include "locking/resolve.hpp"
#include "platform/proxmox/placement.hpp"

#include <algorithm>
#include <set>

namespace rocca::doctor {

namespace {

// What a VM takes beside its disks: EFI variables and the cloud-init drive.
constexpr Bytes small_disks = Bytes::mib(8);

/// Nodes that boot the same image share one entry; with META addressing each has its own.
void want_image(Wish& wish, Files& files, const spec::Spec& spec, const spec::Lock& lock,
                const spec::Node& node, const std::string& host) {
  const auto artifact = locking::artifact_of(spec, node);
  if (!artifact) return;
  const factory::NodeImage image = factory::node_image(files, spec, node);
  auto wanted = std::find_if(wish.images.begin(), wish.images.end(),
                             [&](const Wish::Image& i) { return i.schematic == image.id; });
  if (wanted == wish.images.end()) {
    const Version& talos = *spec.talos.version;
    const auto pinned = lock.images.find(factory::image_file(image.id, talos, *artifact));
    wanted = wish.images.insert(wanted,
                                {image.id,
                                 talos,
                                 *artifact,
                                 image.schematic.has_value(),
                                 pinned == lock.images.end() ? std::nullopt : pinned->second.size,
                                 {}});
  }
  if (std::find(wanted->hosts.begin(), wanted->hosts.end(), host) == wanted->hosts.end())
    wanted->hosts.push_back(host);
}

}  // namespace

Wish wish_of(Files& files, const spec::Spec& spec, const spec::Lock& lock,
             const std::optional<std::string>& cluster_id) {
  const spec::Proxmox& proxmox = *spec.proxmox;
  Wish wish;
  std::set<std::string> hosts, storages, pools;
  std::set<std::pair<std::string, std::optional<unsigned>>> links;
  for (const auto& host : proxmox.hosts) hosts.insert(*host);
  const std::map<std::string, std::string> places = locking::choose_hosts(spec, lock, {});
  bool agent = false;
  for (const spec::Node& node : spec.nodes) {
    if (node.machine == nullptr) continue;
    const spec::Machine& machine = *node.machine;
    const std::string& host = places.at(node.name);
    hosts.insert(host);
    if (machine.pool) {
      wish.scope.pool = **machine.pool;
      pools.insert(**machine.pool);
    }
    agent = agent || *machine.agent;
    Wish::Machine wanted{node.name, std::nullopt, {}, std::nullopt, false};
    const auto locked = lock.nodes.find(node.name);
    if (locked != lock.nodes.end()) wanted.uuid = locked->second.uuid;
    if (!wanted.uuid && cluster_id) wanted.uuid = engine::derive_uuid(*cluster_id, node.name);
    if (machine.vmid) {
      wanted.vmid = static_cast<proxmox::Vmid>(**machine.vmid);
    } else if (locked != lock.nodes.end() && locked->second.vmid) {
      wanted.vmid = static_cast<proxmox::Vmid>(*locked->second.vmid);
      wanted.vmid_is_locked = true;
    }
    if (wanted.vmid) wish.scope.vmid = *wanted.vmid;
    for (std::size_t number = 0; number < machine.nics.size(); ++number) {
      const spec::Nic& nic = machine.nics[number];
      std::optional<unsigned> vlan;
      if (nic.vlan)
        vlan = static_cast<unsigned>(**nic.vlan);
      else if (spec.network.vlan)
        vlan = static_cast<unsigned>(**spec.network.vlan);
      links.emplace(nic.bridge ? **nic.bridge : *proxmox.bridge, vlan);
      if (nic.mac)
        wanted.macs.push_back(**nic.mac);
      else if (wanted.uuid)
        wanted.macs.push_back(resources::derive_mac(*wanted.uuid, number));
    }
    Bytes beside = small_disks;
    for (const spec::Disk& disk : machine.disks) {
      const std::string storage = disk.storage ? **disk.storage : *proxmox.disk_storage;
      storages.insert(storage);
      wish.space.push_back({node.name, host, storage, *disk.size + beside});
      beside = {};
    }
    want_image(wish, files, spec, lock, node, host);
    wish.machines.push_back(std::move(wanted));
  }
  wish.factory = *spec.talos.factory;
  while (wish.factory.ends_with('/')) wish.factory.pop_back();
  const bool clones = *spec.talos.boot == spec::Boot::Template;
  if (clones) wish.clone_of = spec.talos.boot_template;
  wish.image_content = clones ? "" : *spec.talos.boot == spec::Boot::Iso ? "iso" : "import";
  wish.pools.assign(pools.begin(), pools.end());
  wish.scope.hosts.assign(hosts.begin(), hosts.end());
  wish.scope.disk_storages.assign(storages.begin(), storages.end());
  if (!clones) wish.scope.image_storage = *proxmox.image_storage;
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
