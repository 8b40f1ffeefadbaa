#include "cli/commands/lab_for.hpp"

#include "base/strings.hpp"
#include "net/http.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::cli {

namespace {

template <class T>
void add_once(std::vector<T>& all, const T& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

/// What a DHCP server hands out: the second half of the subnet, in which static addresses are rare.
std::optional<AddressRange> second_half(const Cidr& subnet) {
  const unsigned bits = (subnet.address().is_v4() ? 32 : 128) - subnet.prefix();
  if (bits < 3) return std::nullopt;
  const std::uint64_t size = std::uint64_t{1} << std::min(bits, 16u);
  const auto first = subnet.network().plus(size / 2);
  const auto last = subnet.network().plus(size - 2);
  if (!first || !last) return std::nullopt;
  return AddressRange::parse(to_string(*first) + "-" + to_string(*last));
}

void fit_endpoints(lab::Home::Options& home, const spec::Spec& spec) {
  std::size_t number = 0;
  for (const auto& endpoint : spec.proxmox->endpoints) {
    const auto url = net::Url::parse(*endpoint);
    if (!url) continue;
    if (IpAddress::parse(url->host) && number < home.hosts.size()) {
      home.addresses.resize(home.hosts.size());
      home.addresses[number++] = url->host;
    } else {
      add_once(home.names, url->host);
    }
  }
}

}  // namespace

void fit(lab::Home::Options& home, const spec::Spec& spec) {
  if (!spec.proxmox) return;
  home.hosts.clear();
  for (const auto& host : spec.proxmox->hosts) add_once(home.hosts, *host);
  const auto stores = [&](const std::string& storage, const char* what) {
    home.storages[storage].insert(what);
  };
  stores(*spec.proxmox->image_storage, "import");
  stores(*spec.proxmox->image_storage, "iso");
  stores(*spec.proxmox->disk_storage, "images");
  std::vector<std::string> wires;
  for (const spec::Node& node : spec.nodes) {
    if (!node.machine) continue;
    const spec::Machine& machine = *node.machine;
    if (machine.host) add_once(home.hosts, **machine.host);
    if (machine.pool) add_once(home.pools, **machine.pool);
    for (const spec::Disk& disk : machine.disks)
      if (disk.storage) stores(**disk.storage, "images");
    for (std::size_t i = 0; i < machine.nics.size(); ++i) {
      const spec::Nic& nic = machine.nics[i];
      const std::string bridge = nic.bridge ? **nic.bridge : *spec.proxmox->bridge;
      const auto& vlan = nic.vlan || i > 0 ? nic.vlan : spec.network.vlan;
      add_once(home.bridges, bridge);
      add_once(wires, vlan ? fmt::format("{}.{}", bridge, **vlan) : bridge);
    }
  }
  // What the lab has anyway keeps its own kind.
  for (const char* there : {"local", "local-lvm", "tank"}) home.storages.erase(there);
  if (home.hosts.empty()) home.hosts = {"pve1"};
  if (home.hosts.size() > 1) home.storages.erase("shared");
  // The first endpoint is the first host's by name, whose fingerprint the lab shows.
  std::sort(home.hosts.begin(), home.hosts.end());
  fit_endpoints(home, spec);
  if (!spec.network.subnet) return;
  for (const std::string& wire : wires) {
    lab::Lans::Lan lan{.wire = wire, .subnet = **spec.network.subnet};
    if (spec.network.gateway) lan.gateway = **spec.network.gateway;
    if (*spec.network.addressing == spec::Addressing::Dhcp)
      lan.pool = second_half(**spec.network.subnet);
    home.lans.push_back(std::move(lan));
  }
}

}  // namespace rocca::cli
