#pragma once

#include "text/value.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::kube {

/// What a body says. Go reads a key that stands twice (the last one wins) and tells of it; our own
/// reader refuses it, so the lab has one for bodies.
struct Body {
  text::Value value;
  std::vector<std::string> duplicates;  // paths: "metadata.name"
};

struct BadJson {
  std::string message;  // as Go says it: "unexpected end of JSON input"
};

/// Throws BadJson.
Body read_json(std::string_view text);
/// The first document of a YAML text as JSON values; throws BadJson.
Body read_yaml(std::string_view text);

// Small ways into a tree.
std::string text_at(const text::Value& value, std::initializer_list<std::string_view> path);
std::int64_t int_at(const text::Value& value, std::initializer_list<std::string_view> path,
                    std::int64_t otherwise = 0);
bool bool_at(const text::Value& value, std::initializer_list<std::string_view> path);
/// The map at a path, made where it is not there.
text::Value& map_at(text::Value& value, std::initializer_list<std::string_view> path);
void set_at(text::Value& value, std::initializer_list<std::string_view> path, text::Value what);
text::Value str(std::string_view text);
text::Value num(std::int64_t number);
/// From JSON text that stands in our code.
text::Value json(std::string_view text);
bool is_empty(const text::Value* value);  // absent, null, "", {} or []

}  // namespace rocca::lab::kube
