#include "spec/effects.hpp"

namespace rocca::spec {

namespace {

constexpr std::string_view upgrade = "an upgrade of the node: `talosctl upgrade`, node by node";
constexpr std::string_view by_patch = "as the key it patches: docs/effects.md";

constexpr KeyEffect table[] = {
    {"apiVersion", "none"},
    {"kind", "none"},
    {"metadata.name", "refused", "it is part of the mark by which rocca knows its VMs"},
    {"metadata.namespace", "none"},
    {"metadata.labels", "none"},
    {"metadata.annotations", "none"},
    {"bases", "varies", "as the keys that change with it"},
    {"spec.protect", "none"},
    {"spec.state", "none", "the state itself does not move"},
    {"spec.secrets", "none"},
    {"spec.policy", "none"},
    {"spec.naming.vm", "live"},
    {"spec.naming.host", "refused", "it is the name of the Kubernetes node and the etcd member"},
    {"spec.timeouts", "none"},
    {"spec.talos.version", "refused", upgrade},
    {"spec.talos.extensions", "refused", upgrade},
    {"spec.talos.schematic", "refused", upgrade},
    {"spec.talos.kernelArgs", "refused", upgrade},
    {"spec.talos.modules", "live"},
    {"spec.talos.sysctls", "live"},
    {"spec.talos.mirrors", "live"},
    {"spec.talos.discovery", "live"},
    {"spec.talos.factory", "live"},
    {"spec.talos.boot", "varies", "what a running node was created from stays"},
    {"spec.talos.patches", "varies", by_patch},
    {"spec.kubernetes.version", "service",
     "refused: a downgrade, or more than one minor version up"},
    {"spec.kubernetes.endpoint", "service"},
    {"spec.kubernetes.podCIDR", "refused", "running pods keep their addresses"},
    {"spec.kubernetes.serviceCIDR", "refused", "running Services keep their addresses"},
    {"spec.kubernetes.cni", "refused", "the objects of the old CNI would stay"},
    {"spec.kubernetes.cni.cilium.version", "live"},
    {"spec.kubernetes.cni.cilium.values", "live"},
    {"spec.kubernetes.cni.manifests", "live"},
    {"spec.kubernetes.scheduleOnControlPlanes", "live"},
    {"spec.kubernetes.certSANs", "service"},
    {"spec.network.addressing", "varies", "as the VM options and keys that change with it"},
    {"spec.network.subnet", "power-cycle"},
    {"spec.network.gateway", "power-cycle"},
    {"spec.network.nameservers", "power-cycle"},
    {"spec.network.ntp", "live"},
    {"spec.network.vlan", "service"},
    {"spec.network.mtu", "power-cycle"},
    {"spec.tailscale", "service"},
    {"spec.tailscale.plainHttp", "none"},
    {"spec.proxmox.endpoints", "none"},
    {"spec.proxmox.fingerprint", "none"},
    {"spec.proxmox.caFile", "none"},
    {"spec.proxmox.insecure", "none"},
    {"spec.proxmox.token", "none"},
    {"spec.proxmox.hosts", "none", "for new nodes; the others stay where rocca.lock says"},
    {"spec.proxmox.storage.images", "live"},
    {"spec.proxmox.storage.disks", "varies", "as `machine.disks.*.storage`"},
    {"spec.proxmox.bridge", "service"},
    {"spec.machine.host", "varies", "rocca moves no VM: see the plan"},
    {"spec.machine.pool", "live"},
    {"spec.machine.vmid", "replace"},
    {"spec.machine.cores", "power-cycle"},
    {"spec.machine.cpu", "power-cycle"},
    {"spec.machine.memory", "power-cycle"},
    {"spec.machine.firmware", "replace"},
    {"spec.machine.chipset", "replace"},
    {"spec.machine.scsi", "power-cycle"},
    {"spec.machine.agent", "power-cycle"},
    {"spec.machine.onBoot", "live"},
    {"spec.machine.slots", "power-cycle"},
    {"spec.machine.disks", "varies", "live: a new disk; data-loss: one that is gone"},
    {"spec.machine.disks.*.size", "live", "data-loss: a smaller one"},
    {"spec.machine.disks.*.storage", "varies", "disks are not moved: see the plan"},
    {"spec.machine.disks.*.use", "live"},
    {"spec.machine.disks.*.iothread", "power-cycle"},
    {"spec.machine.disks.*.discard", "power-cycle"},
    {"spec.machine.disks.*.ssd", "power-cycle"},
    {"spec.machine.disks.*.cache", "power-cycle"},
    {"spec.machine.nics", "power-cycle"},
    {"spec.machine.nics.bridge", "service"},
    {"spec.machine.nics.vlan", "service"},
    {"spec.machine.pci", "power-cycle"},
    {"spec.nodes", "varies", "live: a new node; data-loss: one that is gone"},
    {"spec.nodes.*.role", "refused", "remove the node, then add it with the other role"},
    {"spec.nodes.*.address", "power-cycle"},
    {"spec.nodes.*.existing", "varies", "see the plan"},
    {"spec.nodes.*.labels", "live"},
    {"spec.nodes.*.taints", "live"},
    {"spec.nodes.*.patches", "varies", by_patch},
    {"spec.nodes.*.talos", "refused", upgrade},
    {"spec.nodes.*.machine", "varies", "as in `spec.machine`"},
    {"spec.pools", "varies", "as in `spec.nodes`"},
    {"spec.pools.*.role", "refused", "remove the nodes, then add them with the other role"},
    {"spec.pools.*.count", "live", "data-loss: fewer"},
    {"spec.pools.*.addresses", "power-cycle"},
    {"spec.pools.*.labels", "live"},
    {"spec.pools.*.taints", "live"},
    {"spec.pools.*.patches", "varies", by_patch},
    {"spec.pools.*.talos", "refused", upgrade},
    {"spec.pools.*.machine", "varies", "as in `spec.machine`"},
    {"spec.addons", "varies", "live: installed or updated; service: taken away"},
    {"spec.handover", "live"},
    {"spec.handover.flux.plainHttp", "none"},
    {"spec.handover.publish.infisical.plainHttp", "none"},
    {"spec.backup", "none"},
    {"spec.rollout", "none"},
    {"spec.reconcile", "none"},
};

}  // namespace

std::span<const KeyEffect> key_effects() {
  return table;
}

const KeyEffect* find_key_effect(std::string_view path) {
  const KeyEffect* found = nullptr;
  for (const KeyEffect& row : table) {
    const bool fits = path.starts_with(row.path) &&
                      (path.size() == row.path.size() || path[row.path.size()] == '.');
    if (fits && (found == nullptr || row.path.size() > found->path.size())) found = &row;
  }
  return found;
}

}  // namespace rocca::spec
