#pragma once

#include "base/uuid.hpp"
#include "resources/world.hpp"

#include <string>

namespace rocca::resources {

/// Where a node answers now.
struct Whereabouts {
  std::string address;  // empty: not known yet
  std::string told;     // what is waited for then
};

/// The address that the spec gives; with DHCP the one that was found last, as long as the machine
/// that answers there is the one we mean, and else what the VM's guest agent says.
Whereabouts whereabouts(World& world, const std::string& node, const Uuid& uuid);

}  // namespace rocca::resources
