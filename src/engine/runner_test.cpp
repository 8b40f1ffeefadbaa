#include "engine/runner.hpp"

#include "base/error.hpp"
#include "engine/toy_test_support.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <exception>
#include <latch>
#include <map>
#include <set>
#include <thread>

namespace rocca::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::unique_ptr<InlineRunner> runner_of(toy::Time& time) {
  return inline_runner(time.clock,
                       {[&time](std::optional<Tick> until) { return time.advance(until); }});
}

void pause(toy::Time& time, Fibers& fibers, Duration duration) {
  fibers.park([&](std::function<void()> wake) { time.after(duration, std::move(wake)); });
}

// ---- fibers

TEST(InlineRunner, ManyCallsAreInFlightAndEndInTheOrderOfTheWorld) {
  toy::Time time;
  const auto runner = runner_of(time);
  std::vector<std::string> lines;
  for (const int seconds : {3, 1, 2})
    runner->start(std::to_string(seconds), [&, seconds] {
      lines.push_back("begin " + std::to_string(seconds));
      pause(time, *runner, std::chrono::seconds{seconds});
      lines.push_back("end " + std::to_string(seconds));
    });
  EXPECT_THAT(runner->wait_until({}), ElementsAre("1"));
  EXPECT_THAT(runner->wait_until({}), ElementsAre("2"));
  EXPECT_THAT(runner->wait_until({}), ElementsAre("3"));
  EXPECT_THAT(lines, ElementsAre("begin 3", "begin 1", "begin 2", "end 1", "end 2", "end 3"));
  EXPECT_EQ(time.clock.tick(), Tick{3s});
}

TEST(InlineRunner, WaitsUntilATimeAndNotLonger) {
  toy::Time time;
  const auto runner = runner_of(time);
  runner->start("long", [&] { pause(time, *runner, 10s); });
  EXPECT_THAT(runner->wait_until(Tick{4s}), IsEmpty());
  EXPECT_EQ(runner->now(), Tick{4s});
  EXPECT_THAT(runner->wait_until({}), ElementsAre("long"));
}

TEST(InlineRunner, ANudgeWakesIt) {
  toy::Time time;
  const auto runner = runner_of(time);
  runner->start("long", [&] { pause(time, *runner, 10s); });
  time.after(1s, [&] { runner->nudge(); });
  EXPECT_THAT(runner->wait_until({}), IsEmpty());
  EXPECT_EQ(runner->now(), Tick{1s});
  EXPECT_THAT(runner->wait_until({}), ElementsAre("long"));
}

TEST(InlineRunner, AWorldAtRestIsNotWaitedForForEver) {
  toy::Time time;
  const auto runner = runner_of(time);
  runner->start("vm/a", [&] { runner->park([](const std::function<void()>&) {}); });
  try {
    runner->wait_until({});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Bug);
    EXPECT_THAT(error.message(), HasSubstr("vm/a"));
  }
}

TEST(InlineRunner, OnlyItsOwnCallsCanBeParked) {
  toy::Time time;
  const auto runner = runner_of(time);
  EXPECT_FALSE(runner->inside());
  EXPECT_THROW(runner->park([](const std::function<void()>& wake) { wake(); }), Error);
  bool inside = false;
  runner->start("a", [&] {
    inside = runner->inside();
    runner->park([](const std::function<void()>& wake) { wake(); });  // awake before it sleeps
  });
  EXPECT_THAT(runner->wait_until({}), ElementsAre("a"));
  EXPECT_TRUE(inside);
}

TEST(InlineRunner, AWakeThatComesTwiceCountsOnce) {
  toy::Time time;
  const auto runner = runner_of(time);
  int passed = 0;
  std::function<void()> kept;
  runner->start("a", [&] {
    runner->park([&](std::function<void()> wake) {
      kept = wake;
      time.after(1s, wake);
      time.after(1s, std::move(wake));
    });
    ++passed;
    pause(time, *runner, 5s);
    ++passed;
  });
  time.after(2s, [&] { kept(); });
  EXPECT_THAT(runner->wait_until({}), ElementsAre("a"));
  EXPECT_EQ(passed, 2);
  EXPECT_EQ(runner->now(), Tick{6s}) << "an old wake ended a new wait";
}

TEST(InlineRunner, AWakeMayComeAfterItsRunnerIsGone) {
  toy::Time time;
  bool passed = false;
  {
    const auto runner = runner_of(time);
    runner->start("a", [&] {
      pause(time, *runner, 5s);
      passed = true;
    });
    EXPECT_THAT(runner->wait_until(Tick{1s}), IsEmpty());
  }
  EXPECT_TRUE(time.advance({}));
  EXPECT_FALSE(passed);
}

/// Each fiber is inside a catch while others throw and catch: `throw;` must find its own exception.
TEST(InlineRunner, ExceptionsInFlightBelongToTheirFiber) {
  toy::Time time;
  const auto runner = runner_of(time);
  std::vector<std::string> seen;
  for (int i = 0; i < 4; ++i)
    runner->start(std::to_string(i), [&, i] {
      try {
        try {
          throw Error(Fault::Busy, "of " + std::to_string(i));
        } catch (const Error&) {
          pause(time, *runner, 1s * (4 - i));
          throw;
        }
      } catch (const Error& error) {
        pause(time, *runner, 1s * (i + 1));
        seen.push_back(std::to_string(i) + " " + error.message());
      }
      EXPECT_EQ(std::uncaught_exceptions(), 0);
    });
  std::size_t ended = 0;
  while (ended < 4) ended += runner->wait_until({}).size();
  EXPECT_THAT(seen, UnorderedElementsAre("0 of 0", "1 of 1", "2 of 2", "3 of 3"));
}

struct WhileUnwinding {
  std::function<void()> then;
  ~WhileUnwinding() { then(); }
};

TEST(InlineRunner, AFiberMayWaitWhileItUnwinds) {
  toy::Time time;
  const auto runner = runner_of(time);
  std::vector<int> counts;
  runner->start("unwinding", [&] {
    try {
      const WhileUnwinding guard{[&] {
        pause(time, *runner, 2s);
        counts.push_back(std::uncaught_exceptions());
      }};
      throw Error(Fault::Lost, "x");
    } catch (const Error&) {
    }
  });
  runner->start("calm", [&] {
    pause(time, *runner, 1s);
    counts.push_back(std::uncaught_exceptions());
  });
  std::size_t ended = 0;
  while (ended < 2) ended += runner->wait_until({}).size();
  EXPECT_THAT(counts, ElementsAre(0, 1));
}

TEST(InlineRunner, ACallMayUseMuchOfItsStackAndFloatingPoint) {
  toy::Time time;
  const auto runner = runner_of(time);
  double sum = 0;
  for (int i = 0; i < 8; ++i)
    runner->start(std::to_string(i), [&, i] {
      std::array<volatile char, 150 * 1024> much{};
      double mine = 0.5 * i;
      for (std::size_t at = 0; at < much.size(); at += 1024) much[at] = static_cast<char>(i);
      pause(time, *runner, 1s);
      for (std::size_t at = 0; at < much.size(); at += 1024)
        if (much[at] != static_cast<char>(i)) mine = 1000;
      sum += mine;
    });
  std::size_t ended = 0;
  while (ended < 8) ended += runner->wait_until({}).size();
  EXPECT_EQ(sum, 14.0);
}

TEST(InlineRunner, TenThousandCallsOneAfterTheOther) {
  toy::Time time;
  const auto runner = runner_of(time);
  int done = 0;
  for (int i = 0; i < 10'000; ++i) {
    runner->start("a", [&] {
      pause(time, *runner, 1ms);
      ++done;
    });
    while (runner->wait_until({}).empty()) {
    }
  }
  EXPECT_EQ(done, 10'000);
}

// ---- several runs on the same fibers

TEST(InlineRunner, ARunSeesOnlyItsOwnCompletions) {
  toy::Time time;
  const auto root = runner_of(time);
  std::map<std::string, std::vector<std::string>> seen;
  for (const std::string run : {"a", "b"})
    root->start(run, [&, run] {
      const auto runner = root->open();
      // Both use the same names.
      for (const int seconds : {1, 2})
        runner->start(std::to_string(seconds), [&, run, seconds] {
          pause(time, *root, std::chrono::seconds{run == "a" ? seconds : 3 * seconds});
        });
      while (seen[run].size() < 2)
        for (const std::string& name : runner->wait_until({}))
          seen[run].push_back(fmt::format("{} at {}", name, runner->now().time_since_epoch() / 1s));
    });
  std::vector<std::string> ended;
  while (ended.size() < 2)
    for (const std::string& name : root->wait_until({})) ended.push_back(name);
  EXPECT_THAT(ended, ElementsAre("a", "b"));
  EXPECT_THAT(seen["a"], ElementsAre("1 at 1", "2 at 2"));
  EXPECT_THAT(seen["b"], ElementsAre("1 at 3", "2 at 6"));
}

TEST(InlineRunner, EachRunWaitsUntilItsOwnTimeAndIsNudgedAlone) {
  toy::Time time;
  const auto root = runner_of(time);
  const auto nudged = root->open();
  std::map<std::string, Tick> woken;
  root->start("nudged", [&] {
    EXPECT_THAT(nudged->wait_until({}), IsEmpty());
    woken["nudged"] = root->now();
  });
  root->start("timed", [&] {
    const auto timed = root->open();
    EXPECT_THAT(timed->wait_until(Tick{5s}), IsEmpty());
    woken["timed"] = root->now();
  });
  time.after(2s, [&] { nudged->nudge(); });
  std::size_t ended = 0;
  while (ended < 2) ended += root->wait_until({}).size();
  EXPECT_EQ(woken["nudged"], Tick{2s});
  EXPECT_EQ(woken["timed"], Tick{5s});
}

TEST(InlineRunner, ARunThatEndsDropsItsCallsAndLeavesTheOthers) {
  toy::Time time;
  const auto root = runner_of(time);
  bool passed = false;
  root->start("first", [&] {
    const auto runner = root->open();
    runner->start("left behind", [&] {
      pause(time, *root, 1s);
      passed = true;
    });
    EXPECT_THAT(runner->wait_until(root->now()), IsEmpty());
  });
  root->start("second", [&] {
    const auto runner = root->open();
    runner->start("its own", [&] { pause(time, *root, 3s); });
    EXPECT_THAT(runner->wait_until({}), ElementsAre("its own"));
  });
  std::size_t ended = 0;
  while (ended < 2) ended += root->wait_until({}).size();
  EXPECT_FALSE(passed);
}

TEST(InlineRunner, ACallThatWaitsForItsSiblingsIsABug) {
  toy::Time time;
  const auto root = runner_of(time);
  bool refused = false;
  root->start("a", [&] {
    try {
      root->wait_until({});
    } catch (const Error& error) {
      refused = error.fault() == Fault::Bug;
    }
  });
  EXPECT_THAT(root->wait_until({}), ElementsAre("a"));
  EXPECT_TRUE(refused);
}

// ---- threads

TEST(PoolRunner, RunsCallsAtOnceAndNotMoreThanItHasThreads) {
  const SystemClock clock;
  const auto runner = pool_runner(4, clock);
  std::barrier together{4};
  std::atomic<int> now = 0;
  std::atomic<int> peak = 0;
  for (int i = 0; i < 40; ++i)
    runner->start("call/" + std::to_string(i), [&] {
      const int inside = ++now;
      int seen = peak;
      while (inside > seen && !peak.compare_exchange_weak(seen, inside)) {
      }
      together.arrive_and_wait();  // hangs unless four are at work at once
      --now;
    });
  std::set<std::string> ended;
  while (ended.size() < 40)
    for (std::string& name : runner->wait_until({})) ended.insert(std::move(name));
  EXPECT_EQ(peak, 4);
}

TEST(PoolRunner, WhatACallWroteIsSeenByWhoWaited) {
  const SystemClock clock;
  const auto runner = pool_runner(8, clock);
  std::map<std::string, std::string> results;  // unsynchronised but for the runner's word
  for (int i = 0; i < 100; ++i) results["call/" + std::to_string(i)];
  for (auto& [name, result] : results)
    runner->start(name, [&result, name] { result = "of " + name; });
  std::size_t ended = 0;
  while (ended < results.size())
    for (const std::string& name : runner->wait_until({})) {
      EXPECT_EQ(results[name], "of " + name);
      ++ended;
    }
}

TEST(PoolRunner, ANudgeFromAnotherThreadWakesIt) {
  const SystemClock clock;
  const auto runner = pool_runner(1, clock);
  std::stop_source stop;
  const std::stop_callback wake{stop.get_token(), [&] { runner->nudge(); }};
  std::jthread other{[&] { stop.request_stop(); }};
  EXPECT_THAT(runner->wait_until({}), IsEmpty());
  EXPECT_TRUE(stop.stop_requested());
}

TEST(PoolRunner, WaitsUntilATimeThatHasPassed) {
  const SystemClock clock;
  const auto runner = pool_runner(1, clock);
  EXPECT_THAT(runner->wait_until(clock.tick() - 1s), IsEmpty());
  EXPECT_THAT(runner->wait_until(clock.tick() + 1ms), IsEmpty());
}

TEST(PoolRunner, DiesAfterTheCallsThatRunAndWithoutTheOthers) {
  const SystemClock clock;
  std::atomic<bool> finished = false;
  std::atomic<int> others = 0;
  std::latch running{1};
  std::latch go{1};
  std::jthread releaser;
  {
    const auto runner = pool_runner(1, clock);
    runner->start("first", [&] {
      running.count_down();
      go.wait();
      finished = true;
    });
    running.wait();
    runner->start("second", [&] { ++others; });
    releaser = std::jthread{[&] { go.count_down(); }};
  }
  EXPECT_TRUE(finished);
  EXPECT_LE(others, 1);
}

// ---- several runs on the same threads

TEST(Pool, CompletionsOfOneRunNeverReachAnother) {
  const SystemClock clock;
  const auto pool = thread_pool(8, clock);
  std::vector<std::jthread> runs;
  std::atomic<int> foreign = 0;
  std::atomic<int> own = 0;
  for (int run = 0; run < 10; ++run)
    runs.emplace_back([&, run] {
      const auto runner = pool->open();
      std::map<std::string, int> results;  // unsynchronised but for the runner's word
      for (int i = 0; i < 50; ++i) results["call/" + std::to_string(i)] = -1;
      for (auto& [name, result] : results) runner->start(name, [&result, run] { result = run; });
      std::size_t ended = 0;
      while (ended < 50)
        for (const std::string& name : runner->wait_until({})) {
          // The same names in all runs: only an own one has its own result.
          (results.at(name) == run ? own : foreign) += 1;
          ++ended;
        }
      EXPECT_THAT(runner->wait_until(runner->now()), IsEmpty());
    });
  runs.clear();
  EXPECT_EQ(foreign, 0);
  EXPECT_EQ(own, 500);
}

TEST(Pool, ANudgeWakesOneRunOnly) {
  const SystemClock clock;
  const auto pool = thread_pool(2, clock);
  const auto a = pool->open();
  const auto b = pool->open();
  a->nudge();
  EXPECT_THAT(a->wait_until({}), IsEmpty());
  EXPECT_THAT(b->wait_until(clock.tick() + 1ms), IsEmpty());
  b->start("b", [] {});
  EXPECT_THAT(b->wait_until({}), ElementsAre("b")) << "no nudge was left";
}

TEST(Pool, ARunThatEndsWhileItsWorkIsInFlightWaitsForItAndLeavesTheOthers) {
  const SystemClock clock;
  const auto pool = thread_pool(2, clock);
  const auto other = pool->open();
  std::latch running{2};
  std::latch go{1};
  std::atomic<bool> finished = false;
  std::atomic<int> dropped = 0;
  std::jthread releaser;
  other->start("other", [&] {
    running.count_down();
    go.wait();
  });
  {
    const auto runner = pool->open();
    runner->start("in flight", [&] {
      running.count_down();
      go.wait();
      finished = true;
    });
    running.wait();
    for (int i = 0; i < 100; ++i) runner->start("not begun", [&] { ++dropped; });
    for (int i = 0; i < 10; ++i)
      runner->start(
          "a record", [&] { ++dropped; }, Runner::Work::Watch);
    releaser = std::jthread{[&] { go.count_down(); }};
  }
  EXPECT_TRUE(finished);
  const int begun = dropped;
  EXPECT_THAT(other->wait_until({}), ElementsAre("other"));
  other->start("after", [] {});
  EXPECT_THAT(other->wait_until({}), ElementsAre("after"));
  EXPECT_EQ(dropped, begun) << "a call of a run that has ended was begun";
}

TEST(Pool, RunsTakeTurns) {
  const SystemClock clock;
  const auto pool = thread_pool(1, clock);
  const auto many = pool->open();
  const auto few = pool->open();
  std::latch all_started{1};
  std::vector<std::string> order;  // one thread writes
  many->start("first", [&] { all_started.wait(); });
  for (int i = 0; i < 100; ++i) many->start("many", [&] { order.emplace_back("many"); });
  for (int i = 0; i < 3; ++i) few->start("few", [&] { order.emplace_back("few"); });
  all_started.count_down();
  std::size_t ended = 0;
  while (ended < 3) ended += few->wait_until({}).size();
  ended = 0;
  while (ended < 101) ended += many->wait_until({}).size();
  const auto last = std::find(order.rbegin(), order.rend(), "few");
  EXPECT_LE(order.rend() - last, 6) << "a run with few calls waited for one with many";
}

/// A lock that is not renewed in time is lost, however busy the steps are.
TEST(Pool, RecordsAndWatchesNeedNoThreadOfSteps) {
  const SystemClock clock;
  const auto pool = thread_pool(2, clock);
  const auto busy = pool->open();
  const auto runner = pool->open();
  std::latch end{1};
  for (int i = 0; i < 8; ++i) busy->start("step", [&] { end.wait(); });
  for (int i = 0; i < 8; ++i)
    busy->start(
        "watch", [&] { end.wait(); }, Runner::Work::Watch);
  runner->start(
      "record", [] {}, Runner::Work::Record);
  EXPECT_THAT(runner->wait_until({}), ElementsAre("record"));
  runner->start(
      "watch", [] {}, Runner::Work::Watch);
  EXPECT_THAT(runner->wait_until({}), ElementsAre("watch"));
  end.count_down();
}

TEST(Pool, LivesAsLongAsItsRuns) {
  const SystemClock clock;
  std::unique_ptr<Runner> runner = thread_pool(2, clock)->open();
  runner->start("a", [] {});
  EXPECT_THAT(runner->wait_until({}), ElementsAre("a"));
}

}  // namespace
}  // namespace rocca::engine
