#include "base/faults.hpp"

namespace rocca {

bool may_retry(Fault fault) noexcept {
  return fault == Fault::Busy || fault == Fault::Unreachable || fault == Fault::Lost;
}

bool is_silence(Fault fault) noexcept {
  return fault == Fault::Unreachable || fault == Fault::Lost || fault == Fault::Timeout;
}

bool is_external(Fault fault) noexcept {
  switch (fault) {
    case Fault::NotFound:
    case Fault::Conflict:
    case Fault::Rejected:
    case Fault::Denied:
    case Fault::Busy:
    case Fault::Unreachable:
    case Fault::Lost:
    case Fault::Timeout:
      return true;
    case Fault::Usage:
    case Fault::Refused:
    case Fault::Locked:
    case Fault::Interrupted:
    case Fault::Bug:
      return false;
  }
  return false;
}

}  // namespace rocca
