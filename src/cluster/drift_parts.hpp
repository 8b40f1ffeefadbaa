#pragma once

#include "cluster/run.hpp"
#include "proxmox/types.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

// What `drift` finds out of a value that differs, beside that it does. Pure.

namespace rocca::resources {

/// Where the spec says a field of a node's VM, and how it would say what was found.
void find_acceptance(const spec::Node& node, Drift& drift);

/// Whose task made a value what it is. The list of tasks tells who asked and not for what. A task
/// that changes options says in its own log which, and to what. A change that is made at once
/// leaves no task; the cluster log names it where the token may read that. Only what fits in one
/// way is said flatly.
struct Suspicion {
  const std::vector<proxmox::TaskRow>& tasks;  // of this VM, wherever it was
  std::optional<Instant> since;                // when it was last as declared
  std::string us;                              // whose tasks are our own
  /// What a task's log says, by UPID: `update VM 101: -cores 8 -delete tags`.
  std::map<std::string, std::string> said = {};
  /// The cluster log's lines about this VM: a change that is made at once stands only there.
  std::vector<proxmox::LogEntry> log = {};
};
void name_culprit(const Suspicion& suspicion, Drift& drift);

}  // namespace rocca::resources
