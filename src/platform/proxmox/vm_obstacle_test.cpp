#include "platform/proxmox/vm_obstacle.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

using engine::Action;
using engine::Change;
using engine::Effect;
using testing::HasSubstr;

proxmox::VmRow row_of(const std::string& ha_state) {
  proxmox::VmRow row;
  row.vmid = 300;
  row.node = "pve1";
  row.name = "blue-cp-1";
  row.ha_state = ha_state;
  return row;
}

TEST(VmObstacle, StandsInTheWayOfEveryDemandThatProxmoxRefuses) {
  const std::vector<std::string> ha_states{"",      "started", "stopped",  "disabled", "ignored",
                                           "error", "fence",   "recovery", "migrate"};
  unsigned refused = 0, all = 0;
  for (unsigned bits = 0; bits < 8; ++bits)
    for (const std::string protection : {"", "0", "1"})
      for (const std::string& ha : ha_states) {
        const VmDemands demands{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
        proxmox::VmConfig config;
        if (!protection.empty()) config.options["protection"] = protection;
        const bool by_protection = protection == "1" && (demands.destroys || demands.removes_disk);
        const bool stuck = ha == "error" || ha == "fence" || ha == "recovery";
        const bool by_ha = stuck && (demands.destroys || demands.switches_off);
        const auto obstacle = find_obstacle(demands, row_of(ha), config);
        SCOPED_TRACE(fmt::format("{} protection {} ha {}", bits, protection, ha));
        ++all;
        EXPECT_EQ(obstacle.has_value(), by_protection || by_ha);
        if (!obstacle) continue;
        ++refused;
        EXPECT_THAT(obstacle->reason, HasSubstr("VM 300 'blue-cp-1' on pve1"));
        EXPECT_FALSE(obstacle->hint.empty());
        if (by_protection) {
          EXPECT_THAT(obstacle->hint, HasSubstr("`qm set 300 --protection 0`"));
        }
      }
  EXPECT_EQ(all, 8u * 3 * 9);
  EXPECT_GT(refused, 40u);
}

TEST(VmObstacle, DemandsFollowFromTheChange) {
  const auto demands_of = [](Action action, const engine::FieldChange& field, bool running) {
    Change change;
    change.action = action;
    change.fields = {field};
    return VmDemands::of(change, running);
  };
  const VmDemands memory =
      demands_of(Action::Update, {"memory", "4096", "8192", Effect::PowerCycle}, true);
  EXPECT_TRUE(memory.switches_off);
  EXPECT_FALSE(memory.destroys);
  EXPECT_FALSE(memory.removes_disk);
  EXPECT_FALSE(demands_of(Action::Update, {"memory", "4096", "8192", Effect::PowerCycle}, false)
                   .switches_off);
  EXPECT_FALSE(demands_of(Action::Update, {"tags", "a", "b", Effect::Live}, true).switches_off);
  const VmDemands disk =
      demands_of(Action::Update, {"scsi1", "data:10G", "", Effect::DataLoss}, true);
  EXPECT_TRUE(disk.removes_disk);
  EXPECT_FALSE(disk.switches_off);
  const VmDemands replaced =
      demands_of(Action::Replace, {"bios", "seabios", "ovmf", Effect::Replace}, true);
  EXPECT_TRUE(replaced.destroys && replaced.switches_off);
}

}  // namespace
}  // namespace rocca::resources
