#pragma once

#include "base/uuid.hpp"
#include "platform/resource_base.hpp"
#include "platform/world.hpp"
#include "talos/waits.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

/// A node that leaves its cluster in order: nothing new is scheduled there, its disks are wiped,
/// and only then its VM or its Node goes.
struct Leaver {
  std::string node, host_name;
  std::string where;         // empty: nobody knows where it answers
  std::optional<Uuid> uuid;  // nothing: whoever has our certificate there is the one
  bool stays = false;        // the machine was there before us: it comes back in maintenance mode
  bool with_all = false;     // the whole cluster goes
};

/// Who answers there. Another machine of ours that has got its address since is Foreign.
talos::Sight look_at(World& world, const Leaver& leaver);
/// On its way already: it need not be told again.
bool is_leaving(const talos::Sight& sight);
/// Cordons it and tells it to reset itself.
Receipt send_away(World& world, const Leaver& leaver);
/// Until it is silent. One that hangs is not waited for for ever: its VM is proved and destroyed
/// all the same.
Progress await_silence(World& world, const Leaver& leaver);
/// It had its time, and is still there.
bool hangs(World& world, const Leaver& leaver);

}  // namespace rocca::resources
