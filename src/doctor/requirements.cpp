#include "doctor/requirements.hpp"

#include "engine/guards.hpp"
#include "factory/node_image.hpp"
#include "locking/choose.hpp"
#include "locking/resolve.hpp"
#include "platform/proxmox/needs.hpp"
#include "platform/proxmox/placement.hpp"

#include <algorithm>

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
  const std::map<std::string, std::string> places = locking::choose_hosts(spec, lock, {});
  resources::ProxmoxNeeds needs =
      resources::needs_of(spec, lock, places, [](const spec::Node&) { return true; });
  Wish wish;
  wish.scope = std::move(needs.scope);
  wish.pools = std::move(needs.pools);
  wish.image_content = std::move(needs.image_content);
  wish.acts = std::move(needs.to_create);
  wish.later = std::move(needs.later);
  for (const auto& host : proxmox.hosts)
    if (std::find(wish.scope.hosts.begin(), wish.scope.hosts.end(), *host) ==
        wish.scope.hosts.end())
      wish.spare_hosts.push_back(*host);
  for (const spec::Node& node : spec.nodes) {
    if (node.machine == nullptr) continue;
    const spec::Machine& machine = *node.machine;
    const std::string& host = places.at(node.name);
    Wish::Machine wanted{node.name, std::nullopt, {}, std::nullopt, std::nullopt, false};
    if (node.address) wanted.address = **node.address;
    const auto locked = lock.nodes.find(node.name);
    if (locked != lock.nodes.end()) wanted.uuid = locked->second.uuid;
    if (!wanted.uuid && cluster_id) wanted.uuid = engine::derive_uuid(*cluster_id, node.name);
    if (machine.vmid) {
      wanted.vmid = static_cast<proxmox::Vmid>(**machine.vmid);
    } else if (locked != lock.nodes.end() && locked->second.vmid) {
      wanted.vmid = static_cast<proxmox::Vmid>(*locked->second.vmid);
      wanted.vmid_is_locked = true;
    }
    for (std::size_t number = 0; number < machine.nics.size(); ++number) {
      const spec::Nic& nic = machine.nics[number];
      if (nic.mac)
        wanted.macs.push_back(**nic.mac);
      else if (wanted.uuid)
        wanted.macs.push_back(resources::derive_mac(*wanted.uuid, number));
    }
    Bytes beside = small_disks;
    for (const spec::Disk& disk : machine.disks) {
      const std::string storage = disk.storage ? **disk.storage : *proxmox.disk_storage;
      wish.space.push_back({node.name, host, storage, *disk.size + beside});
      beside = {};
    }
    want_image(wish, files, spec, lock, node, host);
    wish.machines.push_back(std::move(wanted));
  }
  wish.factory = *spec.talos.factory;
  while (wish.factory.ends_with('/')) wish.factory.pop_back();
  if (*spec.talos.boot == spec::Boot::Template) wish.clone_of = spec.talos.boot_template;
  if (spec.kubernetes.endpoint && spec.kubernetes.endpoint->vip)
    wish.vip = *spec.kubernetes.endpoint->vip->address;
  return wish;
}

}  // namespace rocca::doctor
