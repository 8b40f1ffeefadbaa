#pragma once

#include "seeds/life.hpp"

#include <cstdint>

namespace rocca::seeds {

/// A spec drawn from the seed is raised, and a second plan is made, on Proxmox VE 8.4 and on 9.
Outcome second_plan(std::uint64_t seed, bool loud);

}  // namespace rocca::seeds
