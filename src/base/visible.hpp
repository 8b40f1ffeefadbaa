#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rocca {

/// Text that a user, a file or a far side chose is untrusted: it may hold bytes that steer a
/// terminal, forge a line of output or reverse the order in which it is read. Every output goes
/// through this file: values through visible(), whole streams through
/// cli/terminal/output_filter.hpp, JSON and YAML through is_steering().

/// Whether the character is never shown as itself: C0 and C1 controls (tab and newline included),
/// DEL, line and paragraph separators, marks that set the direction of writing, byte order marks,
/// interlinear annotations. Joiners (emoji, Persian) are text.
bool is_steering(char32_t code) noexcept;

/// The escape that is shown instead: `\n`, `\x1b`, `\u202e`.
std::string visible_escape(char32_t code);

/// The first character of a text that is not empty. Where the bytes are not valid UTF-8: one byte.
struct Decoded {
  char32_t code = 0;
  std::size_t size = 1;
  bool valid = true;
};
Decoded first_character(std::string_view text) noexcept;

/// For one line of a terminal or log: steering characters and invalid bytes become escapes,
/// newlines too.
std::string visible(std::string_view text);

/// For a message that may have several lines: each line behind the first begins with at least
/// `indent` blanks, so that it cannot pass for a line of rocca's own. Blank ends are cut off.
std::string visible(std::string_view text, std::size_t indent);

/// For the text of an XML or HTML element or of a quoted attribute.
std::string visible_markup(std::string_view text);

/// Each invalid byte becomes U+FFFD, for formats that cannot carry it.
std::string valid_utf8(std::string_view text);

}  // namespace rocca
