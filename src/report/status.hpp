#pragma once

#include "cluster/run.hpp"
#include "report/style.hpp"
#include "text/value.hpp"

#include <string>
#include <vector>

namespace rocca::report {

/// A table of nodes and a line for whatever belongs to all of them.
std::string render(const resources::ClusterStatus& status, Instant now, const Style& style);
text::Value to_value(const resources::ClusterStatus& status);

/// What differs, since when and by whom.
/// `by_spec`: what differs because the spec was changed, which is no drift.
std::string render(const std::vector<resources::Drift>& drifts,
                   const std::vector<std::string>& by_spec, const std::string& cluster, Instant now,
                   const Style& style);
text::Value to_value(const std::vector<resources::Drift>& drifts);

/// What a cluster's state remembers: things, when they settled, how long such things take.
std::string render_history(const state::State& state, Instant now, const Style& style);
text::Value history_value(const state::State& state);

}  // namespace rocca::report
