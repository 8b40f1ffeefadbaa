#include "base/address.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>

namespace rocca {
namespace {

using testing::Eq;
using testing::Optional;

IpAddress ip(std::string_view text) {
  return IpAddress::parse(text).value();
}
Cidr cidr(std::string_view text) {
  return Cidr::parse(text).value();
}
AddressRange range(std::string_view text) {
  return AddressRange::parse(text).value();
}

IpAddress any_address() {
  if (*rc::gen::arbitrary<bool>()) return IpAddress::v4(*rc::gen::arbitrary<std::uint32_t>());
  std::array<std::uint8_t, 16> bytes{};
  for (std::uint8_t& byte : bytes)
    byte = *rc::gen::element<std::uint8_t>(0, 0, 0, 1, 0x20, 0xFE, 0xFF);
  return IpAddress::v6(bytes);
}

struct Spelling {
  std::string name;
  std::string text;
  std::string printed;
};

class GoodAddress : public testing::TestWithParam<Spelling> {};

TEST_P(GoodAddress, IsReadAndPrintedCanonically) {
  const auto address = IpAddress::parse(GetParam().text);
  ASSERT_TRUE(address.has_value());
  EXPECT_EQ(to_string(*address), GetParam().printed);
}

INSTANTIATE_TEST_SUITE_P(
    Address, GoodAddress,
    testing::Values(
        Spelling{"v4", "10.0.0.11", "10.0.0.11"}, Spelling{"v4_zero", "0.0.0.0", "0.0.0.0"},
        Spelling{"v4_highest", "255.255.255.255", "255.255.255.255"},
        Spelling{"v6_zero", "::", "::"}, Spelling{"v6_loopback", "::1", "::1"},
        Spelling{"v6_full", "2001:0DB8:0:0:0:0:0:1", "2001:db8::1"},
        Spelling{"v6_gap_at_end", "fd00::", "fd00::"},
        Spelling{"one_zero_group_stays", "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
        Spelling{"longest_run_is_cut", "2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},
        Spelling{"first_of_equal_runs_is_cut", "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
        Spelling{"gap_for_one_group_is_read", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
        Spelling{"mapped", "::ffff:10.0.0.1", "::ffff:10.0.0.1"},
        Spelling{"mapped_in_hex", "::ffff:a00:1", "::ffff:10.0.0.1"},
        Spelling{"v4_tail", "64:ff9b::192.0.2.33", "64:ff9b::c000:221"}),
    [](const auto& row) { return row.param.name; });

class BadAddress : public testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(BadAddress, IsRefused) {
  EXPECT_EQ(IpAddress::parse(GetParam().second), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(
    Address, BadAddress,
    testing::Values(std::pair{"empty", ""}, std::pair{"three_parts", "10.0.0"},
                    std::pair{"five_parts", "10.0.0.0.1"}, std::pair{"too_large", "10.0.0.256"},
                    std::pair{"leading_zero", "10.0.0.01"}, std::pair{"sign", "10.0.0.-1"},
                    std::pair{"plus", "10.0.0.+1"}, std::pair{"blank", " 10.0.0.1"},
                    std::pair{"blank_after", "10.0.0.1 "}, std::pair{"empty_part", "10..0.1"},
                    std::pair{"hex_v4", "0x0a.0.0.1"}, std::pair{"name", "localhost"},
                    std::pair{"v6_short", "1:2:3:4:5:6:7"},
                    std::pair{"v6_long", "1:2:3:4:5:6:7:8:9"},
                    std::pair{"v6_gap_for_nothing", "1:2:3:4::5:6:7:8"},
                    std::pair{"v6_two_gaps", "1::2::3"}, std::pair{"v6_three_colons", ":::"},
                    std::pair{"v6_one_colon_first", ":1:2:3:4:5:6:7"},
                    std::pair{"v6_five_digits", "::12345"}, std::pair{"v6_letter", "::g"},
                    std::pair{"v6_zone", "fe80::1%eth0"}, std::pair{"v6_brackets", "[::1]"},
                    std::pair{"v6_v4_in_front", "10.0.0.1::1"},
                    std::pair{"v6_v4_after_seven", "1:2:3:4:5:6:7:1.2.3.4"}),
    [](const auto& row) { return row.param.first; });

RC_GTEST_PROP(AddressProperty, PrintedIsReadBack, ()) {
  const IpAddress address = any_address();
  RC_ASSERT(IpAddress::parse(to_string(address)) == address);
}

RC_GTEST_PROP(AddressProperty, PlusAndMinusAreInverse, (std::uint64_t offset)) {
  const IpAddress address = any_address();
  const auto further = address.plus(offset);
  if (address.is_v4() && offset > 0xFFFFFFFFu - std::uint64_t{address.to_v4()})
    RC_ASSERT(!further);
  else if (further)
    RC_ASSERT(further->minus(address) == offset);
  else
    RC_ASSERT(!address.is_v4());
}

RC_GTEST_PROP(AddressProperty, ANetworkHoldsExactlyWhatLiesBetweenItsEnds, ()) {
  const IpAddress address = any_address();
  const Cidr net{address, *rc::gen::inRange(0u, address.bits() + 1)};
  RC_ASSERT(net.contains(net.network()) && net.contains(net.last()) && net.contains(address));
  RC_ASSERT(Cidr::parse(to_string(net)) == net);
  if (const auto after = net.last().plus(1)) RC_ASSERT(!net.contains(*after));
  const IpAddress other = any_address();
  RC_ASSERT(net.contains(other) ==
            (other.family() == address.family() && net.network() <= other && other <= net.last()));
}

RC_GTEST_PROP(AddressProperty, NetworksOverlapOnlyWhenOneHoldsTheOther, ()) {
  const IpAddress a = any_address();
  const IpAddress b = any_address();
  const Cidr left{a, *rc::gen::inRange(0u, a.bits() + 1)};
  const Cidr right{b, *rc::gen::inRange(0u, b.bits() + 1)};
  const bool share =
      a.family() == b.family() && left.network() <= right.last() && right.network() <= left.last();
  RC_ASSERT(left.overlaps(right) == share);
  RC_ASSERT(left.overlaps(right) == right.overlaps(left));
}

RC_GTEST_PROP(AddressProperty, MacIsReadBackInEitherCase, ()) {
  std::array<std::uint8_t, 6> bytes{};
  for (std::uint8_t& byte : bytes) byte = *rc::gen::arbitrary<std::uint8_t>();
  const MacAddress mac{bytes};
  RC_ASSERT(MacAddress::parse(to_string(mac)) == mac);
  RC_ASSERT(MacAddress::parse(to_lower_string(mac)) == mac);
}

TEST(Address, StopsAtTheEndOfItsSpace) {
  EXPECT_EQ(ip("255.255.255.255").plus(1), std::nullopt);
  EXPECT_EQ(ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff").plus(1), std::nullopt);
  EXPECT_THAT(ip("10.0.0.255").plus(1), Optional(ip("10.0.1.0")));
  EXPECT_THAT(ip("::ffff:ffff:ffff:ffff").plus(1), Optional(ip("0:0:0:1::")));
  EXPECT_EQ(ip("10.0.0.1").minus(ip("10.0.0.2")), std::nullopt);
  EXPECT_EQ(ip("::1").minus(ip("0.0.0.0")), std::nullopt);
  EXPECT_EQ(ip("1::").minus(ip("::")), std::nullopt);  // more than 64 bits apart
}

TEST(Address, KnowsItsKind) {
  EXPECT_TRUE(ip("127.9.8.7").is_loopback());
  EXPECT_TRUE(ip("::1").is_loopback());
  EXPECT_FALSE(ip("::2").is_loopback());
  EXPECT_TRUE(ip("169.254.1.1").is_link_local());
  EXPECT_TRUE(ip("fe80::1").is_link_local());
  EXPECT_TRUE(ip("febf::1").is_link_local());
  EXPECT_FALSE(ip("fec0::1").is_link_local());
  EXPECT_TRUE(ip("224.0.0.1").is_multicast());
  EXPECT_FALSE(ip("240.0.0.1").is_multicast());
  EXPECT_TRUE(ip("ff02::1").is_multicast());
  EXPECT_TRUE(ip("0.0.0.0").is_unspecified());
  EXPECT_TRUE(ip("::").is_unspecified());
  EXPECT_NE(ip("0.0.0.0"), ip("::"));
}

TEST(Cidr, KeepsTheHostPart) {
  const Cidr net = cidr("10.0.3.11/16");
  EXPECT_EQ(to_string(net), "10.0.3.11/16");
  EXPECT_EQ(to_string(net.network()), "10.0.0.0");
  EXPECT_EQ(to_string(net.last()), "10.0.255.255");
  EXPECT_FALSE(net.is_network());
  EXPECT_TRUE(cidr("0.0.0.0/0").contains(ip("255.255.255.255")));
  EXPECT_TRUE(cidr("::/0").contains(ip("ffff::")));
  EXPECT_FALSE(cidr("::/0").contains(ip("10.0.0.1")));
  EXPECT_EQ(to_string(cidr("fd00::1/64").last()), "fd00::ffff:ffff:ffff:ffff");
}

TEST(Cidr, RefusesWhatIsNone) {
  for (const char* text : {"10.0.0.0", "10.0.0.0/33", "10.0.0.0/", "/8", "10.0.0.0/-1",
                           "10.0.0.0/08", "::/129", "10.0.0.0/8/8", "10.0.0/8", "10.0.0.0/8 "})
    EXPECT_EQ(Cidr::parse(text), std::nullopt) << text;
  EXPECT_THROW(Cidr(ip("10.0.0.0"), 33), Error);
}

TEST(Cidr, GivesMachinesNeitherNetworkNorBroadcast) {
  const Cidr net = cidr("10.0.0.5/24");
  EXPECT_FALSE(net.usable(ip("10.0.0.0")));
  EXPECT_FALSE(net.usable(ip("10.0.0.255")));
  EXPECT_FALSE(net.usable(ip("10.0.1.1")));
  EXPECT_TRUE(net.usable(ip("10.0.0.1")));
  EXPECT_TRUE(cidr("10.0.0.0/31").usable(ip("10.0.0.0")));
  EXPECT_TRUE(cidr("10.0.0.1/32").usable(ip("10.0.0.1")));
  EXPECT_TRUE(cidr("fd00::/64").usable(ip("fd00::")));
}

TEST(AddressRange, ReadsItsThreeForms) {
  EXPECT_EQ(range("10.0.0.21-10.0.0.29"), range("10.0.0.21-29"));
  EXPECT_EQ(range("10.0.0.21-29").size(), 9u);
  EXPECT_EQ(range("10.0.0.7").size(), 1u);
  EXPECT_EQ(to_string(range("10.0.0.7")), "10.0.0.7");
  EXPECT_EQ(to_string(range("10.0.0.21-29")), "10.0.0.21-10.0.0.29");
  EXPECT_EQ(range("::-ffff::").size(), std::numeric_limits<std::uint64_t>::max());
  for (const char* text : {"", "-", "10.0.0.29-21", "10.0.0.1-", "-10.0.0.1", "10.0.0.1-256",
                           "10.0.0.1-::1", "10.0.0.1-10.0.0.2-10.0.0.3", "fd00::1-f"})
    EXPECT_EQ(AddressRange::parse(text), std::nullopt) << text;
  EXPECT_THROW(AddressRange(ip("10.0.0.2"), ip("10.0.0.1")), Error);
  EXPECT_THROW(AddressRange(ip("10.0.0.2"), ip("::ffff")), Error);
}

TEST(AddressRange, BothEndsBelongToIt) {
  const AddressRange pool = range("10.0.0.21-23");
  EXPECT_THAT(pool.at(0), Optional(ip("10.0.0.21")));
  EXPECT_THAT(pool.at(2), Optional(ip("10.0.0.23")));
  EXPECT_EQ(pool.at(3), std::nullopt);
  EXPECT_TRUE(pool.contains(ip("10.0.0.23")));
  EXPECT_FALSE(pool.contains(ip("10.0.0.24")));
  EXPECT_TRUE(pool.overlaps(range("10.0.0.23-30")));
  EXPECT_FALSE(pool.overlaps(range("10.0.0.24-30")));
  EXPECT_FALSE(pool.overlaps(range("::-ffff::")));
}

TEST(Mac, ReadsBothSeparatorsButNotMixed) {
  const auto mac = MacAddress::parse("bc-24-11-00-00-01");
  ASSERT_TRUE(mac.has_value());
  EXPECT_EQ(to_string(*mac), "BC:24:11:00:00:01");
  EXPECT_EQ(to_lower_string(*mac), "bc:24:11:00:00:01");
  EXPECT_FALSE(mac->is_multicast());
  EXPECT_FALSE(mac->is_local());
  EXPECT_TRUE(MacAddress::parse("03:00:00:00:00:00")->is_multicast());
  EXPECT_TRUE(MacAddress::parse("02:00:00:00:00:00")->is_local());
  for (const char* text :
       {"", "bc:24:11:00:00", "bc:24:11:00:00:01:02", "bc:24-11:00:00:01", "bc.24.11.00.00.01",
        "bcg24:11:00:00:01", "bc:24:11:00:00:0g", "b:c24:11:00:00:01", "bc24.1100.0001"})
    EXPECT_EQ(MacAddress::parse(text), std::nullopt) << text;
}

}  // namespace
}  // namespace rocca
