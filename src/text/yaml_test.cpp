#include "text/yaml.hpp"

#include "base/error.hpp"
#include "text/json.hpp"

#include <gmock/gmock.h>

namespace rocca::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string again(std::string_view text, unsigned indent = 2) {
  return emit_yaml_stream(parse_yaml_stream(text, "t"), {indent});
}

std::string trouble(std::string_view text, const Limits& limits = {}) {
  try {
    parse_yaml_stream(text, "spec.yaml", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    return error.message();
  }
  return "no error";
}

TEST(Yaml, ReadsValuesWithTheirPlaces) {
  const std::string text =
      "a: 1\nb:\n  - x\n  - {ü: true, c: !!str 5}\nlit: |\n  one\n  two\n\nend: &q 7\nz: *q\n";
  const Value v = parse_yaml(text, "t");
  const auto at = [&](std::initializer_list<std::string_view> path) {
    const Place place = v.find(path)->place();
    return text.substr(place.begin, place.end - place.begin);
  };
  EXPECT_EQ(v.find("a")->as_int(), 1);
  EXPECT_EQ(at({"b"}), "- x\n  - {ü: true, c: !!str 5}");
  EXPECT_EQ(at({"b", "1"}), "{ü: true, c: !!str 5}");
  EXPECT_EQ(v.find({"b", "1", "ü"})->place().line, 4u);
  EXPECT_EQ(v.find({"b", "1", "ü"})->place().column, 9u);
  EXPECT_EQ(v.find({"b", "1", "c"})->place().column, 24u);
  EXPECT_EQ(at({"b", "1", "c"}), "5");
  EXPECT_TRUE(v.find({"b", "1", "c"})->is_string());
  EXPECT_EQ(at({"lit"}), "|\n  one\n  two");
  EXPECT_EQ(at({"end"}), "7");
  EXPECT_EQ(v.find("z")->as_int(), 7);
  EXPECT_EQ(at({"z"}), "*q");
  EXPECT_EQ(v.entries()[1].key_place.line, 2u);
}

TEST(Yaml, PlacesCountFromTheByteOrderMarkToo) {
  const std::string text =
      "\xEF\xBB\xBF"
      "a: x # c\r\nb: y\r\n";
  const Value v = parse_yaml(text, "t");
  EXPECT_EQ(text.substr(v.find("b")->place().begin, 1), "y");
  EXPECT_EQ(v.entries()[0].comments().beside, " c");
}

TEST(Yaml, TypesExplicitTags) {
  EXPECT_EQ(parse_yaml("!!int \"5\"", "t").as_int(), 5);
  EXPECT_EQ(parse_yaml("!!float 5", "t").kind(), Kind::Float);
  EXPECT_EQ(parse_yaml("! 5", "t").kind(), Kind::Int);
  EXPECT_EQ(parse_yaml("!own 5", "t").tag(), "!own");
  EXPECT_TRUE(parse_yaml("!own 5", "t").is_string());
  EXPECT_EQ(parse_yaml("'5'", "t").kind(), Kind::String);
  EXPECT_EQ(parse_yaml("|\n  5", "t").kind(), Kind::String);
  EXPECT_THAT(trouble("a: !!int x"), "spec.yaml:1:4: `x` is no !!int");
}

TEST(Yaml, ReadsStreams) {
  EXPECT_EQ(parse_yaml_stream("", "t").size(), 0u);
  EXPECT_EQ(parse_yaml_stream("# only a comment\n", "t").size(), 0u);
  EXPECT_EQ(parse_yaml_stream("---\n---\na: 1\n...\n---\n", "t").size(), 3u);
  EXPECT_TRUE(parse_yaml("", "t").is_null());
  EXPECT_EQ(again("---\n"), "null\n");
  EXPECT_EQ(again("a: 1\n---\n- b\n---\n"), "a: 1\n---\n- b\n---\nnull\n");
  EXPECT_THROW(parse_yaml("a\n---\nb\n", "t"), Error);
  EXPECT_EQ(emit_yaml(parse_yaml("# c\n\n# d\n", "t")), "# c\n# d\n");
}

TEST(Yaml, KeepsMergeKeysAndNumericKeys) {
  const Value v = parse_yaml("x: &b {a: 1}\nw: {<<: *b, 7: z}\n", "t");
  EXPECT_EQ(v.find({"w", "<<", "a"})->as_int(), 1);
  EXPECT_EQ(v.find("w")->entries()[1].key_value().as_int(), 7);
  EXPECT_EQ(emit_yaml(v), "x: {a: 1}\nw: {<<: {a: 1}, 7: z}\n");
}

struct RoundTrip {
  const char* name;
  const char* text;
};

class Unchanged : public testing::TestWithParam<RoundTrip> {};

TEST_P(Unchanged, IsWrittenAsItWasRead) {
  EXPECT_EQ(again(GetParam().text), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, Unchanged,
    testing::Values(
        RoundTrip{"Styles",
                  "a: plain\nb: 'single'\nc: \"double\"\nd: |\n  lit\n    eral\n\n  x\ne: |-\n  "
                  "strip\nf: |+\n  keep\n\ng: >-\n  folded line\n"},
        RoundTrip{"Folded", "a: >\n  one\n\n  two\n\n\n  three\n"},
        RoundTrip{"Flow", "a: {b: [1, {c: d}], 'e f': null}\nb: []\nc: {}\n"},
        RoundTrip{"Nulls", "a:\nb: ~\nc: null\nd:\n  -\n  - ~\n"},
        RoundTrip{"Lists", "- a\n- - b\n  - c\n- d: 1\n  e:\n    - 2\n-\n"},
        RoundTrip{"Spellings", "a: 0x1F\nb: 1_000\nc: 1e3\nd: 2001-01-01\ne: TRUE\nf: .inf\n"},
        RoundTrip{"Tags", "a: !!binary aGk=\nb: !own\n  c: 1\nd: !!str 5\ne: !x [1]\n"},
        RoundTrip{
            "Comments",
            "# head\n\n# before a\na: 1 # beside a\nb: # beside b\n  # before c\n  c: 2\n  # after "
            "c\n# before d\nd:\n  - x # beside x\n  # before z\n  - z\n  # after z\n\n# foot\n"},
        RoundTrip{"CommentsInLists", "- # beside\n  a: 1\n  # after a\n-\n  # before b\n  b: 1\n"},
        RoundTrip{"CommentOnALiteral", "a: | # beside\n  # text\n  b # text\nb: 1\n"},
        RoundTrip{"HashesThatAreNone",
                  "a: b#c\nb: 'x # y'\nc: \"x # y\"\nd: http://h/#f\n'#e': 1\n"},
        RoundTrip{
            "Documents",
            "# one\n\na: 1\n---\n# two\n\nb: 2\n\n# end of two\n---\nscalar # beside\n# after\n"},
        RoundTrip{"LeadingBlanks", "a: |2\n   x\n  y\nb: |2\n\n  z\n"}));

TEST(Comments, HangOnWhatTheyBelongTo) {
  const Value v = parse_yaml(
      "# head\n\n# about a\na: 1 # one\nb:\n  c: 2\n  # end of b\n# about d\nd: [x, # first\n  y] "
      "# flow\n\n# foot\n",
      "t");
  EXPECT_THAT(v.comments().before, ElementsAre(" head"));
  EXPECT_THAT(v.entries()[0].comments().before, ElementsAre(" about a"));
  EXPECT_EQ(v.entries()[0].comments().beside, " one");
  EXPECT_THAT(v.find("b")->entries()[0].comments().after, ElementsAre(" end of b"));
  EXPECT_THAT(v.entries()[2].comments().before, ElementsAre(" about d"));
  EXPECT_EQ(v.find({"d", "0"})->comments().beside, " first");
  EXPECT_EQ(v.entries()[2].comments().beside, " flow");
  EXPECT_THAT(v.comments().after, ElementsAre(" foot"));
}

TEST(Comments, EndWhereYamlEndsTheLine) {
  // For YAML 1.1 a comment ends at U+2028; what stands behind it is content and must not vanish.
  EXPECT_EQ(again("# c\xE2\x80\xA8"
                  "a: 1\n"),
            "# c\na: 1\n");
}

struct Quoting {
  const char* text;
  const char* written;
};

class Strings : public testing::TestWithParam<Quoting> {};

TEST_P(Strings, AreQuotedWhereSomeoneWouldMisreadThem) {
  Value v = Value::map();
  v.set("k", Value::string(GetParam().text));
  EXPECT_EQ(emit_yaml(v), std::string{"k: "} + GetParam().written + "\n");
  EXPECT_EQ(parse_yaml(emit_yaml(v), "t"), v);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Strings,
    testing::Values(
        Quoting{"plain", "plain"}, Quoting{"", R"("")"}, Quoting{"yes", R"("yes")"},
        Quoting{"Off", R"("Off")"}, Quoting{"y", R"("y")"}, Quoting{"true", R"("true")"},
        Quoting{"null", R"("null")"}, Quoting{"~", R"("~")"}, Quoting{"0123", R"("0123")"},
        Quoting{"1e3", R"("1e3")"}, Quoting{"1_000", R"("1_000")"}, Quoting{"0o7", R"("0o7")"},
        Quoting{".5", R"(".5")"}, Quoting{"12:30:45", R"("12:30:45")"},
        Quoting{"2001-01-01", R"("2001-01-01")"}, Quoting{"10.0.0.1", "10.0.0.1"},
        Quoting{"v1.2", "v1.2"}, Quoting{"*x", "'*x'"}, Quoting{"&x", "'&x'"},
        Quoting{"!x", "'!x'"}, Quoting{"%x", "'%x'"}, Quoting{"@x", "'@x'"}, Quoting{"`x", "'`x'"},
        Quoting{"- x", "'- x'"}, Quoting{"-x", "-x"}, Quoting{"-", "'-'"}, Quoting{"? x", "'? x'"},
        Quoting{"a: b", "'a: b'"}, Quoting{"a:b", "a:b"}, Quoting{"a:", "'a:'"},
        Quoting{"a #b", "'a #b'"}, Quoting{"a#b", "a#b"}, Quoting{"#a", "'#a'"},
        Quoting{" a", "' a'"}, Quoting{"a ", "'a '"}, Quoting{"it's", "it's"},
        Quoting{"'q'", "'''q'''"}, Quoting{"{a}", "'{a}'"}, Quoting{"[a", "'[a'"},
        Quoting{"a, b", "a, b"}, Quoting{"---", "'---'"}, Quoting{"... x", "'... x'"},
        Quoting{"a\tb", R"("a\tb")"}, Quoting{"a\x07", R"("a\x07")"},
        Quoting{"a\u2028b", R"("a\u2028b")"}, Quoting{"\xEF\xBB\xBF", R"("\uFEFF")"},
        Quoting{"😀 ü", "😀 ü"}, Quoting{"a\nb", "|-\n  a\n  b"}, Quoting{"a\n", "|\n  a"},
        Quoting{"a\n\n", "|+\n  a\n"}, Quoting{"\n", R"("\n")"}, Quoting{"a \nb", R"("a \nb")"},
        Quoting{"\ta\nb", "|2-\n  \ta\n  b"}, Quoting{"a\r\nb", R"("a\r\nb")"}));

TEST(Emit, PutsFlowStringsInQuotesThatFlowNeeds) {
  Value list = Value::list(
      {Value::string("a, b"), Value::string("{x"), Value::string("a:b"), Value::string("l1\nl2")});
  list.set_style(Style::Flow);
  EXPECT_EQ(emit_yaml(list), "['a, b', '{x', 'a:b', \"l1\\nl2\"]\n");
  EXPECT_EQ(parse_yaml(emit_yaml(list), "t"), list);
}

TEST(Emit, IndentsAsGoYamlDoes) {
  const char* text =
      "a:\n    - b: 1\n      c:\n        d: 2\n        e: |\n            x\n    - - f\n      - g\n";
  EXPECT_EQ(again(text, 4), text);
}

TEST(Emit, WritesMemoryMadeValues) {
  Value v = Value::map();
  v.set("i", Value::integer(-5));
  v.set("u", Value::unsigned_integer(UINT64_MAX));
  v.set("f", Value::floating(2));
  v.set("nil", Value::null());
  v.set("b", Value::boolean(true));
  v.set("yes", Value::list({Value::string("x"), Value::map()}));
  EXPECT_EQ(
      emit_yaml(v),
      "i: -5\nu: 18446744073709551615\nf: 2.0\nnil: null\nb: true\n\"yes\":\n  - x\n  - {}\n");
  EXPECT_EQ(parse_yaml(emit_yaml(v), "t"), v);
  EXPECT_THROW(emit_yaml(Value::string("\xFF")), Error);
}

TEST(Emit, WritesLongKeys) {
  Value v = Value::map();
  v.set(std::string(2000, 'k'), Value::integer(1));
  v.set("z", Value::map()).set(std::string(1500, 'q') + ": ", Value::string("x"));
  EXPECT_EQ(parse_yaml(emit_yaml(v), "t"), v);
  v.find("z")->set_style(Style::Flow);
  EXPECT_EQ(parse_yaml(emit_yaml(v), "t"), v);
}

TEST(BadYaml, SaysWhereAndWhat) {
  EXPECT_EQ(trouble("a: 1\nb: 2\na: 3\n"),
            "spec.yaml:3:1: key `a` stands twice in this map; the first is at line 1, column 1");
  EXPECT_THAT(trouble("a: {x: 1, \"x\": 2}"), StartsWith("spec.yaml:1:11: key `x` stands twice"));
  EXPECT_THAT(trouble("a:\n\tb: 1\n"), StartsWith("spec.yaml:2:1: a tab cannot indent YAML"));
  EXPECT_THAT(trouble("a: b: c\n"), StartsWith("spec.yaml:1:5: mapping values are not allowed"));
  EXPECT_THAT(trouble("a: [1, 2\nb: 3\n"), HasSubstr("spec.yaml:2:2"));
  EXPECT_THAT(trouble("a: @x\n"), StartsWith("spec.yaml:1:4: a plain value cannot begin with `@`"));
  EXPECT_THAT(trouble("a: \"x\n"), HasSubstr("while scanning a quoted scalar"));
  EXPECT_THAT(trouble("ü: *nobody\n"), StartsWith("spec.yaml:1:4: `*nobody` stands for nothing"));
  EXPECT_THAT(trouble("a: &x [*x]\n"), HasSubstr("stands inside of what it stands for"));
  EXPECT_THAT(trouble("? [a]\n: b\n"), HasSubstr("a key must be a scalar"));
  EXPECT_THAT(trouble(std::string{"a: x\0y", 6}), StartsWith("spec.yaml:1:5: a NUL byte"));
  EXPECT_THAT(trouble("a: \xFFx"), StartsWith("spec.yaml:1:4: byte 0xFF is not valid UTF-8"));
  EXPECT_THAT(trouble("a: \xED\xA0\x80"), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(trouble("a: \x01"), StartsWith("spec.yaml:1:4: control character U+0001"));
  EXPECT_THAT(trouble("\xFF\xFE"
                      "a"),
              HasSubstr("UTF-16"));
  EXPECT_THAT(trouble("a: 1\n\xEF\xBB\xBF"
                      "b: 2\n"),
              HasSubstr("byte order mark"));
  EXPECT_THAT(trouble("%PDF-1.4 binary"), StartsWith("spec.yaml:1:"));
}

TEST(BadYaml, AMergeThatGitCouldNotFinishIsNamed) {
  const std::string text = "a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> other\nc: 3\n";
  try {
    parse_yaml(text, "s.yaml");
    FAIL() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "s.yaml:2:1: the file holds conflict markers of Git");
    EXPECT_FALSE(error.hint().empty());
  }
  EXPECT_NO_THROW(parse_yaml("a: |\n  <<<<<<< HEAD\n  >>>>>>> other\n", "s.yaml"));
}

TEST(BadYaml, IsReportedAllAtOnce) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse_yaml("a: 1\na: 2\nb: {c: 1, c: 2}\n", "spec.yaml", diagnostics));
  EXPECT_EQ(diagnostics.count(Severity::Error), 2u);
  EXPECT_THAT(diagnostics.render(), HasSubstr("spec.yaml:2:1"));
  EXPECT_THAT(diagnostics.render(), HasSubstr("spec.yaml:3:11"));
  Diagnostics none;
  EXPECT_TRUE(parse_yaml("a: 1", "spec.yaml", none));
  EXPECT_TRUE(none.empty());
}

TEST(BadYaml, IsStoppedByLimits) {
  EXPECT_EQ(trouble(std::string(100'000'000, 'a')),
            "spec.yaml: the text is too large: 95.4 MiB, at most 4 MiB are read");
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "[";
  EXPECT_EQ(trouble(deep), "spec.yaml:1:101: nested deeper than 100 levels");
  std::string dashes;
  for (int i = 0; i < 10'000; ++i) dashes += "- ";
  EXPECT_THAT(trouble(dashes), HasSubstr("nested deeper than 100 levels"));
  EXPECT_EQ(trouble("[1, 2, 3, 4]", {1000, 10, 4}),
            "spec.yaml:1:11: more than 4 values once aliases are expanded");

  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) laughs += (j ? ", *a" : "*a") + std::to_string(i - 1);
    laughs += "]\n";
  }
  EXPECT_THAT(trouble(laughs), HasSubstr("aliases stand for more than 100000 values"));

  std::string copies = "a: &a \"" + std::string(1'000'000, 'x') + "\"\nb: [";
  for (int i = 0; i < 1000; ++i) copies += "*a, ";
  EXPECT_THAT(trouble(copies + "]"), HasSubstr("bytes once aliases are expanded"));

  std::string directives;
  for (int i = 0; i < 100'000; ++i) directives += "%TAG !a" + std::to_string(i) + "! tag:x\n";
  EXPECT_THAT(trouble(directives + "--- a\n"), HasSubstr("begin with `%`"));

  std::string comma = "[";
  for (int i = 0; i < 200'000; ++i) comma += "\"x\", ";
  EXPECT_THAT(trouble(comma + "\"y\" \"z\"]"), HasSubstr("did not find expected ',' or ']'"));
}

TEST(Value, SetsFindsAndErases) {
  Value v = Value::map();
  v.set("a", Value::integer(1));
  v.set("b", Value::integer(2));
  v.set("a", Value::string("x"));
  EXPECT_EQ(emit_json(v), R"({"a":"x","b":2})");
  EXPECT_TRUE(v.erase("a"));
  EXPECT_FALSE(v.erase("a"));
  EXPECT_EQ(v.size(), 1u);
  EXPECT_EQ(v.find({"b", "c"}), nullptr);
  EXPECT_EQ(parse_yaml("{a: 0x1F, b: ~}", "t"), parse_yaml("{b: null, a: 31}", "t"));
  EXPECT_FALSE(parse_yaml("1", "t") == parse_yaml("'1'", "t"));
  EXPECT_FALSE(parse_yaml("[a, b]", "t") == parse_yaml("[b, a]", "t"));
}

}  // namespace
}  // namespace rocca::text
