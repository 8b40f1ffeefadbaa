#include "factory/go_yaml.hpp"

#include "base/error.hpp"
#include "text/scalar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

// The rules of go-yaml's encode.go and emitterc.go, for values that came out of a parser: no tags,
// no comments, no flow style but for what is empty, lines of any length.
namespace rocca::factory {

namespace {

using text::Kind;
using text::Value;

constexpr std::size_t best_indent = 4;

struct Character {
  char32_t code = 0;
  std::size_t size = 1;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t offset) -> char32_t {
    return at + offset < text.size() ? static_cast<unsigned char>(text[at + offset]) : 0;
  };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {((first & 0x1F) << 6) | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {((first & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F), 3};
  return {((first & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) |
              (byte(3) & 0x3F),
          4};
}

bool is_break(char32_t code) {
  return code == '\n' || code == '\r' || code == 0x85 || code == 0x2028 || code == 0x2029;
}

/// Everything beyond the first plane counts as not printable there: emoji are escaped.
bool is_printable(char32_t code) {
  return code == '\n' || (code >= 0x20 && code <= 0x7E) || (code >= 0xA0 && code <= 0xD7FF) ||
         (code >= 0xE000 && code <= 0xFFFD && code != 0xFEFF);
}

bool is_blank_at(std::string_view text, std::size_t at) {
  return at >= text.size() || text[at] == ' ' || text[at] == '\t';
}

/// What a scalar's characters allow it to be.
struct Allowed {
  bool plain = true;
  bool single = true;
  bool literal = true;
};

Allowed analyze(std::string_view text) {
  bool indicator = text.starts_with("---") || text.starts_with("...");
  bool tab = false, special = false, breaks = false;
  bool break_space = false, space_break = false, previous_space = false, previous_break = false;
  bool after_blank = true;
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, size] = character_at(text, at);
    const bool blank_follows = is_blank_at(text, at + size);
    const char c = code < 0x80 ? static_cast<char>(code) : '\0';
    if (at == 0) {
      indicator |=
          c != '\0' && std::string_view("#,[]{}&*!|>'\"%@`").find(c) != std::string_view::npos;
      indicator |= (c == '?' || c == ':' || c == '-') && blank_follows;
    } else {
      indicator |= c == ':' && blank_follows;
      indicator |= c == '#' && after_blank;
    }
    if (code == '\t')
      tab = true;
    else if (!is_printable(code) && !is_break(code))
      special = true;
    else if (code == '\r' || code == 0x85)
      special = true;
    if (code == ' ') {
      break_space |= previous_break;
      previous_space = true;
      previous_break = false;
    } else if (is_break(code)) {
      breaks = true;
      space_break |= previous_space;
      previous_space = false;
      previous_break = true;
    } else {
      previous_space = previous_break = false;
    }
    after_blank = code == ' ' || code == '\t' || is_break(code) || code == 0;
    at += size;
  }
  const bool spaced = text.starts_with(' ') || text.ends_with(' ');
  Allowed allowed;
  allowed.plain = !indicator && !tab && !special && !breaks && !spaced;
  allowed.single = !break_space && !space_break && !tab && !special;
  allowed.literal = !text.ends_with(' ') && !space_break && !special &&
                    text.find_first_not_of('\n') != std::string_view::npos;
  return allowed;
}

std::string escaped(char32_t code) {
  switch (code) {
    case 0x00:
      return "\\0";
    case 0x07:
      return "\\a";
    case 0x08:
      return "\\b";
    case 0x09:
      return "\\t";
    case 0x0A:
      return "\\n";
    case 0x0B:
      return "\\v";
    case 0x0C:
      return "\\f";
    case 0x0D:
      return "\\r";
    case 0x1B:
      return "\\e";
    case 0x22:
      return "\\\"";
    case 0x5C:
      return "\\\\";
    case 0x85:
      return "\\N";
    case 0x2028:
      return "\\L";
    case 0x2029:
      return "\\P";
    default:
      break;
  }
  const auto number = static_cast<std::uint32_t>(code);
  if (number <= 0xFF) return fmt::format("\\x{:02X}", number);
  if (number <= 0xFFFF) return fmt::format("\\u{:04X}", number);
  return fmt::format("\\U{:08X}", number);
}

std::string double_quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, size] = character_at(text, at);
    if (!is_printable(code) || is_break(code) || code == '"' || code == '\\')
      out += escaped(code);
    else
      out += text.substr(at, size);
    at += size;
  }
  return out + "\"";
}

/// A line separator is a break to it, after which it indents.
std::string single_quoted(std::string_view text, std::size_t indent) {
  std::string out = "'";
  bool after_break = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, size] = character_at(text, at);
    if (after_break && !is_break(code)) out.append(indent, ' ');
    after_break = is_break(code);
    if (code == '\'') out += '\'';
    out += text.substr(at, size);
    at += size;
  }
  return out + "'";
}

std::string literal(std::string_view text, std::size_t indent) {
  std::string out = "|";
  if (text.front() == ' ') out += std::to_string(best_indent);
  if (text.back() != '\n')
    out += '-';
  else if (text.size() == 1 || text[text.size() - 2] == '\n')
    out += '+';
  out += '\n';
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) out.append(indent, ' ').append(text.substr(at, end - at));
    out += '\n';
    at = end + 1;
  }
  out.pop_back();  // the line break that every scalar is followed by
  return out;
}

bool reads_as_string(std::string_view text) {
  return text::resolve_plain(text) == Kind::String && !text::is_misread_elsewhere(text) &&
         text != "<<";
}

std::string string_text(std::string_view text, std::size_t indent, bool is_key) {
  const Allowed allowed = analyze(text);
  if (text.find('\n') != std::string_view::npos)
    return allowed.literal && !is_key ? literal(text, indent) : double_quoted(text);
  if (!reads_as_string(text)) return double_quoted(text);
  if (allowed.plain) return std::string(text);
  return allowed.single ? single_quoted(text, indent) : double_quoted(text);
}

/// strconv.FormatFloat(value, 'g', -1, 64).
std::string float_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  char buffer[64];
  const auto scientific =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view shortest(buffer, static_cast<std::size_t>(scientific.ptr - buffer));
  const std::size_t mark = shortest.find('e');
  int exponent = 0;
  const std::string_view digits = shortest.substr(mark + 1);
  std::from_chars(digits.data() + (digits.front() == '+' ? 1 : 0), digits.data() + digits.size(),
                  exponent);
  // ftoa.go: for the shortest form six digits decide between the two notations.
  if (exponent < -4 || exponent >= 6) return std::string(shortest);
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  return {buffer, static_cast<std::size_t>(fixed.ptr - buffer)};
}

std::string scalar_text(const Value& value, std::size_t indent) {
  switch (value.kind()) {
    case Kind::Null:
      return "null";
    case Kind::Bool:
      return value.as_bool().value_or(false) ? "true" : "false";
    case Kind::Int: {
      if (const auto number = value.as_int()) return std::to_string(*number);
      if (const auto number = value.as_uint()) return std::to_string(*number);
      return value.text();
    }
    case Kind::Float:
      return float_text(value.as_float().value_or(0));
    case Kind::Timestamp:
      return text::normal_timestamp(value.text()).value_or(value.text());
    default:
      return string_text(value.text(), indent, false);
  }
}

bool is_digit(char32_t c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0xAA;
}

/// encode.go, keyList.Less: numbers inside keys count as numbers, letters come after everything
/// else.
bool key_less(const std::string& left, const std::string& right) {
  const auto characters = [](const std::string& text) {
    std::u32string result;
    for (std::size_t at = 0; at < text.size();) {
      const auto [code, size] = character_at(text, at);
      result += code;
      at += size;
    }
    return result;
  };
  const std::u32string a = characters(left), b = characters(right);
  bool digits = false;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i]) {
      digits = is_digit(a[i]);
      continue;
    }
    const bool al = is_letter(a[i]), bl = is_letter(b[i]);
    if (al && bl) return a[i] < b[i];
    if (al || bl) return digits ? al : bl;
    std::int64_t an = 0, bn = 0;
    if (a[i] == '0' || b[i] == '0')
      for (std::size_t j = i; j-- > 0 && is_digit(a[j]);)
        if (a[j] != '0') {
          an = bn = 1;
          break;
        }
    std::size_t ai = i, bi = i;
    // Wraps as Go's int64 does; only the order of absurdly long numbers hangs on it.
    const auto digit = [](std::int64_t number, char32_t c) {
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(number) * 10 + (c - '0'));
    };
    for (; ai < a.size() && is_digit(a[ai]); ++ai) an = digit(an, a[ai]);
    for (; bi < b.size() && is_digit(b[bi]); ++bi) bn = digit(bn, b[bi]);
    if (an != bn) return an < bn;
    if (ai != bi) return ai < bi;
    return a[i] < b[i];
  }
  return a.size() < b.size();
}

class Writer {
 public:
  std::string take() && { return std::move(out_); }

  /// The value behind a `key:` or a `-`, up to and with its last line break. `indent` is where its
  /// container stands.
  void behind(const Value& value, std::size_t indent, bool in_list, bool sorted) {
    const std::size_t deeper =
        in_list ? indent + 2 : best_indent * ((indent + best_indent) / best_indent);
    if (value.is_map() && value.size() > 0) {
      out_ += in_list ? " " : "\n";
      map(value, deeper, in_list, sorted);
    } else if (value.is_list() && value.size() > 0) {
      out_ += in_list ? " " : "\n";
      list(value, deeper, in_list, sorted);
    } else if (value.is_map()) {
      out_ += " {}\n";
    } else if (value.is_list()) {
      out_ += " []\n";
    } else {
      out_ += " " + scalar_text(value, deeper) + "\n";
    }
  }

  /// `placed`: the first line's indentation is already written.
  void map(const Value& value, std::size_t indent, bool placed, bool sorted) {
    std::vector<const text::Entry*> entries;
    for (const text::Entry& entry : value.entries()) entries.push_back(&entry);
    if (sorted)
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto* a, const auto* b) { return key_less(a->key, b->key); });
    for (const text::Entry* entry : entries) {
      if (!placed) out_.append(indent, ' ');
      placed = false;
      out_ += string_text(entry->key, indent, true) + ":";
      behind(entry->value, indent, false, sorted || entry->key == "options");
    }
  }

 private:
  void list(const Value& value, std::size_t indent, bool placed, bool sorted) {
    for (const Value& item : value.items()) {
      if (!placed) out_.append(indent, ' ');
      placed = false;
      out_ += '-';
      behind(item, indent, true, sorted);
    }
  }

  std::string out_;
};

}  // namespace

std::string emit_as_go(const Value& value) {
  if (!value.is_map() || value.size() == 0)
    throw Error(Fault::Bug, "only a map with entries can be hashed");
  Writer writer;
  writer.map(value, 0, false, false);
  return std::move(writer).take();
}

}  // namespace rocca::factory
