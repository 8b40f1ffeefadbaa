#include "engine/runner.hpp"

#include "base/error.hpp"
#include "engine/toy_test_support.hpp"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <barrier>
#include <exception>
#include <latch>
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

}  // namespace
}  // namespace rocca::engine
