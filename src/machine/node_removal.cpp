#include "machine/node_removal.hpp"

#include "machine/node_object.hpp"
#include "platform/survey.hpp"

#include <fmt/format.h>

namespace rocca::resources {

using namespace std::chrono_literals;

talos::Sight look_at(World& world, const Leaver& leaver) {
  if (leaver.where.empty()) return {};
  talos::Sight sight = talos::look(world.transport, world.access(leaver.where), world.stop);
  if (sight.door != talos::Door::Ours || !leaver.uuid) return sight;
  const auto system = world.talos(leaver.where).find_system_information();
  if (!system || system->uuid != leaver.uuid) sight.door = talos::Door::Foreign;
  return sight;
}

std::string cordon_note(const std::string& node) {
  return fmt::format("removal/{}/cordon", node);
}

std::string reset_note(const std::string& node) {
  return fmt::format("removal/{}/reset", node);
}

BegunRemoval find_begun_removal(const Ground& ground, const std::string& node) {
  return {ground.prior.notes.contains(cordon_note(node)),
          ground.prior.notes.contains(reset_note(node))};
}

bool is_leaving(const talos::Sight& sight) {
  return sight.status && (sight.status->stage == talos::Stage::Resetting ||
                          sight.status->stage == talos::Stage::ShuttingDown);
}

bool is_resetting(const talos::Sight& sight) {
  return sight.door == talos::Door::Ours && sight.status &&
         sight.status->stage == talos::Stage::Resetting;
}

bool is_reset_receipt(const Receipt& receipt) {
  return receipt.token.starts_with(reset_receipt);
}

Receipt send_away(World& world, const Leaver& leaver) {
  if (!leaver.with_all && !leaver.host_name.empty()) cordon_node(world, leaver.host_name);
  talos::ResetOptions options;
  // With the whole cluster going, leaving etcd in order is neither possible nor needed.
  options.graceful = !leaver.with_all;
  // A machine that stays keeps Talos, and nobody need be there to switch it on again.
  options.reboot = leaver.stays;
  talos::Client client = world.talos(leaver.where);
  // Talos in a container has folders in their place, and refuses to wipe what it cannot find.
  if (leaver.stays && client.find_system_disk()) options.partitions = {"STATE", "EPHEMERAL"};
  client.reset(options);
  return {"reset", "reset"};
}

bool hangs(World& world, const Leaver& leaver) {
  return world.survey.waiting_since("reset of " + leaver.node) > 5min;
}

Progress await_silence(World& world, const Leaver& leaver) {
  const talos::Sight sight = look_at(world, leaver);
  if (sight.door != talos::Door::Ours || hangs(world, leaver)) return Ready{};
  return NotYet{fmt::format("{} to be reset (now {})", leaver.node,
                            sight.status ? to_string(sight.status->stage) : "unknown"),
                2s};
}

}  // namespace rocca::resources
