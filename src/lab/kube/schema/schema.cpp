// The notation of the tables, one type a line:
//
//   Name = field:type …        a line that begins with blanks goes on; `@=`: an atomic struct
//   ^                          kind, apiVersion and metadata of an object
//   s i n b                    string, integer, number, boolean
//   q t mt is by any           quantity, time, micro time, int-or-string, bytes, anything
//   T  *T  *s                  a struct by value (always written), by pointer; a scalar by pointer
//   {T} [T]                    a map, an atomic list
//   [T|=]  [T|name]            a set; a list of maps by key(s); [T|port,protocol=TCP]: a default
//   @T                         an atomic map or struct
//   type!                      written even when empty

#include "lab/kube/schema/schema.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <sstream>

namespace rocca::lab::kube {

using text::Value;

const Field* Type::find(std::string_view field) const {
  for (const Field& one : fields)
    if (one.name == field) return &one;
  return nullptr;
}

class TypeReader {
 public:
  explicit TypeReader(Schemas& schemas) : schemas_(schemas) {}

  void table(std::string_view text) {
    std::shared_ptr<Type> current;
    std::istringstream in{std::string(text)};
    for (std::string line; std::getline(in, line);) {
      if (trim(line).empty()) continue;
      std::istringstream words(line);
      std::string word;
      if (line[0] != ' ') {
        words >> word;
        current = named(word);
        words >> word;
        current->atomic = word == "@=";
      }
      while (words >> word) add(*current, word);
    }
  }

 private:
  std::shared_ptr<Type> named(const std::string& name) {
    auto& slot = schemas_.types_[name];
    if (!slot) {
      slot = std::make_shared<Type>();
      slot->form = Type::Form::Struct;
      slot->name = name;
    }
    return slot;
  }

  void add(Type& type, const std::string& word) {
    if (word == "^") {
      type.fields.push_back({"kind", scalar(Type::Scalar::String), false, false});
      type.fields.push_back({"apiVersion", scalar(Type::Scalar::String), false, false});
      type.fields.push_back({"metadata", named("ObjectMeta"), false, true});
      return;
    }
    const std::size_t colon = word.find(':');
    if (colon == std::string::npos) throw Error(Fault::Bug, "schema table: " + word);
    Field field;
    field.name = word.substr(0, colon);
    std::string_view text = std::string_view(word).substr(colon + 1);
    if (text.ends_with('!')) {
      field.always = true;
      text.remove_suffix(1);
    }
    bool atomic = false;
    if (text.starts_with('@')) {
      atomic = true;
      text.remove_prefix(1);
    }
    if (text.starts_with('*')) {
      field.pointer = true;
      text.remove_prefix(1);
    }
    field.type = read(text);
    if (atomic) {
      auto copy = std::make_shared<Type>();
      atomics_.emplace_back(copy, field.type);
      *copy = *field.type;
      copy->atomic = true;
      field.type = copy;
    }
    if (field.type->form == Type::Form::Struct && !field.pointer) field.always = true;
    type.fields.push_back(std::move(field));
  }

  static TypeRef scalar(Type::Scalar kind) {
    auto type = std::make_shared<Type>();
    type->form = Type::Form::Scalar;
    type->scalar = kind;
    return type;
  }

  TypeRef read(std::string_view text) {
    static const std::map<std::string_view, Type::Scalar> scalars{
        {"s", Type::Scalar::String},     {"i", Type::Scalar::Int},
        {"n", Type::Scalar::Number},     {"b", Type::Scalar::Bool},
        {"q", Type::Scalar::Quantity},   {"t", Type::Scalar::Time},
        {"mt", Type::Scalar::MicroTime}, {"is", Type::Scalar::IntOrString},
        {"by", Type::Scalar::Bytes}};
    if (const auto found = scalars.find(text); found != scalars.end()) return scalar(found->second);
    if (text == "any") return any_type();
    auto type = std::make_shared<Type>();
    if (text.starts_with('{')) {
      type->form = Type::Form::Map;
      type->element = read(text.substr(1, text.size() - 2));
      return type;
    }
    if (text.starts_with('[')) {
      type->form = Type::Form::List;
      std::string_view inner = text.substr(1, text.size() - 2);
      const std::size_t bar = inner.find('|');
      type->element = read(inner.substr(0, bar));
      if (bar == std::string_view::npos) return type;
      const std::string_view keys = inner.substr(bar + 1);
      if (keys == "=") {
        type->lists = Type::Lists::Set;
        return type;
      }
      type->lists = Type::Lists::Map;
      for (const std::string& key : split(keys, ',')) {
        const std::size_t equals = key.find('=');
        type->keys.push_back(key.substr(0, equals));
        if (equals != std::string::npos)
          type->key_values[key.substr(0, equals)] = Value::string(key.substr(equals + 1));
      }
      return type;
    }
    return named(std::string(text));
  }

 public:
  /// A type may be used before its line: atomic copies are taken again at the end.
  void finish() {
    for (auto& [copy, original] : atomics_) {
      *copy = *original;
      copy->atomic = true;
    }
    for (const auto& [name, type] : schemas_.types_)
      if (type->fields.empty() && name != "Empty")
        throw Error(Fault::Bug, "schema table: nothing says what " + name + " is");
  }

 private:
  Schemas& schemas_;
  std::vector<std::pair<std::shared_ptr<Type>, TypeRef>> atomics_;
};

Schemas::Schemas() {
  TypeReader reader{*this};
  reader.table(schema_core_table());
  reader.table(schema_workload_table());
  reader.table(schema_other_table());
  reader.finish();
}

TypeRef Schemas::find(std::string_view name) const {
  const auto found = types_.find(name);
  return found == types_.end() ? nullptr : found->second;
}

TypeRef Schemas::get(std::string_view name) const {
  TypeRef found = find(name);
  if (!found) throw Error(Fault::Bug, fmt::format("no table says what {} is", name));
  return found;
}

TypeRef any_type() {
  static const TypeRef any = std::make_shared<Type>();
  return any;
}

namespace {

std::string text_of(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found == nullptr ? "" : found->text();
}

bool is_true(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found != nullptr && found->as_bool() == true;
}

TypeRef custom(const Value& rules) {
  auto type = std::make_shared<Type>();
  type->custom = true;
  type->rules = rules;
  type->nullable = is_true(rules, "nullable");
  const std::string kind = text_of(rules, "type");
  const bool open = is_true(rules, "x-kubernetes-preserve-unknown-fields");
  type->embedded = is_true(rules, "x-kubernetes-embedded-resource");
  if (is_true(rules, "x-kubernetes-int-or-string")) {
    type->form = Type::Form::Scalar;
    type->scalar = Type::Scalar::IntOrString;
  } else if (kind == "object" || (kind.empty() && rules.find("properties") != nullptr)) {
    type->atomic = text_of(rules, "x-kubernetes-map-type") == "atomic";
    const Value* properties = rules.find("properties");
    const Value* more = rules.find("additionalProperties");
    if (properties == nullptr && more != nullptr && more->is_map()) {
      type->form = Type::Form::Map;
      type->element = custom(*more);
      return type;
    }
    type->form = Type::Form::Struct;
    type->open = open || type->embedded;
    if (open && properties == nullptr && !type->embedded) {
      type->form = Type::Form::Any;
      return type;
    }
    if (type->embedded) {
      for (const char* name : {"apiVersion", "kind"}) {
        auto text = std::make_shared<Type>();
        text->form = Type::Form::Scalar;
        type->fields.push_back({name, text, true, false});
      }
      type->fields.push_back({"metadata", any_type(), true, false});
    }
    if (properties != nullptr)
      for (const text::Entry& entry : properties->entries())
        if (type->find(entry.key) == nullptr)
          type->fields.push_back({entry.key, custom(entry.value), true, false});
  } else if (kind == "array") {
    type->form = Type::Form::List;
    const Value* items = rules.find("items");
    type->element = items == nullptr ? any_type() : custom(*items);
    const std::string lists = text_of(rules, "x-kubernetes-list-type");
    if (lists == "set") type->lists = Type::Lists::Set;
    if (lists == "map") {
      type->lists = Type::Lists::Map;
      if (const Value* keys = rules.find("x-kubernetes-list-map-keys"))
        for (const Value& key : keys->items()) {
          type->keys.push_back(key.text());
          if (const Field* field = type->element->find(key.text()))
            if (const Value* standard = field->type->rules.find("default"))
              type->key_values[key.text()] = *standard;
        }
    }
  } else if (!kind.empty()) {
    type->form = Type::Form::Scalar;
    type->scalar = kind == "integer"   ? Type::Scalar::Int
                   : kind == "number"  ? Type::Scalar::Number
                   : kind == "boolean" ? Type::Scalar::Bool
                                       : Type::Scalar::String;
  }
  return type;
}

}  // namespace

TypeRef custom_type(const Value& open_api, const Schemas& schemas) {
  auto root = std::make_shared<Type>(*custom(open_api));
  if (root->form != Type::Form::Struct) {
    root->form = Type::Form::Struct;
    root->open = true;
  }
  std::erase_if(root->fields, [](const Field& field) {
    return field.name == "kind" || field.name == "apiVersion" || field.name == "metadata";
  });
  auto text = std::make_shared<Type>();
  text->form = Type::Form::Scalar;
  root->fields.insert(root->fields.begin(), {{"kind", text, true, false},
                                             {"apiVersion", text, true, false},
                                             {"metadata", schemas.object_meta(), false, true}});
  return root;
}

}  // namespace rocca::lab::kube
