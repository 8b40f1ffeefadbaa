#include "cli/terminal/output_filter.hpp"

#include "base/visible.hpp"
#include "cli/context.hpp"
#include "report/style.hpp"

#include <gmock/gmock.h>

#include <sstream>

namespace rocca::cli {
namespace {

/// What comes out when the text goes in at once, and the same byte by byte.
std::string filtered(std::string_view text, bool cursor = false) {
  std::ostringstream whole, bytes;
  {
    const Filtered filter{whole, cursor};
    whole << text << std::flush;
  }
  {
    const Filtered filter{bytes, cursor};
    for (const char c : text) bytes << c << std::flush;
  }
  EXPECT_EQ(whole.str(), bytes.str());
  return whole.str();
}

TEST(OutputFilter, PassesTextAndOurOwnColours) {
  std::string text = "Grüße, 日本語 👩‍👩‍👧\n\ttab\n";
  for (const Colour colour :
       {Colour::Red, Colour::Green, Colour::Yellow, Colour::Cyan, Colour::Bold, Colour::Dim})
    text += paint(true, colour, "x");
  for (const report::Ink colour : {report::Ink::Red, report::Ink::Green, report::Ink::Yellow,
                                   report::Ink::Cyan, report::Ink::Bold, report::Ink::Dim})
    text += report::ink({.colour = true, .width = 80}, colour, "x");
  EXPECT_EQ(filtered(text), text);
}

TEST(OutputFilter, ShowsEverythingElseAsEscapes) {
  struct Case {
    std::string_view text;
    std::string_view shown;
  };
  constexpr Case cases[] = {
      {"\x1b]0;PWNED\a", "\\x1b]0;PWNED\\x07"},  {"\x1b[2J\x1b[1;1H", "\\x1b[2J\\x1b[1;1H"},
      {"\x1b[8mhidden", "\\x1b[8mhidden"},       {"\x1b[3\x1b[31mred", "\\x1b[3\x1b[31mred"},
      {"over\rwritten", "over\\rwritten"},       {"\u009b31m", "\\u009b31m"},
      {"\u202elatot", "\\u202elatot"},           {"\xff\xc3", "\\xff\\xc3"},
      {"cut \xe2\x82", "cut \\xe2\\x82"},        {"open \x1b[3", "open \\x1b[3"},
      {"\x1b[3A\r\x1b[J", "\\x1b[3A\\r\\x1b[J"},
  };
  for (const Case& each : cases) EXPECT_EQ(filtered(each.text), each.shown);
}

TEST(OutputFilter, LetsTheLiveTableClearItsPicture) {
  const std::string picture = "\r\x1b[Jone\ntwo\n\x1b[2A\r\x1b[Jone\n";
  EXPECT_EQ(filtered(picture, true), picture);
  EXPECT_EQ(filtered("\x1b[2Aover", true), "\\x1b[2Aover");
  EXPECT_EQ(filtered("\x1b[2J\x1b[A\r", true), "\\x1b[2J\\x1b[A\\r");
}

TEST(OutputFilter, GivesTheStreamBackWithItsState) {
  std::ostringstream stream;
  std::streambuf* const before = stream.rdbuf();
  {
    const Filtered filter{stream, false};
    stream.setstate(std::ios::failbit);
  }
  EXPECT_EQ(static_cast<std::ios&>(stream).rdbuf(), before);
  EXPECT_TRUE(stream.fail());
}

}  // namespace
}  // namespace rocca::cli
