#pragma once

#include "cluster/overview.hpp"
#include "engine/plan.hpp"
#include "report/style.hpp"

#include <string>

namespace rocca::report {

/// The plan on one screen: a table of nodes that are created or destroyed, changes of the same kind
/// in one line for all their nodes, refusals once with the flag that allows them, and totals. Every
/// resource with its reason and order is what render() in plan.hpp shows.
std::string render_glance(const engine::Plan& plan, const resources::ClusterOverview& cluster,
                          const Style& style = {});

}  // namespace rocca::report
