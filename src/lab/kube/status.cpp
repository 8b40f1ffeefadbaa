#include "lab/kube/status.hpp"

#include "base/strings.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

Value details_of(std::string_view group, std::string_view kind, std::string_view name) {
  Value details = Value::map();
  if (!name.empty()) details.set("name", Value::string(std::string(name)));
  if (!group.empty()) details.set("group", Value::string(std::string(group)));
  if (!kind.empty()) details.set("kind", Value::string(std::string(kind)));
  return details;
}

}  // namespace

Cause Cause::invalid(std::string field, std::string shown, std::string why) {
  return {"FieldValueInvalid", fmt::format("Invalid value: {}: {}", shown, why), std::move(field)};
}
Cause Cause::required(std::string field, std::string why) {
  return {"FieldValueRequired", why.empty() ? "Required value" : "Required value: " + why,
          std::move(field)};
}
Cause Cause::forbidden(std::string field, std::string why) {
  return {"FieldValueForbidden", "Forbidden: " + why, std::move(field)};
}
Cause Cause::unsupported(std::string field, std::string shown,
                         const std::vector<std::string>& known) {
  std::vector<std::string> words;
  for (const std::string& one : known) words.push_back(in_quotes(one));
  return {"FieldValueNotSupported",
          fmt::format("Unsupported value: {}: supported values: {}", shown, join(words, ", ")),
          std::move(field)};
}
Cause Cause::too_long(std::string field, std::string why) {
  return {"FieldValueTooLong", "Too long: " + why, std::move(field)};
}

Value Failure::status() const {
  Value out = Value::map();
  out.set("kind", Value::string("Status"));
  out.set("apiVersion", Value::string("v1"));
  out.set("metadata", metadata);
  out.set("status", Value::string("Failure"));
  out.set("message", Value::string(message));
  if (!reason.empty()) out.set("reason", Value::string(reason));
  if (!details.is_null()) out.set("details", details);
  out.set("code", Value::integer(code));
  return out;
}

std::string qualified(std::string_view name, std::string_view group) {
  return group.empty() ? std::string(name) : fmt::format("{}.{}", name, group);
}

std::string in_quotes(std::string_view text) {
  return text::emit_json(Value::string(std::string(text)));
}

Failure bad_request(std::string message) {
  return {400, "BadRequest", std::move(message), {}};
}

Failure not_found(std::string_view group, std::string_view resource, std::string_view name) {
  return {404, "NotFound", fmt::format("{} \"{}\" not found", qualified(resource, group), name),
          details_of(group, resource, name)};
}

Failure already_exists(std::string_view group, std::string_view resource, std::string_view name) {
  return {409, "AlreadyExists",
          fmt::format("{} \"{}\" already exists", qualified(resource, group), name),
          details_of(group, resource, name)};
}

Failure conflict(std::string_view group, std::string_view resource, std::string_view name,
                 std::string_view why) {
  return {409, "Conflict",
          fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", qualified(resource, group),
                      name, why),
          details_of(group, resource, name)};
}

Failure invalid(std::string_view group, std::string_view kind, std::string_view name,
                const std::vector<Cause>& causes) {
  std::vector<std::string> lines;
  Value list = Value::list();
  for (const Cause& cause : causes) {
    const std::string line = fmt::format("{}: {}", cause.field, cause.message);
    // The text names the same problem once, the causes as often as it was found.
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    Value one = Value::map();
    one.set("reason", Value::string(cause.reason));
    one.set("message", Value::string(cause.message));
    one.set("field", Value::string(cause.field));
    list.append(std::move(one));
  }
  Value details = details_of(group, kind, name);
  details.set("causes", std::move(list));
  const std::string what = lines.size() == 1 ? lines.front() : "[" + join(lines, ", ") + "]";
  return {422, "Invalid",
          fmt::format("{} \"{}\" is invalid: {}", qualified(kind, group), name, what),
          std::move(details)};
}

Failure forbidden(std::string_view group, std::string_view resource, std::string_view name,
                  std::string_view why) {
  return {403, "Forbidden",
          fmt::format("{}{} is forbidden: {}", qualified(resource, group),
                      name.empty() ? "" : fmt::format(" \"{}\"", name), why),
          details_of(group, resource, name)};
}

Failure internal_error(std::string_view why) {
  Value details = Value::map();
  Value causes = Value::list();
  Value cause = Value::map();
  cause.set("message", Value::string(std::string(why)));
  causes.append(std::move(cause));
  details.set("causes", std::move(causes));
  return {500, "InternalError", fmt::format("Internal error occurred: {}", why),
          std::move(details)};
}

Failure method_not_allowed() {
  return {405, "MethodNotAllowed",
          "the server does not allow this method on the requested resource", Value::map()};
}

Failure plain_error(std::string message) {
  return {500, "", std::move(message), {}};
}

}  // namespace rocca::lab::kube
