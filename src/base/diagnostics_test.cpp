#include "base/diagnostics.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>

namespace rocca {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::Optional;

/// Characters of the first line before `mark`.
std::size_t columns_before(std::string_view text, std::string_view mark) {
  const std::string_view before = text.substr(0, text.find(mark));
  return static_cast<std::size_t>(std::count_if(before.begin(), before.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

TEST(Diagnostics, ShowsTheLineACaretAndTheHint) {
  Diagnostics diagnostics;
  diagnostics.remember("cluster.yaml", "spec:\n  nodes:\n    cp-1: { adress: 10.0.0.11 }\n");
  Problem& problem = diagnostics.error({"cluster.yaml", 3, 13}, "unknown key `adress`");
  problem.length = 6;
  problem.hint = "did you mean `address`?";
  EXPECT_EQ(diagnostics.render(),
            "cluster.yaml:3:13: error: unknown key `adress`\n"
            "   3 |     cp-1: { adress: 10.0.0.11 }\n"
            "     |             ^~~~~~\n"
            "hint: did you mean `address`?\n");
}

TEST(Diagnostics, StandByFileLineAndColumnInTheOrderTheyCame) {
  Diagnostics diagnostics;
  diagnostics.warning({"b.yaml", 1, 1}, "five");
  diagnostics.error({"a.yaml", 10, 1}, "three");
  diagnostics.error({"a.yaml", 2, 9}, "two");
  diagnostics.note({"a.yaml", 10, 1}, "four");
  diagnostics.error({"a.yaml", 0, 0}, "one");
  diagnostics.error({}, "nowhere");
  EXPECT_EQ(
      diagnostics.render(),
      "error: nowhere\na.yaml: error: one\na.yaml:2:9: error: two\na.yaml:10:1: error: three\n"
      "a.yaml:10:1: note: four\nb.yaml:1:1: warning: five\n");
  EXPECT_EQ(diagnostics.count(Severity::Error), 4u);
  EXPECT_EQ(diagnostics.count(Severity::Warning), 1u);
  EXPECT_EQ(diagnostics.count(Severity::Note), 1u);
}

/// The caret line below one line of source.
std::string drawn(const std::string& line, std::size_t column, std::size_t length = 1) {
  Diagnostics diagnostics;
  diagnostics.remember("f", line);
  diagnostics.error({"f", 1, column}, "m").length = length;
  const std::string text = diagnostics.render();
  return text.substr(text.find('\n') + 1);
}

TEST(Diagnostics, TabsAreDrawnAsBlanksOfOneWidth) {
  EXPECT_EQ(drawn("\tkey:\tvalue", 7, 5), "   1 |     key:    value\n     |             ^~~~~\n");
}

TEST(Diagnostics, ColumnsCountCharacters) {
  EXPECT_EQ(drawn("näme: wért", 7, 4), "   1 | näme: wért\n     |       ^~~~\n");
  EXPECT_EQ(drawn("日本: x", 5), "   1 | 日本: x\n     |       ^\n");  // wide: two columns each
  EXPECT_EQ(drawn("日本: x", 1, 2), "   1 | 日本: x\n     | ^~~~\n");
  EXPECT_EQ(drawn("e\u0301: x", 5), "   1 | e\u0301: x\n     |    ^\n");  // combining: none
}

TEST(Diagnostics, AFileCannotSteerTheTerminal) {
  EXPECT_EQ(drawn("a\x1b[31mb\x07\x7f", 3), "   1 | a?[31mb??\n     |   ^\n");
  EXPECT_EQ(drawn("a\xff\xc3(b", 4),
            "   1 | a?"
            "?(b\n     |    ^\n");
  EXPECT_EQ(drawn("\u009b31m \u202e x", 1), "   1 | ?31m ? x\n     | ^\n");
}

TEST(Diagnostics, PlacesOutsideTheTextAreNotFollowed) {
  EXPECT_EQ(drawn("ab", 9, 100), "   1 | ab\n     |   ^\n");
  EXPECT_EQ(drawn("ab", 1'000'000'000), "   1 | ab\n     |   ^\n");
  EXPECT_EQ(drawn("ab", 0), "   1 | ab\n     | ^\n");
  EXPECT_EQ(drawn("", 1), "   1 |\n     | ^\n");
  EXPECT_EQ(drawn("ab\r", 2, 9), "   1 | ab\n     |  ^\n");
  Diagnostics diagnostics;
  diagnostics.remember("f", "one\n");
  diagnostics.error({"f", 7, 1}, "past the end");
  EXPECT_EQ(diagnostics.render(), "f:7:1: error: past the end\n");
}

TEST(Diagnostics, AVeryLongLineIsShownAroundTheCaret) {
  std::string line(5'000'000, 'x');
  line[4'000'000] = 'Y';
  const std::string text = drawn(line, 4'000'001);
  ASSERT_LT(text.size(), 400u);
  const auto lines = split(text, '\n');
  EXPECT_THAT(lines[0], testing::StartsWith("   1 | …x"));
  EXPECT_THAT(lines[0], testing::EndsWith("x…"));
  // `…` is one column and three bytes
  EXPECT_EQ(lines[0].find('Y') - 2, lines[1].find('^'));
}

TEST(Diagnostics, TheEndOfALongLineUsesTheWholeWindow) {
  const std::string text = drawn(std::string(150, 'x') + "END", 151, 3);
  EXPECT_EQ(text,
            "   1 | …" + std::string(97, 'x') + "END\n     |  " + std::string(97, ' ') + "^~~\n");
}

TEST(Diagnostics, ManyProblemsAndFilesStayQuick) {
  Diagnostics diagnostics;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "line\n";
  for (int f = 0; f < 50; ++f) diagnostics.remember(fmt::format("{:02}.yaml", f), text);
  for (std::size_t i = 0; i < 20'000; ++i)
    diagnostics.error({fmt::format("{:02}.yaml", i % 50), 20'000 - i, 1}, "m");
  const std::string rendered = diagnostics.render();
  EXPECT_THAT(rendered.substr(0, 40), testing::StartsWith("00.yaml:50:1: error: m\n  50 | line\n"));
  EXPECT_EQ(std::count(rendered.begin(), rendered.end(), '^'), 20'000);
}

TEST(Diagnostics, ManyProblemsInOneLongLineStayQuick) {
  Diagnostics diagnostics;
  std::string text;
  for (std::size_t i = 0; i < 20'000; ++i) text += fmt::format("ü{:06}, ", i);
  diagnostics.remember("a.yaml", text);
  for (std::size_t i = 20'000; i > 0; --i) diagnostics.error({"a.yaml", 1, 9 * (i - 1) + 1}, "m");
  const auto begun = std::chrono::steady_clock::now();
  const std::string rendered = diagnostics.render();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds{5});  // it was 20 s
  // All are named, the first fifty with their line.
  EXPECT_THAT(rendered, HasSubstr("a.yaml:1:179992: error: m\n"));
  EXPECT_EQ(std::count(rendered.begin(), rendered.end(), '^'), 50);
  // Each caret stands under its own word.
  const auto last = rendered.rfind("   1 | ");
  const auto marks = rendered.find("\n", last) + 1;
  EXPECT_EQ(columns_before(rendered.substr(last), "ü000049"),
            columns_before(rendered.substr(marks), "^"));
}

RC_GTEST_PROP(DiagnosticsProperty, AnyBytesAreDrawnAsOneLineOfText,
              (const std::string& bytes, std::uint8_t column)) {
  const std::string text = drawn(bytes, column, 3);
  RC_ASSERT(is_utf8(text));
  RC_ASSERT(std::count(text.begin(), text.end(), '\n') == 2);
}

TEST(Diagnostics, ErrorsStopAndWarningsDoNot) {
  Diagnostics diagnostics;
  diagnostics.warning({"f", 1, 1}, "doubtful");
  EXPECT_FALSE(diagnostics.has_errors());
  EXPECT_FALSE(diagnostics.empty());
  diagnostics.throw_if_errors("cluster.yaml");
  diagnostics.error({"f", 1, 1}, "wrong");
  diagnostics.error({"f", 2, 1}, "wrong too");
  try {
    diagnostics.throw_if_errors("cluster.yaml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    EXPECT_EQ(error.message(), "cluster.yaml has 2 errors");
  }
}

TEST(Diagnostics, AFileCanBeRememberedAgain) {
  Diagnostics diagnostics;
  diagnostics.remember("f", "old");
  diagnostics.remember("f", "new");
  diagnostics.error({"f", 1, 1}, "m");
  EXPECT_THAT(diagnostics.render(), AllOf(HasSubstr("new"), Not(HasSubstr("old"))));
}

struct Typo {
  std::string name;
  std::string word;
  std::optional<std::string> meant;
};

class Nearest : public testing::TestWithParam<Typo> {};

TEST_P(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string> keys{"address",    "addresses", "role",        "podCIDR",
                                      "kubeconfig", "up",        "talosconfig", "vmid",
                                      "version",    "zsh",       "fish",        "down"};
  EXPECT_EQ(nearest(GetParam().word, keys), GetParam().meant);
}

INSTANTIATE_TEST_SUITE_P(
    Diagnostics, Nearest,
    testing::Values(
        Typo{"one_less", "adress", "address"}, Typo{"swapped", "verison", "version"},
        Typo{"one_more", "vmmid", "vmid"}, Typo{"one_other", "rols", "role"},
        Typo{"other_case", "VMID", "vmid"}, Typo{"other_dialect", "pod_cidr", "podCIDR"},
        Typo{"broken_off", "kube", "kubeconfig"}, Typo{"same_first_letter_wins", "fsh", "fish"},
        Typo{"exact", "addresses", "addresses"}, Typo{"far_off", "xyzzy", std::nullopt},
        Typo{"short_words_are_not_guessed", "ls", std::nullopt},
        Typo{"one_letter", "u", std::nullopt}, Typo{"empty", "", std::nullopt},
        Typo{"only_dashes", "--", std::nullopt}, Typo{"swapped_pair_is_nothing_alike", "pu", "up"},
        Typo{"too_long_to_be_a_typo", std::string(1000, 'a'), std::nullopt}),
    [](const auto& row) { return row.param.name; });

TEST(Diagnostics, DidYouMean) {
  EXPECT_EQ(did_you_mean("rols", {"role"}), " (did you mean `role`?)");
  EXPECT_EQ(did_you_mean("xyzzy", {"role"}), "");
}

}  // namespace
}  // namespace rocca
