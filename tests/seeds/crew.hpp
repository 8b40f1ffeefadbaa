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
  std::uint64_t family = 1;  // so many in a row, from 1 on, are run by one process
};

/// How the life of a seed ended.
using Tell = std::function<void(std::uint64_t seed, const Outcome&)>;
/// Runs seeds of one family, and tells of each in their order.
using Together = std::function<void(Seeds seeds, const Tell& tell)>;

/// Runs every seed of a batch, each process the next family that nobody has, and tells how they
/// ended in the order of the seeds: however many processes there are and whoever is faster, the
/// same seeds say the same. A process that dies or does not end has broken a promise, and the seed
/// that it was at is known.
void work(const Batch& batch, const Together& together, const Tell& told);

/// In a process of its own, with a copy of all there is: what `body` changes nobody sees, and what
/// it tells is told here. Whoever dies has broken the promises of all that were not told of.
void apart(Seeds seeds, const std::function<void(const Tell&)>& body, const Tell& told);

}  // namespace rocca::seeds
