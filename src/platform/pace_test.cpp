#include "platform/pace.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

using namespace std::chrono_literals;

Tick at(Duration since) {
  return Tick{} + since;
}

/// Asks after something that takes so long until it is over. Gives how often, and how late.
struct Course {
  unsigned asked = 0;
  Duration late{};
};
Course follow(Pace& pace, const std::string& name, const std::string& kind, Tick begun,
              Duration takes, Duration least = 0ms) {
  Course course;
  Tick ask = pace.begin(name, kind, begun, least);
  while (true) {
    ++course.asked;
    if (ask >= begun + takes) break;
    ask = pace.again(name, ask);
  }
  pace.over(name, ask);
  course.late = ask - (begun + takes);
  return course;
}

TEST(Pace, AsksAfterWhatNobodyKnowsInGrowingSteps) {
  Pace pace{{0.1, 100ms, 2s}};
  EXPECT_EQ(pace.begin("a", "create", at(0s), 1500ms), at(1500ms));
  EXPECT_EQ(pace.again("a", at(1500ms)), at(1650ms));
  EXPECT_EQ(pace.again("a", at(10s)), at(11s));
  EXPECT_EQ(pace.again("a", at(30s)), at(32s));  // never later than that…
  EXPECT_EQ(pace.again("a", at(5s), /*soon=*/true), at(5s + 100ms));
  // …but for minutes nobody is asked twice a second.
  EXPECT_EQ(pace.again("a", at(200s)), at(210s));
  EXPECT_EQ(pace.again("a", at(200s), /*soon=*/true), at(202s));
}

TEST(Pace, LooksOnceEarlyAtWhatNobodyKnows) {
  Pace pace{{0.1, 100ms, 2s, 50ms}};
  EXPECT_EQ(pace.begin("a", "create", at(0s), 2500ms), at(50ms));
  EXPECT_EQ(pace.again("a", at(50ms)), at(2500ms));  // it takes its time here: no sooner than usual
  EXPECT_EQ(pace.again("a", at(2500ms)), at(2750ms));
  pace.over("a", at(3s));
  EXPECT_GE(pace.begin("b", "create", at(10s), 2500ms),
            at(12700ms));  // nobody looks early any more
}

TEST(Pace, IsQuickWhereThingsEndAtOnce) {
  Pace pace{{0.15, 80ms, 2s, 50ms}};
  Tick ask = pace.begin("a", "create", at(0s), 2500ms);
  pace.over("a", ask, true, 0s);
  for (int i = 1; i <= 10; ++i) {
    const Tick begun = at(i * 1s);
    ask = pace.begin("a", "create", begun, 2500ms);
    EXPECT_EQ(ask, begun + 50ms);
    pace.over("a", ask, true, 0s);
  }
}

TEST(Pace, ALogTellsThatItWasOverLongBeforeItWasAskedAfter) {
  Pace pace{{0.15, 80ms, 2s}};
  pace.begin("a", "create", at(0s), 8s);
  pace.over("a", at(8s), true, 2s);
  EXPECT_LE(pace.expected("create"), Duration{3s});
}

TEST(Pace, LearnsHowLongAKindTakes) {
  Pace pace{{0.15, 100ms, 2s}};
  const Course first = follow(pace, "a", "create", at(0s), 3600ms, 1500ms);
  EXPECT_LE(first.late, 600ms);
  unsigned asked = 0;
  Duration late{};
  for (int i = 1; i <= 20; ++i) {
    const Course course =
        follow(pace, "n" + std::to_string(i), "create", at(i * 10s), 3600ms, 1500ms);
    asked += course.asked;
    late += course.late;
  }
  EXPECT_LE(asked, 32u);       // of twenty: one question each, and a few that came too early
  EXPECT_LE(late / 20, 80ms);  // two hundredths of what it takes
}

TEST(Pace, FollowsWhatBecomesShorterOrLonger) {
  Pace pace{{0.15, 100ms, 2s}};
  for (int i = 0; i < 5; ++i) follow(pace, "a", "create", at(i * 100s), 10s);
  const Course longer = follow(pace, "a", "create", at(1000s), 20s);
  EXPECT_LE(longer.late, 2s);
  EXPECT_LE(longer.asked, 16u);
  for (int i = 0; i < 5; ++i) follow(pace, "a", "create", at(2000s + i * 100s), 20s);
  // Nobody sees that it has become shorter but by asking a little earlier every time.
  const Course first = follow(pace, "a", "create", at(3000s), 10s);
  EXPECT_LE(first.late, 8s);  // it is asked after in the meantime, too
  Course last;
  for (int i = 0; i < 20; ++i) last = follow(pace, "a", "create", at(4000s + i * 100s), 10s);
  EXPECT_LE(last.late, 500ms);
}

TEST(Pace, TakesALogOfWholeSecondsForWhatItIs) {
  Pace pace{{0.15, 100ms, 2s}};
  EXPECT_EQ(pace.expected("create"), std::nullopt);
  for (const Duration took : {4s, 3s, 4s, 4s, 3s}) pace.logged("create", took);
  pace.logged("create", 300s);  // somebody's large disk
  EXPECT_EQ(pace.expected("create"), Duration{3600ms});
  EXPECT_GE(pace.begin("a", "create", at(0s), 0s), at(3600ms));
  EXPECT_LE(pace.begin("b", "create", at(0s), 0s), at(3900ms));  // and a margin for the seconds
  // What this run has seen itself counts more.
  follow(pace, "c", "create", at(0s), 5s);
  EXPECT_GT(pace.expected("create"), Duration{4800ms});
}

TEST(Pace, OneQuestionServesAllThatAreInTime) {
  Pace pace{{0.15, 100ms, 2s}};
  const Tick first = pace.begin("a", "create", at(0s), 3s);
  EXPECT_EQ(pace.begin("b", "start", at(2s), 800ms, 500ms), first);
  EXPECT_EQ(pace.begin("d", "start", at(2s), 100ms, 500ms), at(2100ms));  // cannot wait so long
  // A little too early does no harm as long as nobody knows better.
  EXPECT_EQ(pace.begin("e", "start", at(2s), 1100ms, 500ms), first);
  pace.logged("start", 1s);
  EXPECT_GT(pace.begin("f", "start", at(2s), 1100ms, 500ms), first);
}

TEST(Pace, AFailureAndAnUnknownBeginningTeachNothing) {
  Pace pace{{0.15, 100ms, 2s}};
  pace.begin("a", "create", at(0s), 1s);
  pace.over("a", at(1s), /*teaches=*/false);
  EXPECT_EQ(pace.expected("create"), std::nullopt);
  pace.join("b", "create", at(10s));
  EXPECT_EQ(pace.due("b"), at(10s));
  pace.again("b", at(10s));
  pace.over("b", at(11s));
  EXPECT_EQ(pace.expected("create"), std::nullopt);
  EXPECT_FALSE(pace.goes_on("b"));
  EXPECT_THROW(pace.again("b", at(12s)), Error);
}

TEST(Pace, ALookOfOthersNarrowsItDown) {
  Pace pace{{0.15, 100ms, 2s}};
  pace.begin("a", "create", at(0s), 10s);
  pace.seen("a", at(4600ms));
  pace.over("a", at(5s));
  EXPECT_EQ(pace.expected("create"), Duration{4800ms});
}

}  // namespace
}  // namespace rocca::resources
