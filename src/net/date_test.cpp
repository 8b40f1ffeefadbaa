#include "net/date.hpp"

#include "base/units.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace rocca::net {

namespace {

TEST(HttpDate, IsWrittenAsServersDo) {
  EXPECT_EQ(to_http_date(*parse_instant("1994-11-06T08:49:37.9Z")),
            "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(to_http_date(*parse_instant("2026-11-16T00:00:00Z")), "Mon, 16 Nov 2026 00:00:00 GMT");
}

TEST(HttpDate, RefusesOtherForms) {
  for (const char* text : {"", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
                           "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 Now 1994 08:49:37 GMT",
                           "Sun, 36 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:61:37 GMT"})
    EXPECT_EQ(parse_http_date(text), std::nullopt) << text;
}

RC_GTEST_PROP(HttpDate, ReadsBackWhatItWrote, ()) {
  const Instant instant{std::chrono::seconds{*rc::gen::inRange<std::int64_t>(0, 7'000'000'000)}};
  RC_ASSERT(parse_http_date(to_http_date(instant)) == instant);
}

}  // namespace

}  // namespace rocca::net
