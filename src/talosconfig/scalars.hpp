#pragma once

#include "talosconfig/schema.hpp"
#include "text/value.hpp"

#include <string>

namespace rocca::talos {

/// A scalar as Talos holds it, or why it is none.
struct ReadScalar {
  text::Value value;    // null: as good as absent
  std::string refusal;  // empty: it is right
};

/// Reads a scalar of the given shape (no List, Map, Struct or Any). The refusal names types, never
/// the value.
ReadScalar read_scalar(const Type& type, const text::Value& value);
/// Is it what Go's zero of that type is?
bool is_zero(const Type& type, const text::Value& value);
/// What is written for an absent field that is always written.
text::Value zero_of(const Type& type);

}  // namespace rocca::talos
