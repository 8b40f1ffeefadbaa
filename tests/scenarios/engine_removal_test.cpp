// The removal of a worker is killed, and the spec wants the worker again: what was announced in the
// journal decides what `up` does with it.

#include "kube/kubeconfig.hpp"
#include "kube/node.hpp"
#include "lab/kube/json.hpp"
#include "lab/machines/clusters.hpp"
#include "scenarios/killed_run.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* resets = "/machine.MachineService/Reset";
constexpr const char* cordons = "/api/v1/nodes/worker-2";

/// `up` of a spec without worker-2 is killed right after its nth request of this kind.
void kill_removal(ClusterRig& rig, const std::string& part, const std::string& method = "POST",
                  unsigned number = 1, const std::string& smaller = static_spec(pools(1, 1))) {
  rig.write_spec(smaller);
  kill_run(rig, method, part, number, [&] { static_cast<void>(rig.up(allow_data_loss())); });
}

std::vector<std::string> cordoned(ClusterRig& rig) {
  std::vector<std::string> all;
  lab::Kubernetes* kubernetes = rig.home.estate.clusters().find("blue");
  for (const auto& [key, node] : kubernetes->api()->storage().all("/nodes"))
    if (lab::kube::bool_at(*node, {"spec", "unschedulable"})) all.push_back(key.name);
  return all;
}

/// What `kubectl cordon` does.
void cordon_by_hand(ClusterRig& rig, const std::string& node) {
  kube::Client client{rig.wire, rig.files,
                      kube::load_kubeconfig(rig.files, rig.folder + "/configs/kubeconfig")};
  ASSERT_TRUE(kube::cordon(client, node));
}

const engine::Planned* find_step(const engine::Plan& plan, const std::string& address) {
  for (const engine::Planned& step : plan.steps)
    if (step.address == address) return &step;
  return nullptr;
}

/// `up` without any permission ends well, and nothing of the removal is left.
void is_whole_again(ClusterRig& rig) {
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
  rig.home.world.run_for(1min);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  for (const auto& [name, value] : remembered(rig).notes)
    EXPECT_THAT(name, Not(HasSubstr("removal/")));
}

TEST(EngineRemoval, AWorkerThatWasResetIsCreatedAgainWithoutAskingAgain) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 2)));
  kill_removal(rig, resets);
  rig.home.world.run_for(2min);
  rig.write_spec(static_spec(pools(1, 2)));
  const engine::Plan plan = rig.plan();
  const engine::Planned* vm = find_step(plan, "vm/worker-2");
  ASSERT_NE(vm, nullptr);
  EXPECT_EQ(vm->change.action, engine::Action::Replace);
  EXPECT_EQ(vm->change.effect, engine::Effect::Replace);
  EXPECT_TRUE(vm->change.confirmed);
  EXPECT_EQ(plan.summary.refused, 0u) << "its disk was wiped with the user's permission";
  is_whole_again(rig);
  EXPECT_THAT(cordoned(rig), IsEmpty());
}

// While it is being reset it still answers.
TEST(EngineRemoval, AWorkerThatIsBeingResetIsCreatedAgain) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 2)));
  kill_removal(rig, resets);
  rig.write_spec(static_spec(pools(1, 2)));
  is_whole_again(rig);
  EXPECT_THAT(cordoned(rig), IsEmpty());
}

TEST(EngineRemoval, ProtectionThatWasSetInBetweenIsObeyed) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 2)));
  kill_removal(rig, resets);
  rig.home.world.run_for(2min);
  rig.write_spec(static_spec(pools(1, 2), "[pve1]", "  protect: true\n"));
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("protect: true"));
  EXPECT_TRUE(rig.home.dc.vms.contains(102));
}

// A reset does not touch data disks: what is on them is lost only with the VM.
TEST(EngineRemoval, TheLossOfADataDiskIsAskedForAgain) {
  const auto with_data = [](unsigned workers) {
    return static_spec(
        replace_all(pools(1, workers), "cores: 4 }", "cores: 4, disks: { data: 5GiB } }"));
  };
  ClusterRig rig;
  brought_up(rig, with_data(2));
  kill_removal(rig, resets, "POST", 1, with_data(1));
  rig.home.world.run_for(2min);
  rig.write_spec(with_data(2));
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("--allow data-loss"));
  resources::RunOptions options = allow_data_loss();
  options.policy.allowed.insert(engine::Effect::Replace);
  const engine::Report report = rig.up(options);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(EngineRemoval, AWorkerThatWasOnlyCordonedIsUncordoned) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 2)));
  const auto before = identities(rig);
  kill_removal(rig, cordons, "PATCH");
  ASSERT_THAT(cordoned(rig), ElementsAre("worker-2"));
  rig.write_spec(static_spec(pools(1, 2)));
  const engine::Plan plan = rig.plan();
  ASSERT_EQ(plan.steps.size(), 1u) << testing::PrintToString(differences(plan));
  EXPECT_EQ(plan.steps.front().address, "member/worker-2");
  is_whole_again(rig);
  EXPECT_THAT(cordoned(rig), IsEmpty());
  EXPECT_EQ(identities(rig), before) << "its VM is as it was";
}

// The reset was announced and never sent: the second cordon comes just before it.
TEST(EngineRemoval, AWorkerThatWasNotResetKeepsItsVm) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 2)));
  kill_removal(rig, cordons, "PATCH", 2);
  EXPECT_THAT(remembered(rig).notes, Contains(testing::Key("removal/worker-2/reset")));
  rig.home.world.run_for(1min);
  rig.write_spec(static_spec(pools(1, 2)));
  const engine::Plan plan = rig.plan();
  EXPECT_EQ(plan.summary.replace, 0u);
  is_whole_again(rig);
  EXPECT_THAT(cordoned(rig), IsEmpty());
  EXPECT_EQ(rig.home.estate.truth(102).stage, lab::talos::Stage::Running);
}

TEST(EngineRemoval, ACordonByTheUserStays) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 2)));
  cordon_by_hand(rig, "worker-2");
  kill_removal(rig, cordons, "PATCH");  // the one before the reset: the first was not needed
  rig.write_spec(static_spec(pools(1, 2)));
  is_whole_again(rig);
  EXPECT_THAT(cordoned(rig), ElementsAre("worker-2"));
}

// The same with a replacement that the spec no longer asks for.
TEST(EngineRemoval, AReplacementThatWasTakenBackAfterTheResetIsFinished) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 2)));
  rig.write_spec(
      static_spec(replace_all(pools(1, 2), "cores: 4 }", "cores: 4, firmware: seabios }")));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::Replace);
  kill_run(rig, "POST", resets, 1, [&] { static_cast<void>(rig.up(options)); });
  rig.home.world.run_for(2min);
  rig.write_spec(static_spec(pools(1, 2)));
  is_whole_again(rig);
  EXPECT_THAT(cordoned(rig), IsEmpty());
}

TEST(EngineRemoval, LeavesNoNoteOfANodeThatIsGone) {
  ClusterRig rig;
  brought_up(rig, static_spec(pools(1, 2)));
  rig.write_spec(static_spec(pools(1, 1)));
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(remembered(rig).notes, IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
