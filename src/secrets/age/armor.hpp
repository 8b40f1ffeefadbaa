#pragma once

#include "secrets/age/age.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace rocca::secrets::age {

/// Takes the armor off (`-----BEGIN AGE ENCRYPTED FILE-----`), line by line. Strict as the format's
/// vectors are: LF or CRLF, white space only before and after the whole, nothing else. Throws
/// AgeError(Armor).
class ArmorReader {
 public:
  explicit ArmorReader(Sink out) : out_(std::move(out)) {}
  void write(std::string_view text);
  void finish();

 private:
  void take_line(std::string_view line);

  enum class Place { Before, Inside, LastLine, After };

  Sink out_;
  Place place_ = Place::Before;
  std::string line_;
  std::size_t blank_ = 0;  // bytes of white space outside
};

class ArmorWriter {
 public:
  explicit ArmorWriter(Sink out) : out_(std::move(out)) {}
  void write(std::string_view bytes);
  void finish();

 private:
  Sink out_;
  std::string waiting_;  // fewer than a line's bytes
  bool begun_ = false;
};

/// Does the text begin with the armor's first line, white space before it aside?
bool looks_armored(std::string_view text) noexcept;
/// How many bytes looks_armored needs to be sure.
std::size_t armor_lookahead(std::string_view text) noexcept;

}  // namespace rocca::secrets::age
