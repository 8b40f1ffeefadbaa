#pragma once

#include "engine/plan.hpp"
#include "graph/graph.hpp"

#include <map>
#include <string>

namespace rocca::report {

/// The graph of a cluster's things; `actions` colours those that a plan would change.
struct Drawing {
  graph::Graph graph;
  std::map<std::string, engine::Action> actions;
};

/// Indented by depth: each thing once, below the last thing it waits for.
std::string draw_text(const Drawing& drawing);
std::string draw_dot(const Drawing& drawing);
/// A standalone picture: columns by depth, arrows from what is needed to who needs it.
std::string draw_svg(const Drawing& drawing);

}  // namespace rocca::report
