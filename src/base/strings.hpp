#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca {

std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text) noexcept;  // ASCII white space on both ends
std::string to_lower(std::string_view text);            // ASCII
bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;  // ASCII
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

/// Whole text, base 10, in range; otherwise nothing.
std::optional<std::int64_t> parse_int(std::string_view text) noexcept;
std::optional<std::uint64_t> parse_uint(std::string_view text) noexcept;

/// Is it a DNS label (RFC 1123): 1–63 of a–z, 0–9 and `-`, no `-` at either end.
bool is_dns_label(std::string_view text) noexcept;
/// Labels joined by dots, 253 characters at the most.
bool is_dns_name(std::string_view text) noexcept;

/// `one, two and three`.
std::string enumerate(const std::vector<std::string>& words, std::string_view last = "and");
/// `1 node`, `3 nodes`.
std::string plural(std::size_t count, std::string_view one, std::string_view many = "");

}  // namespace rocca
