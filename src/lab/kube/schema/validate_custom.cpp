// Structural schemas (OpenAPI v3 as CRDs allow it), in the words of k8s.io/kube-openapi.
#include "base/strings.hpp"
#include "lab/kube/schema/cel.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/schema/validate.hpp"
#include "lab/kube/server.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

namespace rocca::lab::kube {

using text::Kind;
using text::Value;
using Form = Type::Form;

namespace {

struct Finding {
  Cause cause;
  bool blocks = true;  // rules in CEL are not looked at any more
};

class Checker {
 public:
  std::vector<Finding> found;
  bool has_rules = false;

  void check(const Type& type, const Value& value, const std::string& path) {
    if (type.rules.find("x-kubernetes-validations") != nullptr) has_rules = true;
    if (!type.custom) return;
    if (value.is_null() && type.nullable) return;
    const std::string wanted = wanted_type(type);
    if (!wanted.empty() && !fits(type, value)) {
      const char* given = word(value);
      found.push_back({{"FieldValueTypeInvalid",
                        fmt::format("Invalid value: \"{}\": {} in body must be of type {}: \"{}\"",
                                    given, path, wanted, given),
                        path}});
      return;
    }
    scalar_rules(type, value, path);
    if (value.is_map()) map_rules(type, value, path);
    if (value.is_list()) list_rules(type, value, path);
  }

 private:
  static const char* word(const Value& value) {
    switch (value.kind()) {
      case Kind::Map:
        return "object";
      case Kind::List:
        return "array";
      case Kind::Bool:
        return "boolean";
      case Kind::Int:
        return "integer";
      case Kind::Float:
        return "number";
      case Kind::Null:
        return "null";
      default:
        return "string";
    }
  }

  static std::string wanted_type(const Type& type) {
    if (type.form == Form::Scalar && type.scalar == Type::Scalar::IntOrString)
      return "integer,string";
    return text_at(type.rules, {"type"});
  }

  static bool fits(const Type& type, const Value& value) {
    const std::string wanted = text_at(type.rules, {"type"});
    if (type.form == Form::Scalar && type.scalar == Type::Scalar::IntOrString)
      return value.kind() == Kind::Int || value.is_string();
    if (wanted == "object") return value.is_map();
    if (wanted == "array") return value.is_list();
    if (wanted == "string") return value.is_string();
    if (wanted == "boolean") return value.kind() == Kind::Bool;
    if (wanted == "integer")
      return value.kind() == Kind::Int ||
             (value.kind() == Kind::Float && value.text().find('.') == std::string::npos);
    if (wanted == "number") return value.kind() == Kind::Int || value.kind() == Kind::Float;
    return true;
  }

  void add(Cause cause, bool blocks = true) { found.push_back({std::move(cause), blocks}); }

  void scalar_rules(const Type& type, const Value& value, const std::string& path) {
    const Value& rules = type.rules;
    const std::string shown = text::emit_json(value);
    if (value.kind() == Kind::Int || value.kind() == Kind::Float) {
      const double number = value.as_float().value_or(0);
      if (const Value* least = rules.find("minimum"))
        if (number < least->as_float().value_or(0))
          add(Cause::invalid(path, shown,
                             fmt::format("{} in body should be greater than or equal to {}", path,
                                         least->text())),
              false);
      if (const Value* most = rules.find("maximum"))
        if (number > most->as_float().value_or(0))
          add(Cause::invalid(
                  path, shown,
                  fmt::format("{} in body should be less than or equal to {}", path, most->text())),
              false);
    }
    if (const Value* known = rules.find("enum"); known != nullptr && known->is_list()) {
      if (std::find(known->items().begin(), known->items().end(), value) == known->items().end()) {
        std::vector<std::string> names;
        for (const Value& one : known->items()) names.push_back(one.text());
        add(Cause::unsupported(path, shown, names));
        return;
      }
    }
    if (!value.is_string()) return;
    const std::string& text = value.text();
    if (const Value* most = rules.find("maxLength"))
      if (static_cast<std::int64_t>(text.size()) > most->as_int().value_or(0)) {
        add(Cause::too_long(path, fmt::format("may not be more than {} bytes", most->text())));
        return;
      }
    if (const Value* least = rules.find("minLength"))
      if (static_cast<std::int64_t>(text.size()) < least->as_int().value_or(0)) {
        add(Cause::invalid(
                path, shown,
                fmt::format("{} in body should be at least {} chars long", path, least->text())),
            false);
        return;
      }
    if (const Value* pattern = rules.find("pattern")) {
      try {
        if (!std::regex_search(text, std::regex(pattern->text()))) {
          add(Cause::invalid(path, shown,
                             fmt::format("{} in body should match '{}'", path, pattern->text())),
              false);
          return;
        }
      } catch (const std::regex_error&) {
        // RE2 knows forms that this library does not; such a pattern is not checked.
      }
    }
    const std::string format = text_at(rules, {"format"});
    if (format == "date-time" && !is_time(text))
      add({"FieldValueTypeInvalid",
           fmt::format("Invalid value: {}: {} in body must be of type date-time: {}", shown, path,
                       shown),
           path});
  }

  void map_rules(const Type& type, const Value& value, const std::string& path) {
    if (const Value* required = type.rules.find("required"); required != nullptr)
      for (const Value& key : required->items())
        if (value.find(key.text()) == nullptr)
          add(Cause::required(path.empty() ? key.text() : path + "." + key.text()));
    for (const text::Entry& entry : value.entries()) {
      const std::string where = path.empty() ? entry.key : path + "." + entry.key;
      if (const Field* field = type.find(entry.key))
        check(*field->type, entry.value, where);
      else if (type.form == Form::Map)
        check(*type.element, entry.value, where);
    }
  }

  void list_rules(const Type& type, const Value& value, const std::string& path) {
    const auto count = static_cast<std::int64_t>(value.size());
    if (const Value* most = type.rules.find("maxItems"))
      if (count > most->as_int().value_or(0))
        add({"FieldValueTooMany",
             fmt::format("Too many: {}: must have at most {} items", count, most->text()), path});
    if (const Value* least = type.rules.find("minItems"))
      if (count < least->as_int().value_or(0))
        add(Cause::invalid(
                path, std::to_string(count),
                fmt::format("{} in body should have at least {} items", path, least->text())),
            false);
    std::vector<std::string> seen;
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      const std::string where = fmt::format("{}[{}]", path, i);
      if (type.element) check(*type.element, value.items()[i], where);
      if (type.lists == Type::Lists::Atomic) continue;
      const std::string key = item_key(type, value.items()[i]).substr(2);
      if (std::find(seen.begin(), seen.end(), key) != seen.end())
        add({"FieldValueDuplicate", "Duplicate value: " + key, where}, false);
      seen.push_back(key);
    }
  }
};

void cel_rules(const Type& type, const Value& value, const Value* old, const std::string& path,
               std::vector<Cause>& causes) {
  if (const Value* rules = type.rules.find("x-kubernetes-validations"); rules != nullptr)
    for (const Value& rule : rules->items()) {
      const std::string text = text_at(rule, {"rule"});
      const bool transition = text.find("oldSelf") != std::string::npos;
      if (transition && old == nullptr) continue;
      const std::optional<bool> holds = cel_holds(text, value, old);
      if (!holds || *holds) continue;
      std::string message = text_at(rule, {"message"});
      if (message.empty()) message = "failed rule: " + text;
      const std::string reason = text_at(rule, {"reason"});
      const std::string shown = value.is_map()    ? "\"object\""
                                : value.is_list() ? "\"array\""
                                                  : text::emit_json(value);
      if (reason == "FieldValueForbidden")
        causes.push_back(Cause::forbidden(path, message));
      else
        causes.push_back(Cause::invalid(
            path, type.open && (value.is_map() || value.is_list()) ? text::emit_json(value) : shown,
            message));
    }
  if (value.is_map())
    for (const text::Entry& entry : value.entries()) {
      const Field* field = type.find(entry.key);
      const Type* below = field != nullptr         ? field->type.get()
                          : type.form == Form::Map ? type.element.get()
                                                   : nullptr;
      if (below == nullptr || !below->custom) continue;
      cel_rules(*below, entry.value, old == nullptr ? nullptr : old->find(entry.key),
                path.empty() ? entry.key : path + "." + entry.key, causes);
    }
  if (value.is_list() && type.element && type.element->custom)
    for (std::size_t i = 0; i < value.items().size(); ++i)
      cel_rules(*type.element, value.items()[i], nullptr, fmt::format("{}[{}]", path, i), causes);
}

/// The path of a scale subresource must lead to a number; Go's accessor says where it does not.
void check_scale(const Resource& resource, const Value& object, Causes& causes) {
  if (resource.scale.is_null()) return;
  for (const char* which : {"specReplicasPath", "statusReplicasPath"}) {
    const std::string path = text_at(resource.scale, {which});
    const Value* at = &object;
    const auto wrong = [&](const Value& value, const char* wanted) {
      causes.push_back(
          Cause::invalid(path, "0",
                         fmt::format("{} accessor error: {} is of the type {}, expected {}", path,
                                     value.is_scalar() ? value.text() : "value",
                                     value.is_string() ? "string"
                                     : value.is_list() ? "[]interface {}"
                                                       : "bool",
                                     wanted)));
    };
    for (const std::string& part : split(path, '.')) {
      if (part.empty()) continue;
      if (!at->is_map()) {
        wrong(*at, "map[string]interface{}");
        at = nullptr;
        break;
      }
      at = at->find(part);
      if (at == nullptr) break;
    }
    if (at == nullptr || at->is_null()) continue;
    if (!at->as_int() || at->is_string())
      wrong(*at, "int64");
    else if (*at->as_int() < 0)
      causes.push_back(
          Cause::invalid(path, std::to_string(*at->as_int()), "should be a non-negative integer"));
  }
}

bool any_rules(const Type& type) {
  if (type.rules.find("x-kubernetes-validations") != nullptr) return true;
  for (const Field& field : type.fields)
    if (field.type->custom && any_rules(*field.type)) return true;
  return type.element && type.element->custom && any_rules(*type.element);
}

}  // namespace

std::vector<Cause> Server::validate_custom(const Resource& resource, const Value& object,
                                           const Value* live,
                                           const std::string& subresource) const {
  Checker checker;
  Value body = object;
  body.erase("metadata");
  const bool status_only = live != nullptr && subresource == "status";
  checker.check(*resource.type, body, "");
  if (status_only)
    for (Finding& finding : checker.found)
      // The status door checks below the status, and its texts begin there.
      finding.cause.message = replace_all(finding.cause.message, ": status.", ": ");
  std::vector<Cause> causes;
  // A name that is missing blocks the rules, too.
  bool blocked = text_at(object, {"metadata", "name"}).empty();
  for (Finding& finding : checker.found) {
    blocked = blocked || finding.blocks;
    causes.push_back(std::move(finding.cause));
  }
  if (blocked && any_rules(*resource.type))
    causes.push_back(Cause::invalid(
        "<nil>", "null",
        "some validation rules were not checked because the object was invalid; correct the "
        "existing errors to complete validation"));
  if (!blocked) cel_rules(*resource.type, object, live, "", causes);
  if (!status_only) check_scale(resource, object, causes);
  return causes;
}

}  // namespace rocca::lab::kube
