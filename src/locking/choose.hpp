#pragma once

#include "spec/lock.hpp"
#include "spec/spec.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>

// What a spec leaves open and rocca.lock keeps: hosts and VM ids. Pure: the same questions give the
// same answers.

namespace rocca::locking {

/// What is there already.
struct Occupied {
  std::set<std::uint64_t> vmids = {};        // of every VM and container, ours or not
  std::set<std::string> offline_hosts = {};  // nothing new goes there
  std::uint64_t first_vmid = 100;
};

/// A host for every virtual node. What the spec pins wins, what is locked stays while the spec
/// still has that host, and the rest is spread: control planes never two on one host while a host
/// is free, then the emptiest host, of equals the first. Error(Unreachable) when every host is
/// offline and one must be chosen.
std::map<std::string, std::string> choose_hosts(const spec::Spec& spec, const spec::Lock& before,
                                                const Occupied& occupied);

/// A VM id for every virtual node. What the spec pins wins, what is locked stays (after `down` and
/// `up` the same ids come back, and a new node changes nobody else's), and the rest are the lowest
/// free ones in the order of the nodes. Entries of nodes that are gone keep their ids from being
/// given away. Error(Conflict) when the spec wants an id that is locked for another node.
std::map<std::string, std::uint64_t> choose_vmids(const spec::Spec& spec, const spec::Lock& before,
                                                  const Occupied& occupied);

/// Gives a node its VM id. One that was a machine that is already there has a UUID and no id in the
/// lock: that UUID is not the VM's, and both together would mean a VM that was taken over.
void place(spec::LockedNode& node, std::uint64_t vmid);

}  // namespace rocca::locking
