#pragma once

#include "cli/command.hpp"

namespace rocca::cli {

/// The verbs of a cluster's life: plan, up, apply, down, status, drift, graph, history.
void add_life_verbs(Catalog& verbs);

}  // namespace rocca::cli
