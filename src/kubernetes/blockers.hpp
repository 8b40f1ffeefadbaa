#pragma once

#include "kube/client.hpp"
#include "kube/discovery.hpp"

#include <string>

// What stands behind a wait that somebody else's words explain.

namespace rocca::resources {

/// A webhook that does not answer, by the message of a refused request: how its Service stands, as
/// ` (it waits for an endpoint of Service metallb-system/webhook)`. Empty: no webhook is named.
std::string webhook_behind(kube::Client& client, kube::Discovery& discovery,
                           const std::string& message);

/// What keeps Flux from bringing all that is in Git: the first of its objects that is not ready for
/// a reason of its own, in its own words, and the webhook's endpoint if that is why. Empty: all
/// are.
std::string flux_blocker(kube::Client& client, kube::Discovery& discovery);

}  // namespace rocca::resources
