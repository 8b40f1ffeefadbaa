#include "cluster/overview.hpp"

#include "platform/proxmox/placement.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

NodeOverview overview_of(const Cluster& cluster, const spec::Lock& lock, const spec::Node& node) {
  NodeOverview out{.name = node.name,
                   .control_plane = node.control_plane(),
                   .existing = node.existing.has_value()};
  if (node.address) out.address = to_string(**node.address);
  if (!node.machine) return out;
  const auto locked = lock.nodes.find(node.name);
  if (locked != lock.nodes.end()) {
    out.vmid = locked->second.vmid.value_or(0);
    out.host = locked->second.host;
  }
  const spec::Machine& machine = *node.machine;
  out.cores = static_cast<std::uint64_t>(*machine.cores);
  out.memory = *machine.memory;
  for (const spec::Disk& disk : machine.disks)
    out.disks.push_back({disk.name, *disk.size,
                         disk.storage           ? **disk.storage
                         : cluster.spec.proxmox ? *cluster.spec.proxmox->disk_storage
                                                : std::string{}});
  const engine::Identity identity = cluster.identity_of(node.name);
  for (std::size_t i = 0; i < machine.nics.size(); ++i) {
    if (machine.nics[i].mac)
      out.macs.push_back(to_string(**machine.nics[i].mac));
    else if (!identity.adopted_vmid)
      out.macs.push_back(to_string(derive_mac(identity.uuid, i)));
  }
  return out;
}

}  // namespace

ClusterOverview overview_of(const Cluster& cluster, const spec::Lock& lock) {
  ClusterOverview out{.cluster = cluster.name(),
                      .talos = "v" + to_string(*cluster.spec.talos.version),
                      .kubernetes = "v" + to_string(*cluster.spec.kubernetes.version)};
  if (const auto& endpoint = cluster.spec.kubernetes.endpoint; endpoint && endpoint->vip)
    out.vip = to_string(*endpoint->vip->address);
  for (const spec::Node& node : cluster.spec.nodes)
    out.nodes.push_back(overview_of(cluster, lock, node));
  return out;
}

}  // namespace rocca::resources
