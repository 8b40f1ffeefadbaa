#include "resources/choose.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace rocca::resources {

namespace {

struct Load {
  std::size_t control_planes = 0;
  std::size_t nodes = 0;
};

std::string choose_host(const spec::Spec& spec, const spec::Node& node,
                        const std::map<std::string, Load>& loads, const Choices& choices) {
  std::vector<std::string> hosts;
  for (const auto& host : spec.proxmox->hosts)
    if (!choices.offline_hosts.contains(*host)) hosts.push_back(*host);
  if (hosts.empty())
    throw Error(Fault::Unreachable, "no host of proxmox.hosts is online")
        .hint("bring one back, or name another in proxmox.hosts");
  const auto weight = [&](const std::string& host) {
    const auto found = loads.find(host);
    const Load load = found == loads.end() ? Load{} : found->second;
    return std::pair{node.control_plane() ? load.control_planes : 0, load.nodes};
  };
  // Of equals the first: the user's order counts.
  return *std::min_element(
      hosts.begin(), hosts.end(),
      [&](const std::string& a, const std::string& b) { return weight(a) < weight(b); });
}

void choose_hosts(const spec::Spec& spec, spec::Lock& lock, const Choices& choices) {
  std::map<std::string, Load> loads;
  const auto count = [&](const spec::Node& node, const std::string& host) {
    ++loads[host].nodes;
    if (node.control_plane()) ++loads[host].control_planes;
  };
  std::vector<const spec::Node*> open;
  for (const spec::Node& node : spec.nodes) {
    if (!node.machine) continue;
    std::string& host = lock.nodes[node.name].host;
    if (node.machine->host) host = **node.machine->host;
    if (host.empty())
      open.push_back(&node);
    else
      count(node, host);
  }
  // Control planes first: workers fill up around them.
  std::stable_partition(open.begin(), open.end(),
                        [](const spec::Node* node) { return node->control_plane(); });
  for (const spec::Node* node : open) {
    std::string& host = lock.nodes[node->name].host;
    host = choose_host(spec, *node, loads, choices);
    count(*node, host);
  }
}

void choose_vmids(const spec::Spec& spec, spec::Lock& lock, const Choices& choices) {
  std::map<std::uint64_t, std::string> owner;
  for (const spec::Node& node : spec.nodes) {
    if (!node.machine || !node.machine->vmid) continue;
    const auto vmid = static_cast<std::uint64_t>(**node.machine->vmid);
    lock.nodes[node.name].vmid = vmid;
    owner.emplace(vmid, node.name);
  }
  for (auto& [name, entry] : lock.nodes) {
    if (!entry.vmid) continue;
    const auto [other, fresh] = owner.emplace(*entry.vmid, name);
    if (!fresh && other->second != name)
      throw Error(Fault::Conflict, fmt::format("VM id {} is wanted for {} and locked for {}",
                                               *entry.vmid, other->second, name))
          .hint(fmt::format("give {} another `vmid`, or remove nodes.{} from rocca.lock",
                            other->second, name));
  }
  proxmox::Vmid next = choices.first_vmid;
  for (const spec::Node& node : spec.nodes) {
    if (!node.machine) continue;
    auto& vmid = lock.nodes[node.name].vmid;
    if (vmid) continue;
    while (choices.taken.contains(next) || owner.contains(next)) ++next;
    vmid = next;
    owner.emplace(next, node.name);
  }
}

}  // namespace

spec::Lock choose(const spec::Spec& spec, const spec::Lock& lock, const Choices& choices) {
  spec::Lock chosen = lock;
  chosen.cluster = *spec.name;
  if (!spec.proxmox) return chosen;
  choose_hosts(spec, chosen, choices);
  choose_vmids(spec, chosen, choices);
  return chosen;
}

MacAddress derive_mac(const Uuid& uuid, std::size_t nic) {
  const Uuid made = Uuid::v5(uuid, fmt::format("net{}", nic));
  std::array<std::uint8_t, 6> bytes{};
  std::copy_n(made.bytes().begin(), bytes.size(), bytes.begin());
  bytes[0] = static_cast<std::uint8_t>((bytes[0] & 0xfcu) | 0x02u);  // unicast, local
  return MacAddress{bytes};
}

}  // namespace rocca::resources
