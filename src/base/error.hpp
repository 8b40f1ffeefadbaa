#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace rocca {

/// What kind of trouble it is. Retry and exit code are decided by this, never by the message.
enum class Fault {
  Usage,        ///< the user asked for something that cannot be
  NotFound,     ///< a thing that was named is not there
  Conflict,     ///< the world holds something else in that place
  Rejected,     ///< the far side understood and said no
  Denied,       ///< not authorised
  Refused,      ///< a guard of ours said no: effect class, quorum, identity, protect, stale plan
  Busy,         ///< try again later: locked, rate-limited, overloaded
  Locked,       ///< somebody else holds our own state lock
  Unreachable,  ///< nothing was sent; may be repeated
  Lost,         ///< the far side may have acted; look before repeating
  Timeout,      ///< a bounded wait ended
  Interrupted,  ///< the user asked us to stop
  Bug,          ///< ours
};

const char* to_string(Fault fault) noexcept;

/// The one exception of rocca: what happened, on the way to what, and what the user can do.
///
///   throw Error(Fault::Conflict, fmt::format("VM id {} is taken by '{}'", id, owner))
///       .hint("remove `id:` from the node and a free one is chosen");
class Error : public std::exception {
 public:
  Error(Fault fault, std::string message);

  /// What the user can do about it. The first hint given wins: it is nearest to the cause.
  Error& hint(std::string text) &;
  Error&& hint(std::string text) &&;

  /// Adds one line of context, innermost first ("creating vm/prod/cp-1 (cluster.yaml:18:5)").
  Error& during(std::string what);

  Fault fault() const noexcept { return fault_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& hint() const noexcept { return hint_; }
  const std::vector<std::string>& trail() const noexcept { return trail_; }
  const char* what() const noexcept override { return message_.c_str(); }

  /// The text a user reads: `error: …`, `  while …`, `hint: …`, each on its own line, newline at
  /// the end. Messages quote foreign text: steering characters are escaped, further lines indented.
  std::string render() const;

 private:
  Fault fault_;
  std::string message_;
  std::string hint_;
  std::vector<std::string> trail_;
};

/// Runs `body`; an Error that leaves it says that it happened while doing `what`.
template <class Body>
decltype(auto) within(const std::string& what, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    error.during(what);
    throw;
  }
}

/// The process's exit code for a fault (design: 1 error, 3 refused, 4 not authorised, 5 locked,
/// 130).
int exit_code(Fault fault) noexcept;

}  // namespace rocca
