#pragma once

#include "base/error.hpp"

namespace rocca {

/// The one retry policy: whether the same request may succeed when it is sent again later. Busy,
/// Unreachable and Lost. After Lost the caller reads before it writes again. A Timeout is final:
/// the wait that ended did the repeating.
bool may_retry(Fault fault) noexcept;

/// Whether no answer came at all: Unreachable, Lost, Timeout.
bool is_silence(Fault fault) noexcept;

/// Whether the cause lies outside of rocca, in another system, the network or a file it does not
/// own. Usage, Refused, Locked, Interrupted and Bug do not: they say that the command itself must
/// stop, and a caller that goes on without an answer must let them through.
bool is_external(Fault fault) noexcept;

}  // namespace rocca
