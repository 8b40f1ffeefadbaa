#pragma once

#include "lab/kube/schema/kinds.hpp"

#include <string_view>

namespace rocca::lab::kube {

/// Does the lab play this verb of a kind? What it plays is compared with a real API server
/// (scripts/peers, kubernetes_diff); everything else is answered with 501, never with a made-up
/// success.
bool is_played(const Resource& resource, std::string_view verb, std::string_view subresource);

}  // namespace rocca::lab::kube
