#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rocca::text {

/// What a scalar is, as the Go tools of this field (go-yaml v3) type it: `yes` is a String, `0777`
/// an Int.
enum class Kind : std::uint8_t { Null, Bool, Int, Float, Timestamp, String, List, Map };

const char* to_string(
    Kind kind) noexcept;  // "null", "bool", "int", "float", "timestamp", "string", "list", "map"

/// Where a value stands in its text. Line and column count from 1 (column in characters); 0: made
/// in memory.
struct Place {
  std::size_t line = 0;
  std::size_t column = 0;
  std::size_t begin = 0;  // bytes, from the start of the text
  std::size_t end =
      0;  // one past its last byte (block collections: past their last entry's last byte)
};

enum class Style : std::uint8_t { Any, Plain, Single, Double, Literal, Folded, Block, Flow };

/// Comments that belong to an entry of a map or list: full lines above it, the one behind it on its
/// line, and full lines after it that belong to nothing else. Texts are without `#` but with the
/// blank after it.
struct Comments {
  std::vector<std::string> before;
  std::optional<std::string> beside;
  std::vector<std::string> after;

  friend bool operator==(const Comments&, const Comments&) = default;
};

struct Entry;

/// One value of a YAML or JSON document: ordered, typed, and aware of its place. A value type.
class Value {
 public:
  // Written out and defined below Entry: clang 14 asks for a vector's whole element type already
  // here.
  Value();  // null
  ~Value();
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;

  static Value null();
  static Value boolean(bool value);
  static Value integer(std::int64_t value);
  static Value unsigned_integer(std::uint64_t value);
  static Value floating(double value);
  static Value string(std::string value, Style style = Style::Any);
  static Value list();
  static Value list(std::vector<Value> items);
  static Value map();
  /// A plain scalar as it would be read from YAML: typed by its text.
  static Value plain(std::string text);

  Kind kind() const noexcept { return kind_; }
  bool is_null() const noexcept { return kind_ == Kind::Null; }
  bool is_map() const noexcept { return kind_ == Kind::Map; }
  bool is_list() const noexcept { return kind_ == Kind::List; }
  bool is_string() const noexcept { return kind_ == Kind::String; }
  bool is_scalar() const noexcept { return kind_ < Kind::List; }

  /// A scalar's text: for strings the decoded content, otherwise what stood in the file (`0x1F`,
  /// `1e3`, `~`).
  const std::string& text() const noexcept { return text_; }
  std::optional<bool> as_bool() const noexcept;
  std::optional<std::int64_t> as_int() const noexcept;
  std::optional<std::uint64_t> as_uint() const noexcept;
  std::optional<double> as_float() const noexcept;  // Int too
  const std::string* as_string() const noexcept;    // nullptr unless String

  const std::vector<Value>& items() const noexcept { return items_; }
  std::vector<Value>& items() noexcept { return items_; }
  Value& append(Value item);

  const std::vector<Entry>& entries() const noexcept { return entries_; }
  std::vector<Entry>& entries() noexcept { return entries_; }
  /// The value under a key of a map; nullptr if this is no map or has no such key.
  const Value* find(std::string_view key) const noexcept;
  Value* find(std::string_view key) noexcept;
  /// Follows keys and list indices: `{"spec", "nodes", "0"}`.
  const Value* find(std::initializer_list<std::string_view> path) const noexcept;
  Value* find(std::initializer_list<std::string_view> path) noexcept;
  /// Replaces the value under `key` in its place, or adds the key at the end. Returns the value.
  Value& set(std::string_view key, Value value);
  bool erase(std::string_view key);
  std::size_t size() const noexcept;  // entries or items

  const Place& place() const noexcept { return place_; }
  void set_place(Place place) noexcept { place_ = place; }
  Style style() const noexcept { return style_; }
  void set_style(Style style) noexcept { style_ = style; }
  const std::string& tag() const noexcept;  // explicit YAML tag, e.g. "!!binary", or ""
  void set_tag(std::string tag);
  /// Comments of this value as an item of a list, or of the document's root. Those of map entries
  /// are in Entry.
  const Comments& comments() const noexcept;
  Comments& comments();

  /// Overwrites every text in it, for values that held secrets. What is left is null.
  void wipe() noexcept;

  /// A scalar whose text may be of another spelling than its kind would be read from (a number with
  /// `!!str`).
  static Value scalar(Kind kind, std::string text, Style style);

  /// Same kinds and meanings (`0x1F` is 31, `~` is null); the order of a map's keys, comments,
  /// styles and places do not count.
  friend bool operator==(const Value& a, const Value& b);

 private:
  Kind kind_ = Kind::Null;
  Style style_ = Style::Any;
  Place place_;
  std::string text_;
  std::vector<Value> items_;
  std::vector<Entry> entries_;
  struct Rare {
    std::string tag;
    Comments comments;
  };
  std::vector<Rare> rare_;  // none or one: few values have a tag or comments, and a million values
                            // should stay small
};

struct Entry {
  std::string key;
  Value value;
  Place key_place;
  Comments comments;
  Value key_value;  // the key as a value, where it is no plain string: `1: x`, or quoted
};

inline Value::Value() = default;
inline Value::~Value() = default;
inline Value::Value(const Value&) = default;
inline Value::Value(Value&&) noexcept = default;
inline Value& Value::operator=(const Value&) = default;
inline Value& Value::operator=(Value&&) noexcept = default;
inline Value Value::null() {
  return {};
}

}  // namespace rocca::text
