#include "engine/schedule.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace rocca::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Tick zero{};
constexpr auto call = Lane::Hold::Call;
constexpr auto act = Lane::Hold::Act;
constexpr auto whole_step = Lane::Hold::Step;

std::vector<std::string> all_next(Schedule& schedule, Tick now) {
  std::vector<std::string> offered;
  while (const auto address = schedule.next(now)) offered.push_back(*address);
  return offered;
}

graph::Graph flat(const std::vector<std::string>& names) {
  graph::Graph graph;
  for (const std::string& name : names) graph.add(name);
  return graph;
}

TEST(Schedule, OffersWhatNeedsNothingAndThenWhatNeededIt) {
  graph::Graph graph = flat({"a", "b"});
  graph.needs("c", "a");
  Schedule schedule{graph, 8};
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a", "b"));  // a has more behind it
  schedule.settle("b", Schedule::Outcome::Settled);
  EXPECT_THAT(all_next(schedule, zero), IsEmpty());
  schedule.settle("a", Schedule::Outcome::Settled);
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("c"));
  EXPECT_FALSE(schedule.done());
  schedule.settle("c", Schedule::Outcome::Settled);
  EXPECT_TRUE(schedule.done());
}

TEST(Schedule, NamesACycle) {
  graph::Graph graph;
  graph.needs("a", "b");
  graph.needs("b", "a");
  EXPECT_THROW(Schedule(graph, 1), Error);
}

TEST(Schedule, CapsCallsInFlight) {
  Schedule schedule{flat({"a", "b", "c"}), 2};
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a", "b"));
  schedule.settle("b", Schedule::Outcome::Settled);
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("c"));
}

TEST(Schedule, AWaitIsNoCallInFlight) {
  Schedule schedule{flat({"a", "b"}), 1};
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a"));
  schedule.again("a", zero + 5s);
  EXPECT_EQ(schedule.next_wake(), zero + 5s);
  EXPECT_THAT(all_next(schedule, zero + 1s), ElementsAre("b"));
  schedule.settle("b", Schedule::Outcome::Settled);
  EXPECT_THAT(all_next(schedule, zero + 4s), IsEmpty());
  EXPECT_THAT(all_next(schedule, zero + 5s), ElementsAre("a"));
  EXPECT_EQ(schedule.next_wake(), std::nullopt);
}

TEST(Schedule, ACallLaneIsFreeWhenTheCallEnds) {
  Schedule schedule{flat({"a", "b", "c"}), 8};
  for (const char* name : {"a", "b", "c"}) schedule.set_lanes(name, {{"pve", 2, call}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a", "b"));
  schedule.again("a", zero + 2s);
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("c"));
}

TEST(Schedule, AnActLaneIsHeldUntilTheActIsOver) {
  Schedule schedule{flat({"a", "b"}), 8};
  for (const char* name : {"a", "b"}) schedule.set_lanes(name, {{"import", 1, act}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a"));
  schedule.act_begun("a");
  schedule.again("a", zero + 2s);
  EXPECT_THAT(all_next(schedule, zero + 1s), IsEmpty());
  EXPECT_THAT(all_next(schedule, zero + 2s), ElementsAre("a"));  // its own lane does not stop it
  schedule.act_over("a");
  EXPECT_THAT(all_next(schedule, zero + 2s), ElementsAre("b"));
}

TEST(Schedule, AStepLaneIsHeldOverAllActsOfItsStep) {
  Schedule schedule{flat({"a", "b"}), 8};
  for (const char* name : {"a", "b"}) schedule.set_lanes(name, {{"workers", 1, whole_step}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a"));
  schedule.act_begun("a");
  schedule.act_over("a");
  schedule.set_lanes("a", {});
  schedule.again("a", zero + 1s);
  EXPECT_THAT(all_next(schedule, zero), IsEmpty());
  EXPECT_THAT(all_next(schedule, zero + 1s), ElementsAre("a"));
  schedule.settle("a", Schedule::Outcome::Failed);
  EXPECT_THAT(all_next(schedule, zero + 1s), ElementsAre("b"));
}

TEST(Schedule, WhoDidNothingKeepsNoStepLane) {
  Schedule schedule{flat({"a", "b"}), 8};
  for (const char* name : {"a", "b"}) schedule.set_lanes(name, {{"workers", 1, whole_step}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a"));
  schedule.act_begun("a");
  schedule.act_undone("a");
  schedule.again("a", zero + 1s);
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("b"));
}

TEST(Schedule, OneGoesFirstAndTheOthersWhenItHasSettledWell) {
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  Schedule schedule{flat(names), 8};
  for (const std::string& name : names)
    schedule.set_lanes(name, {{"workers", 2, whole_step, "", /*one_first=*/true}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a"));
  schedule.settle("a", Schedule::Outcome::Failed);  // it proves nothing
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("b"));
  schedule.settle("b", Schedule::Outcome::Settled);
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("c", "d"));
  schedule.settle("c", Schedule::Outcome::Failed);
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("e"));
}

TEST(Schedule, ClosedItLetsGoOfStepLanes) {
  Schedule schedule{flat({"a", "b"}), 8};
  for (const char* name : {"a", "b"}) schedule.set_lanes(name, {{"workers", 1, whole_step}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a"));
  schedule.act_begun("a");
  schedule.close();
  schedule.act_over("a");
  schedule.again("a", zero);
  EXPECT_THAT(all_next(schedule, zero), IsEmpty());
  EXPECT_TRUE(schedule.done());
}

TEST(Schedule, TellsOnceWhoQueuesAtALaneThatHasAWordForIt) {
  Schedule schedule{flat({"a", "b", "c"}), 8};
  for (const char* name : {"a", "b"}) schedule.set_lanes(name, {{"import", 1, act, "one disk"}});
  schedule.set_lanes("c", {{"import", 1, act}, {"host", 1, call}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a"));
  std::vector<std::string> told;
  for (const Schedule::Queued& queued : schedule.take_queued())
    told.push_back(queued.address + ": " + queued.turn);
  EXPECT_THAT(told, ElementsAre("b: one disk", "c: one disk"));
  EXPECT_THAT(schedule.take_queued(), IsEmpty());
  schedule.settle("a", Schedule::Outcome::Settled);
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("b"));
  EXPECT_THAT(schedule.take_queued(), IsEmpty());
}

TEST(Schedule, WhoHoldsAnActLaneGoesFirst) {
  Schedule schedule{flat({"a", "b", "z"}), 1};
  schedule.set_lanes("a", {});
  schedule.set_lanes("b", {});
  schedule.set_lanes("z", {{"import", 1, act}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a"));
  schedule.settle("a", Schedule::Outcome::Settled);
  EXPECT_EQ(schedule.next(zero), "b");
  schedule.again("b", zero);
  EXPECT_EQ(schedule.next(zero), "b") << "by order, as long as nobody holds anything";
  schedule.again("b", zero + 1s);
  EXPECT_EQ(schedule.next(zero), "z");
  schedule.again("z", zero + 2s);
  EXPECT_EQ(schedule.next(zero + 3s), "z") << "although b waits longer";
}

TEST(Schedule, WhoHasBegunGoesBeforeWhoHasNot) {
  Schedule schedule{flat({"a", "b", "c"}), 1};
  EXPECT_EQ(schedule.next(zero), "a");
  schedule.again("a", zero + 1s);
  EXPECT_EQ(schedule.next(zero), "b");
  schedule.again("b", zero + 2s);
  EXPECT_EQ(schedule.next(zero + 2s), "a") << "although c waits longer";
}

TEST(Schedule, TheLongestWayGoesFirst) {
  graph::Graph graph = flat({"a", "b"});
  graph.needs("end", "b");
  Schedule schedule{graph, 1, {{"a", 5s}, {"b", 1s}, {"end", 10s}}};
  EXPECT_EQ(schedule.next(zero), "b");
  Schedule other{graph, 1, {{"a", 20s}, {"b", 1s}, {"end", 10s}}};
  EXPECT_EQ(other.next(zero), "a");
}

TEST(Schedule, AFailureSkipsDependentsAndNobodyElse) {
  graph::Graph graph = flat({"a", "x"});
  graph.needs("b", "a");
  graph.needs("c", "b");
  graph.needs("c", "x");
  graph.needs("y", "x");
  Schedule schedule{graph, 8};
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a", "x"));
  EXPECT_THAT(schedule.settle("a", Schedule::Outcome::Failed), ElementsAre("b", "c"));
  schedule.settle("x", Schedule::Outcome::Settled);
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("y"));
  schedule.settle("y", Schedule::Outcome::Settled);
  EXPECT_TRUE(schedule.done());
}

TEST(Schedule, WhatStandsAlthoughItsNeedFailedIsOfferedOnceTheOthersSettled) {
  graph::Graph graph = flat({"a", "other"});
  graph.needs("changes", "a");
  graph.needs("stands", "a");
  graph.needs("stands", "changes");
  graph.needs("stands", "other");
  graph.needs("behind", "stands");
  Schedule schedule{graph, 8};
  all_next(schedule, zero);
  const auto stands = [](const std::string& address) { return address == "stands"; };
  EXPECT_THAT(schedule.settle("a", Schedule::Outcome::Failed, stands), ElementsAre("changes"));
  EXPECT_THAT(all_next(schedule, zero), IsEmpty()) << "it needs another one";
  schedule.settle("other", Schedule::Outcome::Settled);
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("stands"));
  schedule.settle("stands", Schedule::Outcome::Settled);
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("behind"));
  schedule.settle("behind", Schedule::Outcome::Settled);
  EXPECT_TRUE(schedule.done());
}

TEST(Schedule, ClosedItLetsActsEndAndStartsNothing) {
  graph::Graph graph = flat({"acting", "reading", "waiting"});
  graph.needs("later", "acting");
  Schedule schedule{graph, 8};
  schedule.set_lanes("waiting", {{"import", 1, act}});
  schedule.set_lanes("acting", {{"import", 1, act}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("acting", "reading"));
  schedule.act_begun("acting");
  schedule.again("acting", zero + 2s);
  schedule.close();
  EXPECT_FALSE(schedule.done());
  schedule.again("reading", zero);
  EXPECT_THAT(all_next(schedule, zero + 1s), IsEmpty());
  EXPECT_EQ(schedule.next_wake(), zero + 2s);
  EXPECT_THAT(all_next(schedule, zero + 2s), ElementsAre("acting"));
  schedule.settle("acting", Schedule::Outcome::Settled);
  EXPECT_THAT(all_next(schedule, zero + 2s), IsEmpty());
  EXPECT_TRUE(schedule.done());
}

TEST(Schedule, AHeldStepIsNotOfferedAndNotForgotten) {
  Schedule schedule{flat({"a", "b"}), 1};
  EXPECT_EQ(schedule.next(zero), "a");
  schedule.hold("a");
  EXPECT_EQ(schedule.next(zero), "b") << "its call is over";
  schedule.settle("b", Schedule::Outcome::Settled);
  schedule.close();
  EXPECT_FALSE(schedule.done());
  schedule.settle("a", Schedule::Outcome::Settled);
  EXPECT_TRUE(schedule.done());
}

TEST(Schedule, NewLanesLetAStepOutOfItsQueue) {
  Schedule schedule{flat({"a", "b"}), 8};
  for (const char* name : {"a", "b"}) schedule.set_lanes(name, {{"narrow", 1, call}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("a"));
  schedule.set_lanes("b", {{"wide", 1, call}});
  EXPECT_THAT(all_next(schedule, zero), ElementsAre("b"));
}

TEST(Schedule, AnswersOutOfTurnAreOurBug) {
  Schedule schedule{flat({"a"}), 8};
  EXPECT_THROW(schedule.settle("a", Schedule::Outcome::Settled), Error);
  EXPECT_THROW(schedule.again("a", zero), Error);
  EXPECT_THROW(schedule.hold("a"), Error);
  EXPECT_THROW(schedule.set_lanes("nobody", {}), Error);
}

/// Random steps with random lanes that take random rounds; checks every promise as it goes.
class Walk {
 public:
  explicit Walk(bool may_close) : may_close_(may_close) {
    const int count = *rc::gen::inRange(1, 30);
    for (int i = 0; i < count; ++i) {
      const std::string name = fmt::format("s{:02}", i);
      graph_.add(name);
      names_.push_back(name);
      for (int j = 0; j < i; ++j)
        if (*rc::gen::inRange(0, 6) == 0) graph_.needs(name, names_[static_cast<std::size_t>(j)]);
    }
    parallelism_ = *rc::gen::inRange(1u, 9u);
    for (int i = 0; i < 4; ++i) widths_[fmt::format("lane{}", i)] = *rc::gen::inRange(1u, 4u);
  }

  /// The order in which calls were offered.
  std::vector<std::string> run() {
    Schedule schedule{graph_, parallelism_};
    for (const std::string& name : names_) give_lanes(schedule, name);
    Tick now{};
    std::set<std::string> in_flight;
    for (int turn = 0; !schedule.done(); ++turn) {
      RC_ASSERT(turn < 5000);
      if (may_close_ && *rc::gen::inRange(0, 15) == 0) {
        schedule.close();
        closed_ = true;
      }
      while (const auto name = schedule.next(now)) {
        offered(*name);
        in_flight.insert(*name);
        check_lanes();
        RC_ASSERT(in_flight.size() <= parallelism_);
      }
      if (in_flight.empty()) {
        if (schedule.done()) break;
        const auto wake = schedule.next_wake();
        RC_ASSERT(wake.has_value());
        RC_ASSERT(*wake > now);
        now = *wake;
        continue;
      }
      const std::string name =
          *rc::gen::elementOf(std::vector<std::string>(in_flight.begin(), in_flight.end()));
      in_flight.erase(name);
      end_call(schedule, name, now);
    }
    if (!closed_)
      for (const std::string& name : names_)
        RC_ASSERT(over_.contains(name) || skipped_.contains(name));
    return order_;
  }

 private:
  void give_lanes(Schedule& schedule, const std::string& name) {
    std::vector<Lane> lanes;
    for (const auto& [lane, width] : widths_) {
      if (*rc::gen::inRange(0, 3) != 0) continue;
      const bool for_acts = lane < "lane2";
      // Act lanes only from who holds none and has no act going on, as the executor does.
      if (for_acts && (!held_[name].empty() || acting_.contains(name))) continue;
      lanes.push_back({lane, width, for_acts ? act : call});
    }
    wishes_[name] = lanes;
    schedule.set_lanes(name, lanes);
  }

  void offered(const std::string& name) {
    order_.push_back(name);
    for (const std::string& needed : graph_.needed_by(name)) RC_ASSERT(settled_.contains(needed));
    RC_ASSERT(!skipped_.contains(name));
    if (closed_) RC_ASSERT(acting_.contains(name));
    for (const Lane& lane : wishes_[name]) {
      if (held_[name].contains(lane.name)) continue;
      (lane.hold == act ? held_ : busy_)[name].insert(lane.name);
    }
  }

  void check_lanes() {
    std::map<std::string, unsigned> used;
    for (const auto* uses : {&held_, &busy_})
      for (const auto& [name, lanes] : *uses)
        for (const std::string& lane : lanes) ++used[lane];
    for (const auto& [lane, count] : used) RC_ASSERT(count <= widths_[lane]);
  }

  void end_call(Schedule& schedule, const std::string& name, Tick& now) {
    busy_[name].clear();
    now += std::chrono::milliseconds{*rc::gen::inRange(0, 50)};
    const int what = ++rounds_[name] > 5 ? 0 : *rc::gen::inRange(0, 8);
    if (what <= 1) {
      over_.insert(name);
      held_[name].clear();
      acting_.erase(name);
      if (what == 0) {
        settled_.insert(name);
        RC_ASSERT(schedule.settle(name, Schedule::Outcome::Settled).empty());
        return;
      }
      const auto skipped = schedule.settle(name, Schedule::Outcome::Failed);
      for (const std::string& one : skipped) {
        RC_ASSERT(!over_.contains(one));
        RC_ASSERT(skipped_.insert(one).second);
      }
      for (const std::string& one : graph_.all_dependents(name)) RC_ASSERT(skipped_.contains(one));
      return;
    }
    if (what == 2 && !closed_) {
      schedule.act_begun(name);
      acting_.insert(name);
    }
    if (what == 3) {
      schedule.act_over(name);
      held_[name].clear();
      acting_.erase(name);
    }
    if (what == 4) schedule.hold(name);
    if (what != 5) give_lanes(schedule, name);
    schedule.again(name, now + std::chrono::milliseconds{*rc::gen::inRange(0, 100)});
  }

  bool may_close_;
  bool closed_ = false;
  graph::Graph graph_;
  std::vector<std::string> names_;
  unsigned parallelism_ = 1;
  std::map<std::string, unsigned> widths_;
  std::map<std::string, std::vector<Lane>> wishes_;
  std::map<std::string, std::set<std::string>> held_, busy_;
  std::map<std::string, int> rounds_;
  std::set<std::string> over_, settled_, skipped_, acting_;
  std::vector<std::string> order_;
};

RC_GTEST_PROP(ScheduleProperty, KeepsLanesAndArrowsAndAlwaysEnds, ()) {
  Walk{false}.run();
}

RC_GTEST_PROP(ScheduleProperty, AlwaysEndsAlsoWhenItIsClosed, ()) {
  Walk{true}.run();
}

/// No lane and no thread idles while somebody could use it: what is not offered has a reason.
RC_GTEST_PROP(ScheduleProperty, LeavesNoRoomUnused, ()) {
  const auto count = *rc::gen::inRange(1, 40);
  graph::Graph graph;
  std::map<std::string, std::vector<Lane>> lanes;
  std::map<std::string, unsigned> widths;
  for (int i = 0; i < 3; ++i) widths[fmt::format("lane{}", i)] = *rc::gen::inRange(1u, 4u);
  for (int i = 0; i < count; ++i) {
    const std::string name = fmt::format("s{:02}", i);
    graph.add(name);
    for (const auto& [lane, width] : widths)
      if (*rc::gen::arbitrary<bool>()) lanes[name].push_back({lane, width, call});
  }
  Schedule schedule{graph, 1000};
  for (const std::string& name : graph.nodes()) schedule.set_lanes(name, lanes[name]);
  std::set<std::string> waiting;
  for (const std::string& name : graph.nodes()) waiting.insert(name);
  std::map<std::string, unsigned> used;
  std::vector<std::string> in_flight;
  while (!schedule.done()) {
    while (const auto name = schedule.next(zero)) {
      waiting.erase(*name);
      in_flight.push_back(*name);
      for (const Lane& lane : lanes[*name]) ++used[lane.name];
    }
    for (const std::string& name : waiting)
      RC_ASSERT(std::any_of(lanes[name].begin(), lanes[name].end(),
                            [&](const Lane& lane) { return used[lane.name] >= lane.width; }));
    RC_ASSERT(!in_flight.empty());
    const auto index = *rc::gen::inRange<std::size_t>(0, in_flight.size());
    const std::string name = in_flight[index];
    in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(index));
    for (const Lane& lane : lanes[name]) --used[lane.name];
    schedule.settle(name, Schedule::Outcome::Settled);
  }
}

/// Three thousand steps that ask a hundred times each: what a five-hundred-node bring-up costs.
TEST(Schedule, ManyStepsAndManyProbesKeepTheirLanes) {
  graph::Graph graph;
  for (int node = 0; node < 500; ++node)
    for (int step = 1; step < 6; ++step)
      graph.needs(fmt::format("k{}/n{:03}", step, node), fmt::format("k{}/n{:03}", step - 1, node));
  Schedule schedule{graph, 64};
  for (const std::string& name : graph.nodes())
    schedule.set_lanes(name, {{"host" + name.substr(name.size() - 1), 3, call}});
  std::map<std::string, int> probes;
  std::multimap<Tick, std::string> calls;
  std::map<std::string, unsigned> load;
  unsigned peak = 0;
  std::size_t offered = 0;
  Tick now{};
  while (!schedule.done()) {
    while (const auto name = schedule.next(now)) {
      ++offered;
      peak = std::max(peak, ++load[name->substr(name->size() - 1)]);
      calls.emplace(now + 5ms, *name);
    }
    const auto wake = schedule.next_wake();
    if (calls.empty() || (wake && *wake < calls.begin()->first)) {
      now = wake.value();
      continue;
    }
    now = calls.begin()->first;
    const std::string name = calls.begin()->second;
    calls.erase(calls.begin());
    --load[name.substr(name.size() - 1)];
    if (++probes[name] < 100) {
      schedule.again(name, now + 2s);
    } else {
      schedule.settle(name, Schedule::Outcome::Settled);
    }
  }
  EXPECT_EQ(offered, 3000u * 100u);
  EXPECT_EQ(peak, 3u);
}

}  // namespace
}  // namespace rocca::engine
