#include "base/strings.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace rocca {
namespace {

using testing::ElementsAre;
using testing::Optional;

TEST(Strings, SplitKeepsEmptyParts) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

RC_GTEST_PROP(StringsProperty, JoinUndoesSplit, (const std::string& text, char separator)) {
  RC_ASSERT(join(split(text, separator), std::string(1, separator)) == text);
}

TEST(Strings, TrimTakesWhiteSpaceOfBothEnds) {
  EXPECT_EQ(trim(" \t\r\n a b \v\f"), "a b");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Strings, CaseIsAsciiOnly) {
  EXPECT_EQ(to_lower("ÄBC[Z"), "Äbc[z");
  EXPECT_TRUE(equal_ignoring_case("Content-Type", "content-TYPE"));
  EXPECT_FALSE(equal_ignoring_case("a", "ab"));
  EXPECT_FALSE(equal_ignoring_case("@", "`"));
}

TEST(Strings, ReplaceGoesOnBehindWhatItPut) {
  EXPECT_EQ(replace_all("aaa", "a", "aa"), "aaaaaa");
  EXPECT_EQ(replace_all("abab", "ab", ""), "");
  EXPECT_EQ(replace_all("abc", "", "x"), "abc");
  EXPECT_EQ(replace_all("abc", "d", "x"), "abc");
}

TEST(Strings, NumbersAreWholeAndInRange) {
  EXPECT_THAT(parse_int("-9223372036854775808"),
              Optional(std::numeric_limits<std::int64_t>::min()));
  EXPECT_THAT(parse_uint("18446744073709551615"),
              Optional(std::numeric_limits<std::uint64_t>::max()));
  for (const char* text :
       {"", "-", "+1", " 1", "1 ", "1.0", "0x10", "1e3", "9223372036854775808", "a"})
    EXPECT_EQ(parse_int(text), std::nullopt) << text;
  for (const char* text : {"", "-1", "18446744073709551616"})
    EXPECT_EQ(parse_uint(text), std::nullopt) << text;
}

TEST(Strings, DnsLabelsAndNames) {
  for (const char* text : {"a", "0", "cp-1", "a--b"}) EXPECT_TRUE(is_dns_label(text)) << text;
  for (const char* text : {"", "-a", "a-", "A", "a.b", "a_b", "ä"})
    EXPECT_FALSE(is_dns_label(text)) << text;
  EXPECT_TRUE(is_dns_label(std::string(63, 'a')));
  EXPECT_FALSE(is_dns_label(std::string(64, 'a')));
  for (const char* text : {"a", "k8s.home", "1.2.3"}) EXPECT_TRUE(is_dns_name(text)) << text;
  for (const char* text : {"", ".", "a.", ".a", "a..b", "a b"})
    EXPECT_FALSE(is_dns_name(text)) << text;
  std::string longest;
  for (int i = 0; i < 126; ++i) longest += "a.";
  EXPECT_TRUE(is_dns_name(longest + "a"));    // 253
  EXPECT_FALSE(is_dns_name(longest + "aa"));  // 254
}

TEST(Strings, ForSentences) {
  EXPECT_EQ(enumerate({}), "");
  EXPECT_EQ(enumerate({"a"}), "a");
  EXPECT_EQ(enumerate({"a", "b"}), "a and b");
  EXPECT_EQ(enumerate({"a", "b", "c"}, "or"), "a, b or c");
  EXPECT_EQ(plural(1, "node"), "1 node");
  EXPECT_EQ(plural(0, "node"), "0 nodes");
  EXPECT_EQ(plural(2, "entry", "entries"), "2 entries");
}

}  // namespace
}  // namespace rocca
