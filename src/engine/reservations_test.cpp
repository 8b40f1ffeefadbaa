#include "engine/reservations.hpp"

#include <gmock/gmock.h>

#include <mutex>
#include <thread>
#include <vector>

namespace rocca::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using Ids = Reservations::Ids;
using Holder = Reservations::Holder;

/// The lowest `count` ids from 100 on that are free; what the owner has had stays.
Ids choose(Holder& holder, std::size_t count, const Ids& exist = {}) {
  Ids chosen;
  holder.reserve([&](const Ids& others) {
    for (std::uint64_t id = 100; chosen.size() < count; ++id)
      if (!exist.contains(id) && !others.contains(id)) chosen.insert(id);
    return chosen;
  });
  return chosen;
}

Ids others_of(Holder& holder) {
  Ids seen;
  holder.reserve([&](const Ids& others) {
    seen = others;
    return Ids{};
  });
  return seen;
}

TEST(Reservations, NoTwoClustersChooseTheSameId) {
  const VirtualClock clock;
  Reservations all{clock};
  Holder blue{all, "blue"}, red{all, "red"};
  EXPECT_THAT(choose(blue, 2), ElementsAre(100, 101));
  EXPECT_THAT(choose(red, 2), ElementsAre(102, 103));
}

TEST(Reservations, ASecondRunOfAClusterHasTheIdsOfTheFirst) {
  const VirtualClock clock;
  Reservations all{clock};
  Holder planned{all, "blue"};
  ASSERT_THAT(choose(planned, 2), ElementsAre(100, 101));
  Holder applied{all, "blue"};
  EXPECT_THAT(choose(applied, 2), ElementsAre(100, 101));
}

/// Another run may have listed the VMs before this one created its own.
TEST(Reservations, IdsOfARunThatHasEndedStayReservedForAWhile) {
  VirtualClock clock;
  Reservations all{clock, 2min};
  Holder red{all, "red"};
  {
    Holder blue{all, "blue"};
    ASSERT_THAT(choose(blue, 1), ElementsAre(100));
  }
  clock.advance(90s);
  EXPECT_THAT(others_of(red), ElementsAre(100));
  clock.advance(31s);
  EXPECT_THAT(others_of(red), IsEmpty());
}

TEST(Reservations, EndOnlyWithTheLastRunOfACluster) {
  VirtualClock clock;
  Reservations all{clock, 2min};
  Holder red{all, "red"};
  Holder first{all, "blue"};
  ASSERT_THAT(choose(first, 1), ElementsAre(100));
  { Holder second{all, "blue"}; }
  clock.advance(1h);
  EXPECT_THAT(others_of(red), ElementsAre(100));
}

TEST(Reservations, AClusterThatComesBackInTimeKeepsItsIds) {
  VirtualClock clock;
  Reservations all{clock, 2min};
  Holder red{all, "red"};
  {
    Holder blue{all, "blue"};
    ASSERT_THAT(choose(blue, 1), ElementsAre(100));
  }
  clock.advance(1min);
  Holder blue{all, "blue"};
  clock.advance(1h);
  EXPECT_THAT(others_of(red), ElementsAre(100));
}

TEST(Reservations, AnIdThatIsReservedStaysWithItsFirstOwner) {
  const VirtualClock clock;
  Reservations all{clock};
  Holder blue{all, "blue"}, red{all, "red"}, green{all, "green"};
  blue.reserve([](const Ids&) { return Ids{100}; });
  red.reserve([](const Ids&) { return Ids{100}; });  // its lock says so
  EXPECT_THAT(others_of(red), ElementsAre(100));
  EXPECT_THAT(others_of(blue), IsEmpty());
  EXPECT_THAT(others_of(green), ElementsAre(100));
}

TEST(Reservations, HoldOnManyThreads) {
  const SystemClock clock;
  Reservations all{clock};
  std::mutex mutex;
  std::vector<std::uint64_t> chosen;
  {
    std::vector<std::jthread> runs;
    for (int i = 0; i < 32; ++i)
      runs.emplace_back([&, i] {
        Holder holder{all, "cluster " + std::to_string(i)};
        const Ids ids = choose(holder, 5);
        const std::lock_guard lock{mutex};
        chosen.insert(chosen.end(), ids.begin(), ids.end());
      });
  }
  EXPECT_EQ(chosen.size(), 160u);
  EXPECT_EQ(Ids(chosen.begin(), chosen.end()).size(), 160u);
}

}  // namespace
}  // namespace rocca::engine
