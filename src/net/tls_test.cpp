#include "net/tls.hpp"

#include <gmock/gmock.h>

namespace rocca::net {
namespace {

// SHA-256 of "abc", FIPS 180-2 appendix B.1.
constexpr const char* abc =
    "BA:78:16:BF:8F:01:CF:EA:41:41:40:DE:5D:AE:22:23:B0:03:61:A3:96:17:7A:9C:B4:10:FF:61:F2:00:15:"
    "AD";

TEST(Fingerprint, IsTheSha256OfTheBytes) {
  EXPECT_EQ(to_string(Fingerprint::of_der("abc")), abc);
}

TEST(Fingerprint, ReadsColonsAndPlainHexInAnyCase) {
  const auto whole = Fingerprint::parse(abc);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(*whole, Fingerprint::of_der("abc"));
  EXPECT_EQ(Fingerprint::parse("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015AD"),
            whole);
}

TEST(Fingerprint, RefusesAnythingElse) {
  const std::string good = abc;
  EXPECT_FALSE(Fingerprint::parse("").has_value());
  EXPECT_FALSE(Fingerprint::parse(good.substr(3)).has_value());
  EXPECT_FALSE(Fingerprint::parse(good + ":00").has_value());
  EXPECT_FALSE(Fingerprint::parse("BA7:816:" + good.substr(8)).has_value());
  EXPECT_FALSE(Fingerprint::parse("ZZ" + good.substr(2)).has_value());
  EXPECT_FALSE(Fingerprint::parse("BA-" + good.substr(3)).has_value());
  EXPECT_FALSE(Fingerprint::parse("sha256:" + good).has_value());
}

}  // namespace
}  // namespace rocca::net
