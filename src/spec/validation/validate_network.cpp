#include "base/strings.hpp"
#include "spec/validation/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace rocca::spec {

namespace {

struct Net {
  std::string what;
  Cidr cidr;
  Where where;
};

void check_overlaps(const Look& look) {
  const Spec& spec = look.spec;
  std::vector<Net> nets;
  // A /0 is what an absent value reads as: its error is already told.
  const auto add = [&](const char* what, const Cidr& cidr, const Where& where) {
    if (cidr.prefix() != 0) nets.push_back({what, cidr, where});
  };
  if (spec.network.subnet)
    add("the nodes' subnet", **spec.network.subnet, spec.network.subnet->where);
  add("podCIDR", *spec.kubernetes.pod_cidr, spec.kubernetes.pod_cidr.where);
  add("serviceCIDR", *spec.kubernetes.service_cidr, spec.kubernetes.service_cidr.where);
  for (std::size_t i = 0; i < nets.size(); ++i)
    for (std::size_t j = i + 1; j < nets.size(); ++j) {
      if (!nets[i].cidr.overlaps(nets[j].cidr)) continue;
      // The place is one that somebody wrote; defaults have none.
      const Where& where = nets[j].where.written() ? nets[j].where : nets[i].where;
      look.findings.add("cidr-overlap", where,
                        fmt::format("{} {} and {} {} overlap", nets[i].what,
                                    to_string(nets[i].cidr), nets[j].what, to_string(nets[j].cidr)),
                        "choose networks that nobody else uses, such as 10.244.0.0/16 for pods and "
                        "10.96.0.0/12 for services");
    }
  // With one CIDR each, pods and services are of the nodes' family or cannot be reached from them.
  if (spec.network.subnet)
    for (const Net& net : nets)
      if (net.cidr.address().family() != nets.front().cidr.address().family())
        look.findings.add(
            "address-family", net.where.written() ? net.where : spec.network.subnet->where,
            fmt::format("{} {} is of another family than the subnet {}", net.what,
                        to_string(net.cidr), to_string(**spec.network.subnet)),
            "write kubernetes.podCIDR and kubernetes.serviceCIDR of the subnet's family, such as "
            "fd00:10:244::/56 and fd00:10:96::/112");
  const auto control_planes = spec.control_planes();
  if (!spec.network.subnet && spec.kubernetes.endpoint && spec.kubernetes.endpoint->vip) {
    const auto& vip = spec.kubernetes.endpoint->vip->address;
    for (const Net& net : nets)
      if (net.cidr.contains(*vip))
        look.findings.add("cidr-overlap", vip.where,
                          fmt::format("the VIP {} lies in {} {}", to_string(*vip), net.what,
                                      to_string(net.cidr)));
  }
}

void check_dhcp(const Look& look) {
  const Spec& spec = look.spec;
  const Network& network = spec.network;
  const auto ignored = [&](const Where& where, const std::string& what) {
    look.findings.add("dhcp-static", where,
                      fmt::format("with addressing dhcp, {} comes from the DHCP server", what),
                      "take it away, or use addressing: static");
  };
  if (network.gateway) ignored(network.gateway->where, "the gateway");
  if (!network.nameservers.empty())
    ignored(network.nameservers.front().where, "the list of nameservers");
  for (const Node& node : spec.nodes)
    if (node.address && node.pool.empty() && !node.existing)
      ignored(node.address->where, fmt::format("the address of {}", node.name));
  for (const Pool& pool : spec.pools)
    if (!pool.ranges.empty())
      ignored(pool.ranges.front().where, fmt::format("the addresses of the pool {}", pool.name));
  const auto control_planes = spec.control_planes();
  if (control_planes.size() > 1)
    look.findings.add("dhcp-control-planes", network.addressing.where,
                      fmt::format("{} control planes get their addresses by DHCP: a changed lease "
                                  "can cost etcd its quorum",
                                  control_planes.size()),
                      "reserve the leases in the DHCP server, or use addressing: static");
  if (!spec.kubernetes.endpoint)
    look.findings.add("dhcp-endpoint", network.addressing.where,
                      "the API's address is a DHCP lease: it is found after boot and may change",
                      "give kubernetes.endpoint a vip outside the DHCP pool, or a host name");
}

/// Who tells where a node is that got its address by DHCP? Its guest agent, or a search of the
/// subnet.
void check_findable(const Look& look) {
  constexpr std::uint64_t searchable = 4096;
  const Spec& spec = look.spec;
  if (spec.network.subnet) {
    const Cidr& subnet = **spec.network.subnet;
    if (AddressRange(subnet.network(), subnet.last()).size() <= searchable) return;
  }
  for (const Node& node : spec.nodes) {
    if (!node.machine || node.address) continue;
    const Image& image = spec.image_of(node);
    const bool extension =
        image.schematic ||
        std::any_of(image.extensions.begin(), image.extensions.end(),
                    [](const auto& name) { return *name == "siderolabs/qemu-guest-agent"; });
    if (*node.machine->agent && extension) continue;
    look.findings.add(
        "dhcp-unfindable", node.machine->agent.written() ? node.machine->agent.where : node.where,
        fmt::format("{} gets its address by DHCP, and nothing tells which: it has no guest agent, "
                    "and {}",
                    node.name,
                    spec.network.subnet ? "network.subnet is too large to be searched"
                                        : "no network.subnet says where to search"),
        "add the extension qemu-guest-agent with machine.agent: true, or a network.subnet of at "
        "most 4096 addresses");
  }
}

void check_address(const Look& look, const Node& node, const Cidr& subnet) {
  const IpAddress& address = **node.address;
  const Where& where = node.address->where;
  if (address.family() != subnet.address().family()) {
    look.findings.add("address-family", where,
                      fmt::format("{} of {} is of another family than the subnet {}",
                                  to_string(address), node.name, to_string(subnet)));
  } else if (!subnet.contains(address)) {
    look.findings.add("address-outside", where,
                      fmt::format("{} of {} lies outside the subnet {}", to_string(address),
                                  node.name, to_string(subnet)));
  } else if (!subnet.usable(address)) {
    look.findings.add(
        "address-unusable", where,
        fmt::format("{} of {} is the {} address of the subnet {}", to_string(address), node.name,
                    address == subnet.network() ? "network" : "broadcast", to_string(subnet)));
  }
  if (look.spec.network.gateway && address == **look.spec.network.gateway)
    look.findings.add("address-is-gateway", where,
                      fmt::format("{} of {} is the gateway", to_string(address), node.name));
}

void check_static(const Look& look) {
  const Spec& spec = look.spec;
  const Network& network = spec.network;
  const bool has_vm = std::any_of(spec.nodes.begin(), spec.nodes.end(),
                                  [](const Node& node) { return !node.existing; });
  if (!network.subnet) {
    if (!look.findings.is_broken("spec.network.subnet") && !spec.nodes.empty() && has_vm)
      look.findings.add(
          "missing-subnet",
          network.addressing.written() ? network.addressing.where : spec.nodes.front().where,
          "the nodes have static addresses, and network.subnet does not say in which network",
          "for example network: { subnet: 10.0.0.0/16, gateway: 10.0.0.1 }; or addressing: dhcp");
  } else if (!network.gateway && !look.findings.is_broken("spec.network.gateway") && has_vm) {
    look.findings.add("missing-gateway", network.subnet->where,
                      "the nodes have no way out of their subnet", "give network.gateway");
  }
  for (const Node& node : spec.nodes) {
    if (node.address) {
      if (network.subnet && !node.existing) check_address(look, node, **network.subnet);
      continue;
    }
    const std::string path = node.pool.empty() ? fmt::format("spec.nodes.{}.address", node.name)
                                               : fmt::format("spec.pools.{}.addresses", node.pool);
    if (!node.pool.empty() || look.findings.is_broken(path)) continue;
    look.findings.add("missing-address", node.where, fmt::format("{} has no address", node.name),
                      "give it one, or use addressing: dhcp");
  }
  for (const Pool& pool : spec.pools) {
    if (look.findings.is_broken(fmt::format("spec.pools.{}.addresses", pool.name))) continue;
    std::uint64_t have = 0;
    for (const auto& range : pool.ranges)
      have = have + range->size() < have ? UINT64_MAX : have + range->size();
    const auto want = static_cast<std::uint64_t>(std::max<std::int64_t>(0, *pool.count));
    if (have == 0 && want > 0)
      look.findings.add("missing-address", pool.where,
                        fmt::format("the pool {} has no addresses", pool.name),
                        "for example addresses: 10.0.0.21-10.0.0.29");
    else if (have < want)
      look.findings.add(
          "range-too-small", pool.ranges.front().where,
          fmt::format("the pool {} has {} nodes and {} addresses", pool.name, want, have));
    if (!network.subnet) continue;
    for (const auto& range : pool.ranges) {
      const Cidr& subnet = **network.subnet;
      if (!subnet.contains(range->first()) || !subnet.contains(range->last()))
        look.findings.add(
            "address-outside", range.where,
            fmt::format("{} lies outside the subnet {}", to_string(*range), to_string(subnet)));
    }
  }
}

void check_duplicates(const Look& look) {
  const Spec& spec = look.spec;
  std::map<IpAddress, const Node*> seen;
  for (const Node& node : spec.nodes) {
    if (!node.address) continue;
    const auto [other, fresh] = seen.emplace(**node.address, &node);
    if (!fresh)
      look.findings.add("duplicate-address", node.address->where,
                        fmt::format("{} and {} have one address, {}", other->second->name,
                                    node.name, to_string(**node.address)));
  }
  for (std::size_t i = 0; i < spec.pools.size(); ++i)
    for (const auto& range : spec.pools[i].ranges) {
      for (std::size_t j = 0; j < i; ++j)
        for (const auto& other : spec.pools[j].ranges)
          if (range->overlaps(*other))
            look.findings.add("range-overlap", range.where,
                              fmt::format("the addresses of the pools {} and {} overlap",
                                          spec.pools[j].name, spec.pools[i].name));
      if (spec.network.gateway && range->contains(**spec.network.gateway))
        look.findings.add("address-is-gateway", range.where,
                          fmt::format("the addresses of the pool {} contain the gateway {}",
                                      spec.pools[i].name, to_string(**spec.network.gateway)));
      for (const Node& node : spec.nodes)
        if (node.pool.empty() && node.address && range->contains(**node.address))
          look.findings.add("node-in-range", node.address->where,
                            fmt::format("{} lies in the addresses of the pool {}",
                                        to_string(**node.address), spec.pools[i].name),
                            "when the pool grows up to it, both want the address");
    }
  for (const Pool& pool : spec.pools)
    for (std::size_t i = 0; i < pool.ranges.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (pool.ranges[i]->overlaps(*pool.ranges[j]))
          look.findings.add("range-overlap", pool.ranges[i].where,
                            fmt::format("two ranges of the pool {} overlap", pool.name));
}

void check_vip(const Look& look) {
  const Spec& spec = look.spec;
  if (!spec.kubernetes.endpoint || !spec.kubernetes.endpoint->vip) return;
  const Vip& vip = *spec.kubernetes.endpoint->vip;
  const IpAddress& address = *vip.address;
  const Where& where = vip.address.where;
  for (const Node& node : spec.nodes)
    if (node.address && **node.address == address)
      look.findings.add(
          "vip-is-node", where,
          fmt::format("the VIP {} is the address of {}", to_string(address), node.name),
          "choose an address that nobody has");
  if (spec.network.gateway && **spec.network.gateway == address)
    look.findings.add("vip-is-gateway", where,
                      fmt::format("the VIP {} is the gateway", to_string(address)));
  for (const Pool& pool : spec.pools)
    for (const auto& range : pool.ranges)
      if (range->contains(address))
        look.findings.add("vip-in-range", where,
                          fmt::format("the VIP {} lies in the addresses of the pool {}",
                                      to_string(address), pool.name));
  if (spec.network.subnet && !vip.by_kube_vip) {
    const Cidr& subnet = **spec.network.subnet;
    if (!subnet.contains(address))
      look.findings.add("vip-outside", where,
                        fmt::format("the VIP {} lies outside the subnet {}", to_string(address),
                                    to_string(subnet)),
                        "Talos announces it by ARP on the nodes' network; kube-vip (`by: "
                        "kube-vip`) may use another");
    else if (!subnet.usable(address))
      look.findings.add("address-unusable", where,
                        fmt::format("the VIP {} is no address that a machine can have in {}",
                                    to_string(address), to_string(subnet)));
  }
  if (spec.control_planes().size() == 1)
    look.findings.add(
        "vip-unused", where, "with one control plane nobody can take the VIP over",
        "it is right if you mean to add control planes later: the endpoint then stays");
}

void check_mtu(const Look& look) {
  const Spec& spec = look.spec;
  const auto check = [&](std::int64_t mtu, const Where& where) {
    // 50 bytes of VXLAN over IPv4, and pods want 1400 (IPv6 at least 1280).
    if (mtu >= 1450 || spec.kubernetes.cni.kind == Cni::Kind::None) return;
    look.findings.add("mtu-vxlan", where,
                      fmt::format("an MTU of {} leaves pods {} bytes under VXLAN", mtu, mtu - 50),
                      "the node's MTU on a Proxmox VXLAN zone is 1450; below that, give the CNI "
                      "its own MTU or route natively");
  };
  if (spec.network.mtu) check(**spec.network.mtu, spec.network.mtu->where);
  for (const Node& node : spec.nodes) {
    if (!node.machine || node.machine->nics.empty()) continue;
    const auto& mtu = node.machine->nics.front().mtu;
    if (!mtu) continue;
    check(**mtu, mtu->where);
    if (spec.network.mtu && **spec.network.mtu != **mtu)
      look.findings.add("mtu-order", mtu->where,
                        fmt::format("the first NIC has an MTU of {}, and network.mtu is {}", **mtu,
                                    **spec.network.mtu));
  }
}

}  // namespace

void validate_network(const Look& look) {
  const Spec& spec = look.spec;
  const Network& network = spec.network;
  if (network.subnet && network.gateway && !network.subnet->value.contains(**network.gateway))
    look.findings.add("gateway-outside", network.gateway->where,
                      fmt::format("the gateway {} lies outside the subnet {}",
                                  to_string(**network.gateway), to_string(**network.subnet)));
  if (network.subnet && network.subnet->value.address().is_loopback())
    look.findings.add("loopback-subnet", network.subnet->where,
                      fmt::format("{} exists only inside one machine: this is a spec for the lab",
                                  to_string(**network.subnet)));
  if (*network.addressing == Addressing::Dhcp) {
    check_dhcp(look);
    check_findable(look);
  } else {
    check_static(look);
  }
  check_duplicates(look);
  check_vip(look);
  check_overlaps(look);
  check_mtu(look);
}

}  // namespace rocca::spec
