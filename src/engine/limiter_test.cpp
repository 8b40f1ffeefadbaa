#include "engine/limiter.hpp"

#include "base/error.hpp"
#include "engine/runner.hpp"
#include "engine/schedule.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

namespace rocca::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

const std::string host = "pve/atlas";

/// A run that counts how often it was woken.
struct Member {
  explicit Member(Limiter& limiter) : share(limiter, [this] { ++woken; }) {}
  std::atomic<int> woken = 0;
  Limiter::Share share;
};

TEST(Limiter, HoldsALimitOverAllRuns) {
  Limiter limiter;
  Member a{limiter};
  Member b{limiter};
  EXPECT_TRUE(a.share.take(host, 3));
  EXPECT_TRUE(b.share.take(host, 3));
  EXPECT_TRUE(b.share.take(host, 3));
  EXPECT_FALSE(a.share.take(host, 3));
  EXPECT_TRUE(a.share.take("pve/titan", 3)) << "another name has slots of its own";
  EXPECT_EQ(limiter.in_use(host), 3u);
  b.share.give_back(host);
  EXPECT_EQ(a.woken, 1);
  EXPECT_THAT(a.share.take_offers(), ElementsAre(host));
  EXPECT_TRUE(a.share.take(host, 3));
  EXPECT_EQ(limiter.in_use(host), 3u);
}

TEST(Limiter, TheNarrowestWidthCounts) {
  Limiter limiter;
  Member a{limiter};
  EXPECT_TRUE(a.share.take(host, 3));
  EXPECT_FALSE(a.share.take(host, 1));
  EXPECT_FALSE(a.share.take(host, 3));
}

TEST(Limiter, ASlotThatIsSetAsideIsNotTakenByAnyoneElse) {
  Limiter limiter;
  Member a{limiter}, b{limiter}, c{limiter};
  ASSERT_TRUE(a.share.take(host, 1));
  ASSERT_FALSE(b.share.take(host, 1));
  a.share.give_back(host);
  EXPECT_FALSE(c.share.take(host, 1)) << "b came first";
  EXPECT_FALSE(a.share.take(host, 1));
  EXPECT_TRUE(b.share.take(host, 1));
}

/// A run that always wants more gets one slot per turn, like a run that wants only one.
TEST(Limiter, RunsTakeTurns) {
  Limiter limiter;
  Member busy{limiter}, small{limiter}, third{limiter};
  ASSERT_TRUE(busy.share.take(host, 1));
  ASSERT_FALSE(busy.share.take(host, 1));
  ASSERT_FALSE(small.share.take(host, 1));
  ASSERT_FALSE(third.share.take(host, 1));
  std::vector<std::string> order;
  Member* holder = &busy;
  for (int turn = 0; turn < 6; ++turn) {
    holder->share.give_back(host);
    for (auto& [name, member] :
         {std::pair{"busy", &busy}, std::pair{"small", &small}, std::pair{"third", &third}}) {
      if (member->share.take_offers().empty()) continue;
      ASSERT_TRUE(member->share.take(host, 1));
      order.emplace_back(name);
      holder = member;
      member->share.take(host, 1);  // and wants another one
      break;
    }
  }
  EXPECT_THAT(order, ElementsAre("busy", "small", "third", "busy", "small", "third"));
}

TEST(Limiter, ARunThatLeavesPassesItsTurnOn) {
  Limiter limiter;
  Member a{limiter}, b{limiter}, c{limiter};
  ASSERT_TRUE(a.share.take(host, 1));
  ASSERT_FALSE(b.share.take(host, 1));
  ASSERT_FALSE(c.share.take(host, 1));
  b.share.leave(host);  // while it queues
  a.share.give_back(host);
  EXPECT_EQ(b.woken, 0);
  EXPECT_EQ(c.woken, 1);
  c.share.leave(host);  // with a slot set aside
  EXPECT_TRUE(a.share.take(host, 1));
}

TEST(Limiter, AnExceptionGivesEverythingBack) {
  Limiter limiter;
  Member other{limiter};
  try {
    Member failing{limiter};
    ASSERT_TRUE(failing.share.take(host, 2));
    ASSERT_TRUE(failing.share.take(host, 2));
    ASSERT_TRUE(failing.share.take("import/local", 2));
    ASSERT_FALSE(other.share.take(host, 2));
    throw Error(Fault::Bug, "the run fails");
  } catch (const Error&) {
  }
  EXPECT_EQ(other.woken, 1);
  EXPECT_TRUE(other.share.take(host, 2));
  EXPECT_TRUE(other.share.take(host, 2));
  EXPECT_EQ(limiter.in_use("import/local"), 0u);
}

TEST(Limiter, ARunThatEndsWhileItQueuesIsNotWoken) {
  Limiter limiter;
  Member a{limiter};
  ASSERT_TRUE(a.share.take(host, 1));
  {
    Member gone{limiter};
    ASSERT_FALSE(gone.share.take(host, 1));
  }
  a.share.give_back(host);
  EXPECT_TRUE(a.share.take(host, 1));
}

TEST(Limiter, GivingBackWhatWasNotTakenIsABug) {
  Limiter limiter;
  Member a{limiter};
  EXPECT_THROW(a.share.give_back(host), Error);
}

// ---- behind schedules

Lane lane(const std::string& name, unsigned width, Lane::Hold hold = Lane::Hold::Call) {
  Lane made{name, width, hold};
  made.shared = true;
  return made;
}

/// A schedule of steps that all use these lanes.
struct Part {
  Part(Limiter& limiter, const std::vector<std::string>& names, const std::vector<Lane>& lanes)
      : schedule(graph_of(names), 64, {},
                 std::make_unique<Limiter::Share>(limiter, [this] { ++woken; })) {
    for (const std::string& name : names) schedule.set_lanes(name, lanes);
  }
  static graph::Graph graph_of(const std::vector<std::string>& names) {
    graph::Graph graph;
    for (const std::string& name : names) graph.add(name);
    return graph;
  }
  std::vector<std::string> start() {
    std::vector<std::string> offered;
    while (const auto name = schedule.next({})) offered.push_back(*name);
    return offered;
  }
  void end(const std::string& name) { schedule.settle(name, Schedule::Outcome::Settled); }

  int woken = 0;
  Schedule schedule;
};

TEST(SharedLane, HoldsOverSchedulesAndFreesForTheNext) {
  Limiter limiter;
  Part a{limiter, {"a1", "a2", "a3"}, {lane(host, 3)}};
  Part b{limiter, {"b1", "b2"}, {lane(host, 3)}};
  EXPECT_THAT(a.start(), ElementsAre("a1", "a2", "a3"));
  EXPECT_THAT(b.start(), IsEmpty());
  EXPECT_TRUE(b.schedule.waits_for_other_runs());
  a.end("a1");
  EXPECT_EQ(b.woken, 1);
  EXPECT_THAT(b.start(), ElementsAre("b1"));
  a.end("a2");
  EXPECT_THAT(b.start(), ElementsAre("b2"));
  EXPECT_FALSE(b.schedule.waits_for_other_runs());
  a.end("a3");
  b.end("b1");
  b.end("b2");
  EXPECT_TRUE(a.schedule.done() && b.schedule.done());
  EXPECT_EQ(limiter.in_use(host), 0u);
}

TEST(SharedLane, IsOfTheScheduleAloneWithoutALimiter) {
  graph::Graph graph;
  graph.add("a");
  graph.add("b");
  Schedule schedule{graph, 8};
  for (const std::string name : {"a", "b"}) schedule.set_lanes(name, {lane(host, 1)});
  EXPECT_EQ(schedule.next({}), "a");
  EXPECT_EQ(schedule.next({}), std::nullopt);
  schedule.settle("a", Schedule::Outcome::Settled);
  EXPECT_EQ(schedule.next({}), "b");
}

TEST(SharedLane, AStoppedRunLeavesTheQueue) {
  Limiter limiter;
  Part a{limiter, {"a"}, {lane(host, 1)}};
  Part b{limiter, {"b"}, {lane(host, 1)}};
  Part c{limiter, {"c"}, {lane(host, 1)}};
  ASSERT_THAT(a.start(), ElementsAre("a"));
  ASSERT_THAT(b.start(), IsEmpty());
  ASSERT_THAT(c.start(), IsEmpty());
  b.schedule.close();
  EXPECT_TRUE(b.schedule.done());
  a.end("a");
  EXPECT_EQ(b.woken, 0);
  EXPECT_THAT(c.start(), ElementsAre("c"));
}

TEST(SharedLane, AScheduleThatIsDestroyedFreesItsSlots) {
  Limiter limiter;
  Part b{limiter, {"b"}, {lane(host, 1)}};
  {
    Part a{limiter, {"a"}, {lane(host, 1)}};
    ASSERT_THAT(a.start(), ElementsAre("a"));
    ASSERT_THAT(b.start(), IsEmpty());
  }
  EXPECT_EQ(b.woken, 1);
  EXPECT_THAT(b.start(), ElementsAre("b"));
}

/// A slot for an import is kept while the slot for the request is waited for: else a busy host
/// would send the run to the end of the queue for imports again and again.
TEST(SharedLane, WhatIsHeldLongIsKeptWhileACallWaits) {
  Limiter limiter;
  const Lane import = lane("import/local", 1, Lane::Hold::Act);
  Part busy{limiter, {"probe"}, {lane(host, 1)}};
  Part a{limiter, {"a"}, {import, lane(host, 1)}};
  Part b{limiter, {"b"}, {import, lane(host, 1)}};
  ASSERT_THAT(busy.start(), ElementsAre("probe"));
  EXPECT_THAT(a.start(), IsEmpty());
  EXPECT_EQ(limiter.in_use("import/local"), 1u);
  EXPECT_THAT(b.start(), IsEmpty());
  busy.end("probe");
  EXPECT_THAT(b.start(), IsEmpty());
  EXPECT_THAT(a.start(), ElementsAre("a"));
  a.schedule.act_begun("a");
  a.schedule.again("a", Tick{1s});  // the import goes on, its request is over
  EXPECT_EQ(limiter.in_use(host), 0u);
  EXPECT_THAT(b.start(), IsEmpty());
  EXPECT_EQ(a.schedule.next(Tick{1s}), "a");
  a.end("a");
  EXPECT_THAT(b.start(), ElementsAre("b"));
  b.end("b");
  EXPECT_EQ(limiter.in_use("import/local"), 0u);
}

TEST(SharedLane, AStepThatNoLongerWantsItGivesItsSlotBack) {
  Limiter limiter;
  Part busy{limiter, {"probe"}, {lane(host, 1)}};
  Part a{limiter, {"a"}, {lane("import/local", 1, Lane::Hold::Act), lane(host, 1)}};
  ASSERT_THAT(busy.start(), ElementsAre("probe"));
  ASSERT_THAT(a.start(), IsEmpty());
  a.schedule.set_lanes("a", {});
  EXPECT_EQ(limiter.in_use("import/local"), 0u);
  EXPECT_FALSE(a.schedule.waits_for_other_runs());
  EXPECT_THAT(a.start(), ElementsAre("a"));
}

/// Many runs on threads with calls that need one or two lanes: no limit is ever exceeded, and all
/// come to their end.
TEST(SharedLane, ManyRunsOnThreadsKeepTheLimitsAndEnd) {
  const SystemClock clock;
  const auto pool = thread_pool(16, clock);
  std::array<std::atomic<int>, 2> now{};
  std::array<std::atomic<int>, 2> peak{};
  const auto enter = [&](std::size_t which) {
    const int inside = ++now.at(which);
    int seen = peak.at(which);
    while (inside > seen && !peak.at(which).compare_exchange_weak(seen, inside)) {
    }
  };
  std::atomic<int> done = 0;
  {
    std::vector<std::jthread> runs;
    for (int run = 0; run < 12; ++run)
      runs.emplace_back([&] {
        const auto runner = pool->open();
        graph::Graph graph;
        for (int i = 0; i < 40; ++i) graph.add("step/" + std::to_string(i));
        Schedule schedule{graph, 64, {}, share_of(*runner)};
        const auto both = [](const std::string& name) { return name.size() % 2 == 0; };
        for (const std::string& name : graph.nodes())
          schedule.set_lanes(name, both(name) ? std::vector{lane("import/x", 2), lane("pve/x", 3)}
                                              : std::vector{lane("pve/x", 3)});
        while (!schedule.done()) {
          while (const auto name = schedule.next(runner->now()))
            runner->start(*name, [&, name = *name] {
              enter(0);
              if (both(name)) enter(1);
              std::this_thread::yield();
              if (both(name)) --now[1];
              --now[0];
            });
          for (const std::string& name : runner->wait_until(schedule.next_wake())) {
            schedule.settle(name, Schedule::Outcome::Settled);
            ++done;
          }
        }
      });
  }
  EXPECT_EQ(done, 12 * 40);
  EXPECT_LE(peak[0], 3);
  EXPECT_LE(peak[1], 2);
  EXPECT_EQ(pool->limiter().in_use("pve/x"), 0u);
}

}  // namespace
}  // namespace rocca::engine
