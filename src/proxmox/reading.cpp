#include "proxmox/reading.hpp"

#include "base/strings.hpp"

namespace rocca::proxmox {

std::string scalar_text(const text::Value& value) {
  if (const auto flag = value.as_bool()) return *flag ? "1" : "0";
  return value.is_null() ? std::string{} : value.text();
}

std::optional<std::string> read_text(const text::Value& object, std::string_view key) {
  const text::Value* value = object.find(key);
  if (value == nullptr || value->is_null() || !value->is_scalar()) return std::nullopt;
  return scalar_text(*value);
}

std::string read_text_or(const text::Value& object, std::string_view key,
                         std::string_view fallback) {
  return read_text(object, key).value_or(std::string(fallback));
}

std::optional<std::uint64_t> read_number(const text::Value& object, std::string_view key) {
  const auto text = read_text(object, key);
  if (!text) return std::nullopt;
  if (const auto whole = parse_uint(*text)) return whole;
  // Sizes and times sometimes come as 1.5e9 or 12.0.
  const text::Value* value = object.find(key);
  const auto number = value->is_string() ? text::Value::plain(*text).as_float() : value->as_float();
  if (!number || !(*number >= 0) || *number > 1.8e19) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

double read_float(const text::Value& object, std::string_view key) {
  const auto text = read_text(object, key);
  return text ? text::Value::plain(*text).as_float().value_or(0) : 0;
}

bool read_switch(const text::Value& object, std::string_view key) {
  const auto text = read_text(object, key);
  return text && *text != "0" && !text->empty();
}

std::vector<std::string> read_list(const text::Value& object, std::string_view key) {
  std::vector<std::string> words;
  std::string word;
  const text::Value* value = object.find(key);
  if (value != nullptr && value->is_list()) {
    for (const text::Value& item : value->items()) words.push_back(scalar_text(item));
    return words;
  }
  for (const char c : read_text_or(object, key) + ",") {
    if (c != ',' && c != ';' && c != ' ' && c != '\t' && c != '\n' && c != '\0') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

Instant from_epoch(std::uint64_t seconds) {
  return Instant{std::chrono::seconds{static_cast<std::int64_t>(seconds)}};
}

std::vector<text::Value> rows(text::Value data) {
  return data.is_list() ? std::move(data.items()) : std::vector<text::Value>{};
}

}  // namespace rocca::proxmox
