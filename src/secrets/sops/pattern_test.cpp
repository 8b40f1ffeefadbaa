#include "secrets/sops/pattern.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::secrets::sops {
namespace {

struct Case {
  const char* pattern;
  const char* text;
  bool found;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.pattern << " in " << c.text;
}

class Patterns : public testing::TestWithParam<Case> {};

TEST_P(Patterns, MatchAsRe2Does) {
  EXPECT_EQ(Pattern(GetParam().pattern).found_in(GetParam().text), GetParam().found);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Patterns,
    testing::Values(
        Case{"", "x", true}, Case{"abc", "xabcx", true}, Case{"abc", "abd", false},
        Case{"^(data|stringData)$", "data", true}, Case{"^(data|stringData)$", "stringData", true},
        Case{"^(data|stringData)$", "metadata", false}, Case{"\\.(env|txt)$", "a/b.env", true},
        Case{"\\.(env|txt)$", "a/b.envx", false}, Case{"\\.yaml$", "ayaml", false},
        Case{"a.c", "a\nc", false}, Case{"(?s)a.c", "a\nc", true}, Case{"a*b", "b", true},
        Case{"^a+b$", "b", false}, Case{"^a?b$", "aab", false}, Case{"^a{2,3}$", "aa", true},
        Case{"^a{2,3}$", "aaaa", false}, Case{"^a{2,}$", "aaaa", true},
        Case{"^a{2}$", "aaa", false}, Case{"a{x", "a{x", true}, Case{"[a-c]x", "bx", true},
        Case{"[^a-c]x", "bx", false}, Case{"[]a]", "]", true}, Case{"[\\d_]+$", "a_1", true},
        Case{"[[:upper:]]", "aB", true}, Case{"[a-]", "-", true},
        Case{"\\bpass\\b", "my pass x", true}, Case{"\\bpass\\b", "passes", false},
        Case{"\\Bss\\b", "pass", true}, Case{"(?i)SECRET", "mySecret", true},
        Case{"(?i:S)ECRET", "sECRET", true}, Case{"(?i:S)ECRET", "secret", false},
        Case{"(?i)[a-c]", "B", true}, Case{"(?P<n>a)b", "ab", true}, Case{"(?:a|b)c", "bc", true},
        Case{"a||b", "zzz", true}, Case{"\\x41\\x{42}", "AB", true}, Case{"\\Qa.b\\E", "a.b", true},
        Case{"\\Qa.b\\E", "axb", false}, Case{"^ü$", "ü", true}, Case{"^.$", "😀", true},
        Case{"\\Aa\\z", "a", true}, Case{"(?m)^b$", "a\nb\nc", true}, Case{"^b$", "a\nb\nc", false},
        Case{"(a*)*$", "aaaa", true}, Case{"^(a|aa)+$", "aaaaaaaab", false},
        Case{"a+?b", "aab", true}, Case{"\\s\\S\\w\\W\\D", " x_-x", true},
        Case{"^\\pL$", "ß", true},
        Case{"^a.b$",
             "a\xff"
             "b",
             true},
        Case{"^a..b$",
             "a\xc3\x28"
             "b",
             true}));

TEST(Patterns, TakeTimeLinearInTheText) {
  // Backtracking would need 2^30 steps here, or a stack of a million frames.
  EXPECT_FALSE(Pattern("^(a?){30}a{30}$").found_in(std::string(29, 'a')));
  EXPECT_FALSE(Pattern("(x+x+)+y").found_in(std::string(20'000, 'x')));
}

TEST(Patterns, AreRefusedWhereRe2RefusesThem) {
  for (const char* pattern : {"(",      ")",    "a)",         "[",     "[a",
                              "*",      "a|*",  "\\",         "(?=x)", "(?!x)",
                              "(?<=x)", "\\1",  "\\pX",       "[z-a]", "a{1001}",
                              "a{3,2}", "(?z)", "[[:nope:]]", "\\x4",  "((a{1000}){1000}){1000}"})
    EXPECT_THROW(Pattern{pattern}, Error) << pattern;
  EXPECT_THROW(Pattern(std::string(1000, '(')), Error);
}

}  // namespace
}  // namespace rocca::secrets::sops
