#include "text/json.hpp"

#include "base/error.hpp"
#include "text/answer.hpp"

#include <gmock/gmock.h>

namespace rocca::text {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string trouble(std::string_view text, const Limits& limits = {}) {
  try {
    parse_json(text, "x.json", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    return error.message();
  }
  return "no error";
}

TEST(Json, ReadsWithPlacesAndWritesTheSame) {
  const std::string text =
      R"({"a":[1,-2.5e3,"ü\n\u00e9"],"b":{"c":null,"d":true},"big":123456789012345678901234567890})";
  const Value v = parse_json(text, "t");
  EXPECT_EQ(v.find({"a", "0"})->as_int(), 1);
  EXPECT_EQ(v.find({"a", "1"})->as_float(), -2500.0);
  EXPECT_EQ(*v.find({"a", "2"})->as_string(), "ü\né");
  EXPECT_EQ(v.find("big")->text(), "123456789012345678901234567890");
  const Place place = v.find({"b", "d"})->place();
  EXPECT_EQ(text.substr(place.begin, place.end - place.begin), "true");
  const Place whole = v.find("b")->place();
  EXPECT_EQ(text.substr(whole.begin, whole.end - whole.begin), R"({"c":null,"d":true})");
  EXPECT_EQ(v.find({"a", "2"})->place().column, 16u);
  EXPECT_EQ(v.find({"b", "c"})->place().column, 38u);
  EXPECT_EQ(v.entries()[1].key_place.column, 29u);
  EXPECT_EQ(parse_json(emit_json(v), "t"), v);
}

TEST(Json, FindsWhatIsNotAllowedAtEveryPlace) {
  // Texts are looked through eight bytes at a time.
  for (std::size_t at = 0; at < 40; ++at) {
    for (const char bad : {'\0', '\x80', '\xFF'}) {
      std::string text = "\"" + std::string(40, 'x') + "\"";
      text[at + 1] = bad;
      EXPECT_THAT(trouble(text), StartsWith("x.json:1:" + std::to_string(at + 2) + ": ")) << at;
    }
    std::string text = "\"" + std::string(40, 'x') + "\"";
    text.replace(at + 1, 1, "\xC3\xBC\x7F");
    EXPECT_EQ(parse_json(text, "t").text(), text.substr(1, text.size() - 2));
  }
}

TEST(Json, WhatAnotherSystemAnswersIsNotTheUsersMistake) {
  EXPECT_EQ(parse_answer("[1]", "answer"), parse_json("[1]", "answer"));
  for (const char* text : {"<html>", "", "{\"a\":1,\"a\":2}", "[1"}) {
    try {
      parse_answer(text, "answer");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Rejected) << text;
    }
  }
}

TEST(Json, CountsLines) {
  const Value v = parse_json("\xEF\xBB\xBF{\r\n \"a\": [\n\n  7]}", "t");
  EXPECT_EQ(v.find({"a", "0"})->place().line, 4u);
  EXPECT_EQ(v.find({"a", "0"})->place().column, 3u);
  EXPECT_EQ(v.entries()[0].key_place.line, 2u);
}

TEST(Json, WritesPrettyAndTight) {
  const Value v = parse_json("{ \"a\" : [ ] , \"b\":{\"x\":[1,2]}, \"c\":{} }", "t");
  EXPECT_EQ(emit_json(v), R"({"a":[],"b":{"x":[1,2]},"c":{}})");
  EXPECT_EQ(
      emit_json(v, {true, "  "}),
      "{\n  \"a\": [],\n  \"b\": {\n    \"x\": [\n      1,\n      2\n    ]\n  },\n  \"c\": {}\n}");
  EXPECT_EQ(emit_json(Value::string(std::string{"\"\\\b\f\n\r\t\x01\x00<>&ü", 14})),
            R"("\"\\\b\f\n\r\t\u0001\u0000<>&ü")");
}

TEST(Json, WritesNumbersThatCameFromYaml) {
  EXPECT_EQ(
      emit_json(parse_yaml("[0x1F, 0777, 1_000, .5, +1, 1e3, 2001-01-01, 08, 5., -0b1]", "t")),
      R"([31,511,1000,0.5,1,1e3,"2001-01-01",8.0,5.0,-1])");
  EXPECT_THROW(emit_json(parse_yaml(".inf", "t")), Error);
  EXPECT_THROW(emit_json(Value::string("\xC0\x80")), Error);
}

TEST(Json, RefusesWhatIsNoJson) {
  EXPECT_EQ(trouble("{\"a\": 1,\n \"b\": 2, \"a\": 3}"),
            "x.json:2:10: key `a` stands twice in this object; the first is at line 1, column 2");
  EXPECT_THAT(trouble("{\"a\": 1,}"), StartsWith("x.json:1:9: "));
  EXPECT_THAT(trouble("{\"a\" 1}"), HasSubstr("Missing a colon"));
  EXPECT_THAT(trouble("[1] x"), StartsWith("x.json:1:5: "));
  EXPECT_THAT(trouble(""), StartsWith("x.json:1:1: "));
  EXPECT_THAT(trouble("[01]"), StartsWith("x.json:1:3: "));
  EXPECT_THAT(trouble("[1e999]"), HasSubstr("too big"));
  EXPECT_THAT(trouble("[\"\\ud800\"]"), StartsWith("x.json:1:"));
  EXPECT_THAT(trouble("[\"a\nb\"]"), StartsWith("x.json:1:"));
  EXPECT_THAT(trouble("[NaN]"), StartsWith("x.json:1:2: "));
  EXPECT_THAT(trouble("[\"\xFF\"]"), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(trouble(std::string{"[1,\0]", 5}), HasSubstr("NUL byte"));
  EXPECT_THAT(trouble(std::string(10'000, '[')), "x.json:1:101: nested deeper than 100 levels");
  EXPECT_THAT(trouble("[1,2,3]", {100, 10, 3}), HasSubstr("more than 3 values"));
  EXPECT_THAT(trouble(std::string(5'000'000, ' ')), HasSubstr("too large"));
  Diagnostics diagnostics;
  EXPECT_FALSE(parse_json("{", "x.json", diagnostics));
  EXPECT_EQ(diagnostics.problems().at(0).where.line, 1u);
}

}  // namespace
}  // namespace rocca::text
