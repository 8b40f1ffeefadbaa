#pragma once

#include "base/error.hpp"
#include "state/state.hpp"
#include "state/store.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace rocca::state::test {

inline State fresh() {
  State state;
  state.lineage = "6f1c";
  state.cluster = "blue";
  return state;
}

inline Holder run(const std::string& id) {
  return {id, id + "@machine", "up", Instant{std::chrono::seconds{1}},
          Instant{std::chrono::seconds{61}}};
}

inline Record note(std::string key, std::string value) {
  Record record;
  record.kind = Record::Kind::Note;
  record.name = std::move(key);
  record.value = std::move(value);
  return record;
}

template <class Body>
Error error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error came";
  return {Fault::Bug, ""};
}

}  // namespace rocca::state::test
