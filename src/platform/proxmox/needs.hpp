#pragma once

#include "proxmox/privileges.hpp"
#include "spec/lock.hpp"
#include "spec/spec.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace rocca::resources {

/// What the VMs of a spec need of their Proxmox: the names that the spec uses, and what is done
/// there.
struct ProxmoxNeeds {
  proxmox::Scope scope;  // its version is for the caller to set
  std::vector<std::string> pools;
  /// What the image storage must take: `import`, `iso`, or nothing where VMs are cloned.
  std::string image_content;
  std::vector<proxmox::Act> to_create;  // what `up` does to create these VMs
  std::vector<proxmox::Act> later;      // changes, removal and drift of an existing cluster
};

/// Needs of the nodes that `counts` accepts. `places`: the host of every node.
ProxmoxNeeds needs_of(const spec::Spec& spec, const spec::Lock& lock,
                      const std::map<std::string, std::string>& places,
                      const std::function<bool(const spec::Node&)>& counts);

/// The VLAN of a node's NIC: its own, or the network's for the first one.
std::optional<unsigned> vlan_of(const spec::Spec& spec, const spec::Machine& machine,
                                std::size_t nic);

}  // namespace rocca::resources
