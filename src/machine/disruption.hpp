#pragma once

#include "platform/resource_base.hpp"
#include "talosconfig/effects.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

/// Something is done to a node that may cut it off or end what runs there: to a control plane
/// without restarting it, to a worker also that. It must be well again before the next one is
/// touched.
struct Disturbance {
  std::string node;
  bool worker = false;
  bool restarts = false;  // then it is silent for longer
  talos::Disturbance how = talos::Disturbance::None;
  std::string what;      // for people: what was changed
  std::string way_back;  // and how that is taken back

  // How it stood before.
  bool led = false;       // its etcd had a leader, and must have one again
  bool api = false;       // its API server answered, and must do so again
  bool begun = false;     // there is an etcd somewhere: it must at least answer
  bool ran = false;       // of a worker: it was up, and its kubelet as well
  bool answered = false;  // of a worker: it was there, and is missed if it does not come back
  std::string task{};     // of Proxmox, that does it

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
/// What this run has begun to do to a node, until that is well again.
std::optional<Disturbance> find_disturbance(const World& world, const std::string& node);
/// Whether it is as well as it was. Throws when it does not get so: from then on no other node is
/// disturbed in this run.
Progress until_well_again(World& world, const Disturbance& disturbance, const std::string& where);
/// It is not well yet, because of `trouble`: throws once that lasts too long.
void miss(World& world, const Disturbance& disturbance, const std::string& trouble);
/// It is.
void is_well_again(World& world, const std::string& node);

}  // namespace rocca::resources
