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
  work(batch, one, [&](std::uint64_t seed, const Outcome& outcome) {
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

}  // namespace
}  // namespace rocca::seeds
