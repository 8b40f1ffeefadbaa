#pragma once

#include "base/clock.hpp"
#include "engine/limiter.hpp"
#include "engine/reservations.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rocca::engine {

/// One run's calls: runs short blocking calls, many at once, and waits for the next to end. A run
/// sees the ends of its own calls only, however many runs share the threads. Two forms share one
/// Schedule: threads, and fibers on one thread in virtual time.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual Tick now() const = 0;
  virtual Instant clock() const = 0;

  /// What a call does, as far as it decides which threads it may use.
  enum class Work {
    Step,    // reads or changes something; short
    Record,  // writes the state or renews its lock: goes before steps, and has threads in reserve
    Watch,   // listens for seconds; never uses a thread that steps could use
  };
  /// Begins a call. It must not throw.
  void start(std::string name, std::function<void()> call, Work work = Work::Step) {
    begin(std::move(name), std::move(call), work);
  }
  /// The names of calls that ended since the last time, in the order of ending: at least one,
  /// unless `until` has come or `nudge` was called.
  virtual std::vector<std::string> wait_until(std::optional<Tick> until) = 0;
  /// Wakes wait_until; from any thread, also from a stop_callback (not inside a signal handler).
  virtual void nudge() = 0;

  /// What all runs of this process share.
  virtual Limiter& limiter() = 0;
  virtual Reservations& reservations() = 0;

 private:
  virtual void begin(std::string name, std::function<void()> call, Work work) = 0;
};

/// The threads of a process, with the limits and reservations of all that run on them.
class Pool {
 public:
  virtual ~Pool() = default;
  /// For one run. Runs take turns, call by call. Destroying it waits for its calls that are under
  /// way and drops those that have not begun; other runs do not notice.
  virtual std::unique_ptr<Runner> open() = 0;
  virtual Limiter& limiter() = 0;
};

/// std::jthreads, created as they are needed: at most `threads` for steps, a few in reserve for
/// records, and at most 64 for watches. Runners keep their pool alive.
std::shared_ptr<Pool> thread_pool(unsigned threads, const Clock& clock);

/// A run with a pool of its own.
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
class InlineRunner : public Runner, public Fibers {
 public:
  /// A further run on the same fibers, with its own completions and the same limits. The run itself
  /// is a call of this runner: its wait_until parks that call.
  virtual std::unique_ptr<Runner> open() = 0;
};
std::unique_ptr<InlineRunner> inline_runner(const Clock& clock, InlineOptions options);

}  // namespace rocca::engine
