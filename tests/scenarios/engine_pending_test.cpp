// What somebody has changed on a running VM and what waits for its next start: drift all the same.

#include "scenarios/engine_rig.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class Pending : public testing::TestWithParam<bool> {
 protected:
  Pending() {
    rig.write_spec(static_spec(R"(  nodes:
    cp-1: { role: controlplane, address: 10.0.1.11 }
    w-1: { role: worker, address: 10.0.1.21, machine: { cores: 2, memory: 8GiB } }
)"));
    const engine::Report report = rig.up();
    EXPECT_TRUE(report.ok()) << problems(report);
    rig.home.world.run_for(1h);
  }
  static lab::Home::Options options() {
    lab::Home::Options options;
    options.release = GetParam() ? lab::pve::Release::v9() : lab::pve::Release::v8_4();
    return options;
  }
  void somebody_sets(const std::string& what) {
    arm(rig,
        fmt::format("- at: 0s\n  change: {{ vm: 101, by: alice@pam, set: {{ {} }} }}\n", what));
    rig.home.world.run_for(30s);
  }
  const lab::pve::Vm& worker() const { return rig.home.dc.vms.at(101); }

  ClusterRig rig{options()};
};
INSTANTIATE_TEST_SUITE_P(On, Pending, testing::Bool(), [](const auto& release) {
  return std::string(release.param ? "Nine" : "Eight");
});

TEST_P(Pending, IsDriftWithItsCulprit) {
  somebody_sets("memory: 16384");
  ASSERT_TRUE(worker().pending.contains("memory"));
  const auto drift = rig.run()->drift();
  ASSERT_EQ(drift.size(), 1u);
  EXPECT_EQ(drift[0].address, "vm/w-1");
  EXPECT_EQ(drift[0].field, "memory.pending");
  EXPECT_EQ(drift[0].declared, "8192");
  EXPECT_EQ(drift[0].found, "16384");
  EXPECT_EQ(drift[0].effect, engine::Effect::Live);
  EXPECT_EQ(drift[0].by, "alice@pam");
  EXPECT_THAT(drift[0].task, HasSubstr("qmconfig"));
  ASSERT_THAT(drift[0].accepts, testing::SizeIs(1));
  EXPECT_THAT(drift[0].accepts[0].path, ElementsAre("spec", "nodes", "w-1", "machine", "memory"));
  EXPECT_EQ(drift[0].accepts[0].value, "16GiB");
}

TEST_P(Pending, IsTakenBackWithoutARestart) {
  somebody_sets("memory: 16384, cores: 1, cpu: x86-64-v2-AES");
  ASSERT_EQ(worker().pending.size(), 3u);
  const auto pid = worker().pid;
  // Nothing beyond what is live is allowed.
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(worker().pending, IsEmpty());
  EXPECT_EQ(worker().pid, pid);
  EXPECT_EQ(worker().config.at("memory"), "8192");
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(Pending, RemovalIsSeenToo) {
  test::Administrator alice = client_with(rig, rig.home.root_token);
  proxmox::VmUpdate update;
  update.erase = {"cpu"};
  alice.start_update("pve1", 101, update);
  rig.home.world.run_for(30s);
  ASSERT_TRUE(worker().pending_delete.contains("cpu"));
  EXPECT_THAT(differences(rig.plan()),
              ElementsAre(HasSubstr("[cpu.pending: 'removed' -> 'host']")));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(worker().pending_delete, IsEmpty());
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(Pending, AnotherPlanThanTheOneThatWasShownIsCarriedOutOnlyIfSomebodySaysSo) {
  const auto nobody = [](const engine::Event&) {};
  somebody_sets("memory: 16384");
  const auto first = rig.run();
  ASSERT_FALSE(first->plan().empty());
  somebody_sets("cores: 1");
  try {
    first->up(nobody);
    FAIL() << "the world had changed";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Refused);
    EXPECT_THAT(error.message(), HasSubstr("has changed since the plan was made"));
  }
  EXPECT_THAT(worker().pending, SizeIs(2)) << "nothing was touched";

  const auto second = rig.run();
  ASSERT_FALSE(second->plan().empty());
  somebody_sets("cpu: x86-64-v2-AES");
  std::vector<std::string> now;
  second->on_change([&](const engine::Plan& plan) {
    now = differences(plan);
    return true;
  });
  const engine::Report report = second->up(nobody);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(now, ElementsAre(HasSubstr("cpu")));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(Pending, WhoIsNotAskedBetweenPlanAndActLooksOnce) {
  const auto nobody = [](const engine::Event&) {};
  const auto requests = [&](bool at_once) {
    somebody_sets("cores: 1");
    const auto run = rig.run();
    EXPECT_FALSE(run->plan().empty());
    if (at_once) run->at_once();
    const std::size_t before = rig.pve_requests();
    EXPECT_TRUE(run->up(nobody).ok());
    return rig.pve_requests() - before;
  };
  const std::size_t twice = requests(false);
  EXPECT_LE(requests(true) + 3, twice);  // there are two VMs and a list of them to be looked at
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST_P(Pending, ALookDoesNotCountAnyMoreOnceSomebodyElseWroteTheState) {
  somebody_sets("cores: 1");
  const auto first = rig.run();
  ASSERT_FALSE(first->plan().empty());
  ASSERT_TRUE(rig.up().ok());
  first->at_once();
  EXPECT_THROW(first->up([](const engine::Event&) {}), Error) << "there is another plan now";
}

TEST_P(Pending, OfAnOptionThatIsNotOursIsTheirs) {
  somebody_sets("numa: 1");
  ASSERT_TRUE(worker().pending.contains("numa"));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
