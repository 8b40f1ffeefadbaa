#pragma once

#include "base/clock.hpp"
#include "state/state.hpp"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rocca::state {

/// Who holds a cluster's lock, for the message of whoever finds it held.
struct Holder {
  std::string id;     // of this run, unique
  std::string who;    // user@machine, process id
  std::string doing;  // "up"
  Instant since{};
  Instant until{};  // after this, and if it was not renewed, another may take over. When locking,
                    // `until - since` says for how long, and a renewal is for as long again.

  friend bool operator==(const Holder&, const Holder&) = default;
};

/// Held while it lives; letting it die gives it back. A holder that is killed leaves it to expire
/// (the local one goes with the process at once).
class Lock {
 public:
  virtual ~Lock() = default;
  /// Still ours, for another while. Throws Error(Locked) when somebody took it over: then nothing
  /// more may be written or done.
  virtual void renew() = 0;
};

/// Where a cluster's state lives. The state as it was last written whole, and a journal of what
/// happened since; a backend that cannot append keeps the journal beside it in whatever way does
/// not rewrite the whole state per step. Every write is durable when it returns.
///
/// Writes need the lock, and are refused (Error(Conflict)) when the stored serial is not the one
/// this Store has seen: somebody else wrote. Error(Lost): the write may have happened; the Store
/// looks before its next one, so that the same records may simply be given again. One call at a
/// time; a Lock's renew() may run beside it.
class Store {
 public:
  virtual ~Store() = default;
  /// For messages: "the state in clusters/blue/.rocca".
  virtual std::string describe() const = 0;
  /// The state with its journal applied; nothing if there is none yet.
  virtual std::optional<State> load() = 0;
  /// Adds records to the journal, all or a prefix of them. One write however many they are. There
  /// must be a state to continue: a new cluster's first write is replace().
  virtual void append(std::span<const Record> records) = 0;
  /// Writes the whole state and empties the journal. The serial that is written is the Store's own,
  /// one more than the last; `state.serial` does not count. A state of another lineage than the
  /// stored one, or over one that was never loaded, is refused (Conflict).
  virtual void replace(const State& state) = 0;
  /// Forgets everything (after `down` has proved that nothing is left).
  virtual void clear() = 0;
  /// Error(Locked) names the holder and how to go on. An expired lock is taken over; `force` takes
  /// over a live one as well.
  virtual std::unique_ptr<Lock> lock(const Holder& holder, bool force = false) = 0;
  /// Who holds it now, for `status`.
  virtual std::optional<Holder> holder() = 0;
};

}  // namespace rocca::state
