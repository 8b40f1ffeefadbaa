#pragma once

#include "text/value.hpp"

#include <string>

namespace rocca::test {

/// As much of JSON Schema as our own schemas use; "" when it fits, else the first place that does
/// not.
inline std::string misfit(const text::Value& value, const text::Value& schema,
                          const text::Value& root, const std::string& at) {
  if (const text::Value* ref = schema.find("$ref"))
    return misfit(value, *root.find({"$defs", ref->text().substr(std::string("#/$defs/").size())}),
                  root, at);
  if (const text::Value* choices = schema.find("enum")) {
    for (const text::Value& choice : choices->items())
      if (choice == value) return "";
    return at + " is none of the choices";
  }
  const std::string type = schema.find("type")->text();
  if (type == "string") return value.is_string() ? "" : at + " is no string";
  if (type == "boolean") return value.as_bool() ? "" : at + " is no boolean";
  if (type == "integer") return value.as_int() ? "" : at + " is no integer";
  if (type == "number") return value.as_float() ? "" : at + " is no number";
  if (type == "array") {
    if (!value.is_list()) return at + " is no array";
    for (const text::Value& item : value.items())
      if (auto bad = misfit(item, *schema.find("items"), root, at + "[]"); !bad.empty()) return bad;
    return "";
  }
  if (!value.is_map()) return at + " is no object";
  if (const text::Value* required = schema.find("required"))
    for (const text::Value& key : required->items())
      if (value.find(key.text()) == nullptr) return at + " has no " + key.text();
  const text::Value* more = schema.find("additionalProperties");
  for (const text::Entry& entry : value.entries()) {
    const text::Value* properties = schema.find("properties");
    const text::Value* known = properties == nullptr ? nullptr : properties->find(entry.key);
    if (known == nullptr && more != nullptr && more->is_map()) known = more;
    if (known == nullptr) return at + "." + entry.key + " is not in the schema";
    if (auto bad = misfit(entry.value, *known, root, at + "." + entry.key); !bad.empty())
      return bad;
  }
  return "";
}

inline std::string misfit(const text::Value& value, const text::Value& schema) {
  return misfit(value, schema, schema, "it");
}

}  // namespace rocca::test
