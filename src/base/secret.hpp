#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

namespace rocca {

/// Text that must never be shown: it prints as `***`, is wiped when it dies, compares in constant
/// time, and gives its text only to who calls reveal(). It does not convert to std::string.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view text);
  /// Takes the bytes over and wipes the string they came in.
  static Secret take(std::string&& text);

  Secret(const Secret& other);
  Secret(Secret&& other) noexcept;
  Secret& operator=(const Secret& other);
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  /// The text itself. The view lives as long as this Secret is neither changed nor destroyed.
  std::string_view reveal() const noexcept { return {bytes_.get(), size_}; }

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }

  /// Takes as long for a wrong first byte as for a wrong last one.
  friend bool operator==(const Secret& a, const Secret& b) noexcept;

 private:
  void wipe() noexcept;

  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Secret& secret);

/// Overwrites memory in a way that no optimiser removes.
void wipe(void* data, std::size_t size) noexcept;
void wipe(std::string& text) noexcept;

/// Equal or not, in time that depends on the sizes only.
bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept;

}  // namespace rocca

template <>
struct fmt::formatter<rocca::Secret> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  auto format(const rocca::Secret&, format_context& context) const {
    return fmt::format_to(context.out(), "***");
  }
};
