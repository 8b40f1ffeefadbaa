#pragma once

#include "base/diagnostics.hpp"
#include "text/value.hpp"
#include "text/yaml.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::text {

/// What is wrong with a text, and where. Private to this folder: callers get an Error or
/// Diagnostics.
struct Trouble {
  std::size_t line = 0;  // 0: the whole text
  std::size_t column = 0;
  std::string message;
  std::string hint;
};

/// Line and column of a byte (lines end with LF, CR LF or CR; columns count characters).
Place place_of(std::string_view text, std::size_t byte);

/// Decodes the character at `at` (which must be valid UTF-8) and says how long it is.
struct Character {
  char32_t code = 0;
  std::size_t size = 1;
};
Character character_at(std::string_view text, std::size_t at) noexcept;

bool is_valid_utf8(std::string_view text) noexcept;

/// May this character stand in a YAML text as itself (YAML 1.1, 4.1.1)?
bool is_printable(char32_t code) noexcept;

/// Does a line end there, as YAML 1.1 counts lines: LF, CR, and also NEL, LS and PS?
bool is_line_break(std::string_view text, std::size_t at) noexcept;
/// The next line break from `at` on, or the end of the text; the first byte of the line that `at`
/// stands in.
std::size_t line_end(std::string_view text, std::size_t at) noexcept;
std::size_t line_start(std::string_view text, std::size_t at) noexcept;

/// Throws Trouble for a text that is too large, has a NUL byte, is not UTF-8, or (`yaml`) has other
/// control characters.
void check_source(std::string_view text, const Limits& limits, bool yaml);

/// A byte order mark is dropped before the text is read.
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

[[noreturn]] void throw_trouble(std::string_view name, const Trouble& trouble);
void report_trouble(std::string_view name, std::string_view text,
                    const std::vector<Trouble>& troubles, Diagnostics& diagnostics);

}  // namespace rocca::text
