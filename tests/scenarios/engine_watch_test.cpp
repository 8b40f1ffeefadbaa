// What `status` and `drift` tell, what a changed configuration costs, and why a node is silent.

#include "report/plan.hpp"
#include "scenarios/engine_rig.hpp"
#include "support/json_schema.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const resources::Drift* find(const std::vector<resources::Drift>& all, const std::string& address,
                             const std::string& field) {
  for (const resources::Drift& each : all)
    if (each.address == address && each.field == field) return &each;
  return nullptr;
}

std::vector<std::string> accepted(const resources::Drift& drift) {
  std::vector<std::string> lines;
  for (const resources::Drift::Acceptance& each : drift.accepts)
    lines.push_back(join(each.path, ".") + ": " + each.value);
  return lines;
}

TEST(EnginePlan, StatisticsThatLagAreNotBelieved) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  // As on a busy host, where what was started a while ago still counts as off.
  for (auto& [vmid, vm] : rig.home.dc.vms) vm.broadcast.status = "stopped";
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  for (auto& [vmid, vm] : rig.home.dc.vms) vm.broadcast.status = "stopped";
  EXPECT_THAT(rig.run()->drift(), IsEmpty());
}

TEST(EngineDrift, NamesWhatDiffersSinceWhenAndByWhom) {
  ClusterRig rig;
  rig.write_spec(static_spec(R"(  nodes:
    cp-1: { role: controlplane, address: 10.0.1.11 }
    w-1: { role: worker, address: 10.0.1.21, machine: { cores: 2 } }
)"));
  ASSERT_TRUE(rig.up().ok());
  EXPECT_THAT(rig.run()->drift(), IsEmpty());
  rig.home.world.run_for(1h);
  // Somebody stops the worker by hand and gives it more memory.
  test::Administrator client = client_with(rig, rig.home.root_token);
  client.start_stop("pve1", 101);
  rig.home.world.run_for(30s);
  proxmox::VmUpdate update;
  update.set["cores"] = "8";
  client.start_update("pve1", 101, update);
  rig.home.world.run_for(30s);
  const auto drift = rig.run()->drift();
  const resources::Drift* power = find(drift, "vm/w-1", "power");
  ASSERT_NE(power, nullptr);
  EXPECT_EQ(power->declared, "running");
  EXPECT_EQ(power->found, "stopped");
  EXPECT_THAT(power->by, HasSubstr("root@pam"));
  EXPECT_THAT(power->task, HasSubstr("qmstop"));
  EXPECT_TRUE(power->since);
  const resources::Drift* cores = find(drift, "vm/w-1", "cores");
  ASSERT_NE(cores, nullptr);
  EXPECT_EQ(cores->found, "8");
  EXPECT_THAT(cores->task, HasSubstr("qmconfig"));
  EXPECT_THAT(accepted(*cores), ElementsAre("spec.nodes.w-1.machine.cores: 8"));
  // What is ignored is still told, and marked.
  rig.run()->ignore("vm/w-1", "cores");
  const auto again = rig.run()->drift();
  ASSERT_NE(find(again, "vm/w-1", "cores"), nullptr);
  EXPECT_TRUE(find(again, "vm/w-1", "cores")->ignored);
  EXPECT_FALSE(find(again, "vm/w-1", "power")->ignored);
  // `up` puts right what differs, and leaves what is to be left.
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_EQ(*rig.home.dc.vms.at(101).find("cores"), "8");
}

TEST(EngineDrift, WhatIsIgnoredIsLeftUntilEitherSideChanges) {
  ClusterRig rig;
  const std::string text = static_spec(R"(  nodes:
    cp-1: { role: controlplane, address: 10.0.1.11 }
    w-1: { role: worker, address: 10.0.1.21, machine: { onBoot: true } }
)");
  rig.write_spec(text);
  ASSERT_TRUE(rig.up().ok());
  const auto somebody_sets = [&](const char* option, const char* value) {
    proxmox::VmUpdate update;
    update.set[option] = value;
    client_with(rig, rig.home.root_token).start_update("pve1", 101, update);
    rig.home.world.run_for(30s);
  };
  somebody_sets("onboot", "0");
  EXPECT_THAT(differences(rig.plan()), ElementsAre(HasSubstr("onboot")));
  rig.run()->ignore("vm/w-1", "onboot");
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(*rig.home.dc.vms.at(101).find("onboot"), "0");
  // Something else at the same VM is put right as ever.
  somebody_sets("description", "mine now");
  EXPECT_THAT(differences(rig.plan()), ElementsAre(HasSubstr("description")));
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(*rig.home.dc.vms.at(101).find("onboot"), "0");
  // What waits for the next start can be left as well, until somebody changes it again.
  somebody_sets("cores", "8");
  rig.run()->ignore("vm/w-1", "cores.pending");
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  somebody_sets("cores", "6");
  EXPECT_THAT(differences(rig.plan()), ElementsAre(HasSubstr("[cores.pending: '6'")));
  somebody_sets("cores", "8");
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  rig.write_spec(replace_all(text, "onBoot: true", "onBoot: true, cores: 3"));
  EXPECT_THAT(differences(rig.plan()), ElementsAre(HasSubstr("cores.pending")))
      << "the spec says something new";
  rig.write_spec(text);
  // What cannot be left, and what does not differ, is said to be so.
  EXPECT_THROW(rig.run()->ignore("vm/w-1", "cores"), Error);
  test::Administrator client = client_with(rig, rig.home.root_token);
  client.start_stop("pve1", 101);
  rig.home.world.run_for(30s);
  client.start_destroy("pve1", 101, true);
  rig.home.world.run_for(30s);
  EXPECT_THAT(refused([&] { rig.run()->ignore("vm/w-1", "exists"); }),
              HasSubstr("only values of a VM's hardware can"));
}

const std::string two_nodes = static_spec(R"(  nodes:
    cp-1: { role: controlplane, address: 10.0.1.11 }
    w-1: { role: worker, address: 10.0.1.21, machine: { cores: 2 } }
)");

std::vector<std::string> told(const std::vector<resources::Drift>& all) {
  std::vector<std::string> lines;
  for (const resources::Drift& drift : all)
    lines.push_back(fmt::format("{} {}: {} -> {}{}", drift.address, drift.field, drift.found,
                                drift.declared, drift.unsure.empty() ? "" : " ?"));
  return lines;
}

// One edit of the spec hides nobody's change, and is none itself.
TEST(EngineDrift, TellsWhatTheSpecChangedFromWhatSomebodyDid) {
  ClusterRig rig;
  rig.write_spec(two_nodes);
  ASSERT_TRUE(rig.up().ok());
  EXPECT_THAT(rig.run()->changed_by_spec(), IsEmpty());
  rig.write_spec(replace_all(two_nodes, "cores: 2", "cores: 3"));
  EXPECT_THAT(rig.run()->drift(), IsEmpty());
  EXPECT_THAT(rig.run()->changed_by_spec(), ElementsAre("vm/w-1"));
  arm(rig, "[{at: 0s, change: {vm: 101, by: bob@pam, set: {onboot: 0, tags: red}}}]");
  rig.home.world.run_for(30s);
  EXPECT_THAT(told(rig.run()->drift()),
              ElementsAre("vm/w-1 onboot: 0 -> 1", "vm/w-1 tags: red -> blue;rocca"));
  EXPECT_THAT(rig.run()->changed_by_spec(), ElementsAre("vm/w-1"));
}

TEST(EngineDrift, ANodeWhoseConfigurationIsAsItWasDiffersByTheSpec) {
  ClusterRig rig;
  const auto with = [](const char* value) {
    return replace_all(
        two_nodes, "[qemu-guest-agent] }",
        fmt::format("[qemu-guest-agent], sysctls: {{ vm.nr_hugepages: \"{}\" }} }}", value));
  };
  rig.write_spec(with("0"));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with("1024"));
  EXPECT_THAT(rig.run()->drift(), IsEmpty());
  EXPECT_THAT(rig.run()->changed_by_spec(), ElementsAre("machine/cp-1", "machine/w-1"));
}

TEST(EngineDrift, WithoutAStateItCannotBeToldWhoseADifferenceIs) {
  ClusterRig rig;
  rig.write_spec(two_nodes);
  ASSERT_TRUE(rig.up().ok());
  arm(rig, "[{at: 0s, change: {vm: 101, by: bob@pam, set: {onboot: 0}}}]");
  rig.home.world.run_for(30s);
  rig.lose_state();
  EXPECT_THAT(told(rig.run()->drift()), ElementsAre("vm/w-1 onboot: 0 -> 1 ?"));
}

TEST(EngineDrift, AClusterThatWasNeverRaisedHasNone) {
  ClusterRig rig;
  rig.write_spec(two_nodes);
  EXPECT_THAT(rig.run()->drift(), IsEmpty());
  EXPECT_THAT(rig.run()->changed_by_spec(), Contains("vm/w-1"));
}

// A change that is made at once leaves no task: whoever else was at the VM is not blamed flatly.
TEST(EngineDrift, NamesNobodyFlatlyForWhatTheLogDoesNotShow) {
  ClusterRig rig;
  rig.home.dc.access.roles["RoccaSee"].erase("Sys.Syslog");  // the cluster log would tell
  rig.write_spec(two_nodes);
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(1h);
  arm(rig, "[{at: 0s, change: {vm: 101, by: bob@pam, at-once: true, set: {onboot: 0}}}]");
  rig.home.world.run_for(30s);
  auto drift = rig.run()->drift();
  ASSERT_THAT(told(drift), ElementsAre("vm/w-1 onboot: 0 -> 1"));
  EXPECT_EQ(drift[0].by, "");
  // Anna changes something else, with a task.
  arm(rig, "[{at: 0s, change: {vm: 101, by: anna@pam, set: {tags: red}}}]");
  rig.home.world.run_for(30s);
  drift = rig.run()->drift();
  ASSERT_THAT(drift, SizeIs(2));
  const auto culprits = [&] {
    std::vector<std::string> all;
    for (const resources::Drift& each : drift)
      all.push_back(each.field + " " + each.by + (each.perhaps.empty() ? "" : " perhaps"));
    return all;
  };
  EXPECT_THAT(culprits(), UnorderedElementsAre("onboot ", "tags anna@pam"))
      << "her task says that it was about the tags";
  // Two tasks: each says what it did.
  arm(rig, "[{at: 0s, change: {vm: 101, by: carl@pam, set: {description: mine, cores: 3}}}]");
  rig.home.world.run_for(30s);
  drift = rig.run()->drift();
  EXPECT_THAT(culprits(), IsSupersetOf({"onboot ", "tags anna@pam", "description carl@pam"}));
  // Bob has the last word, and no task for it: Carl's made it something else.
  arm(rig, "[{at: 0s, change: {vm: 101, by: bob@pam, at-once: true, set: {description: ours}}}]");
  rig.home.world.run_for(30s);
  drift = rig.run()->drift();
  EXPECT_THAT(culprits(), Contains("description carl@pam perhaps"));
}

TEST(EngineDrift, AsksTheHostsWhereAVmWasBefore) {
  lab::Home::Options two_hosts;
  two_hosts.hosts = {"pve1", "pve2"};
  ClusterRig rig{two_hosts};
  rig.write_spec(replace_all(replace_all(two_nodes, "[pve1]", "[pve1, pve2]"), "cores: 2",
                             "host: pve1, cores: 2"));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(1h);
  arm(rig, "[{at: 0s, change: {vm: 101, by: anna@pam, set: {onboot: 0}}}]");
  rig.home.world.run_for(30s);
  rig.home.dc.vms.at(101).node = "pve2";
  auto drift = rig.run()->drift();
  ASSERT_THAT(drift, SizeIs(1));
  EXPECT_EQ(drift[0].by, "anna@pam");
  EXPECT_EQ(drift[0].perhaps, "");
  // Destroyed where nobody remembers it to have been.
  test::Administrator client = client_with(rig, rig.home.root_token);
  client.start_stop("pve2", 101);
  rig.home.world.run_for(30s);
  client.start_destroy("pve2", 101, true);
  rig.home.world.run_for(30s);
  drift = rig.run()->drift();
  const resources::Drift* gone = find(drift, "vm/w-1", "exists");
  ASSERT_NE(gone, nullptr);
  EXPECT_THAT(gone->by, HasSubstr("root@pam"));
}

TEST(EngineDrift, CardsAndDisksCanBeAccepted) {
  ClusterRig rig;
  rig.write_spec(two_nodes);
  ASSERT_TRUE(rig.up().ok());
  test::Administrator client = client_with(rig, rig.home.root_token);
  const auto config = client.find_whole_config("pve1", 101);
  proxmox::VmUpdate update;
  update.set["net0"] = *config->find("net0") + ",tag=20";
  update.set["scsi0"] =
      replace_all(replace_all(*config->find("scsi0"), ",iothread=1", ""), "ssd=1", "ssd=0");
  client.start_update("pve1", 101, update);
  rig.home.world.run_for(30s);
  std::vector<std::string> lines;
  for (const resources::Drift& drift : rig.run()->drift())
    for (const std::string& line : accepted(drift)) lines.push_back(drift.field + " " + line);
  EXPECT_THAT(lines,
              ElementsAre("net0 spec.nodes.w-1.machine.nics.0.vlan: 20",
                          "scsi0.pending spec.nodes.w-1.machine.disks.system.iothread: false",
                          "scsi0.pending spec.nodes.w-1.machine.disks.system.ssd: false"));
}

TEST(EnginePlans, FitThePublishedSchema) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  const text::Value schema = report::plan_schema();
  const auto misfit = [&](const engine::Plan& plan) {
    return test::misfit(report::to_value(plan), schema);
  };
  const engine::Plan first = rig.plan();
  EXPECT_THAT(first.steps, Not(IsEmpty()));
  EXPECT_EQ(misfit(first), "");
  ASSERT_TRUE(rig.up().ok());
  EXPECT_EQ(misfit(rig.plan()), "");
  rig.write_spec(replace_all(static_spec(three_and_two), "cores: 4", "cores: 3"));
  const engine::Plan changed = rig.plan();
  EXPECT_THAT(changed.steps, Not(IsEmpty()));
  EXPECT_EQ(misfit(changed), "");
  const auto razed = rig.run();
  EXPECT_THAT(razed->plan_down().steps, Not(IsEmpty()));
  EXPECT_EQ(misfit(razed->plan_down()), "");
}

TEST(EnginePlans, ANodeBehindASlowLineIsNotTakenForOneThatIsDown) {
  ClusterRig rig;
  rig.write_spec(static_spec(R"(  nodes:
    cp-1: { role: controlplane, address: 10.0.1.11 }
    w-1: { role: worker, address: 10.0.1.21 }
)"));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(1h);
  rig.home.world.network().set_latency("10.0.1.21", {1s, 0s});
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  rig.home.world.network().set_latency("10.0.1.21", {4s, 0s});
  EXPECT_FALSE(differences(rig.plan()).empty()) << "such a line is as good as none";
}

TEST(EngineStatus, ShowsEveryNodeAndEtcd) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  resources::ClusterStatus status = rig.run()->status();
  EXPECT_FALSE(status.healthy);
  EXPECT_EQ(status.etcd, "not bootstrapped");
  EXPECT_EQ(status.nodes.front().problem, "there is no VM");
  ASSERT_TRUE(rig.up().ok());
  status = rig.run()->status();
  EXPECT_TRUE(status.healthy);
  EXPECT_EQ(status.etcd, "3 members, healthy");
  ASSERT_THAT(status.nodes, SizeIs(5));
  EXPECT_EQ(status.nodes[0].machine, "VM 100 on pve1");
  EXPECT_EQ(status.nodes[0].talos, "v1.11.5");
  EXPECT_EQ(status.nodes[0].stage, "running");
  EXPECT_EQ(status.nodes[3].etcd, "");
  for (const resources::NodeStatus& node : status.nodes)
    EXPECT_EQ(node.kubernetes, "v1.34.1") << node.name;
  std::map<std::string, Instant> until;
  for (const auto& certificate : status.certificates) until[certificate.name] = certificate.expires;
  const Instant now = rig.home.world.clock().now();
  for (const char* file : {"kubeconfig", "talosconfig"}) {
    ASSERT_TRUE(until.contains(file));
    EXPECT_GT(until[file], now + 300 * 24h) << file;
    EXPECT_LT(until[file], now + 400 * 24h) << file;
  }
  // Two of three are gone: etcd has no quorum, and says so.
  test::Administrator client = client_with(rig, rig.home.root_token);
  client.start_stop("pve1", 100);
  client.start_stop("pve1", 101);
  rig.home.world.run_for(2min);
  status = rig.run()->status();
  EXPECT_FALSE(status.healthy);
  EXPECT_THAT(status.etcd, HasSubstr("quorum is lost"));
  EXPECT_EQ(status.nodes[0].power, "stopped");
}

TEST(EngineConfig, ALiveChangeRestartsNothing) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  std::string text = static_spec(pools(1, 1));
  text = replace_all(text, "extensions: [qemu-guest-agent] }",
                     "extensions: [qemu-guest-agent], sysctls: { vm.max_map_count: \"262144\" } }");
  rig.write_spec(text);
  const engine::Plan plan = rig.plan();
  ASSERT_THAT(plan.steps, SizeIs(2));
  EXPECT_EQ(plan.effect, engine::Effect::Live);
  EXPECT_THAT(differences(plan),
              Each(HasSubstr("[machine.sysctls.vm.max_map_count: '' -> '262144']")));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(report.changed(), ElementsAre("machine/cp-1", "machine/worker-1"));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_THAT(rig.home.estate.truth(100).config, HasSubstr("vm.max_map_count"));
}

/// Somebody with our certificate changes the configuration of cp-1 past us.
void apply_by_hand(ClusterRig& rig, const std::string& from, const std::string& to) {
  const resources::Cluster cluster = rig.cluster();
  talos::Client node{
      rig.wire, talos::Access::secure("10.0.1.11", cluster.authority, cluster.identity), {}};
  const std::string config{node.find_config()->reveal()};
  ASSERT_THAT(config, HasSubstr(from));
  node.apply(Secret{replace_all(config, from, to)}, {talos::ApplyMode::NoReboot, false, 1min, {}});
  rig.home.world.run_for(10s);
}

std::string sysctl_spec(const std::string& value, const std::string& more = "") {
  return replace_all(
      static_spec(pools(1, 0)), "extensions: [qemu-guest-agent] }",
      fmt::format("extensions: [qemu-guest-agent], sysctls: {{ vm.nr_hugepages: \"{}\" }}{} }}",
                  value, more));
}

TEST(EngineConfig, PlanAndDriftShowWhatAValueWasAndWillBe) {
  ClusterRig rig;
  rig.write_spec(sysctl_spec("0"));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(sysctl_spec("1024"));
  EXPECT_THAT(differences(rig.plan()),
              ElementsAre(HasSubstr("[machine.sysctls.vm.nr_hugepages: '0' -> '1024']")));
  // Somebody applies another one by hand: drift says what it is, and what it should be.
  rig.write_spec(sysctl_spec("0"));
  apply_by_hand(rig, "vm.nr_hugepages: \"0\"", "vm.nr_hugepages: \"512\"");
  std::vector<std::string> found;
  for (const resources::Drift& drift : rig.run()->drift())
    found.push_back(
        fmt::format("{} {}: {} -> {}", drift.address, drift.field, drift.found, drift.declared));
  EXPECT_THAT(found, ElementsAre("machine/cp-1 machine.sysctls.vm.nr_hugepages: 512 -> 0"));
}

TEST(EngineConfig, AChangedSecretShowsAsChangedAndNotWhatItIs) {
  ClusterRig rig;
  const auto with = [](const char* secret) {
    return sysctl_spec("0", fmt::format(", patches: {{ all: [ {{ machine: {{ env: {{ MY_TOKEN: "
                                        "{} }} }} }} ] }}",
                                        secret));
  };
  rig.write_spec(with("first-canary"));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with("second-canary"));
  const auto lines = differences(rig.plan());
  EXPECT_THAT(lines, ElementsAre(HasSubstr("[machine.env.MY_TOKEN: '***' -> '*** (another")));
  EXPECT_THAT(lines, Each(Not(HasSubstr("canary"))));
}

TEST(EngineConfig, APlanIsStaleWhenAValueThatDiffersChangesAgain) {
  ClusterRig rig;
  rig.write_spec(sysctl_spec("0"));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(sysctl_spec("1024"));
  const std::string shown = rig.plan().bound_to;
  EXPECT_EQ(rig.plan().bound_to, shown);
  apply_by_hand(rig, "vm.nr_hugepages: \"0\"", "vm.nr_hugepages: \"512\"");
  EXPECT_NE(rig.plan().bound_to, shown);
}

TEST(EngineConfig, ARebootOfControlPlanesIsOneAtATime) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  std::string text = static_spec(pools(3, 0));
  text = replace_all(text, "extensions: [qemu-guest-agent] }",
                     "extensions: [qemu-guest-agent], patches: { all: [ { machine: { env: { "
                     "GRPC_GO_LOG_SEVERITY_LEVEL: info } } } ] } }");
  rig.write_spec(text);
  const engine::Plan plan = rig.plan();
  EXPECT_EQ(plan.effect, engine::Effect::Reboot);
  rig.log.clear();
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  // Each settles before the next is begun.
  std::vector<std::string> order;
  for (const std::string& line : rig.log)
    if (line.find("apply and reboot") != std::string::npos ||
        line.find("settled machine") != std::string::npos)
      order.push_back(line.find("settled") != std::string::npos ? "settled" : "reboot");
  EXPECT_THAT(order, ElementsAre("reboot", "settled", "reboot", "settled", "reboot", "settled"));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(EngineConfig, AnotherSchematicIsAnUpgradeAndRefused) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(replace_all(static_spec(pools(1, 0)), "[qemu-guest-agent]",
                             "[qemu-guest-agent, iscsi-tools]"));
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("an upgrade to the same version, of class reboot"),
                    HasSubstr("talosctl upgrade -n 10.0.1.11 --image factory.talos.dev/")));
}

TEST(EngineBootstrap, ALostClusterIsNotQuietlyMadeAnew) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  // The only control plane is lost with its disk; the state remembers that etcd was there.
  test::Administrator client = client_with(rig, rig.home.root_token);
  client.start_stop("pve1", 100);
  rig.home.world.run_for(30s);
  client.start_destroy("pve1", 100, true);
  rig.home.world.run_for(30s);
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("no control plane has its data any more"));
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
}

TEST(EngineDiagnosis, ASilentNodeIsExplainedFromProxmox) {
  ClusterRig rig;
  std::string text = static_spec(pools(1, 0));
  text = replace_all(text, "  kubernetes:\n", "  timeouts: { boot: 2m }\n  kubernetes:\n");
  text = replace_all(text, "    gateway: 10.0.0.1\n", "    gateway: 10.0.0.1\n    vlan: 30\n");
  rig.write_spec(text);
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report),
              AllOf(HasSubstr("still waiting after 2m"), HasSubstr("Proxmox says: running"),
                    HasSubstr("1. it has its address and hears nobody: VLAN 30 of vmbr0")));
}

TEST(EngineRequests, AreFewForEachVm) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 2)));
  const auto requests = [&] { return rig.pve_requests(); };
  const std::size_t before = requests();
  ASSERT_TRUE(rig.up().ok());
  const std::size_t made = requests() - before;
  const std::size_t then = requests();
  ASSERT_THAT(differences(rig.plan()), IsEmpty());
  const std::size_t looked = requests() - then;
  if (rig.loud)
    for (const auto& [what, count] : rig.counting.counts) fmt::print("{:4} {}\n", count, what);
  fmt::print("5 VMs: {} requests to make them, {} to find nothing to do\n", made, looked);
  EXPECT_LE(looked, 5u + 5u);
  // Beside what is asked once for all: the lists, the storage, the image, and before the first
  // change the rights and the bridges.
  EXPECT_LE(made, 5u * 8u + 5u + 2u);
  // One more, beyond an `up` that does nothing.
  const auto up = [&] {
    const std::size_t start = requests();
    EXPECT_TRUE(rig.up().ok());
    return requests() - start;
  };
  rig.write_spec(static_spec(pools(3, 3)));
  const std::size_t one_more = up();
  EXPECT_LE(one_more, up() + 8u + 3u) << "with its rights, bridges and storages";
}

}  // namespace
}  // namespace rocca::scenarios
