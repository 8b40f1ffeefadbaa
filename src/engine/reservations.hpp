#pragma once

#include "base/clock.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace rocca::engine {

/// Ids that runs of this process have chosen for what does not exist yet (VMs), so that no two
/// clusters choose the same one. Nothing is known of other processes: an id may still turn out to
/// be taken. Safe from many threads.
class Reservations {
 public:
  using Ids = std::set<std::uint64_t>;
  class Holder;

  /// Ids stay reserved for `keep` after their last run has ended: another run may have listed what
  /// exists before that one created it, and a list of Proxmox is up to ten seconds old.
  explicit Reservations(const Clock& clock, Duration keep = std::chrono::minutes{2})
      : clock_(clock), keep_(keep) {}

 private:
  struct Reserved {
    std::string owner;
    std::optional<Tick> until;  // nothing: a run of its owner goes on
  };

  const Clock& clock_;
  const Duration keep_;
  std::mutex mutex_;
  std::map<std::uint64_t, Reserved> reserved_;
  std::map<std::string, unsigned> holders_;  // by owner: how many runs
};

/// The reservations of one run. All runs of one owner (a cluster) share theirs.
class Reservations::Holder {
 public:
  Holder(Reservations& all, std::string owner);
  ~Holder();
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  /// Chooses and reserves in one step: `choice` gets the ids of other owners and returns those that
  /// this owner uses from now on, in addition to what it has. It is called with the lock held, and
  /// must not do anything but choose.
  void reserve(const std::function<Ids(const Ids& of_others)>& choice);

 private:
  Reservations& all_;
  std::string owner_;
};

}  // namespace rocca::engine
