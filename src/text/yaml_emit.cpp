#include "base/error.hpp"
#include "base/visible.hpp"
#include "text/emit.hpp"
#include "text/scalar.hpp"
#include "text/source.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::text {
namespace {

constexpr std::string_view line_breaks = "\r\n";

bool is_break(char32_t code) noexcept {
  return code == '\n' || code == '\r' || code == 0x85 || code == 0x2028 || code == 0x2029;
}

/// May it stand in our output as itself? YAML allows more, but not all of that is what it seems.
bool is_plain_text(char32_t code) noexcept {
  return is_printable(code) && !is_break(code) && (code == '\t' || !is_steering(code));
}

/// Which forms a string can take, from one look at it.
struct Shape {
  bool plain_in_block = true;
  bool plain_in_flow = true;
  bool single = true;
  bool literal = true;
  bool tidy = true;  // no blanks at the ends of lines: fit for a block that an editor may touch
};

/// Letters, digits and the like, which may stand anywhere in any style.
bool is_harmless(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '.' && c <= '9') || c == '_' ||
         c == '+' || c == '=' || c == ';' || c == '~' || c == '(' || c == ')';
}

Shape shape_of(std::string_view text) {
  Shape shape;
  const auto forbid_plain = [&] { shape.plain_in_block = shape.plain_in_flow = false; };
  if (text.empty()) {
    forbid_plain();
    shape.literal = false;
    return shape;
  }
  if (text.starts_with("---") || text.starts_with("...")) forbid_plain();
  if (text.front() == ' ' || text.back() == ' ') forbid_plain();
  if (text.find_first_not_of('\n') == std::string_view::npos) shape.literal = false;
  char32_t before = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (is_harmless(text[at])) {
      before = static_cast<unsigned char>(text[at++]);
      continue;
    }
    const auto [code, size] = character_at(text, at);
    const bool first = at == 0;
    at += size;
    const bool blank_next = at >= text.size() || text[at] == ' ' || text[at] == '\t' ||
                            line_breaks.find(text[at]) != std::string_view::npos;
    if (code == '\n') {
      forbid_plain();
      shape.single = false;
      if (before == ' ' || before == '\t') shape.tidy = false;
    } else if (!is_plain_text(code)) {
      forbid_plain();
      shape.single = shape.literal = false;
    } else if (code == '\t') {
      forbid_plain();
      shape.single = false;
    } else if (code < 0x80) {
      const char c = static_cast<char>(code);
      if (first && std::string_view{"#,[]{}&*!|>'\"%@`"}.find(c) != std::string_view::npos)
        forbid_plain();
      if (first && (c == '-' || c == '?' || c == ':')) {
        if (blank_next) forbid_plain();
        if (c != '-') shape.plain_in_flow = false;
      }
      if (std::string_view{",?[]{}"}.find(c) != std::string_view::npos) shape.plain_in_flow = false;
      if (c == ':') {
        shape.plain_in_flow = false;
        if (blank_next) forbid_plain();
      }
      if (c == '#' && (before == ' ' || before == '\t')) forbid_plain();
      if (c == '-' && first && at < text.size() &&
          std::string_view{",[]{}"}.find(text[at]) != std::string_view::npos)
        shape.plain_in_flow = false;
    }
    before = code;
  }
  if (before == ' ' || before == '\t') shape.tidy = false;
  return shape;
}

std::string single_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c;
    if (c == '\'') out += c;
  }
  return out + "'";
}

std::string double_quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, size] = character_at(text, at);
    switch (code) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case 0:
        out += "\\0";
        break;
      default:
        if (is_plain_text(code))
          out += text.substr(at, size);
        else if (code < 0x100)
          out += fmt::format("\\x{:02X}", static_cast<std::uint32_t>(code));
        else
          out += fmt::format("\\u{:04X}", static_cast<std::uint32_t>(code));
    }
    at += size;
  }
  return out + "\"";
}

/// The lines of a block scalar, indented; empty lines stay empty.
std::string block_lines(std::string_view text, std::size_t indent, bool folded) {
  std::string out;
  const std::size_t content_end = text.find_last_not_of('\n') + 1;
  for (std::size_t at = 0; at < content_end;) {
    const std::size_t end = std::min(text.find('\n', at), content_end);
    if (end > at) out.append(indent, ' ').append(text.substr(at, end - at));
    out += '\n';
    at = end + 1;
    // Folding turns one line break into a blank, so each run of them needs one more.
    if (folded && end > 0 && text[end - 1] != '\n' && at < content_end) out += '\n';
  }
  // Clip and strip take no empty lines at the end; keep takes all but the first, which ends the
  // last line.
  for (std::size_t extra = content_end + 1; extra < text.size(); ++extra) out += '\n';
  return out;
}

bool can_fold(std::string_view text) {
  if (text.starts_with('\n') || text.starts_with(' ') || text.starts_with('\t')) return false;
  return text.find("\n ") == std::string_view::npos && text.find("\n\t") == std::string_view::npos;
}

std::string tag_text(const std::string& tag) {
  if (tag.empty()) return "";
  const bool shorthand =
      tag.size() > 1 && tag.front() == '!' &&
      std::all_of(tag.begin() + (tag.starts_with("!!") ? 2 : 1), tag.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '-' || c == '_' || c == '.' || c == '/' || c == ':';
      });
  if (shorthand) return tag;
  std::string out = "!<";
  for (const char c : tag) {
    const bool safe = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      std::string_view{"-_.:/,;?@&=+$!~*'()[]"}.find(c) != std::string_view::npos;
    if (safe)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out + ">";
}

/// The text of a scalar that is no string, in a spelling that is read back as its kind.
std::string plain_text(const Value& value) {
  if (value.is_null() && value.text().empty() && value.tag().empty()) return "null";
  if (!value.tag().empty() || resolve_plain(value.text()) == value.kind()) return value.text();
  switch (value.kind()) {
    case Kind::Null:
      return "null";
    case Kind::Float:
      if (const auto number = value.as_float()) return float_text(*number);
      [[fallthrough]];
    default:
      throw Error(Fault::Bug, fmt::format("`{}` is no {} that YAML can say", value.text(),
                                          to_string(value.kind())));
  }
}

void refuse_bytes(std::string_view text) {
  if (is_valid_utf8(text)) return;
  throw Error(Fault::Usage, "a string is not valid UTF-8 and cannot be written as text")
      .hint("encode it as base64");
}

bool has_comments(const Comments& comments) {
  return !comments.before.empty() || comments.beside || !comments.after.empty();
}

/// Comments anywhere inside: a flow collection on one line has no room for them.
bool holds_comments(const Value& value) {
  return std::any_of(value.items().begin(), value.items().end(),
                     [](const Value& item) {
                       return has_comments(item.comments()) || holds_comments(item);
                     }) ||
         std::any_of(value.entries().begin(), value.entries().end(), [](const Entry& entry) {
           return has_comments(entry.comments()) || holds_comments(entry.value);
         });
}

bool is_flow(const Value& value) {
  return value.size() == 0 || (value.style() == Style::Flow && !holds_comments(value));
}

/// A null that was written as nothing at all.
bool is_blank(const Value& value) {
  return value.is_null() && value.style() == Style::Plain && value.text().empty() &&
         value.tag().empty();
}

}  // namespace

std::string Emitter::take() {
  return std::move(out_);
}

std::size_t Emitter::deeper(std::size_t column, bool in_list) const {
  // As go-yaml v3 does: behind a dash two columns, otherwise the next multiple of the indentation.
  return in_list ? column + 2 : indent_ * ((column + indent_) / indent_);
}

void Emitter::comment(std::string_view text) {
  out_ += '#';
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, size] = character_at(text, at);
    if (!is_plain_text(code))
      out_ += ' ';
    else
      out_ += text.substr(at, size);
    at += size;
  }
  out_.erase(out_.find_last_not_of(" \t") + 1);
}

void Emitter::lines(const std::vector<std::string>& comments, std::size_t column) {
  for (const std::string& text : comments) {
    std::size_t at = 0;
    do {  // a comment made in memory may have more than one line
      const std::size_t end = std::min(text.find('\n', at), text.size());
      out_.append(column, ' ');
      comment(std::string_view{text}.substr(at, end - at));
      out_ += '\n';
      at = end + 1;
    } while (at <= text.size());
  }
}

void Emitter::beside(const Comments& comments) {
  if (!comments.beside) return;
  out_ += ' ';
  comment(*comments.beside);
}

std::string Emitter::string_text(const Value& value, bool flow) {
  const std::string& text = value.text();
  refuse_bytes(text);
  const Shape shape = shape_of(text);
  switch (value.style()) {
    case Style::Single:
      return shape.single ? single_quoted(text) : double_quoted(text);
    case Style::Double:
      return double_quoted(text);
    default:
      break;
  }
  const bool plain = flow ? shape.plain_in_flow : shape.plain_in_block;
  if (!value.tag().empty()) return plain ? text : double_quoted(text);
  if (resolve_plain(text) != Kind::String || is_misread_elsewhere(text)) return double_quoted(text);
  if (plain) return text;
  return shape.single && !text.empty() ? single_quoted(text) : double_quoted(text);
}

std::string Emitter::key_text(const Entry& entry, bool flow) {
  const Value& own = entry.key_value();
  std::string text;
  if (own.text() == entry.key && (own.style() != Style::Any || !own.is_null())) {
    Value key = own;
    if (!key.is_string() && key.style() != Style::Single && key.style() != Style::Double) {
      text = is_blank(key) ? R"("")" : plain_text(key);
    } else {
      if (key.style() == Style::Literal || key.style() == Style::Folded) key.set_style(Style::Any);
      text = string_text(key, flow);
    }
    if (!key.tag().empty()) text = tag_text(key.tag()) + " " + text;
  } else {
    text = string_text(Value::string(entry.key), flow);
  }
  // A key longer than 1024 characters, or `<tag> :`, is no simple key to a YAML scanner.
  return text.size() > 1000 ? "? " + text + (flow ? " " : "\n") : text;
}

void Emitter::flow(const Value& value) {
  if (!value.tag().empty()) out_ += tag_text(value.tag()) + " ";
  if (value.is_list()) {
    out_ += '[';
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      if (i > 0) out_ += ", ";
      flow(value.items()[i]);
    }
    out_ += ']';
  } else if (value.is_map()) {
    out_ += '{';
    for (std::size_t i = 0; i < value.entries().size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += key_text(value.entries()[i], true) + ": ";
      flow(value.entries()[i].value);
    }
    out_ += '}';
  } else if (value.is_string()) {
    out_ += string_text(value, true);
  } else if (is_blank(value)) {
    out_ += "null";
  } else {
    scalar_text(value, true);
  }
}

void Emitter::scalar_text(const Value& value, bool in_flow) {
  if (value.is_string()) {
    out_ += string_text(value, in_flow);
  } else if (!value.tag().empty() && value.style() != Style::Plain) {
    out_ += double_quoted(value.text());
  } else {
    out_ += plain_text(value);
  }
}

/// A string as a block of lines, if that is its style (or the best one) and possible.
bool Emitter::block_scalar(const Value& value, const Comments& comments, std::size_t column,
                           std::size_t content) {
  if (!value.is_string()) return false;
  const std::string& text = value.text();
  const bool wanted = value.style() == Style::Literal || value.style() == Style::Folded;
  const bool fits = (value.style() == Style::Any || value.style() == Style::Plain) &&
                    text.find('\n') != std::string::npos;
  if (!wanted && !fits) return false;
  refuse_bytes(text);
  const Shape shape = shape_of(text);
  if (!shape.literal || (!wanted && !shape.tidy)) return false;
  const bool folded = value.style() == Style::Folded && can_fold(text) && shape.tidy;
  out_ += folded ? '>' : '|';
  const char first = text.front();
  if (first == ' ' || first == '\n' || first == '\t') out_ += std::to_string(content - column);
  if (text.back() != '\n')
    out_ += '-';
  else if (text.size() > 1 && text[text.size() - 2] == '\n')
    out_ += '+';
  beside(comments);
  out_ += '\n';
  out_ += block_lines(text, content, folded);
  return true;
}

void Emitter::behind(const Value& value, const Comments& comments, std::size_t column,
                     bool in_list) {
  const std::size_t next = deeper(column, in_list);
  if (!value.tag().empty()) out_ += " " + tag_text(value.tag());
  if (value.is_scalar()) {
    if (!is_blank(value)) {
      out_ += ' ';
      if (block_scalar(value, comments, column, next)) return;
      scalar_text(value, false);
    }
    beside(comments);
    out_ += '\n';
    return;
  }
  if (is_flow(value)) {
    out_ += ' ';
    Value bare = value;
    bare.set_tag("");
    flow(bare);
    beside(comments);
    out_ += '\n';
    return;
  }
  const auto& first =
      value.is_map() ? value.entries().front().comments() : value.items().front().comments();
  if (in_list && value.tag().empty() && !comments.beside && first.before.empty()) {
    out_ += ' ';
    collection(value, next, /*first_indented=*/false);
  } else {
    beside(comments);
    out_ += '\n';
    collection(value, next, true);
  }
}

void Emitter::collection(const Value& value, std::size_t column, bool first_indented) {
  bool indented = first_indented;
  for (const Entry& entry : value.entries()) {
    lines(entry.comments().before, column);
    if (indented) out_.append(column, ' ');
    indented = true;
    const std::string key = key_text(entry, false);
    out_ += key;
    if (key.ends_with('\n')) out_.append(column, ' ');
    out_ += ':';
    behind(entry.value, entry.comments(), column, false);
    lines(entry.comments().after, column);
  }
  for (const Value& item : value.items()) {
    lines(item.comments().before, column);
    if (indented) out_.append(column, ' ');
    indented = true;
    out_ += '-';
    behind(item, item.comments(), column, true);
    lines(item.comments().after, column);
  }
}

void Emitter::document(const Value& root, bool alone) {
  const Comments& comments = root.comments();
  lines(comments.before, 0);
  if (!root.is_scalar() && !is_flow(root)) {
    if (!comments.before.empty()) out_ += '\n';
    if (!root.tag().empty()) out_ += "--- " + tag_text(root.tag()) + "\n";
    collection(root, 0, true);
    // A block scalar that keeps its empty lines would take this one, too.
    if (!comments.after.empty() && !out_.ends_with("\n\n")) out_ += '\n';
    lines(comments.after, 0);
    return;
  }
  if (is_blank(root) && alone) {
    lines(comments.after, 0);
    return;
  }
  if (is_blank(root)) {
    out_ += "null";
    beside(comments);
    out_ += '\n';
  } else if (root.is_scalar()) {
    if (!root.tag().empty()) out_ += tag_text(root.tag()) + " ";
    if (!block_scalar(root, comments, 0, indent_)) {
      scalar_text(root, false);
      beside(comments);
      out_ += '\n';
    }
  } else {
    flow(root);
    beside(comments);
    out_ += '\n';
  }
  lines(comments.after, 0);
}

std::string emit_yaml(const Value& value, const EmitOptions& options) {
  Emitter emitter(options);
  emitter.document(value, true);
  return emitter.take();
}

std::string emit_yaml_stream(const std::vector<Value>& documents, const EmitOptions& options) {
  Emitter emitter(options);
  for (std::size_t i = 0; i < documents.size(); ++i) {
    if (i > 0) emitter.separator();
    emitter.document(documents[i], /*alone=*/false);
  }
  return emitter.take();
}

}  // namespace rocca::text
