#include "s3/failure.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace rocca::s3 {

namespace {

struct Code {
  std::string_view code;
  Reason reason;
};

constexpr std::array codes = {
    Code{"NoSuchKey", Reason::NoSuchKey},
    Code{"NoSuchBucket", Reason::NoSuchBucket},
    Code{"PreconditionFailed", Reason::ConditionFailed},
    Code{"ConditionalRequestConflict", Reason::ConditionRaced},
    Code{"AccessDenied", Reason::Denied},
    Code{"AllAccessDisabled", Reason::Denied},
    Code{"AccountProblem", Reason::Denied},
    Code{"ExpiredToken", Reason::Denied},
    Code{"InvalidAccessKeyId", Reason::Denied},
    Code{"SignatureDoesNotMatch", Reason::Denied},
    Code{"XAdminUserNotFound", Reason::Denied},  // versitygw's InvalidAccessKeyId, with a 404
    Code{"RequestTimeTooSkewed", Reason::ClockSkew},
    Code{"PermanentRedirect", Reason::WrongRegion},
    Code{"TemporaryRedirect", Reason::WrongRegion},
    Code{"AuthorizationHeaderMalformed", Reason::WrongRegion},
    Code{"IllegalLocationConstraintException", Reason::WrongRegion},
    Code{"SlowDown", Reason::Busy},
    Code{"ServiceUnavailable", Reason::Busy},
    Code{"OperationAborted", Reason::Busy},
    Code{"InternalError", Reason::Broken},
    Code{"RequestTimeout", Reason::Broken},
    Code{"NotImplemented", Reason::NotImplemented},
};

Reason by_status(int status) {
  switch (status) {
    case 401:
    case 403:
      return Reason::Denied;
    case 404:
      return Reason::NoSuchKey;
    case 412:
      return Reason::ConditionFailed;
    case 429:
    case 503:
      return Reason::Busy;
    case 501:
      return Reason::NotImplemented;
    default:
      break;
  }
  if (status >= 300 && status < 400) return Reason::WrongRegion;
  return status >= 500 ? Reason::Broken : Reason::Other;
}

std::string decode_entities(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.front() == '&' ? text.find(';') : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    const std::string_view name = text.substr(1, end - 1);
    unsigned code = 0;
    if (name == "lt") {
      out += '<';
    } else if (name == "gt") {
      out += '>';
    } else if (name == "amp") {
      out += '&';
    } else if (name == "quot") {
      out += '"';
    } else if (name == "apos") {
      out += '\'';
    } else if (name.starts_with('#')) {
      const bool hex = name.starts_with("#x") || name.starts_with("#X");
      const std::string_view digits = name.substr(hex ? 2 : 1);
      std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
      // Servers escape quotes and control characters so; anything else comes as UTF-8.
      out += code < 0x80 ? static_cast<char>(code) : '?';
    } else {
      out += text.substr(0, end + 1);
    }
    text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace

const char* to_string(Reason reason) noexcept {
  switch (reason) {
    case Reason::NoSuchKey:
      return "no such key";
    case Reason::NoSuchBucket:
      return "no such bucket";
    case Reason::ConditionFailed:
      return "condition failed";
    case Reason::ConditionRaced:
      return "condition raced";
    case Reason::Denied:
      return "denied";
    case Reason::ClockSkew:
      return "clock skew";
    case Reason::WrongRegion:
      return "wrong region";
    case Reason::Busy:
      return "busy";
    case Reason::Broken:
      return "broken";
    case Reason::NotImplemented:
      return "not implemented";
    case Reason::Other:
      break;
  }
  return "other";
}

std::vector<std::string> elements(std::string_view xml, std::string_view name) {
  const std::string open = fmt::format("<{}>", name);
  const std::string close = fmt::format("</{}>", name);
  std::vector<std::string> found;
  for (std::size_t at = xml.find(open); at != std::string_view::npos; at = xml.find(open, at)) {
    at += open.size();
    const std::size_t end = xml.find(close, at);
    if (end == std::string_view::npos) break;
    const std::string_view inside = xml.substr(at, end - at);
    // What holds elements is given back as it is, to be looked into.
    found.push_back(inside.find('<') == std::string_view::npos ? decode_entities(inside)
                                                               : std::string{inside});
    at = end + close.size();
  }
  return found;
}

std::optional<std::string> find_element(std::string_view xml, std::string_view name) {
  std::vector<std::string> found = elements(xml, name);
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

Failure classify(int status, std::string_view body) {
  Failure failure;
  failure.status = status;
  failure.code = find_element(body, "Code").value_or("");
  failure.message = find_element(body, "Message").value_or("");
  failure.reason = by_status(status);
  for (const Code& known : codes)
    if (known.code == failure.code) return failure.reason = known.reason, failure;
  // A 404 or 409 with a code that is not known is about something else than a key.
  if (!failure.code.empty() && (status == 404 || status == 409)) failure.reason = Reason::Other;
  return failure;
}

Error Failure::error(std::string_view doing, bool writing) const {
  const std::string text = fmt::format("{}: the S3 server answered {}{}{}", doing, status,
                                       code.empty() ? "" : " " + code,
                                       message.empty() ? "" : fmt::format(" ({})", message));
  switch (reason) {
    case Reason::NoSuchKey:
      return {Fault::NotFound, text};
    case Reason::NoSuchBucket:
      return Error(Fault::NotFound, text).hint("make the bucket first; rocca makes none");
    case Reason::ConditionFailed:
    case Reason::ConditionRaced:
      return {Fault::Conflict, text};
    case Reason::Denied:
      return Error(Fault::Denied, text)
          .hint("check the access key, the secret key and what they may do in this bucket");
    case Reason::ClockSkew:
      return Error(Fault::Denied, text).hint("set this machine's clock; S3 allows 15 minutes");
    case Reason::WrongRegion:
      return Error(Fault::Usage, text).hint("check `region` and `endpoint`");
    case Reason::Busy:
      return {Fault::Busy, text};
    case Reason::Broken:
      return {writing ? Fault::Lost : Fault::Unreachable, text};
    case Reason::NotImplemented:
    case Reason::Other:
      break;
  }
  return {Fault::Rejected, text};
}

}  // namespace rocca::s3
