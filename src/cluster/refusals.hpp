#pragma once

#include "engine/plan.hpp"

namespace rocca::resources {

/// Throws Error(Refused) that names every step which may not run: nothing is changed until all of
/// them may. The first hint is the hint.
void refuse_if_any(const engine::Plan& plan);

}  // namespace rocca::resources
