#include "base/visible.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca {

namespace {

std::size_t sequence_length(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return 1;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return length <= text.size() && is_utf8(text.substr(0, length)) ? length : 0;
}

bool is_plain(char c) noexcept {
  return c >= 0x20 && c < 0x7F;
}

/// The one walk over untrusted text: `escape` says what stands for a steering character or an
/// invalid byte, and may take more of the text than that.
template <class Escape>
std::string walk(std::string_view text, Escape escape) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && is_plain(text[plain])) ++plain;
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const Decoded character = first_character(text);
    if (character.valid && !is_steering(character.code)) {
      out += text.substr(0, character.size);
      text.remove_prefix(character.size);
    } else {
      text.remove_prefix(character.size);
      escape(out, character, text);
    }
  }
  return out;
}

void append_escape(std::string& out, const Decoded& character) {
  out += character.valid ? visible_escape(character.code)
                         : fmt::format("\\x{:02x}", static_cast<unsigned>(character.code));
}

}  // namespace

bool is_steering(char32_t code) noexcept {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x061C || code == 0x200E ||
         code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFB);
}

std::string visible_escape(char32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return code < 0x80 ? fmt::format("\\x{:02x}", static_cast<unsigned>(code))
                         : fmt::format("\\u{:04x}", static_cast<unsigned>(code));
  }
}

Decoded first_character(std::string_view text) noexcept {
  const std::size_t length = sequence_length(text);
  char32_t code = static_cast<unsigned char>(text.front());
  if (length == 0) return {code, 1, false};
  if (length > 1) code &= 0x7Fu >> length;
  for (const char c : text.substr(1, length - 1))
    code = code << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
  return {code, length, true};
}

std::string visible(std::string_view text) {
  return walk(text, [](std::string& out, const Decoded& character, std::string_view&) {
    append_escape(out, character);
  });
}

std::string visible(std::string_view text, std::size_t indent) {
  text = trim(text);
  // All lines move together: a list stays a list.
  std::size_t least = indent;
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at)) {
    const std::size_t first = std::min(text.find_first_not_of(' ', ++at), text.size());
    if (text[first] != '\n' && text[first] != '\r') least = std::min(least, first - at);
  }
  return walk(text, [&](std::string& out, const Decoded& character, std::string_view& rest) {
    if (character.code == '\r' && rest.starts_with('\n')) return;
    if (character.code == '\n') {
      out += '\n';
      if (!rest.starts_with('\n')) out.append(indent - least, ' ');
    } else if (character.code == '\t') {
      out += "  ";
    } else {
      append_escape(out, character);
    }
  });
}

std::string visible_markup(std::string_view text) {
  std::string out;
  for (const char c : visible(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded character = first_character(text);
    out += character.valid ? text.substr(0, character.size) : std::string_view{"\uFFFD"};
    text.remove_prefix(character.size);
  }
  return out;
}

}  // namespace rocca
