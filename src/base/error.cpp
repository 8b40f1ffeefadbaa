#include "base/error.hpp"

#include "base/visible.hpp"

namespace rocca {

const char* to_string(Fault fault) noexcept {
  switch (fault) {
    case Fault::Usage:
      return "usage";
    case Fault::NotFound:
      return "not-found";
    case Fault::Conflict:
      return "conflict";
    case Fault::Rejected:
      return "rejected";
    case Fault::Denied:
      return "denied";
    case Fault::Refused:
      return "refused";
    case Fault::Busy:
      return "busy";
    case Fault::Locked:
      return "locked";
    case Fault::Unreachable:
      return "unreachable";
    case Fault::Lost:
      return "lost";
    case Fault::Timeout:
      return "timeout";
    case Fault::Interrupted:
      return "interrupted";
    case Fault::Bug:
      return "bug";
  }
  return "bug";
}

Error::Error(Fault fault, std::string message) : fault_(fault), message_(std::move(message)) {}

Error& Error::hint(std::string text) & {
  if (hint_.empty()) hint_ = std::move(text);
  return *this;
}

Error&& Error::hint(std::string text) && {
  if (hint_.empty()) hint_ = std::move(text);
  return std::move(*this);
}

Error& Error::during(std::string what) {
  trail_.push_back(std::move(what));
  return *this;
}

std::string Error::render() const {
  // Behind the first line four blanks: neither `  while` nor `hint:` can be forged.
  constexpr std::size_t indent = 4;
  std::string text = "error: " + visible(message_, indent) + "\n";
  for (const std::string& what : trail_) text += "  while " + visible(what, indent) + "\n";
  if (!hint_.empty()) text += "hint: " + visible(hint_, indent) + "\n";
  return text;
}

int exit_code(Fault fault) noexcept {
  switch (fault) {
    case Fault::Refused:
      return 3;
    case Fault::Denied:
      return 4;
    case Fault::Locked:
      return 5;
    case Fault::Interrupted:
      return 130;
    default:
      return 1;
  }
}

}  // namespace rocca
