// Mistyped names, who has the shared address, and a VM that goes off while it is waited for.

#include "scenarios/engine_rig.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.render();
  }
  ADD_FAILURE() << "there was no error";
  return "";
}

TEST(EngineWords, AMistypedTargetGetsTheNearest) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  const auto planned = [&](const std::string& target) {
    resources::RunOptions options;
    options.targets = {target};
    return error_of([&] { rig.plan(options); });
  };
  EXPECT_THAT(planned("worker1"), HasSubstr("did you mean `worker-1`?"));
  EXPECT_THAT(planned("vm/worker-2"), HasSubstr("did you mean `vm/worker-1`?"));
  EXPECT_THAT(planned("something else"), HasSubstr("`rocca graph` lists all addresses"));
}

TEST(EngineWords, AHostThatProxmoxHasNotIsNamed) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0), "[pv1]"));
  EXPECT_THAT(error_of([&] { rig.plan(); }), AllOf(HasSubstr("proxmox.hosts names the host 'pv1'"),
                                                   HasSubstr("did you mean `pve1`?"),
                                                   HasSubstr("the hosts of this Proxmox: pve1")));
  // Also when nothing is open any more.
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(static_spec(pools(1, 0), "[pv1, pve1]"));
  EXPECT_THAT(error_of([&] { rig.plan(); }), HasSubstr("proxmox.hosts names the host 'pv1'"));
}

TEST(EngineWords, OneNodeIsFollowedFromMaintenanceModeUntilItIsSecure) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  resources::RunOptions options;
  options.targets = {"machine/cp-1"};
  std::vector<std::string> waits;
  const auto run = rig.run(options);
  ASSERT_TRUE(run->up([&](const engine::Event& event) {
                   if (event.kind == engine::Event::Kind::Waiting &&
                       event.address == "machine/cp-1")
                     waits.push_back(event.text);
                 })
                  .ok());
  EXPECT_THAT(waits, Contains(HasSubstr("the node to come back secure, with a certificate of its "
                                        "own")));
  // Nobody else was touched, and this one lets in only who has the cluster's certificate.
  EXPECT_THAT(rig.home.estate.truths(), SizeIs(1));
  EXPECT_TRUE(rig.home.estate.truths().front().configured);
}

TEST(EngineStatus, NamesWhoHasTheSharedAddress) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  const auto owner = [&] {
    for (const lab::Truth& truth : rig.home.estate.truths())
      if (truth.running && !truth.owns.empty()) return truth;
    return lab::Truth{};
  };
  const lab::Truth first = owner();
  EXPECT_EQ(rig.run()->status().vip_owner, first.hostname.substr(first.hostname.find("cp-")));
  // Its machine dies: another one takes the address over.
  arm(rig, fmt::format("- at: 0s\n  crash: {}\n", first.vmid));
  rig.home.world.run_for(3min);
  const lab::Truth second = owner();
  ASSERT_NE(second.vmid, first.vmid);
  const resources::ClusterStatus status = rig.run()->status();
  EXPECT_EQ(status.vip_owner, second.hostname.substr(second.hostname.find("cp-")));
  EXPECT_FALSE(status.healthy);
}

TEST(EngineSilence, AVmThatGoesOffWhileItIsWaitedForIsStartedAgain) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  // Once it boots, its process dies: nobody answers, and nobody would for ever.
  bool died = false;
  const auto power = rig.home.dc.on_power;
  rig.home.dc.on_power = [&](lab::pve::Vm& vm, bool on) {
    if (power) power(vm, on);
    if (!on || vm.id != 101 || died) return;
    died = true;
    rig.home.world.after(3s, [&rig] { arm(rig, "- at: 0s\n  crash: 101\n"); });
  };
  const engine::Report report = rig.up();
  EXPECT_TRUE(died);
  EXPECT_TRUE(report.ok()) << problems(report);
  std::size_t starts = 0;
  for (const auto& task : rig.home.first().tasks())
    starts += task->upid.type == "qmstart" && task->upid.id == "101";
  EXPECT_EQ(starts, 2u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
