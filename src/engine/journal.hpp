#pragma once

#include "base/error.hpp"
#include "engine/runner.hpp"
#include "state/store.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace rocca::engine {

/// What happens to the state while a plan is carried out: group commit and the lock's renewal. Both
/// are calls of the runner. One write at a time; other calls run on meanwhile, and whatever they
/// settle is the next write. A renewal waits for no write: a slow one would cost the lock.
class Journal {
 public:
  /// Told once: nothing when the records are durable, else why they are not.
  using Then = std::function<void(const Error*)>;

  Journal(state::State& state, state::Store& store, Runner& runner, std::function<void()> keep_lock,
          Duration keep_lock_every);

  void add(std::vector<state::Record> records, Then then = {});
  /// Starts what is due and not under way.
  void pump();
  /// The runner says that this call has ended: is it one of ours?
  bool ended(const std::string& call);
  /// Tells nobody any more.
  void forget();
  /// When to be pumped next, if not before by an ending call.
  std::optional<Tick> next_wake() const;
  bool under_way() const { return writing_ || keeping_; }
  /// Everything that was added is durable or given up, and nothing is under way.
  bool idle() const { return !under_way() && pending_.empty() && batch_.empty(); }

  /// The write that could not be done, or the loss of the lock. Nothing is written from then on.
  const std::optional<Error>& error() const { return error_; }
  bool lock_lost() const { return lock_lost_; }

 private:
  void write();
  void keep();
  void written();
  void kept();
  void give_up(Error error);

  state::State& state_;
  state::Store& store_;
  Runner& runner_;
  std::function<void()> keep_lock_;
  Duration keep_every_;
  Tick keep_due_{};
  Tick kept_at_{};

  std::vector<state::Record> pending_;
  std::vector<Then> pending_thens_;
  std::vector<state::Record> batch_;  // being written, or to be tried again
  std::vector<Then> batch_thens_;
  unsigned tries_ = 0;
  std::optional<Tick> try_again_;

  bool writing_ = false;
  bool keeping_ = false;
  std::optional<Error> write_failure_;
  std::optional<Error> keep_failure_;
  std::optional<Error> error_;
  bool lock_lost_ = false;
};

}  // namespace rocca::engine
