#pragma once

#include "state/store.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rocca::state::test {

using namespace std::chrono_literals;

inline State fresh(std::string lineage = "6f1c") {
  State state;
  state.lineage = std::move(lineage);
  state.cluster = "blue";
  state.cluster_id = "id-of-blue";
  return state;
}

inline Record settled(std::string name, std::string vmid) {
  Record record;
  record.kind = Record::Kind::Settled;
  record.name = std::move(name);
  record.item.facts = {{"vmid", std::move(vmid)}, {"host", "atlas"}};
  record.item.applied = "sha256:0123456789abcdef";
  record.item.needs = {"image/talos"};
  record.at = Instant{1'750'000'000s};
  return record;
}

inline Record note(std::string key, std::string value) {
  Record record;
  record.kind = Record::Kind::Note;
  record.name = std::move(key);
  record.value = std::move(value);
  return record;
}

/// A life of a state: made, continued, folded, continued, taken away. `done` counts what was
/// acknowledged.
inline void live(Store& store, const Holder& who, int& done) {
  const auto lock = store.lock(who);
  store.load();
  ++done;
  store.replace(fresh());
  ++done;
  store.append(std::vector{note("a", "1")});
  ++done;
  store.append(std::vector{note("b", "1"), note("c", "1"), note("d", "1")});
  ++done;
  State folded = fresh();
  for (const char* key : {"a", "b", "c", "d"}) folded.notes[key] = "2";
  store.replace(folded);
  ++done;
  store.append(std::vector{note("a", "3")});
  ++done;
  store.clear();
  ++done;
}

/// What may be found when `done` acts were acknowledged and the next was cut: its before, its
/// after, or some of its records.
inline std::vector<std::optional<Fields>> possible(int done) {
  const Fields none;
  const Fields a{{"a", "1"}};
  const Fields b{{"a", "1"}, {"b", "1"}};
  const Fields c{{"a", "1"}, {"b", "1"}, {"c", "1"}};
  const Fields d{{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "1"}};
  const Fields folded{{"a", "2"}, {"b", "2"}, {"c", "2"}, {"d", "2"}};
  const Fields last{{"a", "3"}, {"b", "2"}, {"c", "2"}, {"d", "2"}};
  switch (done) {
    case 0:
      return {std::nullopt};
    case 1:
      return {std::nullopt, none};
    case 2:
      return {none, a};
    case 3:
      return {a, b, c, d};
    case 4:
      return {d, folded};
    case 5:
      return {folded, last};
    case 6:
      return {last, std::nullopt};
    default:
      return {std::nullopt};
  }
}

}  // namespace rocca::state::test
