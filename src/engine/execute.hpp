#pragma once

#include "engine/events.hpp"
#include "engine/plan.hpp"
#include "engine/runner.hpp"
#include "state/store.hpp"

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::engine {

struct StepResult {
  enum class End { Done, Unchanged, Failed, Skipped, NotBegun };
  End end = End::NotBegun;
  Action action = Action::None;
  std::optional<Error> error = {};  // Failed
  std::string cause = {};           // Skipped: the address that failed
  Duration took{};
};

/// What became of a plan.
struct Report {
  std::map<std::string, StepResult> steps;
  bool interrupted = false;
  /// The state could not be written or its lock was lost: what ended the run, whatever the steps
  /// say.
  std::optional<Error> error;
  Duration took{};

  bool ok() const;  // everything that was planned is done
  std::vector<std::string> changed() const;
};

/// Tells the worlds what things turned out to be last time, so that they can be found again. Called
/// before `observe`.
void recall(const state::State& prior, Worlds& worlds);

/// Reads everything, in parallel, each thing after what it needs; what is found is learned by the
/// worlds at once. A read that fails is kept and its dependents are read all the same. Stopped:
/// what was not read is among the failed.
Observed observe(const Desired& desired, const graph::Graph& graph, Worlds& worlds, Runner& runner,
                 unsigned parallelism, std::stop_token stop);

struct ExecuteOptions {
  unsigned parallelism = 64;  // calls at once; a pool has one thread more, for the journal
  EffectPolicy policy;
  std::function<void()> keep_lock;  // called now and then; throws when the lock was lost
  Duration keep_lock_every = std::chrono::seconds{20};
  /// How long acts that were begun may go on after a stop. What has not ended then is remembered by
  /// its receipt, and the next run asks after it.
  Duration settle_within = std::chrono::seconds{20};
};

/// The only stage that changes the world. `state` is what `store` holds, and is kept so; when there
/// is none yet, the caller has written one. A thing that was not planned but needs one that has
/// changed is looked at again, and brought in order within the effect of what changed.
///
/// The first stop lets acts that were begun end, for a while, and begins no other; what only waits
/// is left at once.
/// Each settled step is a journal record, durable before its
/// dependents start; what settled while a write was under way is one write. Returns when nothing
/// more can be done; a step's failure is in the report, its siblings go on.
Report execute(const Plan& plan, const Desired& desired, const graph::Graph& graph,
               state::State& state, state::Store& store, Worlds& worlds, Runner& runner,
               const EventSink& events, const ExecuteOptions& options, std::stop_token stop);

}  // namespace rocca::engine
