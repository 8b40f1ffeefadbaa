#pragma once

#include "base/error.hpp"
#include "state/store.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace rocca::state {

/// A holder as JSON, for a lock that keeps its holder's name in a text.
std::string to_text(const Holder& holder);
/// Nothing for text that is none: a lock whose holder cannot be read is still held by somebody.
std::optional<Holder> parse_holder(std::string_view text);

/// `user@machine (up)`, or that nothing is known of it.
std::string name_of(const Holder& holder);

/// Error(Locked) for whoever finds it held. `way_on` is the hint.
Error locked_by(const std::string& store, const Holder& holder, const std::string& way_on);
/// Error(Locked) for the one who held it: nothing more may be written or done.
Error taken_over(const std::string& store, const std::optional<Holder>& by);

}  // namespace rocca::state
