// A create that ends in the middle: what is left of it is taken away if it is provably ours, and
// left alone if it is not.

#include "scenarios/engine_machines.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> guest_volumes(const ClusterRig& rig) {
  std::vector<std::string> all;
  for (const auto& [id, storage] : rig.home.dc.storages)
    for (const auto& [host, volumes] : storage.volumes)
      for (const auto& [name, volume] : volumes)
        if (volume.vmid) all.push_back(id + ":" + name);
  return all;
}

/// Volumes that no VM's configuration names.
std::vector<std::string> orphans(const ClusterRig& rig) {
  std::vector<std::string> all;
  for (const std::string& volume : guest_volumes(rig)) {
    bool named = false;
    for (const auto& [vmid, vm] : rig.home.dc.vms)
      for (const auto& [key, value] : vm.config)
        named = named || value.substr(0, value.find(',')) == volume;
    if (!named) all.push_back(volume);
  }
  return all;
}

/// `qm unlock` and `qm destroy`, by the administrator: what no configuration names stays.
void unlock_and_destroy(ClusterRig& rig) {
  std::erase_if(rig.home.dc.vms, [](const auto& vm) {
    const std::string* lock = vm.second.find("lock");
    return lock != nullptr && (*lock == "create" || *lock == "clone");
  });
}

/// The host loses its power while it copies the image of the first disk, for a minute.
engine::Report up_in_a_power_cut(ClusterRig& rig, const char* while_it = "qmcreate") {
  bool cut = false;
  rig.home.dc.task_fault = [&](const lab::pve::Node& node, const lab::pve::Task& task) {
    if (task.upid.type == while_it && !cut) {
      cut = true;
      const std::string host = node.name;
      rig.home.world.after(1s, [&rig, host] { rig.home.dc.set_online(host, false); });
      rig.home.world.after(1min, [&rig, host] { rig.home.dc.set_online(host, true); });
    }
    return std::optional<lab::pve::TaskFault>{};
  };
  engine::Report report = rig.up();
  EXPECT_TRUE(cut);
  rig.home.dc.task_fault = nullptr;
  rig.home.world.run_for(2min);
  return report;
}

class DeadCreate : public testing::TestWithParam<bool> {
 protected:
  static lab::Home::Options options() {
    lab::Home::Options options;
    options.release = GetParam() ? lab::pve::Release::v9() : lab::pve::Release::v8_4();
    return options;
  }
  ClusterRig rig{options()};
};
INSTANTIATE_TEST_SUITE_P(On, DeadCreate, testing::Bool(), [](const auto& release) {
  return std::string(release.param ? "Nine" : "Eight");
});

TEST_P(DeadCreate, LeavesALockThatOnlyRootTakesAway) {
  rig.write_spec(static_spec(pools(1, 1)));
  EXPECT_FALSE(up_in_a_power_cut(rig).ok());
  const engine::Report again = rig.up();
  EXPECT_FALSE(again.ok());
  EXPECT_THAT(problems(again), HasSubstr("has the lock `create`, and no task works on it"));
  EXPECT_THAT(problems(again), HasSubstr("qm unlock 100"));
}

TEST_P(DeadCreate, LeavesVolumesThatTheNextUpTakesAway) {
  rig.write_spec(static_spec(pools(1, 1)));
  EXPECT_FALSE(up_in_a_power_cut(rig).ok());
  unlock_and_destroy(rig);
  ASSERT_THAT(orphans(rig), testing::Contains("local-lvm:vm-100-cloudinit"));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(orphans(rig), IsEmpty());
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(DeadCreate, LeavesVolumesThatAreFoundWithoutAState) {
  rig.write_spec(static_spec(pools(1, 1)));
  EXPECT_FALSE(up_in_a_power_cut(rig).ok());
  unlock_and_destroy(rig);
  rig.lose_state();
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(orphans(rig), IsEmpty());
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(DeadCreate, LeavesNothingAfterDown) {
  rig.write_spec(static_spec(pools(1, 1)));
  EXPECT_FALSE(up_in_a_power_cut(rig).ok());
  const engine::Report locked = rig.down();
  EXPECT_FALSE(locked.ok());
  EXPECT_THAT(problems(locked), HasSubstr("qm unlock 100"));
  unlock_and_destroy(rig);
  ASSERT_THAT(orphans(rig), Not(IsEmpty()));
  const engine::Report report = rig.down();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  EXPECT_THAT(guest_volumes(rig), IsEmpty());
}

TEST_P(DeadCreate, IsTidiedUpByTwoRunsAsByOne) {
  rig.write_spec(static_spec(pools(1, 0)));
  EXPECT_FALSE(up_in_a_power_cut(rig).ok());
  unlock_and_destroy(rig);
  arm(rig,
      "- request: { method: DELETE, path: /qemu }\n  times: 1\n  answer: 500\n  reason: \"not "
      "today\"\n");
  EXPECT_FALSE(rig.up().ok());
  ASSERT_EQ(rig.home.dc.vms.size(), 1u);
  EXPECT_THAT(*rig.home.dc.vms.at(100).find("smbios1"), HasSubstr("family="));
  EXPECT_THAT(orphans(rig), IsEmpty());
  // Without its memory it still knows what that VM is for.
  rig.lose_state();
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(orphans(rig), IsEmpty());
  EXPECT_EQ(rig.home.dc.vms.at(100).find("unused0"), nullptr);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(DeadClone, LeavesWhatTheNextUpTakesAway) {
  for (const bool with_state : {true, false}) {
    ClusterRig rig;
    make_template(rig);
    rig.write_spec(clones(pools(1, 0)));
    EXPECT_FALSE(up_in_a_power_cut(rig, "qmclone").ok());
    const engine::Report locked = rig.up();
    EXPECT_FALSE(locked.ok());
    EXPECT_THAT(problems(locked), HasSubstr("has the lock `clone`, and no task works on it"));
    unlock_and_destroy(rig);
    ASSERT_THAT(orphans(rig), Not(IsEmpty()));
    if (!with_state) rig.lose_state();
    converges(rig, 2);
    EXPECT_THAT(orphans(rig), IsEmpty());
  }
}

TEST(DeadClone, LeavesNothingAfterDown) {
  ClusterRig rig;
  make_template(rig);
  rig.write_spec(clones(pools(1, 0)));
  const auto before = guest_volumes(rig);
  EXPECT_FALSE(up_in_a_power_cut(rig, "qmclone").ok());
  unlock_and_destroy(rig);
  ASSERT_THAT(orphans(rig), Not(IsEmpty()));
  const engine::Report report = rig.down();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(guest_volumes(rig), before) << "the template keeps its own";
}

TEST(ForeignVolumes, WithOurIdAreLeftAlone) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  lab::pve::Volume volume;
  volume.name = "vm-100-cloudinit";
  volume.content = "images";
  volume.format = "raw";
  volume.vmid = 100;
  volume.size = volume.used = 4u << 20;
  volume.ctime = rig.home.world.unix_time() - 3600;
  rig.home.dc.storages.at("local-lvm").on("pve1")[volume.name] = volume;
  for (int i = 0; i < 2; ++i) {
    const engine::Report report = rig.up();
    EXPECT_FALSE(report.ok());
    EXPECT_THAT(problems(report), HasSubstr("already exists"));
    EXPECT_THAT(problems(report), HasSubstr("nothing proves that it was ours"));
    EXPECT_THAT(guest_volumes(rig), testing::ElementsAre("local-lvm:vm-100-cloudinit"));
  }
  EXPECT_TRUE(rig.down().ok());
  EXPECT_THAT(guest_volumes(rig), testing::ElementsAre("local-lvm:vm-100-cloudinit"));
}

TEST(FailedCreate, GivesItsIdBackAndTheNextUpConverges) {
  for (const char* when : {"", "  afterwards: true\n"}) {
    ClusterRig rig;
    rig.write_spec(static_spec(pools(1, 1)));
    arm(rig, fmt::format("- task: {{ type: qmcreate, id: \"101\" }}\n  times: 1\n  fail: \"command "
                         "failed: exit code 1\"\n{}",
                         when));
    EXPECT_FALSE(rig.up().ok());
    const engine::Report report = rig.up();
    EXPECT_TRUE(report.ok()) << when << problems(report);
    EXPECT_EQ(rig.home.dc.vms.size(), 2u);
    EXPECT_THAT(orphans(rig), IsEmpty());
    EXPECT_THAT(differences(rig.plan()), IsEmpty());
  }
}

}  // namespace
}  // namespace rocca::scenarios
