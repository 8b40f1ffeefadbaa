#pragma once

#include "adopt/tfstate.hpp"
#include "base/uuid.hpp"
#include "net/transport.hpp"
#include "proxmox/client.hpp"
#include "secrets/bundle.hpp"

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::adopt {

/// A node as it runs: its VM on Proxmox, and what it says of itself.
struct FoundNode {
  RememberedVm remembered;
  proxmox::VmRow row;
  proxmox::VmConfig config;
  Uuid uuid;     // of the VM, and the one that the node itself reports
  Cidr address;  // where it answers, with its prefix length
  std::string host_name;
  std::string talos;              // v1.11.5
  std::string schematic;          // empty: the node does not tell one
  Secret active;                  // its machine configuration
  std::uint64_t etcd_member = 0;  // 0: it is none, or its etcd does not answer
};

/// A member of etcd, by etcd's own list.
struct EtcdPeer {
  std::uint64_t id = 0;
  std::string name;     // empty: it has never come up
  std::string address;  // where its peers look for it
};

struct Found {
  std::vector<FoundNode> nodes;  // in the order of the state
  std::vector<Left> left;
  std::vector<EtcdPeer> etcd;  // empty: no etcd answers
  /// VMs of the state that are not among the nodes, with why.
  std::vector<std::pair<RememberedVm, std::string>> missing;
};

/// etcd counts on each of its members: one that is not among the nodes would be in no spec, and
/// nobody would see that it is dead. Throws Error(Refused) with its name and its VM.
void refuse_strange_members(const Found& found);

/// Who asks.
struct Looker {
  net::Transport& transport;
  proxmox::Access proxmox;
  std::string authority;                          // PEM of the cluster's Talos CA
  std::shared_ptr<const net::Identity> identity;  // for the nodes
  std::stop_token stop;
};

/// Looks for every VM that the state remembers, and asks those that answer as nodes of this cluster
/// for what they run. Reads only. A VM is taken only if Proxmox still has it as it was remembered,
/// and the node that answers at its address has its UUID and a certificate of the cluster; all
/// others are named in `left`. Error(NotFound) when none is left.
Found look(const Looker& looker, const Remembered& remembered);

}  // namespace rocca::adopt
