#include "base/version.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace rocca {
namespace {

Version version(std::string_view text) {
  return Version::parse(text).value();
}

// semver.org 11.4, and the pre-releases that Talos and Kubernetes really use.
TEST(Versions, StandInTheStandardsOrder) {
  const std::vector<std::string> ascending{"0.0.0",
                                           "0.9.9",
                                           "1.0.0-0",
                                           "1.0.0-9",
                                           "1.0.0-10",
                                           "1.0.0-99999999999999999999999",
                                           "1.0.0-alpha",
                                           "1.0.0-alpha.1",
                                           "1.0.0-alpha.beta",
                                           "1.0.0-beta",
                                           "1.0.0-beta.2",
                                           "1.0.0-beta.11",
                                           "1.0.0-rc.1",
                                           "1.0.0",
                                           "1.0.1",
                                           "1.2.0",
                                           "1.10.0",
                                           "2.0.0",
                                           "18446744073709551615.0.0"};
  for (std::size_t i = 0; i < ascending.size(); ++i)
    for (std::size_t j = 0; j < ascending.size(); ++j)
      EXPECT_EQ(version(ascending[i]) <=> version(ascending[j]), i <=> j)
          << ascending[i] << " and " << ascending[j];
}

TEST(Versions, ReadTheLeadingVAndBuildMetadata) {
  EXPECT_EQ(to_string(version("v1.11.5")), "1.11.5");
  EXPECT_EQ(to_string(version("1.11.5-rc.1+build.7")), "1.11.5-rc.1+build.7");
  EXPECT_EQ(version("1.0.0+a"), version("1.0.0+b"));
  EXPECT_EQ(version("1.0.0+001").build(), "001");
  EXPECT_EQ(version("1.0.0-x-y-z.--").pre(), "x-y-z.--");
  EXPECT_EQ(version("1.0.0+a-b").pre(), "");
  EXPECT_EQ(version("1.2.3"), Version(1, 2, 3));
  EXPECT_EQ(version("1.2.3-rc.1"), Version(1, 2, 3, "rc.1"));
}

TEST(Versions, RefuseWhatIsNone) {
  for (const char* text : {"",
                           "v",
                           "1",
                           "1.2",
                           "v1.11",
                           "1.2.3.4",
                           "01.2.3",
                           "1.02.3",
                           "1.2.03",
                           "1.2.3-",
                           "1.2.3+",
                           "1.2.3-a..b",
                           "1.2.3-01",
                           "1.2.3+a..b",
                           "1.2.3-ä",
                           "V1.2.3",
                           "vv1.2.3",
                           "1.2.x",
                           "-1.2.3",
                           "1.2.3 ",
                           " 1.2.3",
                           "1.2.3+a+b",
                           "18446744073709551616.0.0",
                           "1..3"})
    EXPECT_EQ(Version::parse(text), std::nullopt) << text;
  EXPECT_THROW(Version(1, 0, 0, "01"), Error);
}

TEST(Versions, LooseMeansThatPartsMayBeMissing) {
  EXPECT_EQ(Version::parse_loose("v1.11"), Version(1, 11, 0));
  EXPECT_EQ(Version::parse_loose("2"), Version(2, 0, 0));
  EXPECT_EQ(Version::parse_loose("1.11-rc.1"), Version(1, 11, 0, "rc.1"));
  EXPECT_EQ(Version::parse_loose("1.2.3.4"), std::nullopt);
  EXPECT_EQ(Version::parse_loose("latest"), std::nullopt);
}

Version any_version() {
  const auto number = [] { return *rc::gen::inRange<std::uint64_t>(0, 3); };
  const auto pre =
      *rc::gen::element<std::string>("", "", "0", "2", "10", "a", "a.1", "a.b", "rc.1", "-");
  return Version{number(), number(), number(), pre};
}

RC_GTEST_PROP(VersionProperty, OrderIsTotal, ()) {
  const Version a = any_version();
  const Version b = any_version();
  const Version c = any_version();
  RC_ASSERT((a <=> b) == (0 <=> (b <=> a)));
  if (a <= b && b <= c) RC_ASSERT(a <= c);
  RC_ASSERT((a == b) == (to_string(a) == to_string(b)));
}

RC_GTEST_PROP(VersionProperty, PrintedIsReadBack, ()) {
  const Version a = any_version();
  RC_ASSERT(Version::parse(to_string(a)) == a);
  RC_ASSERT(Version::parse("v" + to_string(a)) == a);
}

}  // namespace
}  // namespace rocca
