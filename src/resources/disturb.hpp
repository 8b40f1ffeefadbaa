#pragma once

#include "resources/thing.hpp"
#include "talos/config_effects.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

/// Something is done to a control plane that it does not restart for, and that may yet cut it off
/// or end what runs there. It must be well again before the next one is touched.
struct Disturbance {
  std::string node;
  talos::Disturbance how = talos::Disturbance::None;
  std::string what;      // for people: what was changed
  std::string way_back;  // and how that is taken back

  // How it stood before.
  bool led = false;    // its etcd had a leader, and must have one again
  bool api = false;    // its API server answered, and must do so again
  bool begun = false;  // there is an etcd somewhere: it must at least answer
  std::string task{};  // of Proxmox, that does it

  /// As a receipt keeps it, and how long there is no sense in asking.
  std::string token() const;
  static std::optional<Disturbance> parse(const std::string& token);
  Duration settles() const;
};

/// Looks how the node at `where` stands (empty: nobody knows where it is). Throws Error(Busy) while
/// it may not be disturbed, because the others need it or are not well themselves. One that takes
/// part in nothing (it was cut off, its etcd has no leader) may be at any time: that is how it
/// comes back.
void before_disturbing(World& world, Disturbance& disturbance, const std::string& where);
/// Whether it is as well as it was. Throws when it does not get so: from then on no other control
/// plane is disturbed in this run.
Progress until_well_again(World& world, const Disturbance& disturbance, const std::string& where);

}  // namespace rocca::resources
