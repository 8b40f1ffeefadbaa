#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "net/http.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::kube {

/// Why Kubernetes said no, in its own words (`reason` of a Status), and two that have none.
enum class Reason {
  BadRequest,
  Unauthorized,
  Forbidden,
  NotFound,
  MethodNotAllowed,
  NotAcceptable,
  AlreadyExists,
  Conflict,  ///< changed meanwhile; or, with causes, fields that somebody else owns
  Gone,
  Expired,
  RequestEntityTooLarge,
  UnsupportedMediaType,
  Invalid,
  TooManyRequests,
  InternalError,
  ServerTimeout,
  ServiceUnavailable,
  Timeout,
  NoSuchPath,  ///< a 404 in plain text: no such API group, not yet, or not this server
  Unknown,
};

const char* to_string(Reason reason) noexcept;

/// What to do about it.
enum class Remedy {
  Retry,   ///< the same again, later: a webhook that is not up yet, an overloaded server
  Wait,    ///< not now: a disruption budget, a rate limit; after `retry_after` if it is given
  Reread,  ///< somebody wrote in between, or it is there already: look, then decide
  Relist,  ///< what was known is too old
  Report,  ///< will not heal by itself
};

const char* to_string(Remedy remedy) noexcept;

struct Cause {
  std::string reason;
  std::string message;
  std::string field;

  friend bool operator==(const Cause&, const Cause&) = default;
};

/// A refusal, taken apart.
struct Failure {
  Reason reason = Reason::Unknown;
  int status = 0;
  std::string message;
  std::string kind;  // details: plural and group, "leases" in "coordination.k8s.io"
  std::string group;
  std::string name;
  std::vector<Cause> causes;
  std::optional<Duration> retry_after;

  Remedy remedy() const;
  /// A server-side apply met fields that another manager owns.
  bool owned_by_others() const;
  /// An admission webhook could not be asked: which one and why, `metallb.example: connect: …`.
  std::optional<std::string> unanswered_webhook() const;
  /// A request that was sent may have had an effect all the same.
  bool may_have_happened() const;
  Error error(std::string_view doing, bool writing) const;
};

/// An answer with status ≥ 400, or a Status of kind Failure inside a watch (`status` then is its
/// code). Text that is no Status is classified by the code.
Failure classify(int status, const net::Headers& headers, std::string_view body);

}  // namespace rocca::kube
