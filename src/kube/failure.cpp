#include "kube/failure.hpp"

#include "base/strings.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::kube {

namespace {

using text::Value;

struct Named {
  Reason reason;
  const char* name;
  int status;
};

constexpr std::array names = {
    Named{Reason::BadRequest, "BadRequest", 400},
    Named{Reason::Unauthorized, "Unauthorized", 401},
    Named{Reason::Forbidden, "Forbidden", 403},
    Named{Reason::NotFound, "NotFound", 404},
    Named{Reason::MethodNotAllowed, "MethodNotAllowed", 405},
    Named{Reason::NotAcceptable, "NotAcceptable", 406},
    Named{Reason::Conflict, "Conflict", 409},
    Named{Reason::AlreadyExists, "AlreadyExists", 0},
    Named{Reason::Expired, "Expired", 410},
    Named{Reason::Gone, "Gone", 0},
    Named{Reason::RequestEntityTooLarge, "RequestEntityTooLarge", 413},
    Named{Reason::UnsupportedMediaType, "UnsupportedMediaType", 415},
    Named{Reason::Invalid, "Invalid", 422},
    Named{Reason::TooManyRequests, "TooManyRequests", 429},
    Named{Reason::InternalError, "InternalError", 0},
    Named{Reason::ServerTimeout, "ServerTimeout", 0},
    Named{Reason::ServiceUnavailable, "ServiceUnavailable", 503},
    Named{Reason::Timeout, "Timeout", 504},
    Named{Reason::NoSuchPath, "NoSuchPath", 0},
    Named{Reason::Unknown, "Unknown", 0},
};

std::string text_at(const Value& map, std::string_view key) {
  const Value* value = map.find(key);
  return value != nullptr && value->is_scalar() && !value->is_null() ? value->text() : "";
}

std::optional<Value> status_object(std::string_view body) {
  if (!trim(body).starts_with('{')) return std::nullopt;
  try {
    Value value = text::parse_json(body, "answer");
    if (text_at(value, "kind") != "Status") return std::nullopt;
    return value;
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;  // it is not JSON
    return std::nullopt;
  }
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

const char* to_string(Reason reason) noexcept {
  for (const Named& named : names)
    if (named.reason == reason) return named.name;
  return "Unknown";
}

const char* to_string(Remedy remedy) noexcept {
  switch (remedy) {
    case Remedy::Retry:
      return "retry";
    case Remedy::Wait:
      return "wait";
    case Remedy::Reread:
      return "reread";
    case Remedy::Relist:
      return "relist";
    case Remedy::Report:
      break;
  }
  return "report";
}

Failure classify(int status, const net::Headers& headers, std::string_view body) {
  Failure failure;
  failure.status = status;
  for (const Named& named : names)
    if (named.status == status) failure.reason = named.reason;
  if (const auto seconds = parse_uint(headers.find("Retry-After").value_or("")))
    failure.retry_after = std::chrono::seconds{*seconds};
  const auto object = status_object(body);
  if (!object) {
    failure.message = std::string{trim(body).substr(0, 400)};
    // `404 page not found`: the path itself is unknown, not the object.
    if (status == 404) failure.reason = Reason::NoSuchPath;
    return failure;
  }
  failure.message = text_at(*object, "message");
  const std::string reason = text_at(*object, "reason");
  for (const Named& named : names)
    if (named.name == reason) failure.reason = named.reason;
  if (const Value* details = object->find("details"); details != nullptr && details->is_map()) {
    failure.kind = text_at(*details, "kind");
    failure.group = text_at(*details, "group");
    failure.name = text_at(*details, "name");
    if (const auto seconds = parse_uint(text_at(*details, "retryAfterSeconds"));
        seconds && !failure.retry_after)
      failure.retry_after = std::chrono::seconds{*seconds};
    if (const Value* causes = details->find("causes"); causes != nullptr && causes->is_list())
      for (const Value& cause : causes->items())
        failure.causes.push_back(
            {text_at(cause, "reason"), text_at(cause, "message"), text_at(cause, "field")});
  }
  return failure;
}

bool Failure::owned_by_others() const {
  return reason == Reason::Conflict &&
         std::any_of(causes.begin(), causes.end(),
                     [](const Cause& cause) { return cause.reason == "FieldManagerConflict"; });
}

std::optional<std::string> Failure::unanswered_webhook() const {
  // A webhook that answered and said no speaks otherwise: `admission webhook "X" denied …`.
  constexpr std::string_view mark = "failed calling webhook \"";
  const std::size_t at = message.find(mark);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + mark.size();
  const std::size_t end = message.find('"', begin);
  if (end == std::string::npos) return std::nullopt;
  // Behind the name: `: failed to call webhook: Post "https://SVC.NS.svc:443/…": why`.
  const std::size_t why = message.rfind("\": ");
  return fmt::format(
      "{}: {}", message.substr(begin, end - begin),
      why == std::string::npos || why <= end ? message.substr(end + 1) : message.substr(why + 3));
}

bool Failure::may_have_happened() const {
  // A webhook that fails does so before the object is stored.
  if (contains(message, "failed calling webhook")) return false;
  return status >= 500 && reason != Reason::TooManyRequests;
}

Remedy Failure::remedy() const {
  switch (reason) {
    case Reason::AlreadyExists:
      return Remedy::Reread;
    case Reason::Conflict:
      return owned_by_others() ? Remedy::Report : Remedy::Reread;
    case Reason::Gone:
    case Reason::Expired:
      return Remedy::Relist;
    case Reason::TooManyRequests:
      return Remedy::Wait;
    case Reason::InternalError:
    case Reason::ServerTimeout:
    case Reason::ServiceUnavailable:
    case Reason::Timeout:
      return Remedy::Retry;
    case Reason::Forbidden:
      // The namespace is going: what was asked for will be gone with it.
      for (const Cause& cause : causes)
        if (cause.reason == "NamespaceTerminating") return Remedy::Wait;
      return Remedy::Report;
    case Reason::Unknown:
      // A 500 without a reason is an object that does not fit its schema, two budgets over one
      // Pod…: it does not heal. The exceptions speak of a call that failed.
      if (contains(message, "conversion webhook for") || contains(message, "etcdserver:"))
        return Remedy::Retry;
      return status == 502 ? Remedy::Retry : Remedy::Report;
    default:
      return Remedy::Report;
  }
}

Error Failure::error(std::string_view doing, bool writing) const {
  const std::string text = fmt::format("{}: Kubernetes answered {} {}{}", doing, status,
                                       to_string(reason), message.empty() ? "" : ": " + message);
  switch (reason) {
    case Reason::Unauthorized:
      return Error(Fault::Denied, text)
          .hint(
              "the kubeconfig's certificate or token is not (or no longer) good for this cluster");
    case Reason::Forbidden:
      return {Fault::Denied, text};
    case Reason::NotFound:
      return {Fault::NotFound, text};
    case Reason::NoSuchPath:
      return Error(Fault::NotFound, text)
          .hint("this API is not served (yet): is its CRD there, and the server's address right?");
    case Reason::AlreadyExists:
    case Reason::Conflict:
      return {Fault::Conflict, text};
    case Reason::TooManyRequests:
      return {Fault::Busy, text};
    default:
      break;
  }
  if (remedy() == Remedy::Retry) {
    if (writing && may_have_happened()) return {Fault::Lost, text};
    return {Fault::Busy, text};
  }
  return {Fault::Rejected, text};
}

}  // namespace rocca::kube
