#pragma once

#include "kubernetes/external_inputs.hpp"
#include "platform/kinds.hpp"

#include <functional>
#include <string>

namespace rocca::resources {

/// Where the access files go beside the spec's folder: Infisical, a Secret of another cluster,
/// other files. Each is written only when it differs.
void make_publications(const Cluster& cluster, const OutsidePtr& outside,
                       const std::function<void(const Made&)>& add);
/// What `down` (or a spec that no longer asks for it) takes away. Nothing: it is to be kept.
Made leftover_publication(const OutsidePtr& outside, const Leftover& leftover);

}  // namespace rocca::resources
