#include "base/version.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace rocca {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

std::optional<std::uint64_t> parse_part(std::string_view text) {
  if (!all_digits(text) || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  return parse_uint(text);
}

/// Identifiers between dots (semver.org 9 and 10); only in pre-releases a number has no leading
/// zeros.
bool valid_identifiers(std::string_view text, bool numbers_matter) {
  for (const std::string& part : split(text, '.')) {
    if (part.empty()) return false;
    if (!std::all_of(part.begin(), part.end(), [](char c) {
          return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
        }))
      return false;
    if (numbers_matter && all_digits(part) && part.size() > 1 && part[0] == '0') return false;
  }
  return true;
}

std::strong_ordering compare_identifiers(const std::string& a, const std::string& b) {
  const bool a_number = all_digits(a);
  const bool b_number = all_digits(b);
  if (a_number != b_number)
    return a_number ? std::strong_ordering::less : std::strong_ordering::greater;
  // Without leading zeros the longer number is the larger one, however long it is.
  if (a_number && a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

std::strong_ordering compare_pre(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty())
    return b.size() <=> a.size();  // a release comes after its pre-releases
  const auto left = split(a, '.');
  const auto right = split(b, '.');
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i)
    if (const auto order = compare_identifiers(left[i], right[i]); order != 0) return order;
  return left.size() <=> right.size();
}

struct Parts {
  std::vector<std::uint64_t> numbers;
  std::string pre;
  std::string build;
};

std::optional<Parts> parse_parts(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  Parts parts;
  if (const std::size_t plus = text.find('+'); plus != std::string_view::npos) {
    parts.build = text.substr(plus + 1);
    if (!valid_identifiers(parts.build, false)) return std::nullopt;
    text = text.substr(0, plus);
  }
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    parts.pre = text.substr(dash + 1);
    if (!valid_identifiers(parts.pre, true)) return std::nullopt;
    text = text.substr(0, dash);
  }
  for (const std::string& part : split(text, '.')) {
    const auto number = parse_part(part);
    if (!number) return std::nullopt;
    parts.numbers.push_back(*number);
  }
  return parts;
}

}  // namespace

Version::Version(std::uint64_t major, std::uint64_t minor, std::uint64_t patch, std::string pre)
    : major_(major), minor_(minor), patch_(patch), pre_(std::move(pre)) {
  if (!pre_.empty() && !valid_identifiers(pre_, true))
    throw Error(Fault::Usage, fmt::format("'{}' is no pre-release of a semantic version", pre_));
}

std::optional<Version> Version::parse(std::string_view text) {
  const auto parts = parse_parts(text);
  if (!parts || parts->numbers.size() != 3) return std::nullopt;
  return parse_loose(text);
}

std::optional<Version> Version::parse_loose(std::string_view text) {
  auto parts = parse_parts(text);
  if (!parts || parts->numbers.size() > 3) return std::nullopt;
  parts->numbers.resize(3);
  Version version{parts->numbers[0], parts->numbers[1], parts->numbers[2], std::move(parts->pre)};
  version.build_ = std::move(parts->build);
  return version;
}

std::strong_ordering operator<=>(const Version& a, const Version& b) {
  if (const auto order = a.major_ <=> b.major_; order != 0) return order;
  if (const auto order = a.minor_ <=> b.minor_; order != 0) return order;
  if (const auto order = a.patch_ <=> b.patch_; order != 0) return order;
  return compare_pre(a.pre_, b.pre_);
}

std::string to_string(const Version& version) {
  std::string text = fmt::format("{}.{}.{}", version.major(), version.minor(), version.patch());
  if (!version.pre().empty()) text += "-" + version.pre();
  if (!version.build().empty()) text += "+" + version.build();
  return text;
}

}  // namespace rocca
