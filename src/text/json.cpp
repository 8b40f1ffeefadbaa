#include "text/json.hpp"

#include "base/error.hpp"
#include "base/visible.hpp"
#include "text/scalar.hpp"
#include "text/source.hpp"

#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>
#include <rapidjson/stream.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <unordered_set>

namespace rocca::text {
namespace {

bool is_json_number(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const auto run = [&] {
    const std::size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - start;
  };
  const std::size_t whole = at;
  if (run() == 0 || (text[whole] == '0' && at - whole > 1)) return false;
  if (at < text.size() && text[at] == '.' && (++at, run() == 0)) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (run() == 0) return false;
  }
  return at == text.size();
}

/// RapidJSON works on copies of its own streams while it reads a token; of this one it does not, so
/// that the position is right while it calls.
struct Stream : rapidjson::InsituStringStream {
  explicit Stream(char* text) : rapidjson::InsituStringStream(text) {}
  std::size_t position() const { return static_cast<std::size_t>(src_ - head_); }
};

/// Builds the tree from RapidJSON's calls. It is told no positions, but between two tokens stand
/// only blanks, commas and colons: each token begins behind those that follow the one before it.
class Builder {
 public:
  Builder(std::string_view text, std::size_t offset, const Stream& stream, const Limits& limits)
      : text_(text), offset_(offset), stream_(stream), limits_(limits) {
    stack_.reserve(8);
  }

  bool Null() { return add(Value::scalar(Kind::Null, "null", Style::Plain)); }
  bool Bool(bool value) { return add(Value::boolean(value)); }
  bool Int(int) { return false; }  // numbers come as text, see the flags
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }
  bool RawNumber(const char*, rapidjson::SizeType, bool) {
    token();
    std::string number{text_.substr(at_.begin - offset_, end_ - at_.begin)};
    // As go tools do: what fits 64 bits is an integer, anything else a float that keeps its text.
    constexpr std::size_t always_fits = 18;
    const bool whole = number.find_first_of(".eE") == std::string::npos;
    const bool integer =
        whole && (number.size() <= always_fits || read_integer(number).has_value());
    if (!integer && !read_float(number) && !read_integer(number))
      return fail(fmt::format("`{}` is out of range", number.substr(0, 40)));
    return put(Value::scalar(integer ? Kind::Int : Kind::Float, std::move(number), Style::Plain));
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    return add(Value::string(std::string{text, size}, Style::Double));
  }
  bool StartObject() { return open(Value::map()); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool StartArray() { return open(Value::list()); }
  bool EndArray(rapidjson::SizeType) { return close(); }

  bool Key(const char* text, rapidjson::SizeType size, bool) {
    token();
    Frame& frame = stack_.back();
    std::string key(text, size);
    if (is_second(frame, key)) {
      const auto& entries = frame.value.entries();
      const auto first = std::find_if(entries.begin(), entries.end(),
                                      [&](const Entry& e) { return e.key == key; });
      return fail(
          fmt::format("key `{}` stands twice in this object; the first is at line {}, column {}",
                      key, first->key_place.line, first->key_place.column));
    }
    Entry& entry = frame.value.entries().emplace_back();
    entry.key = std::move(key);
    entry.key_place = at_;
    return true;
  }

  Value take() { return std::move(root_); }
  const std::optional<Trouble>& trouble() const { return trouble_; }

 private:
  struct Frame {
    Value value;  // of a map's last entry only the key may be there yet
    std::unique_ptr<std::unordered_set<std::string>> keys;  // once there are too many to go through
  };

  static bool is_second(Frame& frame, const std::string& key) {
    constexpr std::size_t few = 32;
    const auto& entries = frame.value.entries();
    if (entries.size() < few) return frame.value.find(key) != nullptr;
    if (!frame.keys) {
      frame.keys = std::make_unique<std::unordered_set<std::string>>();
      for (const Entry& entry : entries) frame.keys->insert(entry.key);
    }
    return !frame.keys->insert(key).second;
  }

  /// Finds the token that the reader has just passed, or the bracket that it is about to pass.
  void token(bool bracket = false) {
    std::size_t begin = end_ - offset_;
    const auto between = [](char c) {
      return c == ' ' || c == '\n' || c == ',' || c == ':' || c == '\r' || c == '\t';
    };
    while (begin < text_.size() && between(text_[begin])) ++begin;
    end_ = (bracket ? begin + 1 : stream_.position()) + offset_;
    for (; cursor_ < begin; ++cursor_) {
      const char c = text_[cursor_];
      column_ += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
      if (c == '\n' || (c == '\r' && text_[cursor_ + 1] != '\n')) {
        ++line_;
        column_ = 1;
      }
    }
    at_ = {line_, column_, begin + offset_, end_};
  }

  bool fail(std::string message) {
    trouble_ = Trouble{at_.line, at_.column, std::move(message), ""};
    return false;
  }

  bool open(Value&& value) {
    token(true);
    if (stack_.size() >= limits_.depth)
      return fail(fmt::format("nested deeper than {} levels", limits_.depth));
    if (!count()) return false;
    value.set_place(at_);
    value.set_style(Style::Flow);
    // Most objects of a list have as many keys as the one before.
    if (sizes_.size() <= stack_.size()) sizes_.resize(stack_.size() + 1);
    if (value.is_map()) value.entries().reserve(sizes_[stack_.size()]);
    stack_.emplace_back().value = std::move(value);
    return true;
  }

  bool close() {
    token(true);
    Value value = std::move(stack_.back().value);
    stack_.pop_back();
    if (value.is_map()) sizes_[stack_.size()] = value.entries().size();
    const Place& place = value.place();
    value.set_place({place.line, place.column, place.begin, end_});
    return keep(std::move(value));
  }

  bool add(Value&& value) {
    token();
    return put(std::move(value));
  }

  bool put(Value&& value) {
    if (!count()) return false;
    value.set_place(at_);
    return keep(std::move(value));
  }

  bool count() {
    if (++values_ > limits_.values) return fail(fmt::format("more than {} values", limits_.values));
    return true;
  }

  bool keep(Value&& value) {
    if (stack_.empty()) {
      root_ = std::move(value);
    } else if (Frame& frame = stack_.back(); frame.value.is_list()) {
      frame.value.items().push_back(std::move(value));
    } else {
      frame.value.entries().back().value = std::move(value);
    }
    return true;
  }

  std::string_view text_;
  std::size_t offset_;
  const Stream& stream_;
  Limits limits_;
  std::size_t end_ = offset_;
  std::size_t cursor_ = 0;
  std::size_t line_ = 1;
  std::size_t column_ = 1;
  Place at_;
  std::vector<Frame> stack_;
  std::vector<std::size_t> sizes_;  // of the last object that was closed, by depth
  Value root_;
  std::size_t values_ = 0;
  std::optional<Trouble> trouble_;
};

Value read(std::string_view text, const Limits& limits) {
  check_source(text, limits, /*yaml=*/false);
  const std::size_t offset = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  text.remove_prefix(offset);
  // Strings are decoded where they stand, in a copy; there is no NUL byte in it that would end it.
  std::string copy{text};
  Stream stream(copy.data());
  Builder builder(text, offset, stream, limits);
  rapidjson::Reader reader;
  // Iterative: the depth of a text must not become the depth of our stack.
  constexpr unsigned flags = rapidjson::kParseIterativeFlag | rapidjson::kParseInsituFlag |
                             rapidjson::kParseNumbersAsStringsFlag;
  const auto result = reader.Parse<flags>(stream, builder);
  if (result.IsError()) {
    if (builder.trouble()) throw *builder.trouble();
    const Place place = place_of(text, result.Offset());
    std::string message = rapidjson::GetParseError_En(result.Code());
    while (message.ends_with('.')) message.pop_back();
    throw Trouble{place.line, place.column, message, ""};
  }
  return builder.take();
}

/// May a character that begins with this byte need an escape? The leads are those of C1 controls,
/// direction marks, line separators and byte order marks.
bool may_be_escaped(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '"' || byte == '\\' || byte < 0x20 || byte == 0x7F || byte == 0xC2 ||
         byte == 0xD8 || byte == 0xE2 || byte == 0xEF;
}

void quote(std::string& out, std::string_view text) {
  if (!is_valid_utf8(text))
    throw Error(Fault::Usage, "a string is not valid UTF-8 and cannot be written as text")
        .hint("encode it as base64");
  out += '"';
  for (std::size_t at = 0; at < text.size(); ++at) {
    // Most texts have nothing to escape.
    std::size_t end = at;
    while (end < text.size() && !may_be_escaped(text[end])) ++end;
    out.append(text, at, end - at);
    if (end == text.size()) break;
    at = end;
    if (static_cast<unsigned char>(text[at]) >= 0x7F) {
      const auto [code, size] = character_at(text, at);
      if (is_steering(code))
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(code));
      else
        out.append(text, at, size);
      at += size - 1;
      continue;
    }
    switch (const char c = text[at]) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
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
      default:
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  out += '"';
}

std::string number_text(const Value& value) {
  if (is_json_number(value.text())) return value.text();
  if (const auto number = value.as_int()) return std::to_string(*number);
  if (const auto number = value.as_uint()) return std::to_string(*number);
  const auto number = value.as_float();
  if (!number || !std::isfinite(*number))
    throw Error(Fault::Usage, fmt::format("JSON has no number `{}`", value.text()));
  return float_text(*number);
}

class Writer {
 public:
  explicit Writer(const JsonOptions& options) : options_(options) {}

  void write(const Value& value, std::size_t depth) {
    switch (value.kind()) {
      case Kind::Null:
        out += "null";
        return;
      case Kind::Bool:
        out += value.as_bool().value_or(false) ? "true" : "false";
        return;
      case Kind::Int:
      case Kind::Float:
        out += number_text(value);
        return;
      case Kind::Timestamp:
      case Kind::String:
        quote(out, value.text());
        return;
      case Kind::List:
        out += '[';
        for (std::size_t i = 0; i < value.items().size(); ++i) {
          separate(i, depth);
          write(value.items()[i], depth + 1);
        }
        end(value, depth);
        out += ']';
        return;
      case Kind::Map:
        out += '{';
        for (std::size_t i = 0; i < value.entries().size(); ++i) {
          separate(i, depth);
          quote(out, value.entries()[i].key);
          out += options_.pretty ? ": " : ":";
          write(value.entries()[i].value, depth + 1);
        }
        end(value, depth);
        out += '}';
        return;
    }
  }

  std::string out;

 private:
  void line(std::size_t depth) {
    out += '\n';
    for (std::size_t i = 0; i < depth; ++i) out += options_.indent;
  }
  void separate(std::size_t index, std::size_t depth) {
    if (index > 0) out += ',';
    if (options_.pretty) line(depth + 1);
  }
  void end(const Value& value, std::size_t depth) {
    if (options_.pretty && value.size() > 0) line(depth);
  }

  const JsonOptions& options_;
};

}  // namespace

Value parse_json(std::string_view text, std::string_view name, const Limits& limits) {
  try {
    return read(text, limits);
  } catch (const Trouble& trouble) {
    throw_trouble(name, trouble);
  }
}

std::optional<Value> parse_json(std::string_view text, std::string_view name,
                                Diagnostics& diagnostics, const Limits& limits) {
  try {
    return read(text, limits);
  } catch (const Trouble& trouble) {
    report_trouble(name, text, {trouble}, diagnostics);
    return std::nullopt;
  }
}

std::string emit_json(const Value& value, const JsonOptions& options) {
  Writer writer(options);
  writer.write(value, 0);
  return std::move(writer.out);
}

}  // namespace rocca::text
