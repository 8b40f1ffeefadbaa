#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rocca::report {

/// How text for people is laid out.
struct Style {
  bool colour = false;
  std::size_t width = 100;
};

enum class Ink { Red, Green, Yellow, Cyan, Bold, Dim };
std::string ink(const Style& style, Ink colour, std::string_view text);

// What pad(), fit() and wrap() are given is untrusted and goes through visible(): colours come
// last.

/// How many columns it takes on a terminal: characters, not bytes, and no colours.
std::size_t columns(std::string_view text);
/// Filled with blanks to `width`; longer text is cut and ends in `…`.
std::string fit(std::string_view text, std::size_t width);
std::string pad(std::string_view text, std::size_t width);  // filled, never cut
/// Broken between words so that no line is longer than `width`; lines behind the first begin with
/// `indent` blanks. Newlines of the text are blanks.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace rocca::report
