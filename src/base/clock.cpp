#include "base/clock.hpp"

#include "base/error.hpp"

namespace rocca {

Instant SystemClock::now() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

Tick SystemClock::tick() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

VirtualClock::VirtualClock(Instant start) : start_(start), now_(start) {}

void VirtualClock::advance(Duration by) {
  if (by < Duration::zero()) throw Error(Fault::Bug, "a virtual clock was asked to go backwards");
  now_ += by;
}

void VirtualClock::advance_to(Instant instant) {
  if (now_ < instant) now_ = instant;
}

}  // namespace rocca
