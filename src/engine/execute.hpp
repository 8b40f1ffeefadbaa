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
  Duration took{};

  bool ok() const;  // everything that was planned is done
  std::vector<std::string> changed() const;
};

/// Reads everything, in parallel, each thing after what it needs. `deep` false asks only what the
/// cheap lists can tell (`status` and `plan` use true).
Observed observe(const Desired& desired, const graph::Graph& graph, Worlds& worlds, Runner& runner,
                 unsigned parallelism, std::stop_token stop);

struct ExecuteOptions {
  unsigned parallelism = 64;
  EffectPolicy policy;
  std::function<void()> keep_lock;  // called now and then; throws when the lock was lost
  Duration keep_lock_every = std::chrono::seconds{20};
};

/// The only stage that changes the world. Each settled step is a journal record, durable before its
/// dependents start; what settled while a write was under way is one write. Returns when nothing
/// more can be done; a step's failure is in the report, its siblings go on.
Report execute(const Plan& plan, const Desired& desired, const graph::Graph& graph,
               state::State& state, state::Store& store, Worlds& worlds, Runner& runner,
               const EventSink& events, const ExecuteOptions& options, std::stop_token stop);

}  // namespace rocca::engine
