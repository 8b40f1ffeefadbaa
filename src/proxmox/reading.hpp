#pragma once

#include "base/clock.hpp"
#include "text/value.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::proxmox {

// Perl decides value by value whether JSON shows 100 or "100", so every scalar is read as any of
// them.

/// The text of a scalar under `key`; a boolean as 1 or 0; nothing if absent, null, or no scalar.
std::optional<std::string> read_text(const text::Value& object, std::string_view key);
std::string read_text_or(const text::Value& object, std::string_view key,
                         std::string_view fallback = "");
std::optional<std::uint64_t> read_number(const text::Value& object, std::string_view key);
double read_float(const text::Value& object, std::string_view key);
bool read_switch(const text::Value& object, std::string_view key);

/// A scalar's text, however Perl chose to write it.
std::string scalar_text(const text::Value& value);
/// Seconds since 1970, as all of its times are.
Instant from_epoch(std::uint64_t seconds);
/// The items of a list; none if it is no list.
std::vector<text::Value> rows(text::Value data);
/// The words of a `*-list`: separated by commas, semicolons or blanks.
std::vector<std::string> read_list(const text::Value& object, std::string_view key);

}  // namespace rocca::proxmox
