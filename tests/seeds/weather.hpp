#pragma once

#include "lab/sim/chaos.hpp"
#include "lab/sim/faults.hpp"
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
  Weather(scenarios::ClusterRig& rig, Dice dice, Dice of_etcd, Counts& counts)
      : rig_(rig), dice_(std::move(dice)), etcd_dice_(std::move(of_etcd)), counts_(counts) {}

  bool dhcp = false;  // leases change
  bool etcd = false;  // leaders of etcd change, and members restart
  /// A member of etcd is restarting, or was a moment ago.
  bool is_etcd_restless() const { return rig_.home.world.now() < restless_until_; }

  /// From now on chance is another.
  void reroll(Dice dice, Dice of_etcd) {
    dice_ = std::move(dice);
    etcd_dice_ = std::move(of_etcd);
  }

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
  std::string restless_etcd();
  void later(Duration delay, std::function<void()> what);
  void count_strikes();

  scenarios::ClusterRig& rig_;
  Dice dice_;
  Dice etcd_dice_;  // of its own: without it all other draws are the same
  Instant restless_until_{};
  std::string rules_;
  std::shared_ptr<lab::Chaos> chaos_;
  Counts& counts_;
  std::uint64_t storm_ = 0;  // what was begun in an earlier one does not happen any more
};

}  // namespace rocca::seeds
