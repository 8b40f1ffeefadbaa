#pragma once

#include "lab/chaos.hpp"
#include "lab/faults.hpp"
#include "scenarios/engine_rig.hpp"
#include "seeds/dice.hpp"
#include "seeds/life.hpp"

#include <functional>
#include <memory>
#include <string>

namespace rocca::seeds {

/// What goes wrong in a data centre while somebody works with it: answers that are lost, hosts that
/// say 500, 595 and 596, tasks that fail, storages that fill up, hosts that go and come back.
class Weather {
 public:
  Weather(scenarios::ClusterRig& rig, Dice dice, Counts& counts)
      : rig_(rig), dice_(std::move(dice)), counts_(counts) {}

  bool dhcp = false;  // leases change

  /// From now on chance is another.
  void reroll(Dice dice) { dice_ = std::move(dice); }

  /// From now on, for somebody who makes or removes things; in words, for the log.
  std::string worsen(bool makes);
  /// The sky is clear: hosts are up, storages have room, nobody loses anything.
  void clear();
  /// The way to everybody.
  net::Transport& door() {
    if (chaos_) return *chaos_;
    return rig_.wire;
  }

 private:
  std::string bad_requests(bool makes);
  std::string bad_tasks(bool makes);
  std::string full_storage();
  std::string lost_host();
  std::string bad_wires();
  std::string changed_lease();
  void later(Duration delay, std::function<void()> what);
  void count_strikes();

  scenarios::ClusterRig& rig_;
  Dice dice_;
  std::string rules_;
  std::shared_ptr<lab::Chaos> chaos_;
  Counts& counts_;
  std::uint64_t storm_ = 0;  // what was begun in an earlier one does not happen any more
};

}  // namespace rocca::seeds
