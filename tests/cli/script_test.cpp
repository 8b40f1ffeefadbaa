#include "script.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::clitest {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Lines = std::vector<std::string>;

TEST(Script, ReadsEveryPart) {
  const Script script = parse_script(
      "# about\nneeds bash\nfile a/b\n| one\n|\n| two\nenv X=1\nenv Y=2\n$ first\nout\n\nmore\n\n"
      "stderr: oops\nstderr:\nexit 3\n\nenv X\ntty: $ second\ninput: y\n\\$ literal\n\\# literal\n",
      "s");
  EXPECT_THAT(script.needs, ElementsAre("bash"));
  ASSERT_EQ(script.steps.size(), 2u);
  const Step& first = script.steps[0];
  EXPECT_EQ(first.line, 9u);
  EXPECT_EQ(first.command, "first");
  EXPECT_FALSE(first.terminal);
  EXPECT_THAT(first.out, ElementsAre("out", "", "more"));
  EXPECT_THAT(first.err, ElementsAre("oops", ""));
  EXPECT_EQ(first.exit, 3);
  EXPECT_THAT(first.files, ElementsAre(std::pair<std::string, std::string>{"a/b", "one\n\ntwo\n"}));
  EXPECT_EQ(first.environment.size(), 2u);
  const Step& second = script.steps[1];
  EXPECT_TRUE(second.terminal);
  EXPECT_EQ(second.input, "y\n");
  EXPECT_THAT(second.out, ElementsAre("$ literal", "# literal"));
  EXPECT_THAT(second.files, IsEmpty());
  EXPECT_EQ(second.environment, (std::map<std::string, std::string>{{"Y", "2"}}));
}

TEST(Script, RefusesWhatProvesNothing) {
  EXPECT_THROW(parse_script("# only words\n", "s"), Error);
  EXPECT_THROW(parse_script("stray\n$ x\n", "s"), Error);
  EXPECT_THROW(parse_script("| stray\n$ x\n", "s"), Error);
  EXPECT_THROW(parse_script("$ x\nexit many\n", "s"), Error);
}

TEST(Script, PatternsAreExactOutsideTheirBraces) {
  EXPECT_TRUE(fits("a.b", "a.b"));
  EXPECT_FALSE(fits("a.b", "axb"));
  EXPECT_TRUE(fits("v{{[0-9]+}}.{{x|y}} (c)", "v12.y (c)"));
  EXPECT_FALSE(fits("v{{[0-9]+}}.x", "v12ax"));
  EXPECT_FALSE(fits("v{{[0-9]+}}", "v12 and more"));
  EXPECT_THROW(fits("{{", "x"), Error);
}

TEST(Script, DotsStandForAnyLines) {
  EXPECT_TRUE(all_fit({"a", "...", "c"}, {"a", "b", "b", "c"}));
  EXPECT_TRUE(all_fit({"...", "c", "..."}, {"c"}));
  EXPECT_TRUE(all_fit({"..."}, {}));
  EXPECT_FALSE(all_fit({"a", "...", "c"}, {"a", "b"}));
  EXPECT_FALSE(all_fit({}, {"a"}));
  EXPECT_FALSE(all_fit({"a"}, {}));
  EXPECT_FALSE(all_fit({"a"}, {"a", "a"}));
}

TEST(Script, TheDifferenceKeepsWhatFits) {
  EXPECT_EQ(difference({"a", "b", "c"}, {"a", "x", "c"}), "  a\n- b\n+ x\n  c\n");
  EXPECT_EQ(difference({"a", "..."}, {"a", "x"}), "  a\n  x\n");
  EXPECT_EQ(difference({}, {"x"}), "+ x\n");
  EXPECT_EQ(difference({"x"}, {}), "- x\n");
}

TEST(Script, AMissingNewlineShows) {
  EXPECT_THAT(to_lines("a\nb\n"), ElementsAre("a", "b"));
  EXPECT_THAT(to_lines("a\nb"), ElementsAre("a", "b (no newline)"));
  EXPECT_THAT(to_lines(""), IsEmpty());
}

}  // namespace
}  // namespace rocca::clitest
