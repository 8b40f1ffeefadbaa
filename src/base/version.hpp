#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rocca {

/// Semantic version 2.0.0, with or without a leading `v`. Precedence as the standard says; build
/// metadata does not count. Missing parts (`v1.11`) are refused; parse_loose reads them as 0.
class Version {
 public:
  Version() = default;
  Version(std::uint64_t major, std::uint64_t minor, std::uint64_t patch, std::string pre = "");
  static std::optional<Version> parse(std::string_view text);
  static std::optional<Version> parse_loose(std::string_view text);

  std::uint64_t major() const { return major_; }
  std::uint64_t minor() const { return minor_; }
  std::uint64_t patch() const { return patch_; }
  const std::string& pre() const { return pre_; }
  const std::string& build() const { return build_; }

  friend std::strong_ordering operator<=>(const Version& a, const Version& b);
  friend bool operator==(const Version& a, const Version& b) { return (a <=> b) == 0; }

 private:
  std::uint64_t major_ = 0;
  std::uint64_t minor_ = 0;
  std::uint64_t patch_ = 0;
  std::string pre_;
  std::string build_;
};

std::string to_string(const Version& version);  // no leading v

}  // namespace rocca
