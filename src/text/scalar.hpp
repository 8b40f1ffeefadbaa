#pragma once

#include "text/value.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rocca::text {

/// What go-yaml v3 makes of a plain scalar: Null, Bool, Int, Float, Timestamp or String.
Kind resolve_plain(std::string_view text);

struct Integer {
  bool negative = false;
  std::uint64_t magnitude = 0;
};

/// The value of a plain scalar that go-yaml reads as that kind; nothing for any other text. A
/// timestamp is told apart by resolve_plain alone: `2001-01-01` is no integer here either.
std::optional<bool> read_bool(std::string_view text) noexcept;
std::optional<Integer> read_integer(std::string_view text);
std::optional<double> read_float(std::string_view text);  // not integers

/// A timestamp as Go prints it (RFC 3339, fraction without trailing zeros, `Z` for no offset).
std::optional<std::string> normal_timestamp(std::string_view text);

/// The shortest decimal that reads back as the same float: `1.5`, `1e+20`, `5.0`, `.inf`.
std::string float_text(double value);

/// Would YAML 1.1 read it as a boolean or a base-60 number, although go-yaml does not? Then others
/// misread it.
bool is_misread_elsewhere(std::string_view text);

}  // namespace rocca::text
