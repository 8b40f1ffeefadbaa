#pragma once

#include "engine/plan.hpp"
#include "platform/resource_base.hpp"
#include "platform/world.hpp"
#include "state/state.hpp"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace rocca::resources {

/// What expand knows beside the cluster: what was remembered, and what the survey found.
struct Ground {
  const state::State& prior;
  std::set<std::string> shared_storages;
  /// Random, made for this look: what the nonces of clones are derived from. Empty: nothing is
  /// created from this look.
  std::string seed = {};

  const state::Item* item(const std::string& address) const;
};

using Made = std::shared_ptr<const Resource>;

// Addresses of resources are stored in the state: never change one. This one is here because
// machines refer to their VMs; the others are declared with their kinds.
std::string vm_address(const std::string& node);

/// What is left over: enough is known of it to find it, to prove it and to take it away.
struct Leftover {
  std::string address;
  std::vector<std::string> needs;
  Fields facts;
  std::string receipt = {};  // of an act that never settled
};

/// Things that go with what they stand on: nothing is to be taken away.
Made leftover_memory(const Cluster& cluster, const Leftover& leftover);

}  // namespace rocca::resources
