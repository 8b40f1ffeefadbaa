#include "platform/proxmox/orphan_vm.hpp"

#include "base/strings.hpp"
#include "machine/discover.hpp"
#include "machine/quorum.hpp"
#include "platform/proxmox/desired_vm.hpp"
#include "proxmox/property_string.hpp"
#include "talos/waits.hpp"

#include <algorithm>

namespace rocca::resources {

namespace {

/// The address that Proxmox gives to its first card; empty: it gives none.
std::string static_address(const proxmox::VmConfig& config) {
  const std::string* given = config.find("ipconfig0");
  if (given == nullptr) return "";
  const auto parts = proxmox::PropertyString::parse("ipconfig0", *given);
  for (const char* key : {"ip", "ip6"}) {
    const std::string value = parts.value_or(key, "");
    const std::string address = value.substr(0, value.find('/'));
    if (IpAddress::parse(address)) return address;
  }
  return "";
}

/// What the machine itself runs: etcd runs on control planes only. Nothing: it does not answer.
std::optional<bool> runs_etcd(World& world, const std::string& address) {
  if (address.empty()) return std::nullopt;
  const talos::Sight sight = talos::look(world.transport, world.access(address), world.stop);
  if (sight.door != talos::Door::Ours || sight.services.empty()) return std::nullopt;
  return std::any_of(sight.services.begin(), sight.services.end(),
                     [](const talos::Service& service) { return service.id == "etcd"; });
}

}  // namespace

std::string role_of_stray(World& world, const std::string& node, const proxmox::VmConfig& config,
                          const std::string& address) {
  const auto noted = control_plane_by_notes(world.cluster, node, config);
  if (noted == true) return "controlplane";
  const std::string host_name = world.cluster.spec.host_name_of(node);
  const EtcdView etcd = etcd_view(world);
  const bool counted =
      std::any_of(etcd.members.begin(), etcd.members.end(), [&](const engine::Member& member) {
        return member.node == node || member.node == host_name;
      });
  if (counted) return "controlplane";
  // Notes can be edited: they count only where etcd answers and does not know the node (it may be
  // called something else there), or where the machine itself runs no etcd.
  if (!noted) return "unknown";
  if (!etcd.members.empty()) return "worker";
  const std::optional<bool> etcd_here = runs_etcd(world, address);
  if (!etcd_here) return "unknown";
  return *etcd_here ? "controlplane" : "worker";
}

Fields facts_of_stray(World& world, const Marked& vm) {
  const Uuid uuid = world.cluster.identity_of(vm.node).uuid;
  Fields facts{{"node", vm.node},
               {"name", world.cluster.spec.host_name_of(vm.node)},
               {"uuid", to_string(uuid)},
               {"role", "unknown"}};
  const auto config = world.survey.config(world.proxmox(), vm.row.node, vm.row.vmid);
  if (!config) return facts;
  std::string address = static_address(*config);
  if (address.empty() && vm.row.status != "stopped") {
    Fields about{{"vmid", std::to_string(vm.row.vmid)}, {"host", vm.row.node}};
    if (const std::string* nic = config->find("net0"))
      about["mac"] = proxmox::PropertyString::parse("net0", *nic).value_or("macaddr", "");
    address = address_of_vm(world, about, uuid).value_or("");
  }
  if (!address.empty()) facts["address"] = address;
  facts["role"] = role_of_stray(world, vm.node, *config, address);
  return facts;
}

}  // namespace rocca::resources
