#pragma once

#include "base/clock.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocca::engine {

/// Runs short blocking calls, many at once, and waits for the next to end. Two forms share one
/// Schedule: threads, and fibers on one thread in virtual time.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual Tick now() const = 0;
  virtual Instant clock() const = 0;
  /// Begins a call. It must not throw.
  virtual void start(std::string name, std::function<void()> call) = 0;
  /// The names of calls that ended since the last time, in the order of ending: at least one,
  /// unless `until` has come or somebody nudged.
  virtual std::vector<std::string> wait_until(std::optional<Tick> until) = 0;
  /// Wakes wait_until; from any thread, also from a stop_callback (not inside a signal handler).
  virtual void nudge() = 0;
};

/// std::jthreads, made as they are needed, at most `threads`.
/// Ends with its calls: destroying it waits for those that run and drops those that have not begun.
std::unique_ptr<Runner> pool_runner(unsigned threads, const Clock& clock);

/// Fibers on the caller's thread. A call that must wait for the world outside parks its fiber; when
/// all are parked, `advance` lets the world outside take its next step.
class Fibers {
 public:
  virtual ~Fibers() = default;
  /// Inside a fiber: gives `wake` away and returns once it was called. Outside of one: Error(Bug).
  virtual void park(const std::function<void(std::function<void()> wake)>& arrange) = 0;
  virtual bool inside() const noexcept = 0;
};

struct InlineOptions {
  /// The next event of the world outside, or the clock moved to `until` if that comes first. False:
  /// there is no `until` and nothing is left that could happen.
  std::function<bool(std::optional<Tick> until)> advance;
  std::size_t stack = 256 * 1024;
};

/// One thread: no member may be called from another, except nudge. A call that is still parked when
/// the runner dies is dropped without unwinding, as a killed process drops it.
class InlineRunner : public Runner, public Fibers {};
std::unique_ptr<InlineRunner> inline_runner(const Clock& clock, InlineOptions options);

}  // namespace rocca::engine
