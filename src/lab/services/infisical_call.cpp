#include "lab/services/infisical_call.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/json.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab {

using text::Value;

namespace {

Value issue(const std::string& code, const std::string& path, const std::string& message) {
  Value one = Value::map();
  one.set("code", Value::string(code));
  Value& place = one.set("path", Value::list());
  if (!path.empty()) place.append(Value::string(path));
  one.set("message", Value::string(message));
  return one;
}

}  // namespace

Value Refusal::body(const std::string& id) const {
  Value body = Value::map();
  body.set("reqId", Value::string("req-" + id.substr(0, 14)));
  body.set("statusCode", Value::integer(status));
  body.set("message", issues.is_list() ? issues : Value::string(message));
  body.set("error", Value::string(error));
  return body;
}

Parameters::Parameters(const net::Incoming& request) {
  const std::size_t question = request.target.find('?');
  for (const std::string& part : split(request.target.substr(0, question), '/'))
    if (!part.empty()) path_.push_back(percent_decode(part));
  given_ = Value::map();
  if (request.method == "GET") {
    if (question == std::string::npos) return;
    for (const std::string& pair : split(request.target.substr(question + 1), '&')) {
      const std::size_t equals = pair.find('=');
      const std::string key = percent_decode(pair.substr(0, equals));
      if (has(key)) complain("invalid_type", key, "Expected string, received array");
      given_.set(key, Value::string(equals == std::string::npos
                                        ? ""
                                        : percent_decode(pair.substr(equals + 1))));
    }
    return;
  }
  if (request.body.empty()) return;
  if (request.headers.find("content-type").value_or("").find("application/json") != 0)
    throw Refusal{415, "Unsupported Media Type", "Unsupported Media Type"};
  try {
    given_ = text::parse_json(request.body, "body");
  } catch (const Error&) {
    throw Refusal{400, "BadRequest", "Body is not valid JSON"};
  }
  if (!given_.is_map()) {
    given_ = Value::map();
    complain("invalid_type", "", "Expected object");
  }
}

void Parameters::complain(const std::string& code, const std::string& path,
                          const std::string& message) {
  issues_.push_back(issue(code, path, message));
}

std::optional<std::string> Parameters::find_text(const char* key) {
  read_.insert(key);
  const Value* found = given_.find(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) {
    complain("invalid_type", key, "Expected string");
    return std::nullopt;
  }
  return found->text();
}

std::string Parameters::text(const char* key) {
  if (!has(key)) complain("invalid_type", key, "Required");
  return find_text(key).value_or("");
}

bool Parameters::flag(const char* key, bool fallback) {
  read_.insert(key);
  const Value* found = given_.find(key);
  if (found == nullptr) return fallback;
  // A query has only texts, and a body's must be a boolean.
  if (found->is_string() && (found->text() == "true" || found->text() == "false"))
    return found->text() == "true";
  if (const auto value = found->as_bool()) return *value;
  complain("invalid_type", key, "Expected boolean");
  return fallback;
}

std::optional<std::string> Parameters::choice(const char* key,
                                              std::initializer_list<std::string_view> all) {
  const auto given = find_text(key);
  if (given && std::find(all.begin(), all.end(), *given) == all.end())
    complain("invalid_enum_value", key, fmt::format("Invalid enum value. Received '{}'", *given));
  return given;
}

std::string Parameters::folder_name(const char* key) {
  std::string name = text(key);
  const bool good = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  });
  if (!good)
    complain("custom", key,
             "Invalid folder name. Only alphanumeric characters, dashes, and underscores are "
             "allowed.");
  return name;
}

std::string Parameters::secret_name(const std::string& name, const char* key) {
  std::string kept{trim(name)};
  if (kept.empty()) complain("too_small", key, "String must contain at least 1 character(s)");
  if (kept.find_first_of(":/") != std::string::npos)
    complain("custom", key, "Secret name cannot contain colon or forward slash.");
  return kept;
}

std::vector<Parameters::Item> Parameters::items(const char* key, bool with_values) {
  read_.insert(key);
  std::vector<Item> items;
  const Value* list = given_.find(key);
  if (list == nullptr || !list->is_list() || list->items().empty()) {
    complain("too_small", key, "Array must contain at least 1 element(s)");
    return items;
  }
  for (const Value& each : list->items()) {
    Item item;
    for (const text::Entry& entry : each.entries()) {
      if (entry.key == "secretKey")
        item.key = secret_name(entry.value.text(), "secretKey");
      else if (with_values && entry.key == "secretValue" && entry.value.is_string())
        item.value = entry.value.text();
      else if (with_values && entry.key == "secretComment" && entry.value.is_string())
        item.comment = entry.value.text();
      else if (!with_values && entry.key == "type")
        continue;
      else
        complain("unrecognized_keys", key,
                 fmt::format("Unrecognized key(s) in object: '{}'", entry.key));
    }
    if (item.key.empty()) complain("invalid_type", "secretKey", "Required");
    items.push_back(std::move(item));
  }
  return items;
}

void Parameters::validate() const {
  std::vector<Value> all = issues_;
  for (const text::Entry& entry : given_.entries()) {
    if (read_.contains(entry.key)) continue;
    all.push_back(issue("unrecognized_keys", entry.key,
                        fmt::format("Unrecognized key(s) in object: '{}'", entry.key)));
  }
  if (all.empty()) return;
  Refusal refusal{422, "ValidationFailure", ""};
  refusal.issues = Value::list(std::move(all));
  throw refusal;
}

void send(net::Responder& responder, int status, const Value& body,
          std::optional<unsigned> retry_after) {
  net::Headers headers{{"Content-Type", "application/json; charset=utf-8"}};
  if (retry_after) headers.add("Retry-After", std::to_string(*retry_after));
  responder.answer(status, "", std::move(headers), text::emit_json(body));
}

std::string timestamp(Instant when) {
  const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(when);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.000Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)));
}

}  // namespace rocca::lab
