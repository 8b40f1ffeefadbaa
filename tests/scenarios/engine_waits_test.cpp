// Waits: each ends within its own timeout, whichever run began it; a state that only needs waiting
// is never a failed change; and what is silent costs one bounded time.

#include "scenarios/engine_machines.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A spec with timeouts of its own.
std::string within(const std::string& timeouts, const std::string& nodes) {
  return replace_all(static_spec(nodes), "  kubernetes:\n",
                     "  timeouts: " + timeouts + "\n  kubernetes:\n");
}

/// When the first event of this kind came for this address, since the first event of all.
std::optional<double> when(const ClusterRig& rig, std::size_t from, const std::string& what) {
  const auto seconds = [](const std::string& line) { return std::stod(line); };
  for (std::size_t i = from; i < rig.log.size(); ++i)
    if (rig.log[i].find(what) != std::string::npos)
      return seconds(rig.log[i]) - seconds(rig.log[from]);
  return std::nullopt;
}

TEST(Waits, ALearnerThatAnswersForAllIsWaitedForAndNoFailure) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    SCOPED_TRACE(seed);
    lab::Home::Options options;
    options.seed = seed;
    options.node_timing.learner_answers = 700;
    ClusterRig rig{options};
    rig.write_spec(static_spec(pools(3, 0)));
    const engine::Report report = rig.up();
    EXPECT_TRUE(report.ok()) << problems(report);
    EXPECT_THAT(differences(rig.plan()), IsEmpty());
  }
}

TEST(Waits, AMemberThatRestartsWhileOthersJoinIsWaitedFor) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  for (unsigned after = 30; after < 100; after += 10)
    rig.home.world.after(std::chrono::seconds{after}, [&] {
      for (lab::talos::TalosNode* node : rig.home.estate.fleet().nodes())
        if (node->powered() && node->etcd() && node->etcd()->members().size() > 1) {
          node->restart_etcd(4s);
          return;
        }
    });
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.run()->status().etcd, "3 members, healthy");
}

TEST(Waits, TheBootTimeoutBoundsTheBootOfWorkersToo) {
  ClusterRig rig;
  arm(rig, "- machine: {}\n  trouble: wrong-vlan\n");
  rig.write_spec(within("{ boot: 40s, bootstrap: 5m }", pools(1, 2)));
  for (const char* run : {"the first run", "the second run", "the third run"}) {
    SCOPED_TRACE(run);
    const std::size_t from = rig.log.size();
    const engine::Report report = rig.up();
    EXPECT_FALSE(report.ok());
    for (const char* node : {"cp-1", "worker-1", "worker-2"}) {
      SCOPED_TRACE(node);
      const std::string machine = fmt::format("machine/{}", node);
      const auto began = when(rig, from, "started " + machine);
      const auto failed = when(rig, from, "failed " + machine);
      ASSERT_TRUE(began && failed);
      EXPECT_LE(*failed - *began, 70) << "the boot, and a few seconds for the diagnosis";
      EXPECT_THAT(report.steps.at(machine).error->message(), HasSubstr("still waiting after 40s"));
    }
    EXPECT_LE(report.took, 90s);
  }
}

TEST(Waits, AFailedStepIsExplainedWhenItFails) {
  ClusterRig rig;
  arm(rig, "- machine: { vm: 100 }\n  trouble: wrong-vlan\n");
  rig.write_spec(within("{ boot: 40s, bootstrap: 10m }", pools(1, 1)));
  std::vector<std::string> hints;
  const auto run = rig.run();
  const engine::Report report = run->up([&](const engine::Event& event) {
    if (event.kind == engine::Event::Kind::Failed) hints.push_back(event.error->hint());
  });
  EXPECT_FALSE(report.ok());
  ASSERT_FALSE(hints.empty());
  EXPECT_THAT(hints.front(), AllOf(HasSubstr("Proxmox says:"), HasSubstr("likely cause")));
}

TEST(Waits, ALongWaitIsReportedAgainWithItsReasonAndTheLikelyCause) {
  ClusterRig rig;
  arm(rig, "- machine: {}\n  trouble: wrong-vlan\n");
  rig.write_spec(within("{ boot: 5m, bootstrap: 5m }", pools(1, 0)));
  EXPECT_FALSE(rig.up().ok());
  EXPECT_TRUE(when(rig, 0, "still waiting machine/cp-1: "));
  const auto cause = when(rig, 0, "noted machine/cp-1: likely cause: ");
  const auto began = when(rig, 0, "started machine/cp-1");
  ASSERT_TRUE(cause && began);
  EXPECT_GE(*cause - *began, 60);
  EXPECT_LE(*cause - *began, 130);
}

TEST(Waits, ASilentProxmoxCostsOneBoundedTimeAndNotOneForEachVm) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 9)));
  ASSERT_TRUE(rig.up().ok());
  arm(rig, "- request: { method: GET, path: /pending }\n  times: 0\n  delay: 1h\n");
  const Instant begun = rig.home.world.now();
  try {
    EXPECT_THAT(rig.plan().failed, Not(IsEmpty()));
  } catch (const Error& error) {
    EXPECT_TRUE(error.fault() == Fault::Lost || error.fault() == Fault::Timeout) << error.render();
  }
  EXPECT_LE(rig.home.world.now() - begun, 90s);
}

TEST(Waits, AControlPlaneThatStaysDeadKeepsOthersWaitingNoLongerThanABoot) {
  ClusterRig rig;
  const std::string spec = within("{ boot: 1m, bootstrap: 5m }", pools(3, 0));
  rig.write_spec(spec);
  ASSERT_TRUE(rig.up().ok());
  arm(rig, "- machine: { vm: 102 }\n  trouble: wrong-vlan\n");
  rig.home.estate.crash(102);
  rig.home.world.run_for(30s);
  rig.write_spec(
      replace_all(spec, "10.0.1.11-10.0.1.15", "10.0.1.11-10.0.1.15, machine: { memory: 6GiB }"));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  const engine::Report report = rig.up(options);
  EXPECT_FALSE(report.ok());
  EXPECT_LE(report.took, 6min);
  EXPECT_EQ(rig.run()->status().etcd.substr(0, 9), "2 members");
}

TEST(Waits, AHungDestroyEndsWithinTheBoundThatIsAnnounced) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  arm(rig, "- task: { type: qmdestroy }\n  times: 0\n  hang: true\n");
  const std::size_t from = rig.log.size();
  const engine::Report report = rig.down();
  EXPECT_FALSE(report.ok());
  EXPECT_LE(report.took, 17min);
  EXPECT_TRUE(when(rig, from, "still waiting vm/cp-1: Proxmox task qmdestroy")) << "announced";
  // The next run waits for that task, and asks for no second one beside it.
  const engine::Report next = rig.down();
  EXPECT_LE(next.took, 16min);
  EXPECT_THAT(problems(next), HasSubstr("Proxmox task qmdestroy"));
  EXPECT_EQ(times_asked(rig, "DELETE /nodes/pve1/qemu/100"), 1u);
}

// ---- what random simulation runs have found

std::string dhcp(unsigned workers, const std::string& network, const std::string& machine,
                 const std::string& extensions) {
  std::string text = fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos: {{ version: v1.11.5, extensions: {} }}
  kubernetes: {{ version: v1.34.1 }}
  timeouts: {{ boot: 4m, bootstrap: 5m }}
  network: {}
  machine: {}
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: {{ secret: proxmox.token }}
    hosts: [pve1]
  nodes:
    cp-1: {{ role: controlplane }}
)",
                                 extensions, network, machine);
  for (unsigned i = 1; i <= workers; ++i)
    text += fmt::format("    worker-{}: {{ role: worker }}\n", i);
  return text;
}
std::string by_agent(unsigned workers) {
  return dhcp(workers, "{ addressing: dhcp }", "{ agent: true }", "[qemu-guest-agent]");
}
std::string by_search(unsigned workers) {
  return dhcp(workers, "{ addressing: dhcp, subnet: 10.0.200.0/25 }", "{ agent: false }", "[]");
}

void raise(ClusterRig& rig, const std::string& spec) {
  rig.write_spec(spec);
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  ASSERT_THAT(differences(rig.plan()), IsEmpty());
}

void converges_in_one_run(ClusterRig& rig) {
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  const resources::ClusterStatus status = rig.run()->status();
  std::string text = status.etcd;
  for (const resources::NodeStatus& node : status.nodes)
    text += fmt::format("\n{}: {} {}", node.name, node.stage, node.problem);
  EXPECT_TRUE(status.healthy) << text;
}

void change_lease(ClusterRig& rig, const std::string& whose, Duration settle = 20s) {
  arm(rig, fmt::format("- at: 0s\n  lease: {}\n", whose));
  rig.home.world.run_for(settle);
}

TEST(RandomRuns, WorkersFollowASilentControlPlaneThatComesBackWithAnotherLease) {
  ClusterRig rig;
  raise(rig, by_agent(1));
  // Where the endpoint will be shows only when it has booted.
  rig.home.estate.crash(100);
  change_lease(rig, "100");
  converges_in_one_run(rig);
}

TEST(RandomRuns, WorkersThatWereAllRestartedWithOtherLeasesAreNotAskedWhereTheyWere) {
  ClusterRig rig;
  raise(rig, by_search(2));
  for (const unsigned vmid : {100u, 101u, 102u}) rig.home.estate.crash(vmid);
  change_lease(rig, "all");
  converges_in_one_run(rig);
}

TEST(RandomRuns, AWorkerWithACertificateOfItsLastAddressIsFoundInTheSubnet) {
  ClusterRig rig;
  raise(rig, by_search(1));
  // No control plane signs its new address.
  rig.home.estate.crash(100);
  change_lease(rig, "101", 1min);
  converges_in_one_run(rig);
}

TEST(RandomRuns, AWorkerWithACertificateOfItsLastAddressIsHealthyInStatus) {
  ClusterRig rig;
  raise(rig, by_agent(1));
  rig.home.estate.crash(100);
  change_lease(rig, "101", 1min);
  converges_in_one_run(rig);
}

TEST(RandomRuns, AMachineThatDownLeftConfiguredFollowsTheNewClustersEndpoint) {
  ClusterRig rig;
  make_machine(rig, 700, "10.0.3.1");
  const std::string spec =
      by_agent(0) + "    metal: { role: worker, address: 10.0.3.1, existing: true }\n";
  raise(rig, spec);
  ASSERT_TRUE(rig.down().ok());
  ASSERT_TRUE(rig.home.estate.truth(700).configured) << "down leaves it as it is";
  // The new control plane gets another address than the one before.
  rig.home.lans.change_all_leases();
  converges_in_one_run(rig);
}

}  // namespace
}  // namespace rocca::scenarios
