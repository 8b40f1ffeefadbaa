#pragma once

#include "base/clock.hpp"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rocca {

/// Reads `90s`, `10m`, `1h30m`, `250ms`, `2d`. No sign, no blanks, no bare numbers.
std::optional<Duration> parse_duration(std::string_view text);
/// The shortest exact form that parse_duration reads back: `1h30m`, `250ms`, `0s`.
std::string to_string(Duration duration);
/// For people: two units at the most, `4m12s`, `0.3s`.
std::string to_rough_string(Duration duration);

/// `2026-11-16T03:04:05Z`, with a fraction only where there is one.
std::string to_string(Instant instant);
/// RFC 3339, years 1678 to 2261 (what 64 bits of nanoseconds hold); digits past the ninth are
/// dropped.
std::optional<Instant> parse_instant(std::string_view text);

/// A number of bytes. Written with binary units (`8GiB`, `512MiB`); `GB` and bare numbers are
/// refused, because half of the world reads them one way and half the other.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::uint64_t count) : count_(count) {}
  static constexpr Bytes kib(std::uint64_t n) { return Bytes{n << 10}; }
  static constexpr Bytes mib(std::uint64_t n) { return Bytes{n << 20}; }
  static constexpr Bytes gib(std::uint64_t n) { return Bytes{n << 30}; }

  static std::optional<Bytes> parse(std::string_view text);

  constexpr std::uint64_t count() const { return count_; }
  /// Whole mebibytes (or gibibytes), if it is a whole number of them.
  std::optional<std::uint64_t> whole_mib() const;
  std::optional<std::uint64_t> whole_gib() const;

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.count_ + b.count_}; }

 private:
  std::uint64_t count_ = 0;
};

/// The largest unit that is exact: `8GiB`, `1536MiB`, `9B`.
std::string to_string(Bytes bytes);

}  // namespace rocca
