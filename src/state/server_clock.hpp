#pragma once

#include "base/clock.hpp"
#include "net/http.hpp"

#include <atomic>

namespace rocca::state {

/// What time it is at the far side, from the Date headers of its answers. A lock's expiry is
/// written and judged by the one clock that all of its takers share: theirs may differ by hours,
/// and a live run must not look dead for it.
class FarClock final : public Clock {
 public:
  explicit FarClock(const Clock& own) : own_(own) {}
  void heard(const net::Headers& answer);
  Instant now() const override { return own_.now() + Duration{ahead_.load()}; }
  Tick tick() const override { return own_.tick(); }

 private:
  const Clock& own_;
  std::atomic<Duration::rep> ahead_{0};
};

}  // namespace rocca::state
