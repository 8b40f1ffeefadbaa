#pragma once

#include "text/value.hpp"

namespace rocca::text {

/// The value with each invalid byte of its texts and keys replaced by U+FFFD. Reports quote foreign
/// bytes, which neither JSON nor YAML can carry; emitting them as they are is an Error.
Value with_valid_text(Value value);

}  // namespace rocca::text
