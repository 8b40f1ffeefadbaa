#include "platform/proxmox/vm_obstacle.hpp"

#include "base/error.hpp"
#include "platform/survey.hpp"
#include "platform/world.hpp"
#include "proxmox/client.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

bool is_on(const std::string& value) {
  return !value.empty() && value != "0";
}

}  // namespace

VmDemands VmDemands::of(const engine::Change& change, bool running) {
  VmDemands demands;
  demands.destroys =
      change.action == engine::Action::Replace || change.action == engine::Action::Destroy;
  for (const engine::FieldChange& field : change.fields) {
    if (running && field.effect >= engine::Effect::PowerCycle &&
        field.effect != engine::Effect::DataLoss)
      demands.switches_off = true;
    if (proxmox::is_drive(field.field) && !field.before.empty() && field.after.empty())
      demands.removes_disk = true;
  }
  demands.switches_off = demands.switches_off || (running && demands.destroys);
  return demands;
}

std::optional<Obstacle> find_obstacle(const VmDemands& demands, const proxmox::VmRow& row,
                                      const proxmox::VmConfig& config) {
  if ((demands.destroys || demands.removes_disk) && is_on(config.value_or("protection", "")))
    return Obstacle{fmt::format("{} has `protection: 1`, and Proxmox refuses to remove {}",
                                describe(row), demands.destroys ? "it" : "a disk of it"),
                    fmt::format("if it may go: `qm set {} --protection 0` on {} (or Options > "
                                "Protection in the web interface), then run rocca again",
                                row.vmid, row.node)};
  const bool ha_is_stuck =
      row.ha_state == "error" || row.ha_state == "fence" || row.ha_state == "recovery";
  if ((demands.destroys || demands.switches_off) && ha_is_stuck)
    return Obstacle{
        fmt::format("HA has {} in the state `{}`, and carries out no request to stop or start it",
                    describe(row), row.ha_state),
        row.ha_state == "error"
            ? fmt::format("fix the cause (`ha-manager status` on {}), then `ha-manager set vm:{} "
                          "--state disabled` and `--state started`; or take it out of HA: "
                          "`ha-manager remove vm:{}`",
                          row.node, row.vmid, row.vmid)
            : "HA is moving it away from a failed host: wait until it is done, then run rocca "
              "again"};
  return std::nullopt;
}

void refuse_obstacle(const VmDemands& demands, const proxmox::VmRow& row,
                     const proxmox::VmConfig& config) {
  if (const auto obstacle = find_obstacle(demands, row, config))
    throw Error(Fault::Refused, obstacle->reason).hint(obstacle->hint);
}

Obstacle dead_lock(World& world, const proxmox::VmRow& row, const std::string& lock) {
  const std::string path = "/nodes/" + row.node;
  const proxmox::Permissions rights = world.proxmox().permissions(path);
  const auto ours = rights.find(path);
  const bool sees =
      ours != rights.end() && std::count(ours->second.begin(), ours->second.end(), "Sys.Audit") > 0;
  return {sees ? fmt::format("{} is locked ({}), and no task holds it", describe(row), lock)
               : fmt::format("{} is locked ({}), and by which task cannot be seen: this token has "
                             "no Sys.Audit on {}",
                             describe(row), lock, path),
          fmt::format("{}`qm unlock {}` on {} as root (no token may), then run rocca again",
                      sees ? "" : "if no task is at work on it: ", row.vmid, row.node)};
}

}  // namespace rocca::resources
