#pragma once

#include "seeds/life.hpp"

#include <cstdint>
#include <functional>

namespace rocca::seeds {

/// Which seeds, and by how many processes.
struct Batch {
  std::uint64_t from = 1;
  std::uint64_t count = 0;
  unsigned jobs = 1;
  bool go_on = false;  // after a broken promise; otherwise no seed behind the first one is told of
};

/// Runs every seed of a batch, each process the next that nobody has, and tells how they ended in
/// the order of the seeds: however many processes there are and whoever is faster, the same seeds
/// say the same. A process that dies or does not end has broken a promise, and its seed is known.
void work(const Batch& batch, const std::function<Outcome(std::uint64_t seed)>& one,
          const std::function<void(std::uint64_t seed, const Outcome&)>& told);

}  // namespace rocca::seeds
