#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rocca {

class Entropy;

class Uuid {
 public:
  constexpr Uuid() = default;
  constexpr explicit Uuid(const std::array<std::uint8_t, 16>& bytes) : bytes_(bytes) {}
  static std::optional<Uuid> parse(std::string_view text);  // 8-4-4-4-12, any case

  /// RFC 4122 version 5: the same name in the same namespace is the same UUID for ever.
  static Uuid v5(const Uuid& space, std::string_view name);
  static Uuid v4(Entropy& entropy);

  const std::array<std::uint8_t, 16>& bytes() const { return bytes_; }
  unsigned version() const { return bytes_[6] >> 4; }

  friend auto operator<=>(const Uuid&, const Uuid&) = default;

 private:
  std::array<std::uint8_t, 16> bytes_{};
};

std::string to_string(const Uuid& uuid);  // lower case

}  // namespace rocca
