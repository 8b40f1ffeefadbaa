// The life of a cluster on the lab, in virtual time: up, an empty second plan, more nodes, fewer,
// down, and up again.

#include "scenarios/engine_rig.hpp"

namespace rocca::scenarios {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class EngineUp : public testing::TestWithParam<lab::pve::Release> {
 protected:
  static lab::Home::Options home() {
    lab::Home::Options options;
    options.release = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(On, EngineUp,
                         testing::Values(lab::pve::Release::v8_4(), lab::pve::Release::v9()),
                         [](const auto& one) { return one.index == 0 ? "pve8" : "pve9"; });

TEST_P(EngineUp, RaisesThreeControlPlanesAndTwoWorkers) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(three_and_two));
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_LE(rig.wire.peak_in_flight("pve/pve1"), 3u) << "its API has three workers";
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
  std::size_t members = 0;
  for (const lab::Truth& truth : rig.home.estate.truths()) {
    EXPECT_EQ(truth.stage, lab::talos::Stage::Running) << truth.hostname;
    members += truth.etcd_member;
  }
  EXPECT_EQ(members, 3u);
  EXPECT_EQ(rig.files.status("/clusters/blue/configs/kubeconfig")->mode, 0600u);
  EXPECT_EQ(rig.files.status("/clusters/blue/configs/talosconfig")->mode, 0600u);
  // Then a second look finds nothing to do.
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(EngineUp, AddsOneWorkerAndTouchesNothingElse) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(three_and_two));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(static_spec(pools(3, 3)));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(report.changed(),
              UnorderedElementsAre("vm/worker-3", "machine/worker-3", "member/worker-3"));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(EngineUp, AWorkerThatWasOffGetsWhatItLacksInOneRun) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.estate.crash(101);
  rig.home.world.run_for(std::chrono::seconds{30});
  // What restarts its kubelet cannot be seen while it is off.
  rig.write_spec(replace_all(
      static_spec(pools(1, 1)), "extensions: [qemu-guest-agent]",
      "extensions: [qemu-guest-agent], patches: { worker: [ { machine: { kubelet: { extraArgs: { "
      "max-pods: \"200\" } } } } ] }"));
  EXPECT_THAT(differences(rig.plan()),
              Contains(AllOf(HasSubstr("machine/worker-1: it does not answer"),
                             HasSubstr("what its configuration lacks shows when it does"))));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(rig.home.estate.truth(101).config, HasSubstr("max-pods"));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(EngineUp, GoesFromOneControlPlaneToThree) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(pools(1, 1)));
  const engine::Report first = rig.up();
  ASSERT_TRUE(first.ok()) << problems(first);
  rig.write_spec(static_spec(pools(3, 1)));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(report.changed(),
              UnorderedElementsAre("vm/cp-2", "machine/cp-2", "member/cp-2", "vm/cp-3",
                                   "machine/cp-3", "member/cp-3", "access/blue"))
      << "cp-1 and worker-1 are not touched";
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
  std::size_t members = 0;
  for (const lab::Truth& truth : rig.home.estate.truths()) members += truth.etcd_member;
  EXPECT_EQ(members, 3u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(EngineUp, TakesAWorkerAwayOnlyWhenDataLossIsAllowed) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(three_and_two));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(static_spec(pools(3, 1)));
  const std::string refusal = refused([&] { rig.up(); });
  EXPECT_THAT(refusal, HasSubstr("--allow data-loss"));
  EXPECT_EQ(rig.home.dc.vms.size(), 5u);
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), 4u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(EngineUp, RefusesToTakeAControlPlaneAway) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(three_and_two));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(static_spec(pools(1, 2)));
  EXPECT_THAT(refused([&] { rig.up(allow_data_loss()); }),
              HasSubstr("cp-3 is a control plane, and etcd counts on it"));
  EXPECT_EQ(rig.home.dc.vms.size(), 5u);
}

TEST_P(EngineUp, RefusesToTakeAControlPlaneAwayThatNobodyRemembers) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(three_and_two));
  ASSERT_TRUE(rig.up().ok());
  rig.lose_state();
  rig.files.remove("/clusters/blue/rocca.lock");
  rig.write_spec(static_spec(pools(1, 2)));
  EXPECT_THAT(refused([&] { rig.up(allow_data_loss()); }),
              AllOf(HasSubstr("cp-2 is a control plane, and etcd counts on it"),
                    HasSubstr("cp-3 is a control plane, and etcd counts on it")));
  // Nor its machine alone.
  resources::RunOptions options = allow_data_loss();
  options.targets = {"machine/cp-3"};
  EXPECT_THAT(refused([&] { rig.up(options); }), HasSubstr("cp-3 is a control plane"));
  EXPECT_EQ(rig.home.dc.vms.size(), 5u);
}

TEST_P(EngineUp, TakesNobodyAwayWhoseRoleNothingTells) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  rig.lose_state();
  rig.write_spec(static_spec(pools(1, 1)));
  const std::string notes = *rig.home.dc.vms.at(102).find("description");
  rig.home.dc.vms.at(102).config["description"] = "mine";
  EXPECT_THAT(refused([&] { rig.up(allow_data_loss()); }),
              AllOf(HasSubstr("worker-2 may be a control plane that etcd counts on"),
                    HasSubstr("put worker-2 back into the spec with its role")));
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
  // Its notes are as they were: a worker goes.
  rig.home.dc.vms.at(102).config["description"] = notes;
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(EngineUp, TheNotesOfAControlPlaneCannotMakeItAWorker) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.lose_state();
  rig.write_spec(static_spec(pools(1, 0)));
  for (const unsigned vmid : {101u, 102u}) {
    std::string& notes = rig.home.dc.vms.at(vmid).config["description"];
    notes = replace_all(notes, "Control plane", "Worker");
  }
  EXPECT_THAT(refused([&] { rig.up(allow_data_loss()); }),
              HasSubstr("cp-3 is a control plane, and etcd counts on it"));
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
}

TEST_P(EngineUp, DownAndUpAgainBringsTheSameIdsBack) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(three_and_two));
  ASSERT_TRUE(rig.up().ok());
  const auto before = identities(rig);
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  const engine::Report up = rig.up();
  EXPECT_TRUE(up.ok()) << problems(up);
  EXPECT_EQ(identities(rig), before);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 2u);
}

TEST_P(EngineUp, FindsItsOwnThingsWhenStateAndLockAreLost) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(three_and_two));
  ASSERT_TRUE(rig.up().ok());
  const auto before = identities(rig);
  rig.lose_state();
  rig.files.remove("/clusters/blue/rocca.lock");
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(report.changed(), IsEmpty());
  EXPECT_EQ(identities(rig), before);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
}

TEST_P(EngineUp, ChangesACoreCountByAPowerCycleOneAtATime) {
  ClusterRig rig{home()};
  rig.write_spec(static_spec(three_and_two));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(static_spec(R"(  pools:
    cp: { role: controlplane, count: 3, addresses: 10.0.1.11-10.0.1.15, machine: { cores: 6 } }
    worker: { count: 2, addresses: 10.0.1.21-10.0.1.40, machine: { memory: 8GiB, cores: 4 } }
)"));
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("--allow power-cycle"));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  // Whenever one goes off, etcd runs on the two others; and each does once.
  std::vector<unsigned> went_off;
  const auto on_power = rig.home.dc.on_power;
  rig.home.dc.on_power = [&](lab::pve::Vm& vm, bool running) {
    if (!running) {
      went_off.push_back(vm.id);
      for (const unsigned other : {100u, 101u, 102u}) {
        if (other == vm.id) continue;
        EXPECT_EQ(rig.home.dc.vms.at(other).power, lab::pve::Vm::Power::Running) << other;
        EXPECT_TRUE(rig.home.estate.truth(other).etcd_runs) << other;
      }
    }
    on_power(vm, running);
  };
  const engine::Report report = rig.up(options);
  rig.home.dc.on_power = on_power;
  EXPECT_THAT(went_off, UnorderedElementsAre(100u, 101u, 102u));
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  std::size_t members = 0;
  for (const lab::Truth& truth : rig.home.estate.truths()) members += truth.etcd_runs;
  EXPECT_EQ(members, 3u);
}

}  // namespace
}  // namespace rocca::scenarios
