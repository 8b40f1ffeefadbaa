#pragma once

#include <span>
#include <string_view>

namespace rocca::spec {

/// What changing a key of the spec costs a cluster that runs.
struct KeyEffect {
  std::string_view path;  // as in the table of fields; holds for all keys below it
  /// An effect class, or: `none` (nothing outside of rocca changes), `refused`, `varies` (the note
  /// says on what).
  std::string_view effect;
  std::string_view note = {};
};

/// There is no row for the whole spec: a new key needs a row of its own.
std::span<const KeyEffect> key_effects();
/// The row with the longest path that fits; nullptr: the key has none.
const KeyEffect* find_key_effect(std::string_view path);

}  // namespace rocca::spec
