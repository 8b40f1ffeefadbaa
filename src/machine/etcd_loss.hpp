#pragma once

#include "platform/teardown.hpp"
#include "platform/world.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// What to say when etcd was bootstrapped and does not come back: who answers, whether quorum is
/// lost for good or only until somebody returns, and how to go on. Nothing: it has a leader, or was
/// never there.
std::optional<std::string> explain_etcd(World& world);

/// What can be done where `decide` says that etcd's data or quorum is lost: nothing was created.
std::string way_out_of_loss(const World& world, const std::vector<ControlPlaneFacts>& planes);

/// How etcd comes back from a snapshot, by hand: on the first control plane, at this address.
std::string how_to_restore(const std::string& address);

}  // namespace rocca::resources
