#pragma once

#include "seeds/dice.hpp"
#include "seeds/promises.hpp"

#include <string>

namespace rocca::seeds {

/// What other users of the same Proxmox do to our VMs: they clone them, reuse ids, protect them.
class Others {
 public:
  Others(scenarios::ClusterRig& rig, Promises& promises) : rig_(rig), promises_(promises) {}

  /// A clone of one of our VMs with a UUID of its own, by the seed with or without our mark, notes
  /// and tags. From then on it is a foreign VM. Returns what it is like.
  std::string clone(Dice& dice, unsigned source, unsigned vmid);
  /// The id of a node's VM; 0: it has none.
  unsigned find(const std::string& node) const;
  void set_protection(unsigned vmid, bool on);
  /// Power and configuration of a VM, to be compared.
  std::string picture(unsigned vmid) const;

 private:
  scenarios::ClusterRig& rig_;
  Promises& promises_;
};

}  // namespace rocca::seeds
