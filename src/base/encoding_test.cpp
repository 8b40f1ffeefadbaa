#include "base/encoding.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace rocca {
namespace {

using testing::Optional;

// RFC 4648 10
TEST(Base64, KnowsTheStandardsVectors) {
  const std::pair<const char*, const char*> rows[] = {{"", ""},
                                                      {"f", "Zg=="},
                                                      {"fo", "Zm8="},
                                                      {"foo", "Zm9v"},
                                                      {"foob", "Zm9vYg=="},
                                                      {"fooba", "Zm9vYmE="},
                                                      {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : rows) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_THAT(from_base64(text), Optional(std::string{bytes}));
  }
  EXPECT_EQ(to_base64("\xFB\xFF"), "+/8=");
  EXPECT_EQ(to_base64url("\xFB\xFF"), "-_8");
  EXPECT_EQ(to_base64("f", Padding::None), "Zg");
}

TEST(Base64, RefusesEverySecondSpelling) {
  for (const char* text :
       {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "=", "==", "====", "A===", "Zm9v\n", " Zm9v", "Zm 9v",
        "Zm9v====", "Z=g=", "Zm9-", "Zm9_", "Zg==Zg=="})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  for (const char* text : {"Zg==", "Zh", "A", "Zm9vY", "Zm+v", "Zm/v"})
    EXPECT_EQ(from_base64url(text), std::nullopt) << text;
  EXPECT_EQ(from_base64("Zg==", Padding::None), std::nullopt);
}

RC_GTEST_PROP(EncodingProperty, EveryFormIsReadBack, (const std::string& bytes)) {
  RC_ASSERT(from_base64(to_base64(bytes)) == bytes);
  RC_ASSERT(from_base64(to_base64(bytes, Padding::None), Padding::None) == bytes);
  RC_ASSERT(from_base64url(to_base64url(bytes)) == bytes);
  RC_ASSERT(from_hex(to_hex(bytes)) == bytes);
  RC_ASSERT(percent_decode(percent_encode(bytes)) == bytes);
}

RC_GTEST_PROP(EncodingProperty, OneTextPerMeaning, ()) {
  const auto text = *rc::gen::container<std::string>(
      rc::gen::element('A', 'Q', 'g', 'w', '/', '+', '=', '-', 'B', ' '));
  if (const auto bytes = from_base64(text)) RC_ASSERT(to_base64(*bytes) == text);
  if (const auto bytes = from_base64url(text)) RC_ASSERT(to_base64url(*bytes) == text);
}

TEST(Hex, TakesBothCasesAndOnlyPairs) {
  EXPECT_EQ(to_hex(std::string_view{"\x00\xAB\x7F", 3}), "00ab7f");
  EXPECT_THAT(from_hex("00Ab7F"), Optional(std::string("\x00\xAB\x7F", 3)));
  for (const char* text : {"0", "0g", "0x00", " 00", "00 "})
    EXPECT_EQ(from_hex(text), std::nullopt) << text;
}

TEST(Percent, EscapesAllButTheUnreserved) {
  EXPECT_EQ(percent_encode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encode("a b/c%ü"), "a%20b%2Fc%25%C3%BC");
  EXPECT_EQ(percent_decode("a%20b%2fc"), "a b/c");
  EXPECT_EQ(percent_decode("100%"), "100%");
  EXPECT_EQ(percent_decode("%4"), "%4");
  EXPECT_EQ(percent_decode("%zz%41"), "%zzA");
  EXPECT_EQ(percent_decode("a+b"), "a+b");
}

TEST(Utf8, TakesEveryLengthAndRefusesWhatTheStandardForbids) {
  for (const char* text : {"", "ascii", "ü", "€", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF",
                           "\xED\x9F\xBF", "\xEE\x80\x80"})
    EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text :
       {"\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "\xE2\x28\xA1", "a\xFE"})
    EXPECT_FALSE(is_utf8(text)) << text;
  EXPECT_TRUE(is_utf8(std::string_view{"a\0b", 3}));
}

}  // namespace
}  // namespace rocca
