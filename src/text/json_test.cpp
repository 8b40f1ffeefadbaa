#include "text/json.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::text {
namespace {

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
  EXPECT_EQ(v.find({"a", "2"})->place().column, 16u);
  EXPECT_EQ(v.find({"b", "c"})->place().column, 38u);
  EXPECT_EQ(parse_json(emit_json(v), "t"), v);
  EXPECT_EQ(emit_json(parse_json("{ \"a\" : [ ] , \"b\":{\"x\":1} }", "t"), {true, "  "}),
            "{\n  \"a\": [],\n  \"b\": {\n    \"x\": 1\n  }\n}");
}

}  // namespace
}  // namespace rocca::text
