// How runs end: stops, states that cannot be written, locks that are lost; lanes, threads,
// observing.

#include "engine/execute.hpp"
#include "engine/proven.hpp"
#include "engine/toy_test_support.hpp"

#include <gmock/gmock.h>

namespace rocca::engine {
namespace {

using toy::busy;
using toy::ends;
using toy::lost;
using toy::resources;
using toy::Rig;
using toy::unreachable;
using toy::Wish;
using toy::wish;
using namespace std::chrono_literals;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;
using End = StepResult::End;

TEST(Execute, TheFirstStopLetsActsEndAndBeginsNoOther) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"})});
  rig.site.on_edge = [&](const std::string& edge) {
    if (edge == "after create vm/a") rig.stop.request_stop();
  };
  const Report report = rig.up();
  EXPECT_TRUE(report.interrupted);
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(ends(report),
              UnorderedElementsAre(Pair("vm/a", End::Done), Pair("machine/a", End::NotBegun)));
  EXPECT_EQ(rig.told(Event::Kind::Stopping).size(), 1u);
  EXPECT_EQ(rig.store.load()->items.at("vm/a").receipt, "");
  EXPECT_EQ(rig.count("create machine/a"), 0u);
}

TEST(Execute, AStopDoesNotWaitForAnActThatTakesLong) {
  Rig rig;
  Wish vm = wish("vm/a");
  vm.takes = 5min;
  rig.desired.wanted = resources({vm});
  Tick stopped{};
  rig.site.on_edge = [&](const std::string& edge) {
    if (edge != "after create vm/a") return;
    stopped = rig.runner->now();
    rig.stop.request_stop();
  };
  const Report report = rig.up();
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(report.steps.at("vm/a").error->fault(), Fault::Interrupted);
  EXPECT_LE(rig.runner->now() - stopped, 30s);
  EXPECT_NE(rig.store.load()->items.at("vm/a").receipt, "") << "the next run asks after it";
  rig.stop = std::stop_source{};
  rig.site.on_edge = {};
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(rig.count("create vm/a"), 1u);
}

TEST(Execute, AStopBeforeAnythingBeginsDoesNothing) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a")});
  const Plan plan = rig.plan();
  rig.site.log.clear();
  rig.stop.request_stop();
  const Report report = rig.run(plan);
  EXPECT_TRUE(report.interrupted);
  EXPECT_THAT(rig.site.log, IsEmpty());
  EXPECT_EQ(report.steps.at("vm/a").end, End::NotBegun);
}

TEST(Execute, AStopBetweenTwoActsSaysSo) {
  Rig rig;
  rig.site.things["vm/a"] = {{"disk", "lvm"}};
  Wish vm = wish("vm/a", {}, {{"disk", "zfs"}});
  vm.replace_on = {"disk"};
  rig.desired.wanted = resources({vm});
  rig.site.on_edge = [&](const std::string& edge) {
    if (edge == "after destroy vm/a") rig.stop.request_stop();
  };
  const Report report = rig.up();
  EXPECT_EQ(report.steps.at("vm/a").end, End::Failed);
  EXPECT_EQ(report.steps.at("vm/a").error->fault(), Fault::Interrupted);
  EXPECT_THAT(rig.site.things, IsEmpty());
  rig.stop = std::stop_source{};
  rig.site.on_edge = {};
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(rig.site.picture(), "vm/a disk=zfs\n");
}

TEST(Execute, AStateThatCannotBeWrittenStopsEverythingNew) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("vm/b"), wish("machine/a", {"vm/a"})});
  const Plan plan = rig.plan();
  rig.store.failures = {Error(Fault::Rejected, "the disk is full")};
  const Report report = rig.run(plan);
  EXPECT_FALSE(report.ok());
  ASSERT_TRUE(report.error.has_value());
  EXPECT_EQ(report.error->fault(), Fault::Rejected);
  EXPECT_THAT(report.error->render(), HasSubstr("writing the toy state"));
  EXPECT_EQ(rig.count("create machine/a"), 0u);
  rig.time.advance(rig.time.clock.tick() + 1min);
  EXPECT_EQ(rig.site.picture(), "vm/a v=1\nvm/b v=1\n") << "what was under way ended";
  EXPECT_TRUE(rig.up().ok());
}

TEST(Execute, AWriteThatMayPassIsTriedAgain) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"})});
  const Plan plan = rig.plan();
  rig.store.failures = {busy(), unreachable(), lost(), std::nullopt, unreachable()};
  EXPECT_TRUE(rig.run(plan).ok());
  EXPECT_EQ(rig.store.load()->items.size(), 2u);
}

TEST(Execute, TheLockIsKeptInTime) {
  Rig rig;
  Wish slow = wish("vm/a");
  slow.takes = 5min;
  rig.desired.wanted = resources({slow});
  std::vector<Tick> kept;
  rig.options.keep_lock = [&] { kept.push_back(rig.time.clock.tick()); };
  EXPECT_TRUE(rig.up().ok());
  ASSERT_GE(kept.size(), 14u);
  for (const Tick tick : kept) EXPECT_EQ((tick - kept.front()) % 20s, Duration::zero());
}

TEST(Execute, ALostLockEndsTheRunAtOnceWithoutAnotherWrite) {
  Rig rig;
  Wish slow = wish("vm/a");
  slow.takes = 5min;
  rig.desired.wanted = resources({slow, wish("machine/a", {"vm/a"})});
  rig.options.keep_lock = [&] {
    rig.store.before_write = [] { ADD_FAILURE() << "a write without the lock"; };
    throw Error(Fault::Locked, "anna@desk took it over");
  };
  const Report report = rig.up();
  EXPECT_EQ(report.error->fault(), Fault::Locked);
  EXPECT_LE(report.took, 25s);
  EXPECT_EQ(report.steps.at("vm/a").end, End::Failed);
  EXPECT_EQ(report.steps.at("machine/a").end, End::NotBegun);
}

TEST(Execute, ARenewalThatDoesNotGetThroughIsTriedAgain) {
  Rig rig;
  Wish slow = wish("vm/a");
  slow.takes = 5min;
  rig.desired.wanted = resources({slow});
  unsigned tries = 0;
  rig.options.keep_lock = [&] {
    if (++tries % 3 != 0) throw unreachable();
  };
  EXPECT_TRUE(rig.up().ok());
  rig.options.keep_lock = [] { throw unreachable(); };
  rig.site.things.clear();
  const Report report = rig.up();
  EXPECT_EQ(report.error->fault(), Fault::Unreachable) << "it may have expired by now";
  EXPECT_LE(report.took, 1min);
}

TEST(Execute, LanesHoldAlsoForWholeRuns) {
  Rig rig;
  std::vector<Wish> wishes;
  for (int i = 0; i < 9; ++i) {
    Wish vm = wish(fmt::format("vm/{}", i));
    vm.act_lanes = {{"import/local", 3, Lane::Hold::Act}};
    wishes.push_back(vm);
  }
  rig.desired.wanted = resources(wishes);
  std::size_t peak = 0;
  rig.site.on_edge = [&](const std::string&) {
    std::size_t now = 0;
    for (const auto& [id, task] : rig.site.tasks) now += task.over ? 0 : 1;
    peak = std::max(peak, now);
  };
  const Report report = rig.up();
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(peak, 3u);
  EXPECT_GE(report.took, 30s);
  EXPECT_LE(report.took, 38s);
}

TEST(Execute, RenewsTheLockAlsoWhileAWriteTakesItsTime) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a")});
  rig.store.before_write = [&] {
    rig.fibers->park([&](std::function<void()> wake) { rig.time.after(2min, std::move(wake)); });
  };
  unsigned kept = 0;
  rig.options.keep_lock = [&] { ++kept; };
  EXPECT_TRUE(rig.up().ok());
  EXPECT_GE(kept, 11u);
}

/// A wait that goes on at another door takes part in that door's lane from then on.
TEST(Execute, AWaitMayAskForMoreLanes) {
  Rig rig;
  std::vector<Wish> wishes;
  for (int i = 0; i < 6; ++i) {
    Wish vm = wish(fmt::format("vm/{}", i));
    vm.ask_with = {{"host", 1, Lane::Hold::Call}};
    wishes.push_back(vm);
  }
  rig.desired.wanted = resources(wishes);
  std::map<std::string, unsigned> asked;
  unsigned in_flight = 0, most = 0, first_most = 0, first = 0;
  rig.site.on_edge = [&](const std::string& edge) {
    const auto at = edge.find(" probe ");
    if (at == std::string::npos) return;
    const bool begins = edge.starts_with("before");
    const std::string who = edge.substr(at);
    if (begins) ++asked[who];
    unsigned& now = asked[who] == 1 ? first : in_flight;
    now = begins ? now + 1 : now - 1;
    (asked[who] == 1 ? first_most : most) = std::max(asked[who] == 1 ? first_most : most, now);
  };
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(most, 1u);
  EXPECT_GT(first_most, 1u) << "before that they are free";
}

/// Bring-up of many nodes against what the lanes and the longest chain make the least: each host
/// imports two disks at once, and behind an import stand two steps that only wait.
TEST(Execute, KeepsTheBusiestLaneBusy) {
  for (const int nodes : {5, 50, 300}) {
    Rig rig{20ms};
    std::vector<Wish> wishes;
    Wish health = wish("health/all");
    health.takes = 5s;
    health.ask_again = 1s;
    for (int i = 0; i < nodes; ++i) {
      const std::string host = std::to_string(i % 5);
      Wish vm = wish(fmt::format("vm/{:03}", i));
      vm.takes = 30s;
      vm.ask_again = 500ms;
      vm.read_lanes = {{"pve/" + host, 3, Lane::Hold::Call}};
      vm.act_lanes = {{"pve/" + host, 3, Lane::Hold::Call}, {"import/" + host, 2, Lane::Hold::Act}};
      Wish machine = wish(fmt::format("machine/{:03}", i), {vm.address});
      machine.takes = 90s;
      machine.ask_again = 500ms;
      health.needs.push_back(machine.address);
      wishes.push_back(vm);
      wishes.push_back(machine);
    }
    wishes.push_back(health);
    rig.desired.wanted = resources(wishes);
    const Report report = rig.up();
    EXPECT_TRUE(report.ok());
    const int rounds = (nodes / 5 + 1) / 2;  // of imports, on each host
    const Duration least = 30s * rounds + 90s + 5s;
    fmt::print("{} nodes: {:.1f} s, at least {:.1f} s\n", nodes,
               std::chrono::duration<double>(report.took).count(),
               std::chrono::duration<double>(least).count());
    EXPECT_LE(report.took, least * 105 / 100);
  }
}

TEST(Execute, WhatIsForeseenToTakeLongGoesFirst) {
  Rig rig;
  std::vector<Wish> wishes;
  for (const char* name : {"a", "b", "c"}) {
    Wish vm = wish(fmt::format("vm/{}", name));
    vm.act_lanes = {{"import", 1, Lane::Hold::Act}};
    Wish member = wish(fmt::format("member/{}", name), {vm.address});
    if (*name == 'c') member.foreseen = 20s;
    wishes.push_back(vm);
    wishes.push_back(member);
  }
  rig.desired.wanted = resources(wishes);
  EXPECT_TRUE(rig.up().ok());
  std::vector<std::string> order;
  for (const std::string& line : rig.site.log)
    if (line.starts_with("create vm/")) order.push_back(line);
  EXPECT_THAT(order, testing::ElementsAre("create vm/c", "create vm/a", "create vm/b"));
}

TEST(Execute, WorksOnThreadsAsWell) {
  const SystemClock clock;
  toy::Site site{clock};
  toy::ToyWorlds worlds{site};
  toy::ToyStore store;
  const auto runner = pool_runner(9, clock);
  Desired desired;
  std::vector<Wish> wishes;
  for (int i = 0; i < 40; ++i) {
    Wish vm = wish(fmt::format("vm/{}", i));
    vm.takes = 2ms;
    vm.ask_again = 1ms;
    vm.read_lanes = vm.act_lanes = {{"pve", 3, Lane::Hold::Call}};
    wishes.push_back(vm);
    Wish machine = wish(fmt::format("machine/{}", i), {vm.address});
    machine.takes = 2ms;
    machine.ask_again = 1ms;
    wishes.push_back(machine);
  }
  desired.wanted = resources(wishes);
  state::State state;
  const graph::Graph graph = build(desired, state);
  const Observed observed = observe(desired, graph, worlds, *runner, 8, {});
  const Plan first = plan(desired, graph, observed, state, "toy", {});
  ExecuteOptions options;
  options.parallelism = 8;
  std::size_t told = 0;
  const Report report = execute(first, desired, graph, state, store, worlds, *runner,
                                [&](const Event&) { ++told; }, options, {});
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.changed().size(), 80u);
  EXPECT_GE(told, 3u * 80u);
  EXPECT_EQ(store.load()->items.size(), 80u);
  const Observed again = observe(desired, graph, worlds, *runner, 8, {});
  EXPECT_TRUE(plan(desired, graph, again, state, "toy", {}).empty());
}

TEST(Observe, StoppedItSaysWhatItDidNotRead) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"})});
  rig.graph = build(rig.desired, {});
  std::stop_source stop;
  rig.site.on_edge = [&](const std::string& edge) {
    if (edge == "after read vm/a") stop.request_stop();
  };
  const Observed observed =
      observe(rig.desired, rig.graph, rig.worlds, *rig.runner, 4, stop.get_token());
  EXPECT_THAT(observed.live, ElementsAre(Pair("vm/a", std::nullopt)));
  EXPECT_THAT(observed.errors.at("machine/a").fault(), Fault::Interrupted);
}

TEST(Observe, LearnsWhatItFindsInTheOrderOfNeeds) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"})});
  rig.site.things["vm/a"] = {{"v", "1"}};
  state::State prior;
  prior.items["vm/a"].facts = {{"id", "from before"}};
  prior.items["machine/a"].facts = {{"id", "from before"}};
  rig.graph = build(rig.desired, prior);
  recall(prior, rig.worlds);
  rig.site.on_edge = [&](const std::string& edge) {
    if (!edge.starts_with("before")) return;
    EXPECT_EQ(rig.worlds.known().at("vm/a").at("id"),
              edge == "before read vm/a" ? "from before" : "vm/a");
  };
  observe(rig.desired, rig.graph, rig.worlds, *rig.runner, 4, {});
  EXPECT_THAT(rig.worlds.known(), Not(Contains(testing::Key("machine/a")))) << "it is gone";
}

TEST(Observe, AsksAgainUnlessThatIsProvedToBeInVain) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("vm/b")});
  rig.graph = build(rig.desired, {});
  std::map<std::string, int> asked;
  rig.site.on_edge = [&](const std::string& edge) {
    if (!edge.starts_with("before")) return;
    ++asked[edge];
    const Error away(Fault::Unreachable, "nobody answers");
    if (edge == "before read vm/a") throw Proven(away);
    throw away;
  };
  const Observed observed = observe(rig.desired, rig.graph, rig.worlds, *rig.runner, 4, {});
  EXPECT_THAT(asked, ElementsAre(Pair("before read vm/a", 1), Pair("before read vm/b", 3)));
  EXPECT_EQ(observed.failed.size(), 2u);
}

}  // namespace
}  // namespace rocca::engine
