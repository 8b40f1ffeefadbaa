#pragma once

#include "proxmox/types.hpp"
#include "resources/run.hpp"

#include <optional>
#include <string>
#include <vector>

// What `drift` finds out of a value that differs, beside that it does. Pure.

namespace rocca::resources {

/// Where the spec says a field of a node's VM, and how it would say what was found.
void find_acceptance(const spec::Node& node, Drift& drift);

/// Whose task made a value what it is. `tasks`: of this VM, wherever it was; `options`: how many of
/// its options differ. Proxmox's log tells who asked for a task and not for what, and a change of
/// an option that is made at once leaves no task at all: only what fits in one way is said flatly.
struct Suspicion {
  const std::vector<proxmox::TaskRow>& tasks;
  std::optional<Instant> since;  // when it was last as declared
  std::string us;                // whose tasks are our own
  std::size_t options = 1;
};
void name_culprit(const Suspicion& suspicion, Drift& drift);

}  // namespace rocca::resources
