// How VMs are switched off: the guest that runs now is asked first, whatever the task log says
// about earlier ones, and what Proxmox would refuse is refused in the plan, before anything is off.

#include "lab/pve/qemu/qemu.hpp"
#include "scenarios/engine_machines.hpp"

#include <algorithm>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

resources::RunOptions allow_power_cycle() {
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  return options;
}

std::string with_memory(const std::string& spec, const std::string& memory) {
  return replace_all(spec, "machine: { memory: 8GiB, cores: 4 }",
                     "machine: { memory: " + memory + ", cores: 4 }");
}

/// Types of all tasks of one VM that began since, oldest first; `*` behind those of our token.
std::vector<std::string> tasks_since(ClusterRig& rig, unsigned vmid, Instant since) {
  proxmox::TaskFilter filter;
  filter.vmid = vmid;
  filter.since = since;
  std::vector<proxmox::TaskRow> rows;
  for (const auto& [host, node] : rig.home.dc.nodes())
    for (proxmox::TaskRow& row : root(rig).tasks(host, filter)) rows.push_back(std::move(row));
  std::reverse(rows.begin(), rows.end());  // the list begins with the newest
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.started < b.started; });
  std::vector<std::string> types;
  for (const proxmox::TaskRow& row : rows)
    types.push_back(row.upid.type + (row.user.starts_with("rocca@pve") ? "*" : ""));
  return types;
}

std::size_t stops(const ClusterRig& rig, unsigned vmid) {
  return times_asked(rig, fmt::format("POST /nodes/pve1/qemu/{}/status/stop", vmid));
}
std::size_t shutdowns(const ClusterRig& rig, unsigned vmid) {
  return times_asked(rig, fmt::format("POST /nodes/pve1/qemu/{}/status/shutdown", vmid));
}

// Root shut the VM down and started it again: that says nothing about the guest that runs now.
TEST(Power, AShutdownBySomeoneElseBeforeAStartDoesNotCount) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  test::Administrator client = root(rig);
  wait_for(rig, client, client.start_shutdown("pve1", 101, 60s, false));
  rig.home.world.run_for(5s);
  wait_for(rig, client, client.start_vm("pve1", 101));
  rig.home.world.run_for(2min);
  const Instant before = rig.home.world.now();
  rig.write_spec(with_memory(static_spec(pools(1, 1)), "6GiB"));
  const engine::Report report = rig.up(allow_power_cycle());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(tasks_since(rig, 101, before),
              testing::ElementsAre("qmshutdown*", "qmconfig*", "qmstart*"));
  EXPECT_EQ(stops(rig, 101), 0u) << "it obeys when it is asked";
}

// The same of a VM that had the id before: its guest ignored a shutdown and was destroyed.
TEST(Power, AShutdownOfAnEarlierVmOfTheSameIdDoesNotCount) {
  ClusterRig rig;
  make_machine(rig, 100, "10.0.1.99");
  test::Administrator client = root(rig);
  const auto hears = rig.home.dc.guest_of;
  deafen(rig);
  const auto ignored = client.start_shutdown("pve1", 100, 40s, false);
  rig.home.world.run_for(1min);
  ASSERT_FALSE(client.find_task(ignored)->running);
  ASSERT_FALSE(client.find_task(ignored)->ok());
  wait_for(rig, client, client.start_stop("pve1", 100, false));
  wait_for(rig, client, client.start_destroy("pve1", 100, true));
  rig.home.dc.guest_of = hears;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  ASSERT_TRUE(rig.home.dc.vms.contains(100));
  ASSERT_LT(rig.home.world.now() - client.find_task(ignored)->upid.started, 15min);
  EXPECT_TRUE(rig.down().ok());
  EXPECT_EQ(shutdowns(rig, 100), 1u);
  EXPECT_EQ(stops(rig, 100), 0u);
}

// It ignored root's request half a minute ago, and is the same guest: it is not asked twice.
TEST(Power, AShutdownThatThisVeryGuestIgnoredCounts) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  deafen(rig);
  test::Administrator client = root(rig);
  client.start_shutdown("pve1", 100, 40s, false);
  rig.home.world.run_for(1min);
  EXPECT_TRUE(rig.down().ok());
  EXPECT_EQ(shutdowns(rig, 100), 0u);
  EXPECT_EQ(stops(rig, 100), 1u);
}

// Five seconds are no answer.
TEST(Power, AShutdownThatWasGivenNoTimeDoesNotCount) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  deafen(rig);
  test::Administrator client = root(rig);
  client.start_shutdown("pve1", 100, 5s, false);
  rig.home.world.run_for(20s);
  EXPECT_TRUE(rig.down().ok());
  EXPECT_EQ(shutdowns(rig, 100), 1u);
  EXPECT_EQ(stops(rig, 100), 1u);
}

// ---- HA

lab::Home::Options two_hosts() {
  lab::Home::Options options;
  options.hosts = {"pve1", "pve2"};
  return options;
}

TEST(Power, AVmInHaIsShutDownThroughHaAndStartedAgain) {
  ClusterRig rig{two_hosts()};
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.ha["vm:101"];
  const Instant before = rig.home.world.now();
  rig.write_spec(with_memory(static_spec(pools(1, 1)), "6GiB"));
  const engine::Report report = rig.up(allow_power_cycle());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(*rig.home.dc.vms.at(101).find("memory"), "6144");
  EXPECT_EQ(stops(rig, 101), 0u);
  EXPECT_THAT(tasks_since(rig, 101, before),
              testing::ElementsAre("hastop*", "qmshutdown", "qmconfig*", "hastart*", "qmstart"));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  EXPECT_THAT(rig.home.dc.ha, IsEmpty()) << "the destroy takes it out of HA";
}

// On a single host no HA manager runs: nothing ever happens, and that is said.
TEST(Power, AnHaThatDoesNotActIsToldApartAndDownEnds) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.ha["vm:100"];
  const Instant begun = rig.home.world.now();
  const engine::Report down = rig.down();
  EXPECT_FALSE(down.ok());
  EXPECT_LT(rig.home.world.now() - begun, 10min);
  EXPECT_THAT(problems(down),
              AllOf(HasSubstr("HA has not stopped it"), HasSubstr("`ha-manager remove vm:100`")));
}

// ---- what is refused in the plan

/// Nothing was asked of Proxmox but reads.
void expect_untouched(const ClusterRig& rig) {
  for (const auto& [what, times] : rig.counting.counts)
    EXPECT_THAT(what, testing::StartsWith("GET ")) << times << " times";
}

TEST(Power, DownOfAProtectedVmIsRefusedBeforeAnythingIsOff) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.vms.at(102).config["protection"] = "1";
  rig.counting.counts.clear();
  EXPECT_THAT(refused([&] { rig.down(); }),
              AllOf(HasSubstr("vm/worker-2: VM 102 'blue-worker-2' on pve1 has `protection: 1`"),
                    HasSubstr("`qm set 102 --protection 0` on pve1")));
  expect_untouched(rig);
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
  rig.home.dc.vms.at(102).config["protection"] = "0";
  EXPECT_TRUE(rig.down().ok());
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

TEST(Power, RemovingAProtectedNodeIsRefusedInThePlan) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.vms.at(102).config["protection"] = "1";
  rig.write_spec(static_spec(pools(1, 1)));
  rig.counting.counts.clear();
  const engine::Plan plan = rig.plan(allow_data_loss());
  EXPECT_EQ(plan.summary.refused, 1u) << testing::PrintToString(differences(plan));
  EXPECT_THAT(refused([&] { rig.up(allow_data_loss()); }),
              HasSubstr("`qm set 102 --protection 0` on pve1"));
  expect_untouched(rig);
}

TEST(Power, RemovingADiskOfAProtectedVmIsRefusedInThePlan) {
  const std::string disk =
      replace_all(static_spec(pools(1, 1)), "machine: { memory: 8GiB, cores: 4 }",
                  "machine: { memory: 8GiB, cores: 4, disks: { system: 20GiB, data: 10GiB } }");
  ClusterRig rig;
  rig.write_spec(disk);
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.vms.at(101).config["protection"] = "1";
  // Memory as well: without the check the VM would be off when the disk is refused.
  rig.write_spec(replace_all(replace_all(disk, ", data: 10GiB", ""), "8GiB", "6GiB"));
  resources::RunOptions options = allow_data_loss();
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  rig.counting.counts.clear();
  EXPECT_THAT(refused([&] { rig.up(options); }),
              AllOf(HasSubstr("refuses to remove a disk of it"), HasSubstr("--protection 0")));
  expect_untouched(rig);
}

// Whoever allows data-loss wants the volume gone, not kept as `unused0` where no plan shows it.
TEST(Power, ARemovedDiskIsDestroyed) {
  const std::string disk =
      replace_all(static_spec(pools(1, 1)), "machine: { memory: 8GiB, cores: 4 }",
                  "machine: { memory: 8GiB, cores: 4, disks: { system: 20GiB, data: 10GiB } }");
  ClusterRig rig;
  rig.write_spec(disk);
  ASSERT_TRUE(rig.up().ok());
  const auto volumes = [&] {
    std::size_t count = 0;
    for (const auto& [name, volume] : rig.home.dc.storages.at("local-lvm").on("pve1"))
      count += volume.vmid == 101u;
    return count;
  };
  const std::size_t before = volumes();
  rig.write_spec(replace_all(disk, ", data: 10GiB", ""));
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(volumes(), before - 1);
  for (const auto& [key, value] : rig.home.dc.vms.at(101).config)
    EXPECT_FALSE(key.starts_with("unused")) << key << ": " << value;
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Power, ProtectionDoesNotStandInTheWayOfARestart) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.vms.at(101).config["protection"] = "1";
  rig.write_spec(with_memory(static_spec(pools(1, 1)), "6GiB"));
  const engine::Report report = rig.up(allow_power_cycle());
  EXPECT_TRUE(report.ok()) << problems(report);
}

TEST(Power, ProtectionThatComesAfterThePlanStillKeepsTheVmRunning) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  const auto run = rig.run();
  static_cast<void>(run->plan_down());
  rig.home.dc.vms.at(100).config["protection"] = "1";
  run->on_change([](const engine::Plan&) { return true; });
  try {
    const engine::Report report = run->down([](const engine::Event&) {});
    EXPECT_FALSE(report.ok());
    EXPECT_THAT(problems(report), HasSubstr("--protection 0"));
  } catch (const Error& error) {
    EXPECT_THAT(error.render(), HasSubstr("--protection 0"));
  }
  EXPECT_EQ(shutdowns(rig, 100) + stops(rig, 100), 0u);
}

TEST(Power, AChangeOfALockedVmIsRefusedInThePlan) {
  for (const std::string lock : {"backup", "migrate", "snapshot-delete"}) {
    SCOPED_TRACE(lock);
    ClusterRig rig;
    rig.write_spec(static_spec(pools(1, 2)));
    ASSERT_TRUE(rig.up().ok());
    rig.home.dc.vms.at(102).config["lock"] = lock;
    rig.write_spec(with_memory(static_spec(pools(1, 2)), "6GiB"));
    rig.counting.counts.clear();
    EXPECT_THAT(refused([&] { rig.up(allow_power_cycle()); }),
                AllOf(HasSubstr("vm/worker-2: VM 102 'blue-worker-2' on pve1 is locked (" + lock +
                                "), and no task holds it"),
                      HasSubstr("`qm unlock 102` on pve1 as root")));
    expect_untouched(rig);
    rig.home.dc.vms.at(102).config.erase("lock");
    const engine::Report report = rig.up(allow_power_cycle());
    EXPECT_TRUE(report.ok()) << problems(report);
  }
}

TEST(Power, AVmThatHaHasGivenUpIsRefusedInThePlan) {
  ClusterRig rig{two_hosts()};
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.ha["vm:102"].state = "error";
  rig.counting.counts.clear();
  EXPECT_THAT(refused([&] { rig.down(); }),
              AllOf(HasSubstr("HA has VM 102"), HasSubstr("`ha-manager remove vm:102`")));
  expect_untouched(rig);
}

}  // namespace
}  // namespace rocca::scenarios
