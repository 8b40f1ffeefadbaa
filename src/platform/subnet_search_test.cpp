#include "platform/subnet_search.hpp"

#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> texts(const std::vector<IpAddress>& addresses) {
  std::vector<std::string> all;
  for (const IpAddress& each : addresses) all.push_back(to_string(each));
  return all;
}

TEST(Search, HandsOutEveryUsableAddressOnceARound) {
  Search search;
  const Cidr subnet = *Cidr::parse("10.0.0.8/29");
  EXPECT_THAT(texts(search.next(subnet, 4)),
              ElementsAre("10.0.0.9", "10.0.0.10", "10.0.0.11", "10.0.0.12"));
  EXPECT_EQ(search.rounds(), 0u);
  EXPECT_THAT(texts(search.next(subnet, 4)), ElementsAre("10.0.0.13", "10.0.0.14"));
  EXPECT_EQ(search.rounds(), 1u);
  EXPECT_THAT(texts(search.next(subnet, 1)), ElementsAre("10.0.0.9"));
}

TEST(Search, KnowsWhomSomebodyMetAndWhereLast) {
  Search search;
  const Uuid one = Uuid::v5({}, "one");
  EXPECT_EQ(search.find(one), std::nullopt);
  search.met(one, "10.0.0.9");
  search.met(one, "10.0.0.12");
  EXPECT_EQ(search.find(one), "10.0.0.12");
  EXPECT_EQ(search.find(Uuid::v5({}, "two")), std::nullopt);
}

TEST(Search, AsksNoNetworkThatIsTooLarge) {
  EXPECT_TRUE(Search::can_be_asked(*Cidr::parse("10.0.0.0/20")));
  EXPECT_FALSE(Search::can_be_asked(*Cidr::parse("10.0.0.0/19")));
  EXPECT_FALSE(Search::can_be_asked(*Cidr::parse("fd00::/64")));
}

}  // namespace
}  // namespace rocca::resources
