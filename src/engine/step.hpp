#pragma once

#include "base/error.hpp"
#include "engine/resource.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::engine {

/// One step on its way: what its next call is, and what the last one brought.
struct Step {
  enum class Stage {
    OldReceipt,  // asks after an act of an earlier run
    Unknown,     // asks after an act that may never have arrived
    Read,
    Act,
    Probe,
    Explain,  // asks why it waits so long, or why it has failed
  };

  std::string address;
  const Resource* resource = nullptr;
  bool leftover = false;
  bool planned = false;
  bool unread = false;            // by the plan
  Action action = Action::None;   // for people: what was planned, or else the first that was done
  Effect bound = Effect::Live;    // the costliest that was agreed to
  Effect perhaps = Effect::None;  // of its plan, where not everything could be seen
  std::optional<Duration> estimate;
  std::optional<Error> refused;  // known before it begins

  Stage stage = Stage::Read;
  std::optional<Live> live;
  Change change;
  Receipt receipt;
  Progress progress;
  std::optional<Error> error;
  bool unfinished = false;  // its read goes on with the next call

  bool begun = false;
  bool ended = false;
  bool made = false;  // by this run: there is nobody yet whom it could disturb
  std::optional<Tick> first_act;
  std::optional<Tick> deadline;
  Duration patience{};
  /// The end of all waits in a row, those for an operation of an earlier run included.
  std::optional<Tick> waits_until;
  bool exhausted = false;  // an operation of an earlier run used up the patience
  std::string waiting_for;
  std::optional<Tick> waiting_since;  // for `waiting_for`
  std::optional<Tick> reminded;       // when its wait was last reported
  std::optional<Explanation> explanation;
  std::optional<Error> failure;       // reported after it was explained
  bool asked_why = false;             // during this wait
  Stage explained_at = Stage::Probe;  // where it goes on afterwards
  unsigned attempts = 0;              // of this call
  unsigned refusals = 0;              // acts in a row that were not even begun
  Effect cost = Effect::Live;
  unsigned lost = 0;
  std::optional<state::Fields> known{};  // facts that others went by until now
  unsigned acts = 0;
  unsigned waits = 0;               // of these, those that only waited
  bool joined = false;              // its next asking takes part in more lanes than its kind's own
  std::optional<Change> completed;  // the change of the last act that ended well
  unsigned repeats = 0;
};

/// The guards, once more before every act: the plan was made from an older look at the world. Also
/// refuses an act that was done without effect.
std::optional<Error> refuse(Step& step, const EffectPolicy& policy);

/// `creating vm/prod/cp-1 (cluster.yaml:18:5)`.
std::string describe(const Step& step);

/// What the journal is told when an act begins, and when the step has settled (nothing, if it knows
/// all that already).
state::Record begun(const Step& step, const std::string& receipt, Instant now);
/// Written before an operation that is announced (Resource::announces).
std::vector<state::Record> announcement_of(const Step& step, Instant now);
std::vector<state::Record> records_of(const Step& step, const state::State& state, Duration took,
                                      Instant now);

}  // namespace rocca::engine
