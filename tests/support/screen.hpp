#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::test {

/// What a terminal shows after some bytes: carriage return, line feed, cursor up, erase to the end,
/// colours (not shown). Every character is one column wide. It never scrolls.
class Screen {
 public:
  explicit Screen(std::size_t columns) : columns_(columns) {}
  void write(std::string_view bytes);
  /// Line by line, without blanks at their ends.
  std::string text() const;
  /// How often a line was longer than the terminal is wide.
  std::size_t wrapped() const noexcept { return wrapped_; }

 private:
  void put(std::string character);
  /// The length of the escape sequence at the beginning, after it was obeyed.
  std::size_t obey(std::string_view sequence);

  std::size_t columns_;
  std::vector<std::vector<std::string>> lines_{1};
  std::size_t row_ = 0, column_ = 0, wrapped_ = 0;
};

}  // namespace rocca::test
