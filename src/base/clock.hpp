#pragma once

#include <chrono>

namespace rocca {

using Duration = std::chrono::nanoseconds;
/// A point of wall-clock time (UTC).
using Instant = std::chrono::time_point<std::chrono::system_clock, Duration>;
/// A point on a clock that never jumps; only differences mean something.
using Tick = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// One of the four doors: what time it is. Nobody sleeps on it; a wait is an entry in the
/// executor's heap.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
  virtual Tick tick() const = 0;
};

class SystemClock final : public Clock {
 public:
  Instant now() const override;
  Tick tick() const override;
};

/// Time that stands still until it is moved. Both of its readings move together, and never
/// backwards.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(Instant start = Instant{std::chrono::seconds{1'750'000'000}});
  Instant now() const override { return now_; }
  Tick tick() const override { return Tick{now_ - start_}; }
  void advance(Duration by);
  void advance_to(Instant instant);

 private:
  Instant start_;
  Instant now_;
};

}  // namespace rocca
