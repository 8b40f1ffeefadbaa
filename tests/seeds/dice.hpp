#pragma once

#include "base/entropy.hpp"

#include <array>
#include <cstdint>
#include <utility>

namespace rocca::seeds {

/// Chance, in the words of a story.
class Dice {
 public:
  explicit Dice(SeededEntropy entropy) : entropy_(std::move(entropy)) {}
  std::uint64_t below(std::uint64_t bound) { return entropy_.below(bound); }
  unsigned between(unsigned least, unsigned most) {
    return least + static_cast<unsigned>(below(most - least + 1));
  }
  bool one_in(unsigned times) { return below(times) == 0; }
  template <class T, std::size_t N>
  const T& of(const std::array<T, N>& all) {
    return all[below(N)];
  }

 private:
  SeededEntropy entropy_;
};

}  // namespace rocca::seeds
