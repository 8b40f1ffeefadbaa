#pragma once

#include "base/uuid.hpp"
#include "platform/resource_base.hpp"
#include "platform/world.hpp"
#include "talos/waits.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

/// Where a node answers now.
struct Whereabouts {
  std::string address;  // empty: not known yet
  std::string told;     // what is waited for then
  Duration ask_again = std::chrono::seconds{5};
};

/// How much of the subnet is asked: a glance asks a few addresses, a search all of them. A search
/// throws engine::Unfinished after each part, and goes on when it is called again.
enum class Effort { Glance, Search };

/// The address that the spec gives; with DHCP the one that was found last, as long as the machine
/// that answers there is the one we mean, and else what the VM's guest agent says, the neighbours
/// that this machine knows by their hardware addresses, and at last whoever answers in the subnet,
/// known by the hardware UUID.
Whereabouts whereabouts(World& world, const std::string& node, const Uuid& uuid,
                        Effort effort = Effort::Glance);

/// Where the VM of a node that the spec does not name is, by its guest agent or by the neighbours
/// of this machine. `vm` are its facts. Nothing: nobody tells.
std::optional<std::string> address_of_vm(World& world, const Fields& vm, const Uuid& uuid);

/// A worker with another lease shows a certificate for the one before until a control plane has
/// signed another, which it may not find until its configuration says where. Our authority has
/// signed it for the node's name as well: where `seen` is Foreign the node is asked by its name,
/// and from then on always.
talos::Sight look_by_name(World& world, const std::string& address, const std::string& host_name,
                          talos::Sight seen);

/// The wait for a machine that was started to answer; `Survey` has it from the start on.
std::string boot_of(const std::string& node);
/// Firmware and kernel alone take longer.
constexpr Duration boots_at_least = std::chrono::seconds{5};

/// A look at a node that is waited for.
struct Glance {
  talos::Sight sight;
  bool at_home = false;  // whatever it says, somebody says it: its network is up
};
Glance glance(World& world, const std::string& address,
              talos::Detail detail = talos::Detail::Services);

/// A wait that is over as soon as the node reports that this has changed. It costs a connection
/// while it lasts, so it is for the few nodes that all others wait for.
enum class Told { Etcd, Stage };
NotYet until_told(std::string waiting_for, std::string address, Told what);

/// Why a node could never be found: it has no address, no guest agent, and no subnet that can be
/// searched. Empty: it can.
std::string cannot_be_found(const spec::Spec& spec, const spec::Node& node);

}  // namespace rocca::resources
