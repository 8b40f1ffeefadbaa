#include "text/source.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace rocca::text {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) noexcept {
  return static_cast<unsigned char>(text[at]);
}

/// Where the printable ASCII from `at` on ends, or a few bytes before: eight at once, because most
/// texts are nothing else.
std::size_t behind_plain(std::string_view text, std::size_t at) noexcept {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::uint64_t each = 0x0101010101010101;
  for (; text.size() - at >= 8; at += 8) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + at, 8);
    // The top bit of a byte is set where it is below 0x20, is 0x7F, or is no ASCII.
    const std::uint64_t others = ((bytes - each * 0x20) | (bytes + each) | bytes) & (each * 0x80);
    if (others != 0) return at + static_cast<std::size_t>(std::countr_zero(others)) / 8;
  }
  return at;
}

/// The length of the valid UTF-8 sequence at `at` (RFC 3629), or 0.
std::size_t sequence_size(std::string_view text, std::size_t at) noexcept {
  const unsigned lead = byte_at(text, at);
  if (lead < 0x80) return 1;
  const std::size_t size = lead >= 0xC2 && lead <= 0xDF   ? 2
                           : (lead & 0xF0) == 0xE0        ? 3
                           : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                          : 0;
  if (size == 0 || text.size() - at < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte_at(text, at + i) & 0xC0) != 0x80) return 0;
  const unsigned second = byte_at(text, at + 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
    return 0;
  return size;
}

std::string size_text(std::size_t bytes) {
  if (bytes >= 1024 * 1024)
    return fmt::format("{:.3g} MiB", static_cast<double>(bytes) / (1024 * 1024));
  if (bytes >= 1024) return fmt::format("{:.3g} KiB", static_cast<double>(bytes) / 1024);
  return fmt::format("{} bytes", bytes);
}

Trouble trouble_at(std::string_view text, std::size_t byte, std::string message,
                   std::string hint = "") {
  const Place place = place_of(text, byte);
  return {place.line, place.column, std::move(message), std::move(hint)};
}

}  // namespace

Place place_of(std::string_view text, std::size_t byte) {
  Place place{1, 1, byte, byte};
  for (std::size_t at = 0; at < byte && at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n' || (c == '\r' && (at + 1 >= text.size() || text[at + 1] != '\n'))) {
      ++place.line;
      place.column = 1;
    } else if ((byte_at(text, at) & 0xC0) != 0x80) {
      ++place.column;
    }
  }
  return place;
}

Character character_at(std::string_view text, std::size_t at) noexcept {
  const unsigned lead = byte_at(text, at);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  char32_t code = lead & (0xFFu >> (size + 1));
  for (std::size_t i = 1; i < size && at + i < text.size(); ++i)
    code = (code << 6) | (byte_at(text, at + i) & 0x3Fu);
  return {code, size};
}

bool is_valid_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    at = behind_plain(text, at);
    if (at == text.size()) break;
    const std::size_t size = sequence_size(text, at);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

bool is_printable(char32_t code) noexcept {
  return code == '\t' || code == '\n' || code == '\r' || (code >= 0x20 && code <= 0x7E) ||
         code == 0x85 || (code >= 0xA0 && code <= 0xD7FF) || (code >= 0xE000 && code <= 0xFFFD) ||
         (code >= 0x10000 && code <= 0x10FFFF);
}

bool is_line_break(std::string_view text, std::size_t at) noexcept {
  const std::string_view rest = text.substr(at);
  return rest.starts_with('\n') || rest.starts_with('\r') || rest.starts_with("\xC2\x85") ||
         rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9");
}

std::size_t line_end(std::string_view text, std::size_t at) noexcept {
  while (at < text.size() && !is_line_break(text, at)) ++at;
  return at;
}

std::size_t line_start(std::string_view text, std::size_t at) noexcept {
  for (; at > 0; --at) {
    for (std::size_t size = 1; size <= 3 && size <= at; ++size)
      if (is_line_break(text, at - size) && character_at(text, at - size).size == size) return at;
  }
  return at;
}

void check_source(std::string_view text, const Limits& limits, bool yaml) {
  if (text.size() > limits.size)
    throw Trouble{0, 0,
                  fmt::format("the text is too large: {}, at most {} are read",
                              size_text(text.size()), size_text(limits.size)),
                  ""};
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    throw Trouble{1, 1, "the text is UTF-16", "save the file as UTF-8"};
  for (std::size_t at = 0; at < text.size();) {
    at = behind_plain(text, at);
    if (at == text.size()) break;
    const unsigned char lead = byte_at(text, at);
    if (lead == 0)
      throw trouble_at(text, at, "a NUL byte stands in the text",
                       "is this a binary file, or one saved as UTF-16?");
    if (lead >= 0x20 && lead < 0x7F) {
      ++at;
      continue;
    }
    const std::size_t size = sequence_size(text, at);
    if (size == 0)
      throw trouble_at(text, at, fmt::format("byte 0x{:02X} is not valid UTF-8", lead),
                       "save the file as UTF-8");
    if (yaml) {
      const char32_t code = character_at(text, at).code;
      // libyaml skips it at the start of any line, Go reads it as text.
      if (code == 0xFEFF && at > 0 &&
          (text[at - 1] == '\n' || text[at - 1] == '\r' ||
           (at == byte_order_mark.size() && text.starts_with(byte_order_mark))))
        throw trouble_at(text, at, "a byte order mark stands inside of the text", "take it away");
      if (!is_printable(code))
        throw trouble_at(text, at,
                         fmt::format("control character U+{:04X} is not allowed",
                                     static_cast<std::uint32_t>(code)),
                         "write it as an escape in double quotes");
    }
    at += size;
  }
}

void throw_trouble(std::string_view name, const Trouble& trouble) {
  std::string where{name};
  if (trouble.line > 0) where += fmt::format(":{}:{}", trouble.line, trouble.column);
  Error error(Fault::Usage, fmt::format("{}: {}", where, trouble.message));
  if (!trouble.hint.empty()) error.hint(trouble.hint);
  throw error;
}

void report_trouble(std::string_view name, std::string_view text,
                    const std::vector<Trouble>& troubles, Diagnostics& diagnostics) {
  for (const Trouble& trouble : troubles) {
    Problem& problem =
        diagnostics.error({std::string{name}, trouble.line, trouble.column}, trouble.message);
    problem.hint = trouble.hint;
    problem.code = "syntax";
  }
  if (!troubles.empty() && text.size() <= Limits{}.size)
    diagnostics.remember(std::string{name}, std::string{text});
}

}  // namespace rocca::text
