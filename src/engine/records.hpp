#pragma once

#include "engine/resource.hpp"

#include <string>

// How steps are written down; for plan and execute only.

namespace rocca::engine {

/// In the place of a receipt: an act was announced or its answer was lost; nobody knows whether it
/// arrived.
inline constexpr const char* unknown_receipt = "?";
/// In the place of a receipt: an act was begun that left nothing to ask after but the thing itself.
inline constexpr const char* bare_receipt = "!";

inline state::Item settled_item(const Resource& resource, const Live& live, Instant at) {
  state::Item item;
  item.facts = live.facts;
  item.applied = resource.wanted();
  item.needs = resource.needs();
  item.settled = at;
  return item;
}

/// An empty value removes the note.
inline state::Record note_of(const std::string& name, const std::string& value, Instant at) {
  state::Record record;
  record.kind = state::Record::Kind::Note;
  record.name = name;
  record.value = value;
  record.at = at;
  return record;
}

/// The same thing, settled and with no act in flight, whenever it did so.
inline bool same_but_time(const state::Item& a, const state::Item& b) {
  return a.facts == b.facts && a.applied == b.applied && a.needs == b.needs &&
         a.receipt == b.receipt && a.settled.has_value() == b.settled.has_value();
}

/// Would writing this down say anything new?
inline bool is_known(const state::State& state, const state::Record& record) {
  if (record.kind == state::Record::Kind::Bootstrapped) return state.bootstrapped.has_value();
  if (record.kind != state::Record::Kind::Note) return false;
  const auto note = state.notes.find(record.name);
  return note == state.notes.end() ? record.value.empty() : note->second == record.value;
}

}  // namespace rocca::engine
