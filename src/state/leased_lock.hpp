#pragma once

#include "base/clock.hpp"
#include "state/store.hpp"

#include <memory>
#include <optional>
#include <string>

namespace rocca::state {

/// A place that can hold the name of one holder, written only over what was seen there.
class LockCell {
 public:
  virtual ~LockCell() = default;
  struct Seen {
    std::optional<Holder> holder;  // nothing: free
    std::string tag;               // of what was seen; empty: not even the cell is there
  };
  virtual Seen read() = 0;
  /// A holder, or nothing (given back), over what was seen. Returns the new tag; nothing when the
  /// cell holds something else by now.
  virtual std::optional<std::string> write(const std::optional<Holder>& holder,
                                           const Seen& over) = 0;
  /// By the clock that all takers share.
  virtual Instant now() const = 0;
};

/// A lock that expires unless it is renewed, kept in a cell. Taking over is one write over what was
/// seen, so that of many takers one wins.
class LeasedLocks {
 public:
  /// `described`: for messages, "the state in s3://bucket/key".
  LeasedLocks(std::shared_ptr<LockCell> cell, std::string described);

  std::unique_ptr<Lock> take(const Holder& holder, bool force);
  std::optional<Holder> holder();
  /// Throws when it is not held. One whose time is over is renewed first: who slept past it must
  /// find out whether somebody took it.
  void need();

  /// How long after its end a lock is still left alone: clocks are read in whole seconds.
  static constexpr Duration grace = std::chrono::seconds{3};
  static constexpr Duration default_lease = std::chrono::seconds{60};

 private:
  class Held;
  std::shared_ptr<LockCell> cell_;
  std::string described_;
  std::weak_ptr<Held> held_;
};

}  // namespace rocca::state
