#include "locking/addresses.hpp"

#include <gmock/gmock.h>

namespace rocca::locking {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Addresses, OfAMachineAndNotOfItsRouter) {
  EXPECT_THAT(addresses_of_ipconfig("ip=10.0.0.5/24,gw=10.0.0.1"),
              ElementsAre(*IpAddress::parse("10.0.0.5")));
  EXPECT_THAT(addresses_of_ipconfig("gw6=fd00::1,ip6=fd00::5/64,ip=10.0.0.6/16"),
              ElementsAre(*IpAddress::parse("fd00::5"), *IpAddress::parse("10.0.0.6")));
}

TEST(Addresses, OfWhoeverGetsTheirsElsewhereAreNotKnown) {
  for (const char* text : {"ip=dhcp", "ip6=auto", "ip=dhcp,ip6=dhcp", "", "ip=", "nonsense"})
    EXPECT_THAT(addresses_of_ipconfig(text), IsEmpty()) << text;
}

}  // namespace
}  // namespace rocca::locking
