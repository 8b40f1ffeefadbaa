// Who made a change that left no task: the cluster log tells, to a token that may read it.

#include "scenarios/engine_machines.hpp"

namespace rocca::scenarios {
namespace {

std::string culprit_of(ClusterRig& rig, const std::string& field) {
  for (const resources::Drift& drift : rig.run()->drift())
    if (drift.address == "vm/cp-1" && drift.field == field) return drift.by;
  ADD_FAILURE() << field << " does not differ";
  return "";
}

TEST(EngineCulprit, OfAChangeWithoutATaskStandsInTheClusterLog) {
  for (const bool may_read : {true, false}) {
    SCOPED_TRACE(may_read);
    ClusterRig rig;
    rig.write_spec(static_spec(pools(1, 0)));
    ASSERT_TRUE(rig.up().ok());
    if (!may_read) rig.home.dc.access.roles["RoccaSee"].erase("Sys.Syslog");
    rig.home.world.run_for(std::chrono::minutes{1});
    test::Administrator client = root(rig);
    proxmox::VmUpdate change;
    change.set["name"] = "evil-name";
    client.update("pve1", 100, change);
    EXPECT_EQ(culprit_of(rig, "name"), may_read ? "root@pam!lab" : "");
  }
}

}  // namespace
}  // namespace rocca::scenarios
