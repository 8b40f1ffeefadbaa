#pragma once

#include "net/http.hpp"
#include "text/value.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::kube {

/// One problem of an object, as the API server lists it under `details.causes`.
struct Cause {
  std::string reason;   // FieldValueInvalid
  std::string message;  // Invalid value: "x": must be …
  std::string field;    // spec.selector

  static Cause invalid(std::string field, std::string shown, std::string why);
  static Cause required(std::string field, std::string why = "");
  static Cause forbidden(std::string field, std::string why);
  static Cause unsupported(std::string field, std::string shown,
                           const std::vector<std::string>& known);
  static Cause too_long(std::string field, std::string why);
};

/// An answer that is no success: what becomes a Status object. Thrown through the lab's API only.
struct Failure {
  int code = 500;
  std::string reason;
  std::string message;
  text::Value details;  // null: none at all
  net::Headers headers{};
  text::Value metadata = text::Value::map();

  text::Value status() const;
};

/// `configmaps` or `deployments.apps`.
std::string qualified(std::string_view name, std::string_view group);
/// A Go string literal as %q prints it.
std::string in_quotes(std::string_view text);

Failure bad_request(std::string message);
Failure not_found(std::string_view group, std::string_view resource, std::string_view name);
Failure already_exists(std::string_view group, std::string_view resource, std::string_view name);
Failure conflict(std::string_view group, std::string_view resource, std::string_view name,
                 std::string_view why);
Failure invalid(std::string_view group, std::string_view kind, std::string_view name,
                const std::vector<Cause>& causes);
Failure forbidden(std::string_view group, std::string_view resource, std::string_view name,
                  std::string_view why);
Failure internal_error(std::string_view why);
Failure method_not_allowed();
/// A 500 with a text and nothing else, as Go errors that nobody classified come out.
Failure plain_error(std::string message);

}  // namespace rocca::lab::kube
