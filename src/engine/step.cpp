#include "engine/step.hpp"

#include "engine/records.hpp"

#include <fmt/format.h>

namespace rocca::engine {

namespace {

constexpr unsigned most_repeats = 2;  // of an act that was completed and changed nothing
constexpr unsigned most_acts = 64;

const char* doing(Action action) {
  switch (action) {
    case Action::None:
      return "reading";
    case Action::Create:
      return "creating";
    case Action::Update:
      return "updating";
    case Action::Replace:
      return "replacing";
    case Action::Destroy:
      return "destroying";
  }
  return "reading";
}

std::optional<Error> no_progress(Step& step) {
  if (step.change.waits) return std::nullopt;  // bounded by its patience
  step.repeats = step.completed == step.change ? step.repeats + 1 : 0;
  if (step.repeats < most_repeats && step.acts - step.waits < most_acts) return std::nullopt;
  const Change& change = step.change;
  if (change.fields.empty())
    return Error(Fault::Rejected, fmt::format("'{}' ends well and has no effect: {}",
                                              to_string(change.action), change.reason));
  const FieldChange& field = change.fields.front();
  return Error(Fault::Rejected, fmt::format("'{}' does not stay: it was set to '{}' and is '{}'",
                                            field.field, field.after, field.before))
      .hint("somebody else may be changing it: `rocca drift` names who");
}

}  // namespace

std::optional<Error> refuse(Step& step, const EffectPolicy& policy) {
  const Change& change = step.change;
  if (!change.refusal.empty()) {
    Error error(Fault::Refused, change.refusal);
    if (!change.hint.empty()) error.hint(change.hint);
    return error;
  }
  // A restart of what this run has just made is part of making it.
  const bool harmless = step.made && change.effect < Effect::Replace;
  if (change.effect > step.bound && !harmless)
    return Error(Fault::Refused,
                 fmt::format("the world changed since the plan: to {} {} ({}) would now cost {}, "
                             "and {} was planned",
                             to_string(change.action), step.address, change.reason,
                             to_string(change.effect), to_string(step.bound)))
        .hint("look at a new `rocca plan`, and run `rocca up` again");
  if (change.effect != Effect::None && !harmless) {
    const Verdict verdict = may_run(change.effect, policy, change.confirmed);
    if (!verdict.allowed) return Error(Fault::Refused, verdict.reason);
  }
  return no_progress(step);
}

std::string describe(const Step& step) {
  const std::string place = step.resource->place();
  return fmt::format("{} {}{}", doing(step.action), step.address,
                     place.empty() ? "" : " (" + place + ")");
}

state::Record begun(const Step& step, const std::string& receipt, Instant now) {
  state::Record record;
  record.kind = state::Record::Kind::Begun;
  record.name = step.address;
  record.at = now;
  record.item.receipt = receipt;
  if (!step.leftover) record.item.needs = step.resource->needs();
  return record;
}

std::vector<state::Record> announcement_of(const Step& step, Instant now) {
  std::vector<state::Record> records{begun(step, unknown_receipt, now)};
  records.front().item.facts = step.resource->announced(step.change);
  for (const auto& [name, value] : step.resource->announced_notes(step.change))
    records.push_back(note_of(name, value, now));
  return records;
}

std::vector<state::Record> records_of(const Step& step, const state::State& state, Duration took,
                                      Instant now) {
  std::vector<state::Record> records;
  const auto known = state.items.find(step.address);
  state::Record record;
  record.name = step.address;
  record.at = now;
  if (!step.live) {
    record.kind = state::Record::Kind::Gone;
    if (known != state.items.end() || step.acts > 0) records.push_back(record);
    for (const std::string& name : step.resource->forgotten_notes())
      if (state.notes.contains(name)) records.push_back(note_of(name, "", now));
  } else {
    record.kind = state::Record::Kind::Settled;
    record.item = settled_item(*step.resource, *step.live, now);
    if (step.acts > 0 || known == state.items.end() || !same_but_time(record.item, known->second))
      records.push_back(record);
    for (state::Record& more : step.resource->remembers(*step.live)) {
      more.at = now;
      if (!is_known(state, more)) records.push_back(std::move(more));
    }
  }
  if (step.first_act) {
    state::Record duration;
    duration.kind = state::Record::Kind::Took;
    duration.name = kind_of(step.address) + "/" + to_string(step.action);
    duration.took = took;
    duration.at = now;
    records.push_back(std::move(duration));
  }
  return records;
}

}  // namespace rocca::engine
