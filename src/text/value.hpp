#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
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
  constexpr Place() = default;
  /// No text that is read comes near 4 GiB (Limits), and every value carries one of these.
  constexpr Place(std::size_t line_, std::size_t column_, std::size_t begin_, std::size_t end_)
      : line(static_cast<std::uint32_t>(line_)),
        column(static_cast<std::uint32_t>(column_)),
        begin(static_cast<std::uint32_t>(begin_)),
        end(static_cast<std::uint32_t>(end_)) {}

  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t begin = 0;  // bytes, from the start of the text
  // One past its last byte (block collections: past their last entry's last byte).
  std::uint32_t end = 0;
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

/// What few of many have: nothing but a pointer where it is not there. A value type.
template <class T>
class Rarely {
 public:
  Rarely() = default;
  ~Rarely() = default;
  Rarely(const Rarely& other) : held_(other.held_ ? std::make_unique<T>(*other.held_) : nullptr) {}
  Rarely(Rarely&&) noexcept = default;
  Rarely& operator=(const Rarely& other) { return *this = Rarely{other}; }  // NOLINT(misc-*)
  Rarely& operator=(Rarely&&) noexcept = default;

  const T& get() const noexcept {
    static const T none;
    return held_ ? *held_ : none;
  }
  T* find() noexcept { return held_.get(); }
  T& make() {
    if (!held_) held_ = std::make_unique<T>();
    return *held_;
  }

 private:
  std::unique_ptr<T> held_;
};

/// One value of a YAML or JSON document: ordered, typed, and aware of its place. A value type.
class Value {
 public:
  Value() noexcept : text_() {}  // null
  ~Value() { destroy(); }
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
  const std::string& text() const noexcept { return is_scalar() ? text_ : no_text(); }
  std::optional<bool> as_bool() const noexcept;
  std::optional<std::int64_t> as_int() const noexcept;
  std::optional<std::uint64_t> as_uint() const noexcept;
  std::optional<double> as_float() const noexcept;  // Int too
  const std::string* as_string() const noexcept;    // nullptr unless String

  /// Of anything but a list there are none, and what is put there is lost.
  const std::vector<Value>& items() const noexcept;
  std::vector<Value>& items();
  Value& append(Value item);  // null becomes a list

  /// Of anything but a map there are none, and what is put there is lost.
  const std::vector<Entry>& entries() const noexcept;
  std::vector<Entry>& entries();
  /// The value under a key of a map; nullptr if this is no map or has no such key.
  const Value* find(std::string_view key) const noexcept;
  Value* find(std::string_view key) noexcept;
  /// Follows keys and list indices: `{"spec", "nodes", "0"}`.
  const Value* find(std::initializer_list<std::string_view> path) const noexcept;
  Value* find(std::initializer_list<std::string_view> path) noexcept;
  /// Replaces the value under `key` in its place, or adds the key at the end; null becomes a map.
  /// Returns the value.
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
  struct Rare {
    std::string tag;
    Comments comments;
  };

  static const std::string& no_text() noexcept;
  void destroy() noexcept;
  /// Only while it holds nothing: right behind `destroy`, or at the beginning of a constructor.
  void become(const Value& other);
  void become(Value&& other) noexcept;

  // A scalar has a text, a list items, a map entries. A plan of a large cluster holds hundreds of
  // thousands of values: they take 64 bytes each.
  union {
    std::string text_;
    std::vector<Value> items_;
    std::vector<Entry> entries_;
  };
  Rarely<Rare> rare_;
  Place place_;
  Kind kind_ = Kind::Null;
  Style style_ = Style::Any;
};

struct Entry {
  std::string key;
  Value value;
  Place key_place;

  const Comments& comments() const noexcept { return rare_.get().comments; }
  Comments& comments() { return rare_.make().comments; }
  /// The key as a value, where it is no plain string (`1: x`, or quoted); null: it is one.
  const Value& key_value() const noexcept { return rare_.get().key; }
  void set_key_value(Value key_value) { rare_.make().key = std::move(key_value); }
  void wipe() noexcept;

 private:
  struct Rare {
    Comments comments;
    Value key;
  };
  Rarely<Rare> rare_;
};

inline Value Value::null() {
  return {};
}

}  // namespace rocca::text
