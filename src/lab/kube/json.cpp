#include "lab/kube/json.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

namespace rocca::lab::kube {

using text::Kind;
using text::Value;

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Body read() {
    Body body;
    body.value = value("", body, 0);
    blanks();
    if (at_ < text_.size()) wrong("after top-level value");
    return body;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string::npos)
      ++at_;
  }

  char peek() {
    if (at_ >= text_.size()) throw BadJson{"unexpected end of JSON input"};
    return text_[at_];
  }

  [[noreturn]] void wrong(std::string_view where) {
    throw BadJson{fmt::format("invalid character '{}' {}", text_[at_], where)};
  }

  Value value(const std::string& path, Body& body, int depth) {
    blanks();
    if (depth > 200) throw BadJson{"exceeded max depth"};
    const char first = peek();
    if (first == '{') return object(path, body, depth);
    if (first == '[') {
      ++at_;
      Value list = Value::list();
      blanks();
      if (peek() == ']') {
        ++at_;
        return list;
      }
      for (;;) {
        list.append(value(fmt::format("{}[{}]", path, list.size()), body, depth + 1));
        blanks();
        const char next = peek();
        if (next != ',' && next != ']') wrong("after array element");
        ++at_;
        if (next == ']') return list;
      }
    }
    if (first == '"') return Value::string(string());
    if (first == '-' || (first >= '0' && first <= '9')) {
      const std::size_t begin = at_;
      while (at_ < text_.size() &&
             std::string_view("0123456789+-.eE").find(text_[at_]) != std::string::npos)
        ++at_;
      const std::string number(text_.substr(begin, at_ - begin));
      const bool whole = number.find_first_of(".eE") == std::string::npos;
      return Value::scalar(whole ? Kind::Int : Kind::Float, number, text::Style::Any);
    }
    for (const auto& [word, made] : {std::pair{"true", Value::boolean(true)},
                                     {"false", Value::boolean(false)},
                                     {"null", Value::null()}})
      if (first == word[0]) {
        for (const char* expected = word; *expected != 0; ++expected, ++at_)
          if (peek() != *expected)
            throw BadJson{fmt::format("invalid character '{}' in literal {} (expecting '{}')",
                                      text_[at_], word, *expected)};
        return made;
      }
    wrong("looking for beginning of value");
  }

  Value object(const std::string& path, Body& body, int depth) {
    ++at_;
    Value map = Value::map();
    blanks();
    if (peek() == '}') {
      ++at_;
      return map;
    }
    for (;;) {
      blanks();
      if (peek() != '"') wrong("looking for beginning of object key string");
      const std::string key = string();
      const std::string where = path.empty() ? key : path + "." + key;
      blanks();
      if (peek() != ':') wrong("after object key");
      ++at_;
      if (map.find(key) != nullptr) body.duplicates.push_back(where);
      map.set(key, value(where, body, depth + 1));
      blanks();
      const char next = peek();
      if (next != ',' && next != '}') wrong("after object key:value pair");
      ++at_;
      if (next == '}') return map;
    }
  }

  std::string string() {
    const std::size_t begin = at_++;
    while (peek() != '"') {
      if (text_[at_] == '\\') {
        ++at_;
        peek();
      }
      ++at_;
    }
    ++at_;
    try {
      return text::parse_json(text_.substr(begin, at_ - begin), "body").text();
    } catch (const Error&) {
      throw BadJson{"invalid string"};
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// go-yaml of Kubernetes still reads the booleans of YAML 1.1.
Value from_yaml(const Value& value) {
  switch (value.kind()) {
    case Kind::Map: {
      Value out = Value::map();
      for (const text::Entry& entry : value.entries()) out.set(entry.key, from_yaml(entry.value));
      return out;
    }
    case Kind::List: {
      Value out = Value::list();
      for (const Value& item : value.items()) out.append(from_yaml(item));
      return out;
    }
    case Kind::Int:
      if (const auto number = value.as_int()) return Value::integer(*number);
      return value;
    case Kind::Bool:
      return Value::boolean(value.as_bool().value_or(false));
    case Kind::Null:
      return Value::null();
    case Kind::Timestamp:
      return Value::string(value.text());
    default:
      break;
  }
  if (value.is_string() && value.style() == text::Style::Plain) {
    for (const char* word : {"y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})
      if (value.text() == word) return Value::boolean(true);
    for (const char* word : {"n", "N", "no", "No", "NO", "off", "Off", "OFF"})
      if (value.text() == word) return Value::boolean(false);
  }
  return value.is_string() ? Value::string(value.text()) : value;
}

}  // namespace

Body read_json(std::string_view text) {
  return Reader(text).read();
}

Body read_yaml(std::string_view text) {
  try {
    const std::vector<Value> documents = text::parse_yaml_stream(text, "body");
    return {documents.empty() ? Value::null() : from_yaml(documents.front()), {}};
  } catch (const Error& error) {
    throw BadJson{error.message()};
  }
}

std::string text_at(const Value& value, std::initializer_list<std::string_view> path) {
  const Value* found = value.find(path);
  return found == nullptr || !found->is_scalar() || found->is_null() ? "" : found->text();
}

std::int64_t int_at(const Value& value, std::initializer_list<std::string_view> path,
                    std::int64_t otherwise) {
  const Value* found = value.find(path);
  return found == nullptr ? otherwise : found->as_int().value_or(otherwise);
}

bool bool_at(const Value& value, std::initializer_list<std::string_view> path) {
  const Value* found = value.find(path);
  return found != nullptr && found->as_bool() == true;
}

Value& map_at(Value& value, std::initializer_list<std::string_view> path) {
  Value* at = &value;
  for (const std::string_view key : path) {
    Value* next = at->find(key);
    if (next == nullptr || !next->is_map()) next = &at->set(key, Value::map());
    at = next;
  }
  return *at;
}

void set_at(Value& value, std::initializer_list<std::string_view> path, Value what) {
  Value* at = &value;
  const std::string_view* last = path.end() - 1;
  for (const std::string_view* key = path.begin(); key != last; ++key) {
    Value* next = at->find(*key);
    if (next == nullptr || !next->is_map()) next = &at->set(*key, Value::map());
    at = next;
  }
  at->set(*last, std::move(what));
}

Value str(std::string_view text) {
  return Value::string(std::string(text));
}

Value num(std::int64_t number) {
  return Value::integer(number);
}

Value json(std::string_view text) {
  return text::parse_json(text, "lab");
}

bool is_empty(const Value* value) {
  if (value == nullptr || value->is_null()) return true;
  if (value->is_map() || value->is_list()) return value->size() == 0;
  return value->is_string() && value->text().empty();
}

}  // namespace rocca::lab::kube
