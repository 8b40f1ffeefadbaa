#pragma once

#include "base/uuid.hpp"
#include "platform/kinds.hpp"
#include "platform/resource_base.hpp"
#include "platform/world.hpp"
#include "talos/waits.hpp"

#include <optional>
#include <string>
#include <string_view>

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
/// It answers, but its disks are being wiped.
bool is_resetting(const talos::Sight& sight);
/// A receipt of a reset of a machine that leaves.
bool is_reset_receipt(const Receipt& receipt);
constexpr std::string_view reset_receipt = "reset ";  // and where it was
/// Cordons it and tells it to reset itself.
Receipt send_away(World& world, const Leaver& leaver);
/// Until it is silent. One that hangs is not waited for for ever: its VM is proved and destroyed
/// all the same.
Progress await_silence(World& world, const Leaver& leaver);
/// It had its time, and is still there.
bool hangs(World& world, const Leaver& leaver);

/// What an interrupted removal or replacement of a node may have done. Each is noted in the state
/// before it is done, and the note stays until the node is gone, created again or healthy again.
struct BegunRemoval {
  bool cordon = false;
  bool reset = false;

  bool any() const { return cordon || reset; }
};
BegunRemoval find_begun_removal(const Ground& ground, const std::string& node);
/// Names of these notes.
std::string cordon_note(const std::string& node);
std::string reset_note(const std::string& node);
/// The value of a note: the operation was announced, and may have been carried out.
constexpr const char* announced_value = "announced";

}  // namespace rocca::resources
