#include "scenarios/engine_rig.hpp"

#include <algorithm>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;

/// Three hosts, a control plane on each, and workers.
class DeadHost : public testing::Test {
 protected:
  DeadHost() : rig(three()) {
    write(2);
    const engine::Report report = rig.up();
    EXPECT_TRUE(report.ok()) << problems(report);
  }

  static lab::Home::Options three() {
    lab::Home::Options options;
    options.hosts = {"pve1", "pve2", "pve3"};
    return options;
  }
  void write(unsigned workers) {
    rig.write_spec(static_spec(pools(3, workers), "[pve1, pve2, pve3]"));
  }
  void turn(const std::string& how, const std::string& host = "pve3") {
    arm(rig, "- { at: 0s, " + how + ": " + host + " }\n");
    rig.home.world.run_for(1min);
  }
  /// The names of the VMs on a host, as nodes.
  std::vector<std::string> nodes_on(const std::string& host) const {
    std::vector<std::string> names;
    for (const auto& [vmid, vm] : rig.home.dc.vms)
      if (vm.node == host) names.push_back(vm.find("name")->substr(5));
    return names;
  }
  std::vector<unsigned> ids() const {
    std::vector<unsigned> all;
    for (const auto& [vmid, vm] : rig.home.dc.vms) all.push_back(vmid);
    return all;
  }

  ClusterRig rig;
};

TEST_F(DeadHost, PlanTellsWhichNodeCannotBeReadAndOfTheRestAll) {
  turn("down");
  const engine::Plan plan = rig.plan();
  for (const std::string& node : nodes_on("pve3"))
    EXPECT_THAT(plan.failed, Contains(Pair("vm/" + node, HasSubstr("host pve3 is off"))));
  for (const char* host : {"pve1", "pve2"})
    for (const std::string& node : nodes_on(host))
      EXPECT_THAT(plan.failed, Not(Contains(Key("vm/" + node))));
  EXPECT_THAT(plan.summary.create, 0u) << testing::PrintToString(differences(plan));
  turn("up");
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_F(DeadHost, StatusShowsItsNodesWithTheReasonAndAsksTheOthers) {
  turn("down");
  const resources::ClusterStatus status = rig.run()->status();
  EXPECT_FALSE(status.healthy);
  EXPECT_THAT(status.unseen, IsEmpty());
  const std::vector<std::string> gone = nodes_on("pve3");
  for (const resources::NodeStatus& node : status.nodes) {
    const bool off = std::find(gone.begin(), gone.end(), node.name) != gone.end();
    EXPECT_EQ(node.power, off ? "unknown, host pve3 is off" : "running") << node.name;
    EXPECT_EQ(node.healthy, !off) << node.name << ": " << node.problem;
    EXPECT_EQ(node.machine.find("on pve3") != std::string::npos, off) << node.machine;
  }
  EXPECT_EQ(status.etcd, "2 members, 1 missing");
}

TEST_F(DeadHost, DriftTellsTheRest) {
  turn("down");
  arm(rig, "- { at: 0s, change: { vm: 100, by: anna@pam, set: { onboot: 0 } } }\n");
  rig.home.world.run_for(1min);
  std::vector<std::string> told;
  for (const resources::Drift& drift : rig.run()->drift())
    told.push_back(drift.address + " " + drift.field + " " + drift.unsure);
  EXPECT_THAT(told, Contains("vm/cp-1 onboot "));
  EXPECT_THAT(told, Contains(AllOf(HasSubstr("vm/cp-3 state"), HasSubstr("host pve3 is off"))));
}

TEST_F(DeadHost, IsAskedOnceInARun) {
  turn("down");
  const auto asked = [&] {
    std::size_t count = 0;
    for (const auto& [what, times] : rig.counting.counts)
      if (what.find("/nodes/pve3/") != std::string::npos) count += times;
    rig.counting.counts.clear();
    return count;
  };
  static_cast<void>(asked());
  static_cast<void>(rig.plan());
  EXPECT_EQ(asked(), 1u);
  write(3);
  EXPECT_FALSE(rig.up().ok());
  EXPECT_EQ(asked(), 1u);
  EXPECT_FALSE(rig.down().ok());
  EXPECT_EQ(asked(), 1u);
}

TEST_F(DeadHost, UpAddsAWorkerElsewhereAndNamesTheHost) {
  turn("down");
  const std::vector<unsigned> before = ids();
  write(3);
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), HasSubstr("host pve3 is off"));
  EXPECT_THAT(report.changed(),
              testing::IsSupersetOf({"vm/worker-3", "machine/worker-3", "member/worker-3"}))
      << problems(report);
  EXPECT_EQ(ids().size(), before.size() + 1) << "and no other";
  EXPECT_THAT(nodes_on("pve3"), Not(Contains("worker-3")));
  turn("up");
  converges(rig, 6);
}

TEST(DeadHostOfTheFirst, ControlPlaneKeepsNobodyFromJoining) {
  lab::Home::Options options;
  options.hosts = {"pve1", "pve2", "pve3"};
  ClusterRig rig{options};
  const auto spec = [](unsigned workers) {
    return static_spec(fmt::format(R"(  nodes:
    cp-1: {{ role: controlplane, address: 10.0.1.11, machine: {{ host: pve3 }} }}
    cp-2: {{ role: controlplane, address: 10.0.1.12, machine: {{ host: pve2 }} }}
    cp-3: {{ role: controlplane, address: 10.0.1.13, machine: {{ host: pve1 }} }}
  pools:
    worker: {{ count: {}, addresses: 10.0.1.21-10.0.1.29, machine: {{ host: pve1 }} }}
)",
                                   workers),
                       "[pve3, pve2, pve1]");
  };
  rig.write_spec(spec(1));
  ASSERT_TRUE(rig.up().ok());
  arm(rig, "- { at: 0s, down: pve3 }\n");
  rig.home.world.run_for(1min);
  rig.write_spec(spec(2));
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), HasSubstr("host pve3 is off"));
  EXPECT_THAT(report.changed(),
              testing::IsSupersetOf({"vm/worker-2", "machine/worker-2", "member/worker-2"}))
      << problems(report);
  arm(rig, "- { at: 0s, up: pve3 }\n");
  rig.home.world.run_for(1min);
  converges(rig, 5);
}

TEST_F(DeadHost, NoVmIsMadeASecondTimeWhateverWasLost) {
  turn("down");
  const std::vector<unsigned> before = ids();
  rig.lose_state();
  rig.files.remove(rig.folder + "/rocca.lock");
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), HasSubstr("host pve3 is off"));
  EXPECT_EQ(ids(), before);
  turn("up");
  converges(rig, 5);
}

TEST_F(DeadHost, NobodyKnowsWhoseVmItIsSoNothingIsMadeInItsPlace) {
  const std::vector<std::string> there = nodes_on("pve3");
  for (auto& [vmid, vm] : rig.home.dc.vms)
    if (vm.node == "pve3") vm.config["name"] = "renamed";
  rig.home.world.run_for(1min);
  turn("down");
  const std::vector<unsigned> before = ids();
  rig.lose_state();
  rig.files.remove(rig.folder + "/rocca.lock");
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), HasSubstr("host pve3 is off"));
  EXPECT_EQ(ids(), before);
}

TEST_F(DeadHost, DownTakesAllTheRestAndTheNextEndsIt) {
  turn("down");
  const std::size_t stay = nodes_on("pve3").size();
  const Instant begun = rig.home.world.now();
  const engine::Report report = rig.down();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), AllOf(HasSubstr("host pve3 is off"), HasSubstr("vm/cp-3")));
  EXPECT_LT(rig.home.world.now() - begun, 10min);
  EXPECT_EQ(ids().size(), stay);
  EXPECT_THAT(rig.run()->prior().items, Contains(Key("vm/cp-3"))) << "the state is kept";
  turn("up");
  const engine::Report again = rig.down();
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

TEST_F(DeadHost, DownWithoutStateOrLockNamesWhatStays) {
  turn("down");
  const std::size_t stay = nodes_on("pve3").size();
  rig.lose_state();
  rig.files.remove(rig.folder + "/rocca.lock");
  const engine::Report report = rig.down();
  EXPECT_FALSE(report.ok());
  // Of its VMs Proxmox lists ids and tags; names come with the statistics of the host.
  EXPECT_THAT(problems(report), AllOf(HasSubstr("host pve3 is off"), HasSubstr("vm/102")));
  EXPECT_EQ(ids().size(), stay);
  const engine::Report second = rig.down();
  EXPECT_FALSE(second.ok()) << "what stays is still there";
  turn("up");
  const engine::Report again = rig.down();
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

// ---- nobody at all answers

TEST_F(DeadHost, WithoutProxmoxTheStateAndTheNodesTell) {
  const graph::Graph seen = rig.run()->graph();
  rig.endpoints = {"https://nobody.home:8006"};
  const auto run = rig.run();
  EXPECT_THAT(run->prior().items, Contains(Key("vm/cp-1")));
  EXPECT_FALSE(run->unseen()) << "the state is all that was asked";
  EXPECT_EQ(run->graph().order(), seen.order());
  EXPECT_TRUE(run->unseen());
  const resources::ClusterStatus status = run->status();
  EXPECT_FALSE(status.unseen.empty());
  EXPECT_FALSE(status.healthy) << "nobody knows";
  for (const resources::NodeStatus& node : status.nodes) {
    EXPECT_EQ(node.power, "unknown, Proxmox does not answer");
    EXPECT_TRUE(node.healthy) << node.name << ": " << node.problem;
  }
  EXPECT_EQ(status.etcd, "3 members, healthy");
  EXPECT_THROW(rig.run()->plan(), Error) << "a plan has to look";
}

}  // namespace
}  // namespace rocca::scenarios
