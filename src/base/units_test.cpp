#include "base/units.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>

namespace rocca {
namespace {

using namespace std::chrono_literals;
using testing::Optional;

TEST(Durations, AreReadAndPrinted) {
  const std::tuple<const char*, Duration, const char*> rows[] = {
      {"90s", 90s, "1m30s"},
      {"10m", 10min, "10m"},
      {"1h30m", 90min, "1h30m"},
      {"250ms", 250ms, "250ms"},
      {"2d", 48h, "2d"},
      {"0s", 0s, "0s"},
      {"0d", 0s, "0s"},
      {"1d2h3m4s5ms6us7ns", 26h + 3min + 4s + 5ms + 6us + 7ns, "1d2h3m4s5ms6us7ns"},
      {"90m30s", 90min + 30s, "1h30m30s"},
      {"1h5ms", 1h + 5ms, "1h5ms"}};
  for (const auto& [text, value, printed] : rows) {
    EXPECT_THAT(parse_duration(text), Optional(value)) << text;
    EXPECT_EQ(to_string(value), printed);
  }
  EXPECT_EQ(to_string(Duration::min()), "-106751d23h47m16s854ms775us808ns");
}

TEST(Durations, RefuseWhatIsNotClear) {
  for (const char* text : {"",          "90",
                           "s",         "-5s",
                           "+5s",       "5 s",
                           " 5s",       "5s ",
                           "1.5h",      "5S",
                           "5sec",      "5min",
                           "30m1h",     "1h1h",
                           "1w",        "5sm",
                           "1h30",      "99999999999999999999s",
                           "106752d",   "9223372036854775808ns",
                           "5\xC2\xB5s"})
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  EXPECT_THAT(parse_duration("9223372036854775807ns"), Optional(Duration::max()));
}

RC_GTEST_PROP(UnitsProperty, DurationsAreReadBack, ()) {
  const Duration duration{*rc::gen::suchThat<std::int64_t>([](auto n) { return n >= 0; })};
  RC_ASSERT(parse_duration(to_string(duration)) == duration);
  RC_ASSERT(!to_rough_string(duration).empty());
}

TEST(Durations, AreRoughForPeople) {
  const std::pair<Duration, const char*> rows[] = {{0s, "0s"},
                                                   {300ms, "0.3s"},
                                                   {50us, "<1ms"},
                                                   {12ms, "12ms"},
                                                   {999ms, "1s"},
                                                   {4250ms, "4.3s"},
                                                   {9960ms, "10s"},
                                                   {42400ms, "42s"},
                                                   {59700ms, "1m"},
                                                   {252s, "4m12s"},
                                                   {1h - 1ms, "1h"},
                                                   {1h + 29s, "1h"},
                                                   {90min, "1h30m"},
                                                   {24h + 5min, "1d"},
                                                   {51h, "2d3h"},
                                                   {-252s, "-4m12s"},
                                                   {Duration::max(), "106751d23h"},
                                                   {Duration::min(), "-106751d23h"}};
  for (const auto& [value, text] : rows) EXPECT_EQ(to_rough_string(value), text);
}

TEST(Instants, AreRfc3339) {
  const Instant instant{std::chrono::seconds{1'794'798'245}};
  EXPECT_EQ(to_string(instant), "2026-11-16T03:04:05Z");
  EXPECT_EQ(to_string(instant + 250ms), "2026-11-16T03:04:05.25Z");
  EXPECT_EQ(to_string(Instant{-1ns}), "1969-12-31T23:59:59.999999999Z");
  EXPECT_THAT(parse_instant("2026-11-16T03:04:05Z"), Optional(instant));
  EXPECT_THAT(parse_instant("2026-11-16t04:34:05.25+01:30"), Optional(instant + 250ms));
  EXPECT_THAT(parse_instant("2026-11-15T22:04:05-05:00"), Optional(instant));
  EXPECT_THAT(parse_instant("2026-11-16T03:04:05.1234567891Z"), Optional(instant + 123456789ns));
  EXPECT_TRUE(parse_instant("2024-02-29T00:00:00Z").has_value());
  for (const char* text :
       {"", "2026-11-16", "2026-11-16T03:04:05", "2026-11-16 03:04:05Z", "2026-11-16T03:04Z",
        "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-11-31T00:00:00Z",
        "2026-11-16T24:00:00Z", "2026-11-16T03:60:00Z", "2026-11-16T03:04:60Z",
        "2026-11-16T03:04:05.Z", "2026-11-16T03:04:05+1:00", "2026-11-16T03:04:05+24:00",
        "2026-11-16T03:04:05Zx", "26-11-16T03:04:05Z", "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z", "2026-11-1 T03:04:05Z"})
    EXPECT_EQ(parse_instant(text), std::nullopt) << text;
}

RC_GTEST_PROP(UnitsProperty, InstantsAreReadBack, ()) {
  // within the years that parse_instant takes
  const Instant instant{Duration{
      *rc::gen::inRange<std::int64_t>(-9'200'000'000'000'000'000, 9'200'000'000'000'000'000)}};
  RC_ASSERT(parse_instant(to_string(instant)) == instant);
}

TEST(Sizes, AreReadAndPrinted) {
  EXPECT_THAT(Bytes::parse("8GiB"), Optional(Bytes::gib(8)));
  EXPECT_THAT(Bytes::parse("512MiB"), Optional(Bytes::mib(512)));
  EXPECT_THAT(Bytes::parse("9B"), Optional(Bytes{9}));
  EXPECT_THAT(Bytes::parse("15EiB"), Optional(Bytes{15ull << 60}));
  EXPECT_EQ(to_string(Bytes::mib(1536)), "1536MiB");
  EXPECT_EQ(to_string(Bytes::mib(2048)), "2GiB");
  EXPECT_EQ(to_string(Bytes{1025}), "1025B");
  EXPECT_EQ(to_string(Bytes{}), "0B");
  EXPECT_THAT(Bytes::mib(1536).whole_mib(), Optional(1536u));
  EXPECT_EQ(Bytes::mib(1536).whole_gib(), std::nullopt);
  EXPECT_EQ(Bytes{1}.whole_mib(), std::nullopt);
  EXPECT_EQ(Bytes::gib(1) + Bytes::gib(2), Bytes::gib(3));
  EXPECT_LT(Bytes::mib(1023), Bytes::gib(1));
}

TEST(Sizes, RefuseWhatHalfTheWorldReadsOtherwise) {
  for (const char* text : {"", "8", "8GB", "8G", "8Gi", "8gib", "GiB", "-8GiB", "+8GiB", "8 GiB",
                           " 8GiB", "8GiB ", "1.5GiB", "16EiB", "99999999999999999999B", "8GiBB"})
    EXPECT_EQ(Bytes::parse(text), std::nullopt) << text;
}

RC_GTEST_PROP(UnitsProperty, SizesAreReadBackAndOrdered, ()) {
  const auto shift = *rc::gen::inRange(0, 40);
  const Bytes a{*rc::gen::arbitrary<std::uint64_t>() << shift};
  const Bytes b{*rc::gen::arbitrary<std::uint64_t>()};
  RC_ASSERT(Bytes::parse(to_string(a)) == a);
  RC_ASSERT((a < b) == (a.count() < b.count()));
}

}  // namespace
}  // namespace rocca
