#pragma once

#include "text/value.hpp"

#include <string>

namespace rocca::factory {

/// The text that Go's YAML encoder writes with its defaults, byte for byte: an id is the hash of
/// it. Kept apart from text::emit_yaml, which may change its taste; this must not. Maps of the
/// fixed part keep their order, maps below `options` are sorted as Go sorts keys.
std::string emit_as_go(const text::Value& value);

}  // namespace rocca::factory
