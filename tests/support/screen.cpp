#include "support/screen.hpp"

#include <algorithm>
#include <charconv>

namespace rocca::test {

void Screen::put(std::string character) {
  if (column_ == columns_) {
    ++wrapped_;
    ++row_;
    column_ = 0;
  }
  lines_.resize(std::max(lines_.size(), row_ + 1));
  auto& line = lines_[row_];
  line.resize(std::max(line.size(), column_ + 1), " ");
  line[column_++] = std::move(character);
}

std::size_t Screen::obey(std::string_view sequence) {
  std::size_t end = 2;
  while (end < sequence.size() && (sequence[end] < '@' || sequence[end] > '~')) ++end;
  if (end == sequence.size()) return end;
  std::size_t count = 1;
  std::from_chars(sequence.data() + 2, sequence.data() + end, count);
  if (sequence[end] == 'A') {
    row_ -= std::min(row_, count);
  } else if (sequence[end] == 'J') {
    lines_.resize(row_ + 1);
    lines_[row_].resize(std::min(lines_[row_].size(), column_));
  }
  return end + 1;
}

void Screen::write(std::string_view bytes) {
  while (!bytes.empty()) {
    std::size_t used = 1;
    if (bytes.starts_with("\x1b[")) {
      used = obey(bytes);
    } else if (bytes.front() == '\r') {
      column_ = 0;
    } else if (bytes.front() == '\n') {
      // The terminal's driver makes a carriage return and a line feed of it.
      column_ = 0;
      ++row_;
      lines_.resize(std::max(lines_.size(), row_ + 1));
    } else {
      while (used < bytes.size() && (static_cast<unsigned char>(bytes[used]) & 0xc0) == 0x80)
        ++used;
      put(std::string(bytes.substr(0, used)));
    }
    bytes.remove_prefix(used);
  }
}

std::string Screen::text() const {
  std::string all;
  for (const auto& line : lines_) {
    std::string one;
    for (const std::string& character : line) one += character;
    one.erase(one.find_last_not_of(' ') + 1);
    all += one + "\n";
  }
  while (all.ends_with("\n\n")) all.pop_back();
  return all;
}

}  // namespace rocca::test
