#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace rocca {

namespace {

constexpr std::string_view white_space = " \t\n\r\f\v";

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) noexcept {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  parts.reserve(1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), separator)));
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string all;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) all += separator;
    all += part;
  }
  return all;
}

std::string_view trim(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(white_space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(white_space) - first + 1);
}

std::string to_lower(std::string_view text) {
  std::string result{text};
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string{text};
  std::string result;
  for (;;) {
    const std::size_t hit = text.find(from);
    result += text.substr(0, hit);
    if (hit == std::string_view::npos) return result;
    result += to;
    text.remove_prefix(hit + from.size());
  }
}

std::optional<std::int64_t> parse_int(std::string_view text) noexcept {
  return parse_number<std::int64_t>(text);
}

std::optional<std::uint64_t> parse_uint(std::string_view text) noexcept {
  return parse_number<std::uint64_t>(text);
}

bool is_dns_label(std::string_view text) noexcept {
  if (text.empty() || text.size() > 63 || text.front() == '-' || text.back() == '-') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

bool is_dns_name(std::string_view text) noexcept {
  if (text.size() > 253) return false;
  for (;;) {
    const std::size_t dot = text.find('.');
    if (!is_dns_label(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

std::string enumerate(const std::vector<std::string>& words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? fmt::format(" {} ", last) : ", ";
    text += words[i];
  }
  return text;
}

std::string plural(std::size_t count, std::string_view one, std::string_view many) {
  if (count == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", count, one) : fmt::format("{} {}", count, many);
}

}  // namespace rocca
