#include "base/entropy.hpp"

#include "base/error.hpp"

#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace rocca {

namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): spreads a poor seed over a whole state.
std::uint64_t split_mix(std::uint64_t& state) noexcept {
  std::uint64_t z = state += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// FNV-1a.
std::uint64_t hash_name(std::string_view name) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return hash;
}

}  // namespace

std::uint64_t Entropy::word() {
  std::array<std::byte, 8> raw{};
  fill(raw);
  std::uint64_t word = 0;
  for (std::size_t i = 8; i-- > 0;) word = word << 8 | std::to_integer<std::uint64_t>(raw[i]);
  return word;
}

std::uint64_t Entropy::below(std::uint64_t bound) {
  if (bound == 0) throw Error(Fault::Bug, "a random number below 0 was asked for");
  // The first 2^64 mod bound words would make small results likelier: they are drawn again.
  const std::uint64_t skip = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t drawn = word();
    if (drawn >= skip) return drawn % bound;
  }
}

std::string Entropy::bytes(std::size_t count) {
  std::string result(count, '\0');
  fill(std::as_writable_bytes(std::span{result}));
  return result;
}

void SystemEntropy::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      throw Error(Fault::Bug,
                  std::string("the kernel gives no random numbers: ") + std::strerror(errno));
    }
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

SeededEntropy::SeededEntropy(std::uint64_t seed) : seed_(seed) {
  for (std::uint64_t& part : state_) part = split_mix(seed);
}

void SeededEntropy::fill(std::span<std::byte> out) {
  while (!out.empty()) {
    std::uint64_t drawn = next();
    const std::size_t count = out.size() < 8 ? out.size() : 8;
    for (std::size_t i = 0; i < count; ++i, drawn >>= 8) out[i] = static_cast<std::byte>(drawn);
    out = out.subspan(count);
  }
}

SeededEntropy SeededEntropy::fork(std::string_view name) const {
  std::uint64_t mixed = seed_ ^ hash_name(name);
  return SeededEntropy{split_mix(mixed)};
}

/// xoshiro256** (Blackman, Vigna 2018).
std::uint64_t SeededEntropy::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

}  // namespace rocca
