#include "text/value.hpp"

#include "base/error.hpp"
#include "base/secret.hpp"
#include "text/scalar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

namespace rocca::text {

const char* to_string(Kind kind) noexcept {
  switch (kind) {
    case Kind::Null:
      return "null";
    case Kind::Bool:
      return "bool";
    case Kind::Int:
      return "int";
    case Kind::Float:
      return "float";
    case Kind::Timestamp:
      return "timestamp";
    case Kind::String:
      return "string";
    case Kind::List:
      return "list";
    case Kind::Map:
      return "map";
  }
  return "";
}

static_assert(sizeof(Value) == 64 && sizeof(Entry) <= 120);

const std::string& Value::no_text() noexcept {
  static const std::string none;
  return none;
}

void Value::destroy() noexcept {
  if (is_scalar())
    std::destroy_at(&text_);
  else if (is_list())
    std::destroy_at(&items_);
  else
    std::destroy_at(&entries_);
}

void Value::become(const Value& other) {
  if (other.is_scalar())
    std::construct_at(&text_, other.text_);
  else if (other.is_list())
    std::construct_at(&items_, other.items_);
  else
    std::construct_at(&entries_, other.entries_);
  kind_ = other.kind_;
}

void Value::become(Value&& other) noexcept {
  if (other.is_scalar())
    std::construct_at(&text_, std::move(other.text_));
  else if (other.is_list())
    std::construct_at(&items_, std::move(other.items_));
  else
    std::construct_at(&entries_, std::move(other.entries_));
  kind_ = other.kind_;
}

Value::Value(const Value& other) : rare_(other.rare_), place_(other.place_), style_(other.style_) {
  become(other);
}

Value::Value(Value&& other) noexcept
    : rare_(std::move(other.rare_)), place_(other.place_), style_(other.style_) {
  become(std::move(other));
}

Value& Value::operator=(const Value& other) {
  return *this = Value{other};
}

Value& Value::operator=(Value&& other) noexcept {
  if (this == &other) return *this;
  if (is_scalar()) {  // nothing lies inside of it
    std::destroy_at(&text_);
    rare_ = std::move(other.rare_);
    place_ = other.place_;
    style_ = other.style_;
    become(std::move(other));
    return *this;
  }
  // By way of a third: what is taken may lie inside of this one, and would go with it.
  Value taken{std::move(other)};
  destroy();
  rare_ = std::move(taken.rare_);
  place_ = taken.place_;
  style_ = taken.style_;
  become(std::move(taken));
  return *this;
}

const std::vector<Value>& Value::items() const noexcept {
  static const std::vector<Value> none;
  return is_list() ? items_ : none;
}

std::vector<Value>& Value::items() {
  if (is_list()) return items_;
  static thread_local std::vector<Value> none;
  none.clear();
  return none;
}

const std::vector<Entry>& Value::entries() const noexcept {
  static const std::vector<Entry> none;
  return is_map() ? entries_ : none;
}

std::vector<Entry>& Value::entries() {
  if (is_map()) return entries_;
  static thread_local std::vector<Entry> none;
  none.clear();
  return none;
}

Value Value::scalar(Kind kind, std::string text, Style style) {
  Value value;
  value.kind_ = kind;
  value.text_ = std::move(text);
  value.style_ = style;
  return value;
}

Value Value::boolean(bool value) {
  return scalar(Kind::Bool, value ? "true" : "false", Style::Any);
}
Value Value::integer(std::int64_t value) {
  return scalar(Kind::Int, std::to_string(value), Style::Any);
}
Value Value::unsigned_integer(std::uint64_t value) {
  return scalar(Kind::Int, std::to_string(value), Style::Any);
}
Value Value::floating(double value) {
  return scalar(Kind::Float, float_text(value), Style::Any);
}
Value Value::string(std::string value, Style style) {
  return scalar(Kind::String, std::move(value), style);
}

Value Value::list() {
  return list(std::vector<Value>{});
}

Value Value::list(std::vector<Value> items) {
  Value value;
  value.destroy();
  std::construct_at(&value.items_, std::move(items));
  value.kind_ = Kind::List;
  return value;
}

Value Value::map() {
  Value value;
  value.destroy();
  std::construct_at(&value.entries_);
  value.kind_ = Kind::Map;
  return value;
}

Value Value::plain(std::string text) {
  const Kind kind = resolve_plain(text);
  return scalar(kind, std::move(text), Style::Plain);
}

std::optional<bool> Value::as_bool() const noexcept {
  return kind_ == Kind::Bool ? read_bool(text_) : std::nullopt;
}

std::optional<std::int64_t> Value::as_int() const noexcept {
  if (kind_ != Kind::Int) return std::nullopt;
  const auto number = read_integer(text_);
  if (!number) return std::nullopt;
  if (number->negative) return static_cast<std::int64_t>(~number->magnitude + 1);
  if (number->magnitude > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<std::int64_t>(number->magnitude);
}

std::optional<std::uint64_t> Value::as_uint() const noexcept {
  if (kind_ != Kind::Int) return std::nullopt;
  const auto number = read_integer(text_);
  if (!number || number->negative) return std::nullopt;
  return number->magnitude;
}

std::optional<double> Value::as_float() const noexcept {
  if (kind_ != Kind::Int && kind_ != Kind::Float) return std::nullopt;
  if (const auto number = read_integer(text_)) {
    const auto magnitude = static_cast<double>(number->magnitude);
    return number->negative ? -magnitude : magnitude;
  }
  return read_float(text_);
}

const std::string* Value::as_string() const noexcept {
  return kind_ == Kind::String ? &text_ : nullptr;
}

Value& Value::append(Value item) {
  if (is_null()) *this = list();
  if (!is_list()) throw Error(Fault::Bug, fmt::format("a {} has no items", to_string(kind_)));
  return items_.emplace_back(std::move(item));
}

const Value* Value::find(std::string_view key) const noexcept {
  if (!is_map()) return nullptr;
  for (const Entry& entry : entries_)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

Value* Value::find(std::string_view key) noexcept {
  return const_cast<Value*>(std::as_const(*this).find(key));
}

const Value* Value::find(std::initializer_list<std::string_view> path) const noexcept {
  const Value* at = this;
  for (const std::string_view step : path) {
    if (at->is_list()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
      if (error != std::errc{} || end != step.data() + step.size() || index >= at->items_.size())
        return nullptr;
      at = &at->items_[index];
    } else {
      at = at->find(step);
      if (at == nullptr) return nullptr;
    }
  }
  return at;
}

Value* Value::find(std::initializer_list<std::string_view> path) noexcept {
  return const_cast<Value*>(std::as_const(*this).find(path));
}

Value& Value::set(std::string_view key, Value value) {
  if (Value* found = find(key)) return *found = std::move(value);
  if (is_null()) *this = map();
  if (!is_map()) throw Error(Fault::Bug, fmt::format("a {} has no entries", to_string(kind_)));
  if (entries_.empty()) entries_.reserve(4);  // entries are large, and few maps have only one
  Entry& entry = entries_.emplace_back();
  entry.key = key;
  entry.value = std::move(value);
  return entry.value;
}

bool Value::erase(std::string_view key) {
  return is_map() &&
         std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; }) > 0;
}

std::size_t Value::size() const noexcept {
  return is_map() ? entries_.size() : is_list() ? items_.size() : 0;
}

namespace {

void wipe(Comments& comments) noexcept {
  for (std::string& line : comments.before) rocca::wipe(line);
  if (comments.beside) rocca::wipe(*comments.beside);
  for (std::string& line : comments.after) rocca::wipe(line);
}

}  // namespace

void Entry::wipe() noexcept {
  value.wipe();
  if (Rare* rare = rare_.find()) text::wipe(rare->comments);
}

void Value::wipe() noexcept {
  if (is_list()) {
    for (Value& item : items_) item.wipe();
  } else if (is_map()) {
    for (Entry& entry : entries_) entry.wipe();
  } else {
    rocca::wipe(text_);
  }
  if (Rare* rare = rare_.find()) text::wipe(rare->comments);
  destroy();
  std::construct_at(&text_);
  kind_ = Kind::Null;
}

const std::string& Value::tag() const noexcept {
  return rare_.get().tag;
}

void Value::set_tag(std::string tag) {
  if (Rare* rare = rare_.find())
    rare->tag = std::move(tag);
  else if (!tag.empty())
    rare_.make().tag = std::move(tag);
}

const Comments& Value::comments() const noexcept {
  return rare_.get().comments;
}

Comments& Value::comments() {
  return rare_.make().comments;
}

namespace {

bool same_scalar(const Value& a, const Value& b) {
  switch (a.kind()) {
    case Kind::Null:
      return true;
    case Kind::Bool:
      return a.as_bool() == b.as_bool();
    case Kind::Int:
      return a.text() == b.text() || (a.as_int() == b.as_int() && a.as_uint() == b.as_uint() &&
                                      (a.as_int() || a.as_uint()));
    case Kind::Float: {
      if (a.text() == b.text()) return true;
      const auto x = a.as_float();
      const auto y = b.as_float();
      return x && y && (*x == *y || (std::isnan(*x) && std::isnan(*y)));
    }
    case Kind::Timestamp:
      return a.text() == b.text() || normal_timestamp(a.text()) == normal_timestamp(b.text());
    default:
      return a.text() == b.text();
  }
}

}  // namespace

bool operator==(const Value& a, const Value& b) {
  if (a.kind_ != b.kind_) return false;
  if (a.is_scalar()) return same_scalar(a, b);
  if (a.is_list()) return a.items_ == b.items_;
  if (a.entries_.size() != b.entries_.size()) return false;
  for (std::size_t i = 0; i < a.entries_.size(); ++i) {
    const Entry& entry = a.entries_[i];
    // Most maps that are compared have the same order; looking there first keeps the common case
    // linear.
    const Value* other = b.entries_[i].key == entry.key ? &b.entries_[i].value : b.find(entry.key);
    if (other == nullptr || !(entry.value == *other)) return false;
  }
  return true;
}

}  // namespace rocca::text
