// `down` is killed, and another command follows: what the cluster becomes is what the rule in
// platform/teardown.hpp says, and nothing has to be done by hand.

#include "scenarios/killed_run.hpp"
#include "support/administrator.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// `down` is killed right after its nth request of this kind was carried out.
void kill_down(ClusterRig& rig, const std::string& method, const std::string& part, unsigned number,
               resources::RunOptions options = {}) {
  kill_run(rig, method, part, number, [&] { static_cast<void>(rig.down(std::move(options))); });
}

void destroy_by_hand(ClusterRig& rig, unsigned vmid) {
  proxmox::Client client = root(rig);
  client.start_stop(test::owned("pve1", vmid));
  rig.home.world.run_for(30s);
  client.start_destroy(test::owned("pve1", vmid), true);
  rig.home.world.run_for(30s);
}

/// It is still there when `down` has destroyed the others.
void let_ignore_shutdown(ClusterRig& rig, unsigned vmid) {
  rig.home.dc.guest_of = [real = rig.home.dc.guest_of, vmid](const lab::pve::Vm& vm) {
    std::optional<lab::pve::Guest> guest = real(vm);
    if (guest && vm.id == vmid) guest->acpi = guest->agent = false;
    return guest;
  };
}

/// `up` ends well, and after it there is nothing left to do.
void converges_now(ClusterRig& rig, std::size_t vms, std::size_t bootstraps) {
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), vms);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), bootstraps);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_EQ(rig.plan().notice, "");
  EXPECT_EQ(remembered(rig).teardown, std::nullopt);
}

constexpr const char* destroys = "/qemu/100";  // the first control plane

TEST(EngineTeardown, UpAfterADownThatDestroyedAControlPlaneCreatesTheClusterAgain) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  let_ignore_shutdown(rig, 102);
  kill_down(rig, "DELETE", destroys, 1);
  rig.home.world.run_for(1min);
  ASSERT_LT(rig.home.dc.vms.size(), 5u);
  ASSERT_TRUE(remembered(rig).teardown);
  const engine::Plan plan = rig.plan();
  EXPECT_THAT(plan.notice, HasSubstr("was interrupted after it had begun to destroy"));
  EXPECT_THAT(plan.notice, HasSubstr("data-loss"));
  EXPECT_GT(plan.summary.destroy, 0u);
  EXPECT_EQ(plan.summary.refused, 0u) << "the destruction was confirmed when `down` was";
  EXPECT_EQ(plan.effect, engine::Effect::DataLoss);
  converges_now(rig, 5, 2);
}

TEST(EngineTeardown, UpAfterADownThatOnlyShutVmsDownKeepsTheCluster) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  kill_down(rig, "POST", "/status/shutdown", 3);
  rig.home.world.run_for(2min);
  ASSERT_EQ(rig.home.dc.vms.size(), 5u);
  const auto before = identities(rig);
  const engine::Plan plan = rig.plan();
  EXPECT_THAT(plan.notice, HasSubstr("before a control plane was destroyed: `rocca up` keeps"));
  EXPECT_EQ(plan.summary.destroy, 0u);
  converges_now(rig, 5, 1);
  EXPECT_EQ(identities(rig), before);
}

// What Proxmox still carries out when `up` begins is judged by its end.
TEST(EngineTeardown, UpRightAfterAKilledDownWaitsForItsTasks) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  kill_down(rig, "POST", "/status/shutdown", 5);
  converges_now(rig, 5, 1);
}

TEST(EngineTeardown, UpRightAfterAKilledDestroyCountsItAsGone) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 1)));
  kill_down(rig, "DELETE", "/qemu/100", 1);
  converges_now(rig, 2, 2);
}

/// How often a part is in a text.
std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

// Proxmox lists a VM until its destroy is over: such a VM does not remain.
TEST(EngineTeardown, TheNoticeNamesEveryControlPlaneOnceAndItsTimeInSeconds) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  let_ignore_shutdown(rig, 102);
  rig.home.world.run_for(123ms);
  arm(rig, "- task: { type: qmdestroy }\n  times: 0\n  hang: true\n");
  kill_down(rig, "DELETE", destroys, 1);
  ASSERT_TRUE(rig.home.dc.vms.contains(100)) << "its destroy has just begun";
  const std::string notice = rig.plan().notice;
  EXPECT_THAT(notice, HasSubstr("(cp-1 and cp-2 are being destroyed)"));
  EXPECT_THAT(notice, HasSubstr("cp-3"));
  for (const char* node : {"cp-1", "cp-2", "cp-3"}) EXPECT_LE(times(notice, node), 1u) << notice;
  const std::size_t at = notice.find(" began at ");
  ASSERT_NE(at, std::string::npos) << notice;
  const std::string when = notice.substr(at + 10, notice.find(' ', at + 10) - at - 10);
  EXPECT_EQ(when.size(), std::string("2026-01-02T03:04:05Z").size()) << when;
}

TEST(EngineTeardown, OnlyWorkersWereDestroyedAndTheClusterIsKept) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 2)));
  let_ignore_shutdown(rig, 100);
  kill_down(rig, "DELETE", "/qemu/101", 1);
  rig.home.world.run_for(1min);
  ASSERT_TRUE(rig.home.dc.vms.contains(100));
  const engine::Plan plan = rig.plan();
  EXPECT_THAT(plan.notice, HasSubstr("keeps the cluster and creates worker-1"));
  converges_now(rig, 3, 1);
}

TEST(EngineTeardown, DownGoesOnWhereItWasKilled) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  let_ignore_shutdown(rig, 102);
  kill_down(rig, "DELETE", destroys, 1);
  const engine::Report report = rig.down();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  EXPECT_EQ(remembered(rig), state::State{});
}

TEST(EngineTeardown, ProtectionThatWasSetInBetweenIsObeyed) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  let_ignore_shutdown(rig, 102);
  kill_down(rig, "DELETE", destroys, 1);
  rig.home.world.run_for(1min);
  const std::size_t left = rig.home.dc.vms.size();
  rig.write_spec(static_spec(three_and_two, "[pve1]", "  protect: true\n"));
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("protect: true"));
  EXPECT_EQ(rig.home.dc.vms.size(), left);
}

TEST(EngineTeardown, APartOfAClusterThatIsGoneIsNotBroughtUp) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  let_ignore_shutdown(rig, 102);
  kill_down(rig, "DELETE", destroys, 1);
  rig.home.world.run_for(1min);
  const std::size_t left = rig.home.dc.vms.size();
  resources::RunOptions one;
  one.targets = {"worker-1"};
  EXPECT_THAT(refused([&] { rig.up(one); }), HasSubstr("a part of the cluster cannot be brought"));
  EXPECT_EQ(rig.home.dc.vms.size(), left);
}

TEST(EngineTeardown, StatusAndDriftSayThatATeardownWasInterrupted) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  let_ignore_shutdown(rig, 102);
  kill_down(rig, "DELETE", destroys, 1);
  rig.home.world.run_for(1min);
  const auto run = rig.run();
  const resources::ClusterStatus status = run->status();
  EXPECT_THAT(status.teardown, HasSubstr("was interrupted after"));
  EXPECT_FALSE(status.healthy);
  EXPECT_THAT(run->drift(), IsEmpty()) << "what `down` destroyed is no drift";
}

// The teardown never came to it: that it is gone is not what `down` was asked for.
TEST(EngineTeardown, AControlPlaneThatWasLostLaterIsNotTheTeardownsWork) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  // A `down` that was killed after its first write.
  const state::Record begun =
      state::teardown_begun({rig.home.world.now(), {"cp-1", "cp-2", "cp-3"}, false});
  const auto store = state::local_store(rig.files, rig.folder + "/.rocca");
  static_cast<void>(store->load());
  state::Holder holder{"a", "a", "down", rig.home.world.now(), rig.home.world.now() + 1min};
  {
    const auto lock = store->lock(holder);
    store->append(std::span{&begun, 1});
  }
  destroy_by_hand(rig, 100);
  const engine::Plan plan = rig.plan();
  EXPECT_EQ(plan.summary.destroy, 0u);
  EXPECT_THAT(plan.notice, HasSubstr("keeps the cluster and creates cp-1 again"));
}

TEST(EngineTeardown, ATargetedDownIsNoTeardown) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 2)));
  resources::RunOptions one;
  one.targets = {"worker-2"};
  kill_down(rig, "DELETE", "/qemu/102", 1, one);
  rig.home.world.run_for(1min);
  EXPECT_EQ(remembered(rig).teardown, std::nullopt);
  converges_now(rig, 3, 1);
}

TEST(EngineTeardown, AChangedSpecAfterAKilledDownIsCreatedAsItSays) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  let_ignore_shutdown(rig, 102);
  kill_down(rig, "DELETE", destroys, 1);
  rig.write_spec(static_spec(pools(1, 1)));
  converges_now(rig, 2, 2);
}

// ---- quorum lost without a teardown

TEST(EngineTeardown, LostQuorumIsSaidByThePlanBeforeAnythingIsCreated) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  destroy_by_hand(rig, 101);
  destroy_by_hand(rig, 102);
  const engine::Plan plan = rig.plan();
  EXPECT_EQ(plan.summary.refused, 1u);
  const std::string said = refused([&] { rig.up(); });
  EXPECT_THAT(said, HasSubstr("etcd has lost its quorum: cp-2 and cp-3 are gone"));
  EXPECT_THAT(said, HasSubstr("talosctl -n 10.0.1.11 cp /var/lib/etcd/member/snap/db"));
  EXPECT_THAT(said, HasSubstr("`rocca down` and `rocca up`"));
  EXPECT_EQ(rig.home.dc.vms.size(), 3u) << "no empty control plane is created";
  // The way out that needs no backup.
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  converges_now(rig, 5, 2);
}

TEST(EngineTeardown, OneOfThreeControlPlanesThatIsGoneIsNoLoss) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  destroy_by_hand(rig, 102);
  EXPECT_EQ(rig.plan().summary.refused, 0u);
}

TEST(EngineTeardown, TheOnlyControlPlaneIsGoneAndAnEmptyOneIsNotMadeInItsPlace) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 1)));
  destroy_by_hand(rig, 100);
  const std::string said = refused([&] { rig.up(); });
  EXPECT_THAT(said, HasSubstr("no control plane has its data any more"));
  EXPECT_THAT(said, HasSubstr("`rocca up --target machine/cp-1`"));
  EXPECT_EQ(rig.home.dc.vms.size(), 1u);
  // The way out with a backup: the machine alone, without a bootstrap.
  resources::RunOptions machine;
  machine.targets = {"machine/cp-1"};
  const engine::Report report = rig.up(machine);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
}

TEST(EngineTeardown, ControlPlanesThatAreOnlyOffAreNotLost) {
  ClusterRig rig;
  brought_up(rig, static_spec(three_and_two));
  for (const unsigned vmid : {100u, 101u, 102u}) root(rig).start_stop("pve1", vmid);
  rig.home.world.run_for(1min);
  EXPECT_EQ(rig.plan().summary.refused, 0u);
  converges_now(rig, 5, 1);
}

}  // namespace
}  // namespace rocca::scenarios
