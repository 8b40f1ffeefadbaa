#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rocca {

/// One of the four doors: randomness. Keys, nonces, ids and jitter all come from here.
class Entropy {
 public:
  virtual ~Entropy() = default;
  virtual void fill(std::span<std::byte> out) = 0;

  std::uint64_t word();
  /// Uniform in [0, bound); bound must not be 0.
  std::uint64_t below(std::uint64_t bound);
  std::string bytes(std::size_t count);
};

/// The kernel's random numbers (getrandom).
class SystemEntropy final : public Entropy {
 public:
  void fill(std::span<std::byte> out) override;
};

/// The same numbers for the same seed, on every machine. For tests and the lab, never for keys of a
/// user.
class SeededEntropy final : public Entropy {
 public:
  explicit SeededEntropy(std::uint64_t seed);
  void fill(std::span<std::byte> out) override;

  /// A stream of its own for one step, independent of how much others draw.
  SeededEntropy fork(std::string_view name) const;

 private:
  std::uint64_t next();

  std::uint64_t seed_;
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace rocca
