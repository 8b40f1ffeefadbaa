#include "text/edit.hpp"

#include "base/error.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

namespace rocca::text {
namespace {

struct Change {
  const char* name;
  const char* before;
  Path path;
  const char* value;  // YAML; nullptr: erase
  const char* after;
};

void PrintTo(const Change& change, std::ostream* out) {
  *out << change.name;
}

class InYaml : public testing::TestWithParam<Change> {};

TEST_P(InYaml, ChangesOnlyWhatWasAsked) {
  const Change& c = GetParam();
  EXPECT_EQ(c.value == nullptr ? erase_in_yaml(c.before, c.path)
                               : set_in_yaml(c.before, c.path, parse_yaml(c.value, "v")),
            c.after);
}

INSTANTIATE_TEST_SUITE_P(
    Set, InYaml,
    testing::Values(
        Change{"Scalar",
               "# h\n\na:   1   # one\n\nb: 'x'\n",
               {"a"},
               "2",
               "# h\n\na:   2   # one\n\nb: 'x'\n"},
        Change{"Quoted", "a: \"x\" # c\n", {"a"}, "'y'", "a: 'y' # c\n"},
        Change{"Nested",
               "a:\n    b:\n        c: 1 # c\n    d: 2\n",
               {"a", "b", "c"},
               "[1, 2]",
               "a:\n    b:\n        c: [1, 2] # c\n    d: 2\n"},
        Change{
            "ItemOfAList", "a:\n- x\n- y # c\n- z\n", {"a", "1"}, "w", "a:\n- x\n- w # c\n- z\n"},
        Change{
            "Crlf", "a: 1\r\nb: 2\r\n", {"a"}, "|\n  x\n  y\n", "a: |\r\n  x\r\n  y\r\nb: 2\r\n"},
        Change{"ScalarToLines",
               "a: 1 # c\nb: 2\n",
               {"a"},
               "|\n  x\n  y\n",
               "a: | # c\n  x\n  y\nb: 2\n"},
        Change{"LinesToScalar", "a: | # c\n  x\n  y\n\nb: 2\n", {"a"}, "1", "a: 1 # c\n\nb: 2\n"},
        Change{"LinesToLines",
               "a:\n  b: |\n    x\n  c: 1\n",
               {"a", "b"},
               "|-\n  p\n  q\n",
               "a:\n  b: |-\n    p\n    q\n  c: 1\n"},
        Change{"ScalarToMap",
               "a: 1 # c\nb: 2\n",
               {"a"},
               "x: 1\nz: 2\n",
               "a: # c\n  x: 1\n  z: 2\nb: 2\n"},
        Change{"MapToScalar",
               "a: # c\n  x: 1 # gone\n  # gone too\nb: 2\n",
               {"a"},
               "7",
               "a: 7 # c\nb: 2\n"},
        Change{"MapToMap", "a:\n  x: 1\nb: 2\n", {"a"}, "z: [q]\n", "a:\n  z: [q]\nb: 2\n"},
        Change{"ListToScalar", "a:\n- 1\n- 2\nb: 2\n", {"a"}, "x", "a: x\nb: 2\n"},
        Change{"FromNull", "a:\nb: ~ # c\n", {"a"}, "1", "a: 1\nb: ~ # c\n"},
        Change{"ThroughNull", "a:\nb: 1\n", {"a", "x", "z"}, "1", "a:\n  x:\n    z: 1\nb: 1\n"},
        Change{"ScalarOnTheNextLine", "a:\n  old # c\nb: 1\n", {"a"}, "new", "a: new # c\nb: 1\n"},
        Change{"KeepsAnAnchor", "a: &x 1\nb: 2\n", {"a"}, "3", "a: &x 3\nb: 2\n"},
        Change{"DropsATag", "a: !!str 1\nb: 2\n", {"a"}, "3", "a: 3\nb: 2\n"},
        Change{"AnAlias", "a: &x 1\nb: *x\n", {"b"}, "3", "a: &x 1\nb: 3\n"},
        Change{"Flow",
               "a: {b: 1, c: [x, y]} # c\n",
               {"a", "c", "0"},
               "'z, w'",
               "a: {b: 1, c: ['z, w', y]} # c\n"},
        Change{"NoLineBreakAtTheEnd", "a: 1\nb: 2", {"b"}, "3", "a: 1\nb: 3"},
        Change{"ByteOrderMark",
               "\xEF\xBB\xBF"
               "a: 1\n",
               {"a"},
               "2",
               "\xEF\xBB\xBF"
               "a: 2\n"},
        Change{"QuotesWhatGoMisreads", "a: 1\n", {"a"}, "'yes'", "a: 'yes'\n"}));

INSTANTIATE_TEST_SUITE_P(
    Add, InYaml,
    testing::Values(
        Change{"Key", "a: 1 # c\n\n# foot\n", {"b"}, "2", "a: 1 # c\nb: 2\n\n# foot\n"},
        Change{"NestedKey",
               "a:\n    b: 1 # c\nz: 1\n",
               {"a", "c", "d"},
               "2",
               "a:\n    b: 1 # c\n    c:\n        d: 2\nz: 1\n"},
        Change{"BehindALiteral", "a: |\n  x\n\nb: 1\n", {"c"}, "2", "a: |\n  x\n\nb: 1\nc: 2\n"},
        Change{"BehindAKeptLiteral", "a: |+\n  x\n\n", {"c"}, "2", "a: |+\n  x\n\nc: 2\n"},
        Change{"Item",
               "a:\n  - x # c\nb: 1\n",
               {"a", "1"},
               "{k: v}",
               "a:\n  - x # c\n  - {k: v}\nb: 1\n"},
        Change{"MapItem",
               "- a: 1\n  b: 2\n",
               {"1"},
               "c: 3\nd: 4\n",
               "- a: 1\n  b: 2\n- c: 3\n  d: 4\n"},
        Change{"InAnItem", "- a: 1\n- b: 2\n", {"0", "c"}, "3", "- a: 1\n  c: 3\n- b: 2\n"},
        Change{"Flow", "a: {b: 1}\n", {"a", "c"}, "x", "a: {b: 1, c: x}\n"},
        Change{"EmptyFlow", "a: {}\nb: []\n", {"a", "c"}, "x", "a: {c: x}\nb: []\n"},
        Change{
            "FlowOnLines", "a: [\n  x,\n  y\n]\n", {"a", "2"}, "z", "a: [\n  x,\n  y,\n  z\n]\n"},
        Change{"ToNothing", "", {"a", "b"}, "1", "a:\n  b: 1\n"},
        Change{"ToComments", "# c", {"a"}, "1", "# c\na: 1\n"},
        Change{"NoLineBreakAtTheEnd", "a: 1", {"b"}, "2", "a: 1\nb: 2"},
        Change{"KeyThatNeedsQuotes", "a: 1\n", {"yes"}, "2", "a: 1\n\"yes\": 2\n"}));

INSTANTIATE_TEST_SUITE_P(
    Erase, InYaml,
    testing::Values(
        Change{"Key", "a: 1\n# about b\nb: 2 # c\nc: 3\n", {"b"}, nullptr, "a: 1\nc: 3\n"},
        Change{"First", "# head\n\n# about a\na: 1\nb: 2\n", {"a"}, nullptr, "# head\n\nb: 2\n"},
        Change{"Last", "a: 1\nb: 2", {"b"}, nullptr, "a: 1"},
        Change{
            "Map", "a:\n  x: 1\n  # deep\n# about b\nb: 2\n", {"a"}, nullptr, "# about b\nb: 2\n"},
        Change{"TheOnlyKey", "a:\n  x: 1\nb: 2\n", {"a", "x"}, nullptr, "a: {}\nb: 2\n"},
        Change{"TheOnlyKeyOfAll", "# h\n\nx: 1 # c\n", {"x"}, nullptr, "# h\n\n{}\n"},
        Change{"Literal", "a: |\n  x\n\n  y\nb: 1\n", {"a"}, nullptr, "b: 1\n"},
        Change{"Item", "a:\n- x\n- y\n- z\n", {"a", "1"}, nullptr, "a:\n- x\n- z\n"},
        Change{"FirstOfAnItem", "- a: 1 # c\n  b: 2\n- c\n", {"0", "a"}, nullptr, "- b: 2\n- c\n"},
        Change{"Flow", "a: {b: 1, c: 2, d: 3}\n", {"a", "b"}, nullptr, "a: {c: 2, d: 3}\n"},
        Change{"FlowLast", "a: {b: 1, c: 2, d: 3}\n", {"a", "d"}, nullptr, "a: {b: 1, c: 2}\n"},
        Change{"FlowOnly", "a: [ 1 ]\n", {"a", "0"}, nullptr, "a: []\n"},
        Change{"Crlf", "a: 1\r\nb: 2\r\nc: 3\r\n", {"b"}, nullptr, "a: 1\r\nc: 3\r\n"},
        Change{"WhatIsNotThere", "a: 1\n", {"b", "c"}, nullptr, "a: 1\n"}));

TEST(EditYaml, RefusesToGoThroughScalarsAndAliases) {
  EXPECT_THROW(set_in_yaml("a: 1\n", {"a", "b"}, Value::integer(1)), Error);
  EXPECT_THROW(set_in_yaml("a: &x {c: 1}\nb: *x\n", {"b", "c"}, Value::integer(1)), Error);
  EXPECT_THROW(set_in_yaml("a: [1]\n", {"a", "2"}, Value::integer(1)), Error);
  EXPECT_THROW(set_in_yaml("a: [1]\n", {"a", "x"}, Value::integer(1)), Error);
  EXPECT_THROW(set_in_yaml("a: 1\n---\nb: 1\n", {"a"}, Value::integer(1)), Error);
  // The alias would lose what it stands for: nothing is written.
  EXPECT_THROW(erase_in_yaml("a: &x 1\nb: *x\n", {"a"}), Error);
}

class InJson : public testing::TestWithParam<Change> {};

TEST_P(InJson, ChangesOnlyWhatWasAsked) {
  const Change& c = GetParam();
  EXPECT_EQ(c.value == nullptr ? erase_in_json(c.before, c.path)
                               : set_in_json(c.before, c.path, parse_json(c.value, "v")),
            c.after);
}

INSTANTIATE_TEST_SUITE_P(
    Changes, InJson,
    testing::Values(
        Change{"Set", "{\"a\" : 1,\n \"b\":2}", {"a"}, "\"x\"", "{\"a\" : \"x\",\n \"b\":2}"},
        Change{"Add", R"({"a":1})", {"b", "c"}, "2", R"({"a":1,"b":{"c":2}})"},
        Change{"AddOnALine",
               "{\n\t\"a\": 1\n}\n",
               {"b"},
               "[2]",
               "{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2\n\t]\n}\n"},
        Change{"AddItem", "[1, 2]", {"2"}, "3", "[1, 2, 3]"},
        Change{"Erase", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", {"a"}, nullptr, "{\n  \"b\": 2\n}\n"},
        Change{
            "EraseLast", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", {"b"}, nullptr, "{\n  \"a\": 1\n}\n"},
        Change{"EraseOnly", R"({"a": {"b": 1}})", {"a", "b"}, nullptr, R"({"a": {}})"}));

}  // namespace
}  // namespace rocca::text
