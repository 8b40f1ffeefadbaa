#include "spec/schema.hpp"

#include "base/strings.hpp"
#include "spec/fields.hpp"
#include "spec/tree.hpp"

#include <fmt/format.h>

namespace rocca::spec {

namespace {

using text::Value;

Value words(const std::vector<std::string>& list) {
  Value value = Value::list();
  for (const std::string& word : list) value.append(Value::string(word));
  return value;
}

Value typed(const char* type) {
  Value value = Value::map();
  value.set("type", Value::string(type));
  return value;
}

Value pattern(const char* expression) {
  Value value = typed("string");
  value.set("pattern", Value::string(expression));
  return value;
}

Value any_of(std::vector<Value> choices) {
  if (choices.size() == 1) return std::move(choices.front());
  Value value = Value::map();
  value.set("anyOf", Value::list(std::move(choices)));
  return value;
}

Value formats(std::initializer_list<const char*> names) {
  std::vector<Value> choices;
  for (const char* name : names) {
    Value one = typed("string");
    one.set("format", Value::string(name));
    choices.push_back(std::move(one));
  }
  return any_of(std::move(choices));
}

Value scalar(const Field& field) {
  switch (field.type) {
    case Type::Map:
    case Type::Any:
      return Value::map();
    case Type::Text: {
      Value value = Value::map();
      value.set("type", words({"string", "number"}));
      return value;
    }
    case Type::Path:
    case Type::Source:
      return typed("string");
    case Type::Bool:
      return typed("boolean");
    case Type::Int: {
      Value value = typed("integer");
      if (const auto limits = int_limits(field)) {
        value.set("minimum", Value::integer(limits->low));
        value.set("maximum", Value::integer(limits->high));
      }
      return value;
    }
    case Type::Size:
      return pattern("^[0-9]+([KMGTP]i)?B$");
    case Type::Duration:
      return pattern("^([0-9]+(ms|s|m|h|d))+$");
    case Type::Version:
      return pattern("^v?[0-9]+\\.[0-9]+\\.[0-9]+");
    case Type::Address:
      return formats({"ipv4", "ipv6"});
    case Type::Subnet:
      return pattern("^[0-9a-fA-F:.]+/[0-9]+$");
    case Type::Range:
      return pattern("^[0-9a-fA-F:.]+(-[0-9a-fA-F:.]+)?$");
    case Type::Mac:
      return pattern("^([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}$");
    case Type::Uuid:
      return formats({"uuid"});
    case Type::Url:
      return pattern("^([a-zA-Z][a-zA-Z0-9+.-]*://|[^@ ]+@[^: ]+:).+$");
    case Type::Label:
      return pattern("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$");
    case Type::Domain:
      return pattern("^[a-zA-Z0-9.:-]+$");
    case Type::Enum: {
      Value value = Value::map();
      auto values = split(field.values, '|');
      Value list = words(values);
      if (field.is(OrBool)) {
        list.append(Value::boolean(true));
        list.append(Value::boolean(false));
      }
      value.set("enum", std::move(list));
      return value;
    }
    case Type::Fingerprint:
      return pattern("^([0-9a-fA-F]{2}:){31}[0-9a-fA-F]{2}$");
    case Type::Schedule:
      return pattern("^([-0-9*,/]+ +){4}[-0-9*,/]+$");
    case Type::AgeKey:
      return pattern("^(age1[a-z0-9]{58}|ssh-(ed25519|rsa) .+)$");
    case Type::Patches: {
      Value value = Value::map();
      value.set("type", words({"string", "object", "array"}));
      return value;
    }
  }
  return Value::map();
}

std::string description(const Field& field) {
  std::string text(field.text);
  if (!field.note.empty()) text += fmt::format(" ({})", field.note);
  return text;
}

std::string definition_name(std::string_view target) {
  std::string name = replace_all(replace_all(target, "spec.", ""), "$", "");
  return replace_all(replace_all(name, ".*", ""), ".", "-");
}

class Schema {
 public:
  Value document() {
    Value top = Value::map();
    top.set("$schema", Value::string("https://json-schema.org/draft/2020-12/schema"));
    top.set("$id", Value::string("https://rocca.dev/schemas/v1/cluster.json"));
    top.set("title", Value::string("rocca cluster"));
    Value body = object(root(), /*complete=*/true);
    for (text::Entry& entry : body.entries()) top.set(entry.key, std::move(entry.value));
    Value definitions = Value::map();
    for (const Field& field : fields()) {
      if (!field.values.starts_with('@')) continue;
      const std::string_view target = field.values.substr(1);
      const std::string name = definition_name(target);
      if (definitions.find(name) != nullptr) continue;
      const FieldNode* node = find_target(target);
      definitions.set(name, object(*node, false));
    }
    top.set("$defs", std::move(definitions));
    return top;
  }

 private:
  static const FieldNode* find_target(std::string_view target) {
    const FieldNode* node = &root();
    for (const std::string& part : split(target, '.'))
      node = part == "*" ? node->named() : node->find(part);
    return node;
  }

  /// A map of fixed keys. Bases and inheritance may bring a required key, so it is asked for only
  /// where nothing is merged: at the very top and in the items of lists.
  Value object(const FieldNode& node, bool complete) {
    Value value = typed("object");
    Value properties = Value::map();
    std::vector<std::string> required;
    std::vector<std::string> exclusive;
    for (const auto& child : node.keys()) {
      if (child->key.starts_with('$')) continue;
      properties.set(child->key, property(*child));
      if (child->field->is(Required)) required.push_back(child->key);
      if (child->field->is(Choice)) exclusive.push_back(child->key);
    }
    value.set("properties", std::move(properties));
    if (complete && !required.empty()) value.set("required", words(required));
    if (node.named() != nullptr)
      value.set("additionalProperties", property(*node.named()));
    else
      value.set("additionalProperties", Value::boolean(false));
    if (exclusive.size() > 1) {
      Value pairs = Value::list();
      for (std::size_t i = 0; i < exclusive.size(); ++i)
        for (std::size_t j = i + 1; j < exclusive.size(); ++j) {
          Value both = Value::map();
          both.set("required", words({exclusive[i], exclusive[j]}));
          Value never = Value::map();
          never.set("not", std::move(both));
          pairs.append(std::move(never));
        }
      value.set("allOf", std::move(pairs));
    }
    return value;
  }

  Value one(const FieldNode& node, bool complete) {
    const Field& field = *node.field;
    std::vector<Value> choices;
    if (field.type != Type::Map) choices.push_back(scalar(field));
    if (field.type == Type::Map || field.is(OrMap)) {
      if (node.like != nullptr) {
        Value reference = Value::map();
        reference.set("$ref",
                      Value::string("#/$defs/" + definition_name(node.field->values.substr(1))));
        choices.push_back(std::move(reference));
      } else {
        choices.push_back(object(node, complete));
      }
    }
    return any_of(std::move(choices));
  }

  Value property(const FieldNode& node) {
    const Field& field = *node.field;
    Value value;
    const bool list = field.is(List);
    if (field.is(Named) && node.named() != nullptr) {
      value = object(node, false);
    } else if (field.is(Named)) {
      value = typed("object");
      value.set("additionalProperties", list ? array(one(node, true)) : one(node, false));
    } else if (list) {
      value = array(one(node, true));
    } else if (field.is(OneOrMany)) {
      value = any_of({one(node, true), array(one(node, true))});
    } else {
      value = one(node, field.path == "metadata");
    }
    value.set("description", Value::string(description(field)));
    if (node.fallback) value.set("default", to_value(*node.fallback));
    return value;
  }

  static Value array(Value items) {
    Value value = typed("array");
    value.set("items", std::move(items));
    return value;
  }
};

}  // namespace

text::Value json_schema() {
  return Schema().document();
}

}  // namespace rocca::spec
