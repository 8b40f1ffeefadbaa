#include "seeds/crew.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace rocca::seeds {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

using Told = std::vector<std::pair<std::uint64_t, std::string>>;

Told told_by(const Batch& batch, const std::function<Outcome(std::uint64_t)>& one) {
  Told all;
  const auto each = [&](Seeds seeds, const Tell& tell) {
    for (std::uint64_t i = 0; i < seeds.count; ++i) tell(seeds.first + i, one(seeds.first + i));
  };
  work(batch, each, [&](std::uint64_t seed, const Outcome& outcome) {
    EXPECT_TRUE(!outcome.broken.empty() || outcome.trace == seed * 7) << seed;
    all.emplace_back(seed, outcome.broken);
  });
  return all;
}

Outcome fine(std::uint64_t seed) {
  Outcome outcome;
  outcome.trace = seed * 7;
  return outcome;
}

Outcome bad_at_five_and_nine(std::uint64_t seed) {
  Outcome outcome = fine(seed);
  if (seed == 5 || seed == 9) outcome.broken = std::string(100'000, 'x');  // more than a pipe holds
  return outcome;
}

TEST(Crew, TellsInTheOrderOfSeedsHoweverManyWork) {
  for (const unsigned jobs : {1u, 2u, 7u}) {
    const Told all = told_by({.from = 3, .count = 40, .jobs = jobs}, fine);
    ASSERT_THAT(all, SizeIs(40));
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_THAT(all[i], Pair(3 + i, IsEmpty()));
  }
}

TEST(Crew, FamiliesStayTogetherWhereverABatchBegins) {
  for (const unsigned jobs : {1u, 2u}) {
    std::vector<std::uint64_t> order;
    const auto together = [](Seeds seeds, const Tell& tell) {
      for (std::uint64_t i = 0; i < seeds.count; ++i) {
        Outcome outcome = fine(seeds.first + i);
        outcome.runs = seeds.first;
        tell(seeds.first + i, outcome);
      }
    };
    work({.from = 6, .count = 9, .jobs = jobs, .family = 4}, together,
         [&](std::uint64_t, const Outcome& outcome) { order.push_back(outcome.runs); });
    EXPECT_THAT(order, ElementsAre(6, 6, 6, 9, 9, 9, 9, 13, 13));
  }
}

TEST(Crew, EndsWithTheFirstBrokenPromise) {
  for (const unsigned jobs : {1u, 2u, 7u})
    EXPECT_THAT(told_by({.count = 400, .jobs = jobs}, bad_at_five_and_nine),
                ElementsAre(Pair(1, IsEmpty()), Pair(2, IsEmpty()), Pair(3, IsEmpty()),
                            Pair(4, IsEmpty()), Pair(5, SizeIs(100'000))));
}

TEST(Crew, GoesOnWhenToldTo) {
  const Told all = told_by({.count = 12, .jobs = 2, .go_on = true}, bad_at_five_and_nine);
  ASSERT_THAT(all, SizeIs(12));
  EXPECT_THAT(all[8], Pair(9, SizeIs(100'000)));
}

TEST(Crew, KnowsTheSeedOfAProcessThatDied) {
  const auto dies = [](std::uint64_t seed) {
    if (seed == 4) static_cast<void>(raise(SIGKILL));
    if (seed == 6) _exit(3);
    return fine(seed);
  };
  const Told all = told_by({.count = 9, .jobs = 2, .go_on = true}, dies);
  ASSERT_THAT(all, SizeIs(9));
  EXPECT_THAT(all[3], Pair(4, HasSubstr("signal 9")));
  EXPECT_THAT(all[5], Pair(6, HasSubstr("exit code 3")));
  EXPECT_THAT(told_by({.count = 9, .jobs = 2}, dies), SizeIs(4));
}

TEST(Crew, KnowsWhomAFamilyLost) {
  const auto dies = [](Seeds seeds, const Tell& tell) {
    for (std::uint64_t i = 0; i < seeds.count; ++i) {
      if (seeds.first + i == 6) static_cast<void>(raise(SIGKILL));
      tell(seeds.first + i, fine(seeds.first + i));
    }
  };
  std::vector<std::uint64_t> dead;
  work({.count = 12, .jobs = 2, .go_on = true, .family = 4}, dies,
       [&](std::uint64_t seed, const Outcome& outcome) {
         if (!outcome.broken.empty()) dead.push_back(seed);
       });
  EXPECT_THAT(dead, ElementsAre(6, 7, 8));
}

TEST(Apart, ChangesNothingHere) {
  int here = 1;
  Told all;
  for (const std::uint64_t seed : {1u, 2u, 3u})
    apart(
        {seed, 1},
        [&](const Tell& tell) {
          ++here;
          if (seed == 2) _exit(4);
          Outcome outcome = fine(seed);
          outcome.runs = static_cast<std::uint64_t>(here);
          tell(seed, outcome);
        },
        [&](std::uint64_t told, const Outcome& outcome) {
          EXPECT_EQ(outcome.runs, told == 2 ? 0u : 2u);
          all.emplace_back(told, outcome.broken);
        });
  EXPECT_EQ(here, 1);
  EXPECT_THAT(
      all, ElementsAre(Pair(1, IsEmpty()), Pair(2, HasSubstr("exit code 4")), Pair(3, IsEmpty())));
}

}  // namespace
}  // namespace rocca::seeds
