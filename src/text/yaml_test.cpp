#include "text/yaml.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::text {
namespace {

std::string again(std::string_view text) {
  return emit_yaml(parse_yaml(text, "t"));
}

TEST(Yaml, ReadsASmallDocument) {
  const Value v = parse_yaml("a: 1\nb:\n  - x\n  - {c: true}\n", "t");
  EXPECT_EQ(v.find("a")->as_int(), 1);
  EXPECT_EQ(*v.find({"b", "0"})->as_string(), "x");
  EXPECT_EQ(v.find({"b", "1", "c"})->as_bool(), true);
  EXPECT_EQ(v.find({"b", "1", "c"})->place().line, 4u);
  EXPECT_EQ(v.find({"b", "1", "c"})->place().column, 9u);
  EXPECT_EQ(again("a: 1\nb:\n  - x\n  - {c: true}\n"), "a: 1\nb:\n  - x\n  - {c: true}\n");
}

}  // namespace
}  // namespace rocca::text
