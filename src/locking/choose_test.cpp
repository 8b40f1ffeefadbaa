#include "locking/choose.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "spec/load.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace rocca::locking {
namespace {

using testing::ElementsAre;
using testing::Pair;

spec::Spec load(const std::string& hosts, const std::string& nodes) {
  MemoryFiles files;
  const spec::Loaded loaded = spec::load_text(
      files,
      fmt::format(
          "apiVersion: rocca.dev/v1\nkind: Cluster\nmetadata: {{ name: blue }}\nspec:\n"
          "  policy: {{ evenControlPlanes: warn }}\n"
          "  talos: {{ version: v1.11.5, extensions: [qemu-guest-agent] }}\n"
          "  kubernetes: {{ version: v1.34.1 }}\n"
          "  network: {{ subnet: 10.0.0.0/16, gateway: 10.0.0.1 }}\n"
          "  proxmox: {{ endpoints: [https://pve.home:8006], token: {{ secret: t }}, hosts: "
          "[{}] }}\n  nodes:\n{}",
          hosts, nodes),
      "cluster.yaml", "/");
  EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  return loaded.spec;
}

std::string node(const std::string& name, const char* role, int number,
                 const std::string& machine = "") {
  return fmt::format("    {}: {{ role: {}, address: 10.0.1.{}{} }}\n", name, role, number,
                     machine.empty() ? "" : ", machine: { " + machine + " }");
}

std::string cp(int number, const std::string& machine = "") {
  return node(fmt::format("cp-{}", number), "controlplane", number, machine);
}

std::string worker(int number, const std::string& machine = "") {
  return node(fmt::format("w-{}", number), "worker", 100 + number, machine);
}

spec::Lock lock_of(const spec::Spec& spec, const spec::Lock& before, const Occupied& occupied) {
  spec::Lock lock = before;
  for (const auto& [name, host] : choose_hosts(spec, before, occupied))
    lock.nodes[name].host = host;
  for (const auto& [name, vmid] : choose_vmids(spec, before, occupied))
    lock.nodes[name].vmid = vmid;
  return lock;
}

TEST(ChooseHosts, SpreadsControlPlanesFirstAndThenFillsUp) {
  const spec::Spec spec =
      load("a, b, c", worker(1) + worker(2) + cp(1) + cp(2) + cp(3) + worker(3) + worker(4));
  EXPECT_THAT(choose_hosts(spec, {}, {}),
              ElementsAre(Pair("cp-1", "a"), Pair("cp-2", "b"), Pair("cp-3", "c"), Pair("w-1", "a"),
                          Pair("w-2", "b"), Pair("w-3", "c"), Pair("w-4", "a")));
}

TEST(ChooseHosts, APinnedControlPlaneTakesItsHostFromTheOthers) {
  const spec::Spec spec = load("a, b, c", cp(1) + cp(2) + cp(3, "host: a"));
  EXPECT_THAT(choose_hosts(spec, {}, {}),
              ElementsAre(Pair("cp-1", "b"), Pair("cp-2", "c"), Pair("cp-3", "a")));
}

TEST(ChooseHosts, TwoShareAHostOnlyWhenNoneIsFree) {
  const auto hosts = choose_hosts(load("a, b", cp(1) + cp(2) + cp(3) + worker(1)), {}, {});
  EXPECT_THAT(hosts, ElementsAre(Pair("cp-1", "a"), Pair("cp-2", "b"), Pair("cp-3", "a"),
                                 Pair("w-1", "b")));
}

TEST(ChooseHosts, NothingNewGoesToAHostThatIsDown) {
  const spec::Spec spec = load("a, b", cp(1) + worker(1));
  spec::Lock before;
  before.nodes["cp-1"].host = "a";
  EXPECT_THAT(choose_hosts(spec, before, {.offline_hosts = {"a"}}),
              ElementsAre(Pair("cp-1", "a"), Pair("w-1", "b")))
      << "what is there stays there";
  EXPECT_THROW(choose_hosts(spec, before, {.offline_hosts = {"a", "b"}}), Error);
}

TEST(ChooseHosts, AHostThatTheSpecNoLongerHasIsLeft) {
  spec::Lock before;
  before.nodes["cp-1"].host = "old";
  EXPECT_THAT(choose_hosts(load("a", cp(1)), before, {}), ElementsAre(Pair("cp-1", "a")));
}

TEST(ChooseVmids, TakesTheLowestFreeOnesAndLeavesPinnedOnesAlone) {
  const spec::Spec spec = load("a", cp(1) + cp(2, "vmid: 101") + cp(3) + worker(1));
  EXPECT_THAT(
      choose_vmids(spec, {}, {.vmids = {100, 103}}),
      ElementsAre(Pair("cp-1", 102), Pair("cp-2", 101), Pair("cp-3", 104), Pair("w-1", 105)));
  EXPECT_THAT(choose_vmids(load("a", cp(1)), {}, {.first_vmid = 5000}),
              ElementsAre(Pair("cp-1", 5000)));
}

TEST(ChooseVmids, TheSameIdsComeBackAfterADownAndAnUp) {
  const spec::Spec spec = load("a", cp(1) + worker(1));
  const spec::Lock first = lock_of(spec, {}, {.vmids = {100}});
  EXPECT_EQ(lock_of(spec, first, {}), first) << "101 and 102, though 100 is free now";
  // A node that left and comes back: its id was not given away.
  const spec::Lock without = lock_of(load("a", cp(1) + worker(2)), first, {});
  EXPECT_EQ(without.nodes.at("w-2").vmid, 100);
  EXPECT_EQ(lock_of(spec, without, {}).nodes.at("w-1"), first.nodes.at("w-1"));
}

TEST(ChooseVmids, AddingANodeTouchesNothingElse) {
  const spec::Lock before = lock_of(load("a, b", cp(1) + worker(1)), {}, {});
  const spec::Lock after = lock_of(load("a, b", worker(0) + cp(1) + worker(1)), before, {});
  for (const auto& [name, entry] : before.nodes) EXPECT_EQ(after.nodes.at(name), entry);
  EXPECT_EQ(after.nodes.at("w-0").vmid, 102);
}

TEST(ChooseVmids, AnIdThatIsLockedForAnotherNodeIsAConflict) {
  spec::Lock before;
  before.nodes["w-1"].vmid = 200;
  EXPECT_THROW(choose_vmids(load("a", cp(1, "vmid: 200") + worker(1)), before, {}), Error);
}

TEST(Choose, MachinesThatAreThereAndClustersWithoutProxmoxNeedNothing) {
  const spec::Spec spec = load("a", cp(1) +
                                        "    metal: { role: worker, address: 10.0.1.9, "
                                        "existing: true }\n");
  EXPECT_THAT(choose_hosts(spec, {}, {}), ElementsAre(Pair("cp-1", "a")));
  EXPECT_THAT(choose_vmids(spec, {}, {}), ElementsAre(Pair("cp-1", 100)));
}

// For any cluster, any history and any neighbours.
RC_GTEST_PROP(Choose, KeepsItsPromises, ()) {
  const int planes = *rc::gen::inRange(1, 8);
  const int workers = *rc::gen::inRange(0, 12);
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  const auto count = *rc::gen::inRange<std::size_t>(1, names.size() + 1);
  std::string hosts = names[0];
  for (std::size_t i = 1; i < count; ++i) hosts += ", " + names[i];
  std::string few;
  std::string all;
  for (int i = 1; i <= planes; ++i) all += cp(i);
  for (int i = 1; i <= workers; ++i) all += worker(i);
  for (int i = 1; i <= planes / 2 + 1; ++i) few += cp(i);
  for (int i = 1; i <= workers / 2; ++i) few += worker(i);
  Occupied occupied;
  for (const auto vmid :
       *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(95, 125)))
    occupied.vmids.insert(vmid);

  const spec::Spec large = load(hosts, all);
  const spec::Lock before = lock_of(load(hosts, few), {}, occupied);
  const spec::Lock after = lock_of(large, before, occupied);
  RC_ASSERT(after == lock_of(large, before, occupied));
  RC_ASSERT(lock_of(large, after, {}) == after);
  for (const auto& [name, entry] : before.nodes) RC_ASSERT(after.nodes.at(name) == entry);

  std::set<std::uint64_t> ids;
  std::map<std::string, std::size_t> planes_on;
  for (std::size_t i = 0; i < count; ++i) planes_on[names[i]] = 0;
  for (const auto& [name, entry] : after.nodes) {
    RC_ASSERT(ids.insert(*entry.vmid).second);
    RC_ASSERT(!occupied.vmids.contains(*entry.vmid));
    if (name.starts_with("cp")) ++planes_on[entry.host];
  }
  const auto by_count = [](const auto& one, const auto& other) {
    return one.second < other.second;
  };
  const auto [least, most] = std::minmax_element(planes_on.begin(), planes_on.end(), by_count);
  RC_ASSERT(most->second - least->second <= 1);
}

}  // namespace
}  // namespace rocca::locking
