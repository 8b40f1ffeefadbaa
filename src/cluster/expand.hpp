#pragma once

#include "engine/plan.hpp"
#include "platform/kinds.hpp"
#include "platform/survey.hpp"
#include "platform/world.hpp"

#include <vector>

namespace rocca::resources {

/// Which things should exist for this cluster, and which are left over: remembered by the state or
/// marked as ours, and no longer wanted. Pure.
engine::Desired expand(const Cluster& cluster, const Ground& ground,
                       const std::vector<Marked>& marked);

/// The same for `down`: nothing is wanted. Only what Proxmox itself can take away is left over;
/// images only if they are to go too.
struct DownOptions {
  bool purge_images = false;
  bool reset_existing = false;
};
engine::Desired expand_down(const Cluster& cluster, const Ground& ground,
                            const std::vector<Marked>& marked, const DownOptions& options);

/// The kinds there are, in the order of their making.
std::vector<std::string> kinds();

}  // namespace rocca::resources
