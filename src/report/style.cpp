#include "report/style.hpp"

#include "base/strings.hpp"
#include "base/visible.hpp"

#include <algorithm>

namespace rocca::report {

namespace {

const char* code_of(Ink colour) {
  switch (colour) {
    case Ink::Red:
      return "31";
    case Ink::Green:
      return "32";
    case Ink::Yellow:
      return "33";
    case Ink::Cyan:
      return "36";
    case Ink::Bold:
      return "1";
    case Ink::Dim:
      return "2";
  }
  return "0";
}

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

}  // namespace

std::string ink(const Style& style, Ink colour, std::string_view text) {
  if (!style.colour || text.empty()) return std::string(text);
  return std::string("\x1b[") + code_of(colour) + "m" + std::string(text) + "\x1b[0m";
}

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  bool escape = false;
  for (const char byte : text) {
    if (escape) {
      if (byte == 'm') escape = false;
      continue;
    }
    if (byte == '\x1b') {
      escape = true;
      continue;
    }
    if (!continues(byte)) ++count;
  }
  return count;
}

std::string pad(std::string_view text, std::size_t width) {
  std::string out = visible(text);
  for (std::size_t have = columns(out); have < width; ++have) out += ' ';
  return out;
}

std::string fit(std::string_view untrusted, std::size_t width) {
  const std::string text = visible(untrusted);
  if (columns(text) <= width) return pad(text, width);
  std::string out;
  std::size_t taken = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!continues(text[at]) && ++taken == width) return out + "…";
    out += text[at];
  }
  return out;
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string prose{text};
  std::replace_if(
      prose.begin(), prose.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  std::string out;
  std::size_t column = 0;
  for (const std::string& word : split(visible(prose), ' ')) {
    if (word.empty()) continue;
    const std::size_t wide = columns(word);
    if (column > indent && column + 1 + wide > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!out.empty()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += wide;
  }
  return out;
}

}  // namespace rocca::report
