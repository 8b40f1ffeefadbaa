#include "base/units.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace rocca {

namespace {

using namespace std::chrono_literals;

struct DurationUnit {
  std::string_view name;
  Duration length;
};

constexpr std::array<DurationUnit, 7> duration_units{{
    {"d", 24h},
    {"h", 1h},
    {"m", 1min},
    {"s", 1s},
    {"ms", 1ms},
    {"us", 1us},
    {"ns", 1ns},
}};

struct SizeUnit {
  std::string_view name;
  unsigned shift;
};

constexpr std::array<SizeUnit, 7> size_units{{
    {"EiB", 60},
    {"PiB", 50},
    {"TiB", 40},
    {"GiB", 30},
    {"MiB", 20},
    {"KiB", 10},
    {"B", 0},
}};

std::size_t count_digits(std::string_view text) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  return digits;
}

/// Takes `count` digits off the front of `text`.
std::optional<int> take_digits(std::string_view& text, std::size_t count) {
  if (count_digits(text.substr(0, count)) != count) return std::nullopt;
  const auto value = parse_int(text.substr(0, count));
  text.remove_prefix(count);
  return static_cast<int>(*value);
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

/// `2d3h`: the whole units of `duration` from the first unit down, two at the most.
std::string two_units(Duration duration) {
  std::string text;
  int shown = 0;
  for (const DurationUnit& unit : duration_units) {
    const auto count = duration / unit.length;
    if (shown > 0) ++shown;  // `1d5m` would read as two neighbours
    if (count > 0) {
      text += fmt::format("{}{}", count, unit.name);
      if (shown == 0) shown = 1;
    }
    duration %= unit.length;
    if (shown >= 2) break;
  }
  return text;
}

Duration rounded(Duration duration, Duration step) {
  return (duration + step / 2) / step * step;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  constexpr auto longest = static_cast<std::uint64_t>(Duration::max().count());
  std::uint64_t sum = 0;
  std::size_t next_unit = 0;  // units come largest first, each once: `30m1h` is a typing error
  while (!text.empty()) {
    const std::size_t digits = count_digits(text);
    const auto count = parse_uint(text.substr(0, digits));
    if (digits == 0 || !count) return std::nullopt;
    text.remove_prefix(digits);
    std::size_t letters = 0;
    while (letters < text.size() && text[letters] >= 'a' && text[letters] <= 'z') ++letters;
    const std::string_view name = text.substr(0, letters);
    text.remove_prefix(letters);
    while (next_unit < duration_units.size() && duration_units[next_unit].name != name) ++next_unit;
    if (next_unit == duration_units.size()) return std::nullopt;
    const auto length = static_cast<std::uint64_t>(duration_units[next_unit].length.count());
    ++next_unit;
    if (*count > (longest - sum) / length) return std::nullopt;
    sum += *count * length;
  }
  return Duration{static_cast<Duration::rep>(sum)};
}

std::string to_string(Duration duration) {
  if (duration == Duration::zero()) return "0s";
  std::string text = duration < Duration::zero() ? "-" : "";
  for (const DurationUnit& unit : duration_units) {
    // Each count on its own: the most negative duration has no positive twin.
    const auto count = duration / unit.length;
    duration %= unit.length;
    if (count != 0) text += fmt::format("{}{}", count < 0 ? -count : count, unit.name);
  }
  return text;
}

std::string to_rough_string(Duration duration) {
  constexpr Duration longest = Duration::max() - 1h;  // rounding up stays in range
  if (duration < Duration::zero()) return "-" + to_rough_string(-std::max(duration, -longest));
  if (duration == Duration::zero()) return "0s";
  if (duration < 1ms) return "<1ms";
  if (duration < 100ms) return fmt::format("{}ms", duration / 1ms);
  duration = std::min(duration, longest);
  if (const auto tenths = rounded(duration, 100ms) / 100ms; tenths < 100)
    return tenths % 10 == 0 ? fmt::format("{}s", tenths / 10)
                            : fmt::format("{}.{}s", tenths / 10, tenths % 10);
  if (rounded(duration, 1s) < 1h) return two_units(rounded(duration, 1s));
  if (rounded(duration, 1min) < 24h) return two_units(rounded(duration, 1min));
  return two_units(rounded(duration, 1h));
}

std::string to_string(Instant instant) {
  using namespace std::chrono;
  const auto day = floor<days>(instant);
  const year_month_day date{day};
  const hh_mm_ss time{floor<seconds>(instant - day)};
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  time.hours().count(), time.minutes().count(), time.seconds().count());
  const auto fraction = (instant - floor<seconds>(instant)).count();
  if (fraction != 0) {
    text += fmt::format(".{:09}", fraction);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + "Z";
}

std::optional<Instant> parse_instant(std::string_view text) {
  using namespace std::chrono;
  const auto y = take_digits(text, 4);
  if (!y || !take(text, "-")) return std::nullopt;
  const auto mon = take_digits(text, 2);
  if (!mon || !take(text, "-")) return std::nullopt;
  const auto d = take_digits(text, 2);
  if (!d || !take(text, "Tt")) return std::nullopt;
  const auto h = take_digits(text, 2);
  if (!h || !take(text, ":")) return std::nullopt;
  const auto min = take_digits(text, 2);
  if (!min || !take(text, ":")) return std::nullopt;
  const auto s = take_digits(text, 2);
  if (!s || *h > 23 || *min > 59 || *s > 59) return std::nullopt;

  std::int64_t fraction = 0;
  if (take(text, ".")) {
    const std::size_t digits = count_digits(text);
    if (digits == 0) return std::nullopt;
    for (std::size_t i = 0; i < 9; ++i) fraction = fraction * 10 + (i < digits ? text[i] - '0' : 0);
    text.remove_prefix(digits);
  }

  minutes offset{0};
  if (!take(text, "Zz")) {
    const bool west = text.starts_with('-');
    if (!take(text, "+-")) return std::nullopt;
    const auto off_h = take_digits(text, 2);
    if (!off_h || !take(text, ":")) return std::nullopt;
    const auto off_min = take_digits(text, 2);
    if (!off_min || *off_h > 23 || *off_min > 59) return std::nullopt;
    offset = hours{*off_h} + minutes{*off_min};
    if (west) offset = -offset;
  }
  const year_month_day date{year{*y}, month{static_cast<unsigned>(*mon)},
                            day{static_cast<unsigned>(*d)}};
  // 64 bits of nanoseconds reach from 1677 to 2262.
  if (!text.empty() || !date.ok() || *y < 1678 || *y > 2261) return std::nullopt;
  return Instant{sys_days{date} + hours{*h} + minutes{*min} + seconds{*s} - offset +
                 nanoseconds{fraction}};
}

std::optional<Bytes> Bytes::parse(std::string_view text) {
  const std::size_t digits = count_digits(text);
  const auto count = parse_uint(text.substr(0, digits));
  if (!count) return std::nullopt;
  for (const SizeUnit& unit : size_units) {
    if (text.substr(digits) != unit.name) continue;
    if (*count > std::numeric_limits<std::uint64_t>::max() >> unit.shift) return std::nullopt;
    return Bytes{*count << unit.shift};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Bytes::whole_mib() const {
  if (count_ % (1ull << 20) != 0) return std::nullopt;
  return count_ >> 20;
}

std::optional<std::uint64_t> Bytes::whole_gib() const {
  if (count_ % (1ull << 30) != 0) return std::nullopt;
  return count_ >> 30;
}

std::string to_string(Bytes bytes) {
  for (const SizeUnit& unit : size_units) {
    const std::uint64_t count = bytes.count() >> unit.shift;
    if (count != 0 && count << unit.shift == bytes.count())
      return fmt::format("{}{}", count, unit.name);
  }
  return "0B";
}

}  // namespace rocca
