#include "base/visible.hpp"

#include "base/encoding.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace rocca {
namespace {

TEST(Visible, SteeringCharactersBecomeEscapes) {
  struct Case {
    std::string_view text;
    std::string_view shown;
  };
  constexpr Case cases[] = {
      {"", ""},
      {"plain text", "plain text"},
      {"\x1b]0;PWNED\a\x1b[2J", "\\x1b]0;PWNED\\x07\\x1b[2J"},
      {"one\ntwo\r\n\tthree", "one\\ntwo\\r\\n\\tthree"},
      {"del \x7f", "del \\x7f"},
      {"csi \u009b31m", "csi \\u009b31m"},
      {"nel \u0085", "nel \\u0085"},
      {"bidi \u202eevil\u202c \u2066x\u2069 \u200e\u200f\u061c",
       "bidi \\u202eevil\\u202c \\u2066x\\u2069 \\u200e\\u200f\\u061c"},
      {"lines \u2028 \u2029", "lines \\u2028 \\u2029"},
      {"mark \uFEFF", "mark \\ufeff"},
      {"note \uFFF9", "note \\ufff9"},
      {"bad \xff\xc3(\xed\xa0\x80", "bad \\xff\\xc3(\\xed\\xa0\\x80"},
      {"cut \xe2\x82", "cut \\xe2\\x82"},
      {"Grüße, 日本語, naïve, 👩‍👩‍👧, می‌خواهم",
       "Grüße, 日本語, naïve, 👩‍👩‍👧, می‌خواهم"},
  };
  for (const Case& each : cases) EXPECT_EQ(visible(each.text), each.shown);
  EXPECT_EQ(visible(std::string_view{"a\0b", 3}), "a\\x00b");
}

TEST(Visible, LinesOfAMessageAreIndented) {
  EXPECT_EQ(visible("one line\n", 4), "one line");
  EXPECT_EQ(visible("first\r\nerror: forged\n  - item\n\n      deeper", 4),
            "first\n    error: forged\n      - item\n\n          deeper");
  EXPECT_EQ(visible("a list:\n  - item\n    deeper", 4), "a list:\n    - item\n      deeper");
  EXPECT_EQ(visible("far\n          right", 4), "far\n          right");
  EXPECT_EQ(visible("a\tb\rc\x1b", 4), "a  b\\rc\\x1b");
}

TEST(Visible, MarkupIsEscaped) {
  EXPECT_EQ(visible_markup("<b a='1' c=\"2\">&\n"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\\n");
}

TEST(Visible, InvalidBytesAreReplacedForFormatsThatCannotCarryThem) {
  EXPECT_EQ(valid_utf8("ü\xff\x1b"), "ü\uFFFD\x1b");
}

bool is_clean(std::string_view text, std::string_view allowed = "") {
  while (!text.empty()) {
    const Decoded character = first_character(text);
    if (!character.valid) return false;
    if (is_steering(character.code) &&
        (character.size > 1 || allowed.find(text.front()) == std::string_view::npos))
      return false;
    text.remove_prefix(character.size);
  }
  return true;
}

RC_GTEST_PROP(Visible, NothingThatSteersPasses, (const std::string& bytes)) {
  RC_ASSERT(is_clean(visible(bytes)));
  RC_ASSERT(is_clean(visible_markup(bytes)));
  RC_ASSERT(is_clean(visible(bytes, 2), "\n"));
  RC_ASSERT(is_utf8(valid_utf8(bytes)));
  RC_ASSERT(visible(visible(bytes)) == visible(bytes));
}

TEST(Visible, NoCharacterOfUnicodeSlipsThrough) {
  for (char32_t code = 1; code < 0x30000; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xC0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      text += static_cast<char>(0xE0 | code >> 12);
      text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
      text += static_cast<char>(0x80 | (code & 0x3F));
    } else {
      text += static_cast<char>(0xF0 | code >> 18);
      text += static_cast<char>(0x80 | (code >> 12 & 0x3F));
      text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
    ASSERT_EQ(first_character(text).code, code);
    ASSERT_EQ(visible(text) == text, !is_steering(code)) << static_cast<unsigned>(code);
  }
}

}  // namespace
}  // namespace rocca
