#pragma once

#include "base/error.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::s3 {

/// What a refusal means to whoever asked.
enum class Reason {
  NoSuchKey,
  NoSuchBucket,
  ConditionFailed,  ///< 412: it is there already, or is another one by now
  ConditionRaced,   ///< 409 ConditionalRequestConflict: two wrote at once; look, then try again
  Denied,           ///< wrong or unknown key, or no right
  ClockSkew,        ///< our clock is too far from theirs
  WrongRegion,
  Busy,
  Broken,  ///< 5xx: it may have happened
  NotImplemented,
  Other,
};

const char* to_string(Reason reason) noexcept;

/// A refusal, taken apart.
struct Failure {
  Reason reason = Reason::Other;
  int status = 0;
  std::string code;     // <Code>; empty where the server sent none (HEAD, gateways)
  std::string message;  // <Message>

  /// `writing`: what may have happened counts as Lost, not as Unreachable.
  Error error(std::string_view doing, bool writing) const;
};

Failure classify(int status, std::string_view body);

/// The texts of every element of that name, entities decoded. Enough for what S3 sends: elements of
/// one name never nest.
std::vector<std::string> elements(std::string_view xml, std::string_view name);
std::optional<std::string> find_element(std::string_view xml, std::string_view name);

}  // namespace rocca::s3
