#include "lab/sim/world.hpp"

#include <gmock/gmock.h>

namespace rocca::lab {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(World, RunsEventsByTimeThenByTheOrderTheyWereAsked) {
  World world;
  std::vector<int> order;
  world.after(2s, [&] { order.push_back(3); });
  world.after(1s, [&] { order.push_back(1); });
  world.after(1s, [&] { order.push_back(2); });
  const Instant start = world.now();
  world.settle(1h);
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
  EXPECT_EQ(world.now() - start, 2s);
}

TEST(World, CancelledTimersDoNotRun) {
  World world;
  bool ran = false;
  world.cancel(world.after(1s, [&] { ran = true; }));
  world.run_for(2s);
  EXPECT_FALSE(ran);
}

Routine<int> answer_after(World& world, Duration delay) {
  co_await world.sleep(delay);
  co_return 42;
}

Routine<void> store(World& world, int& out, Instant& when) {
  out = co_await answer_after(world, 3s);
  when = world.now();
}

TEST(World, RoutinesWaitInTheWorldsTime) {
  World world;
  const Instant start = world.now();
  int out = 0;
  Instant when{};
  world.spawn(store(world, out, when));
  EXPECT_EQ(out, 0);
  world.run_for(10s);
  EXPECT_EQ(out, 42);
  EXPECT_EQ(when - start, 3s);
  EXPECT_EQ(world.running(), 0u);
}

Routine<void> wait_for(World& world, Signal& signal, std::optional<Instant> deadline,
                       std::vector<Woke>& woke) {
  woke.push_back(co_await world.wait(signal, deadline));
}

TEST(World, ASignalOrTheDeadlineEndsAWait) {
  World world;
  Signal signal;
  std::vector<Woke> woke;
  world.spawn(wait_for(world, signal, world.now() + 5s, woke));
  world.spawn(wait_for(world, signal, world.now() + 1s, woke));
  world.after(2s, [&] { signal.wake_all(); });
  world.run_for(10s);
  EXPECT_THAT(woke, ElementsAre(Woke::TimedOut, Woke::Signalled));
}

Routine<void> until_interrupted(World& world, Interrupt& interrupt, std::string& reason) {
  try {
    co_await world.sleep(1h, &interrupt);
  } catch (const Interrupted& interrupted) {
    reason = interrupted.reason;
  }
}

TEST(World, AnInterruptEndsAWaitAtOnce) {
  World world;
  Interrupt interrupt;
  std::string reason;
  world.spawn(until_interrupted(world, interrupt, reason));
  world.after(1s, [&] { interrupt.raise("received interrupt"); });
  world.run_for(2s);
  EXPECT_EQ(reason, "received interrupt");
}

Routine<void> fails(World& world) {
  co_await world.sleep(1s);
  throw std::string("broken");
}

TEST(World, WhatARoutineLetsEscapeReachesWhoeverRunsTheWorld) {
  World world;
  world.spawn(fails(world));
  EXPECT_THROW(world.run_for(2s), std::string);
}

TEST(World, EndingRoutinesReleasesWhatTheyHold) {
  auto held = std::make_shared<int>(1);
  {
    World world;
    const auto hold = [](World& in, std::shared_ptr<int>) -> Routine<void> {
      co_await in.sleep(1h);
    };
    world.spawn(hold(world, held));
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Trace, IsTheSameForTheSameMeaningAndDiffersOtherwise) {
  Trace a;
  Trace b;
  Trace c;
  const Instant now{};
  a.add(now, "one");
  b.add(now, "one");
  c.add(now + 1ns, "one");
  EXPECT_EQ(a.hash(), b.hash());
  EXPECT_NE(a.hash(), c.hash());
}

}  // namespace
}  // namespace rocca::lab
