#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "lab/sim/routine.hpp"

#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab {

class World;
class Network;

/// Thrown into a routine whose process was told to end while it waited.
struct Interrupted {
  std::string reason;
};

namespace detail {
class Waiting;
}

/// A thing routines wait for. They are woken in the order in which they began to wait.
class Signal {
 public:
  Signal() = default;
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal();

  void wake_one();
  void wake_all();
  std::size_t waiting() const noexcept { return waiting_.size(); }

 private:
  friend class detail::Waiting;
  std::list<detail::Waiting*> waiting_;
};

/// The handle by which a process is told to end: its present or next wait throws Interrupted.
class Interrupt {
 public:
  Interrupt() = default;
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  ~Interrupt();

  void raise(std::string reason);
  bool raised() const noexcept { return reason_.has_value(); }

 private:
  friend class detail::Waiting;
  std::optional<std::string> reason_;
  detail::Waiting* waiting_ = nullptr;
};

enum class Woke { Signalled, TimedOut };

namespace detail {

/// One wait of one routine: for a signal, a time, or both; registered where it can be woken, and
/// nowhere else once it is over or its routine is destroyed.
class Waiting {
 public:
  Waiting(World& world, Signal* signal, std::optional<Instant> deadline, Interrupt* interrupt)
      : world_(world), signal_(signal), deadline_(deadline), interrupt_(interrupt) {}
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { leave(); }

  bool await_ready() const noexcept {
    return interrupt_ != nullptr && interrupt_->reason_.has_value();
  }
  void await_suspend(std::coroutine_handle<> self);
  Woke await_resume();

 private:
  friend class rocca::lab::Signal;
  friend class rocca::lab::Interrupt;
  void wake(Woke how);
  void leave() noexcept;

  World& world_;
  Signal* signal_;
  std::optional<Instant> deadline_;
  Interrupt* interrupt_;
  std::coroutine_handle<> self_;
  std::optional<std::uint64_t> timer_;
  bool queued_ = false;  // in the signal's list
  Woke how_ = Woke::Signalled;
};

}  // namespace detail

/// What happened, as decoded meaning (no key material, no random bytes), for "same seed, same run".
class Trace {
 public:
  void add(Instant when, std::string_view what);
  /// Keeps the lines too (they cost memory); the hash is always kept.
  void keep_lines(bool keep) { keep_ = keep; }
  const std::vector<std::string>& lines() const noexcept { return lines_; }
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t hash() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037ull;  // FNV-1a
  std::uint64_t count_ = 0;
  bool keep_ = false;
  std::vector<std::string> lines_;
};

/// The simulated data centre's time, chance and order: one queue of events, one seed, one thread.
/// Everything else of the lab (networks, Proxmox, nodes) hangs on a World and acts only when one of
/// its events runs.
class World {
 public:
  struct Options {
    std::uint64_t seed = 1;
    Instant start{std::chrono::seconds{1'763'500'000}};
  };

  World();
  explicit World(Options options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Clock& clock() const noexcept { return clock_; }
  Instant now() const { return clock_.now(); }
  /// What the clocks of clients show. In time-lapse they are behind ours, and certificates must be
  /// good for them.
  Instant outside() const { return outside_ ? outside_() : now(); }
  void set_outside(std::function<Instant()> clock) { outside_ = std::move(clock); }
  std::int64_t unix_time() const;
  std::uint64_t seed() const noexcept { return seed_; }
  /// An independent stream of chance; the same name gives the same numbers whatever else was drawn.
  SeededEntropy fork(std::string_view name) const { return entropy_.fork(name); }
  Network& network() noexcept { return *network_; }
  Trace& trace() noexcept { return trace_; }
  void note(std::string_view what) { trace_.add(now(), what); }

  using Timer = std::uint64_t;
  Timer at(Instant when, std::function<void()> then);
  Timer after(Duration delay, std::function<void()> then) {
    return at(now() + delay, std::move(then));
  }
  void cancel(Timer timer);

  /// When the next event is due, if there is one.
  std::optional<Instant> next_due() const;
  /// Runs the earliest event, moving the clock to it; false: there is none. Throws what a routine
  /// let escape.
  bool step();
  /// Runs everything due up to `when`, then lets the clock stand there.
  void run_until(Instant when);
  void run_for(Duration duration) { run_until(now() + duration); }
  /// Runs until nothing is left to do before `limit` (periodic timers never end by themselves).
  void settle(Duration limit);

  /// Starts a routine of its own; it runs until its first wait before this returns.
  void spawn(Routine<void> routine);
  std::size_t running() const noexcept { return roots_.size(); }
  /// Ends every routine at once, without resuming it. Whoever owns what routines refer to calls it
  /// before dying.
  void end_routines();

  detail::Waiting sleep(Duration duration, Interrupt* interrupt = nullptr) {
    return {*this, nullptr, now() + duration, interrupt};
  }
  detail::Waiting wait(Signal& signal, std::optional<Instant> deadline = {},
                       Interrupt* interrupt = nullptr) {
    return {*this, &signal, deadline, interrupt};
  }

 private:
  struct Root;
  friend struct Root;
  struct Key {
    Instant when;
    std::uint64_t sequence;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  std::uint64_t seed_;
  VirtualClock clock_;
  std::function<Instant()> outside_;
  SeededEntropy entropy_;
  Trace trace_;
  std::unique_ptr<Network> network_;
  std::map<Key, std::function<void()>> events_;
  std::map<Timer, Instant> timers_;
  std::uint64_t sequence_ = 0;
  std::map<std::uint64_t, std::coroutine_handle<>> roots_;
  std::uint64_t next_root_ = 0;
  std::exception_ptr escaped_;
  bool closing_ = false;
};

}  // namespace rocca::lab
