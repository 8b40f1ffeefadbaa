#include "base/clock.hpp"

#include "base/error.hpp"

#include <gtest/gtest.h>

namespace rocca {
namespace {

using namespace std::chrono_literals;

TEST(VirtualClock, StandsStillUntilItIsMoved) {
  VirtualClock clock;
  const Instant start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(90s);
  EXPECT_EQ(clock.now() - start, 90s);
  EXPECT_EQ(clock.tick().time_since_epoch(), 90s);
  clock.advance_to(start + 2h);
  EXPECT_EQ(clock.tick().time_since_epoch(), 2h);
}

TEST(VirtualClock, NeverGoesBack) {
  VirtualClock clock;
  clock.advance(1h);
  const Instant now = clock.now();
  clock.advance_to(now - 1min);
  EXPECT_EQ(clock.now(), now);
  EXPECT_THROW(clock.advance(-1ns), Error);
}

TEST(SystemClock, TicksForward) {
  const SystemClock clock;
  const Tick first = clock.tick();
  EXPECT_LE(first, clock.tick());
  EXPECT_GT(clock.now(), Instant{1'700'000'000s});
}

}  // namespace
}  // namespace rocca
