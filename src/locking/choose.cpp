#include "locking/choose.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace rocca::locking {

namespace {

struct Load {
  std::size_t control_planes = 0;
  std::size_t nodes = 0;
};

const spec::LockedNode* find(const spec::Lock& lock, const std::string& node) {
  const auto found = lock.nodes.find(node);
  return found == lock.nodes.end() ? nullptr : &found->second;
}

}  // namespace

void place(spec::LockedNode& node, std::uint64_t vmid) {
  if (!node.vmid) node.uuid.reset();
  node.vmid = vmid;
}

std::map<std::string, std::string> choose_hosts(const spec::Spec& spec, const spec::Lock& before,
                                                const Occupied& occupied) {
  std::map<std::string, std::string> chosen;
  if (!spec.proxmox) return chosen;
  std::vector<std::string> hosts;
  for (const auto& host : spec.proxmox->hosts) hosts.push_back(*host);
  const auto usable = [&](const std::string& host) {
    return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
  };

  std::map<std::string, Load> loads;
  const auto settle = [&](const spec::Node& node, const std::string& host) {
    chosen[node.name] = host;
    ++loads[host].nodes;
    if (node.control_plane()) ++loads[host].control_planes;
  };
  std::vector<const spec::Node*> open;
  for (const spec::Node& node : spec.nodes) {
    if (!node.machine) continue;
    const spec::LockedNode* locked = find(before, node.name);
    if (node.machine->host)
      settle(node, **node.machine->host);
    else if (locked != nullptr && usable(locked->host))
      settle(node, locked->host);
    else
      open.push_back(&node);
  }
  // Control planes first: workers fill up around them.
  std::stable_partition(open.begin(), open.end(),
                        [](const spec::Node* node) { return node->control_plane(); });
  std::erase_if(hosts,
                [&](const std::string& host) { return occupied.offline_hosts.contains(host); });
  for (const spec::Node* node : open) {
    if (hosts.empty())
      throw Error(Fault::Unreachable,
                  fmt::format("{} needs a host, and none of proxmox.hosts is online", node->name))
          .hint("bring one back, or name another in proxmox.hosts");
    const auto weight = [&](const std::string& host) {
      const Load& load = loads[host];
      return std::pair{node->control_plane() ? load.control_planes : 0, load.nodes};
    };
    settle(*node, *std::min_element(hosts.begin(), hosts.end(),
                                    [&](const std::string& a, const std::string& b) {
                                      return weight(a) < weight(b);
                                    }));
  }
  return chosen;
}

std::map<std::string, std::uint64_t> choose_vmids(const spec::Spec& spec, const spec::Lock& before,
                                                  const Occupied& occupied) {
  std::map<std::string, std::uint64_t> chosen;
  if (!spec.proxmox) return chosen;
  std::map<std::uint64_t, std::string> owner;
  for (const spec::Node& node : spec.nodes) {
    if (!node.machine || !node.machine->vmid) continue;
    const auto vmid = static_cast<std::uint64_t>(**node.machine->vmid);
    chosen[node.name] = vmid;
    owner.emplace(vmid, node.name);
  }
  for (const auto& [name, entry] : before.nodes) {
    if (!entry.vmid || chosen.contains(name)) continue;
    const auto [other, fresh] = owner.emplace(*entry.vmid, name);
    if (!fresh)
      throw Error(Fault::Conflict, fmt::format("VM id {} is wanted for {} and locked for {}",
                                               *entry.vmid, other->second, name))
          .hint(fmt::format("give {} another `vmid`, or take nodes.{} out of rocca.lock",
                            other->second, name));
    const spec::Node* node = spec.find_node(name);
    if (node != nullptr && node->machine) chosen[name] = *entry.vmid;
  }
  std::uint64_t next = occupied.first_vmid;
  for (const spec::Node& node : spec.nodes) {
    if (!node.machine || chosen.contains(node.name)) continue;
    while (occupied.vmids.contains(next) || owner.contains(next)) ++next;
    chosen[node.name] = next;
    owner.emplace(next, node.name);
  }
  return chosen;
}

}  // namespace rocca::locking
