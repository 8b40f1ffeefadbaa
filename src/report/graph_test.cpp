#include "report/graph.hpp"

#include "support/golden.hpp"

#include <gmock/gmock.h>

namespace rocca::report {
namespace {

using testing::HasSubstr;

Drawing small() {
  Drawing out;
  out.graph.needs("vm/cp-1", "image/local");
  out.graph.needs("vm/cp-2", "image/local");
  out.graph.needs("machine/cp-1", "vm/cp-1");
  out.graph.needs("machine/cp-2", "vm/cp-2");
  out.graph.needs("bootstrap/blue", "machine/cp-1");
  out.graph.needs("member/cp-2", "machine/cp-2");
  out.graph.needs("member/cp-2", "bootstrap/blue");
  out.actions["vm/cp-2"] = engine::Action::Create;
  return out;
}

TEST(Draw, Text) {
  rocca::test::expect_golden("report/graph.txt", draw_text(small()));
}

TEST(Draw, Dot) {
  const std::string dot = draw_dot(small());
  EXPECT_THAT(dot, HasSubstr("\"bootstrap/blue\" -> \"member/cp-2\";"));
  EXPECT_THAT(dot, HasSubstr("\"vm/cp-2\" [color=\"#1a7f37\"];"));
}

TEST(Draw, SvgHasABoxAndAnArrowForEach) {
  const std::string svg = draw_svg(small());
  const auto count = [&](std::string_view what) {
    std::size_t n = 0;
    for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<text"), 7U);
  EXPECT_EQ(count("marker-end"), 7U);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(Draw, NamesAreEscaped) {
  Drawing odd;
  odd.graph.add("a<b&\"c");
  EXPECT_THAT(draw_svg(odd), HasSubstr("a&lt;b&amp;&quot;c"));
}

}  // namespace
}  // namespace rocca::report
