#pragma once

#include "base/address.hpp"
#include "base/uuid.hpp"
#include "proxmox/types.hpp"
#include "spec/lock.hpp"
#include "spec/spec.hpp"

#include <optional>
#include <set>
#include <string>

// What a spec leaves open and rocca.lock keeps: hosts, VM ids, and the hardware addresses that
// follow from a node's UUID. Pure: the same questions give the same answers.

namespace rocca::resources {

struct Choices {
  std::set<proxmox::Vmid> taken;        // ids of every VM and container there is
  std::set<std::string> offline_hosts;  // nothing new goes there
  proxmox::Vmid first_vmid = 100;
};

/// The lock with a host and a VM id for every virtual node. What is locked already stays, what the
/// spec says wins, and what is free is chosen: control planes never two on one host while a host is
/// free, then the emptiest host; the lowest free ids. Nodes that are gone from the spec keep their
/// entry, so that they come back with the same ids. Error(Conflict) when the spec wants an id that
/// another node has.
spec::Lock choose(const spec::Spec& spec, const spec::Lock& lock, const Choices& choices);

/// A node's hardware address, made of its UUID: unicast, locally administered, the same for ever.
MacAddress derive_mac(const Uuid& uuid, std::size_t nic);

}  // namespace rocca::resources
