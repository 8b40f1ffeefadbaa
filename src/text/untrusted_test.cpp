#include "base/error.hpp"
#include "base/visible.hpp"
#include "text/edit.hpp"
#include "text/json.hpp"
#include "text/valid.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

namespace rocca::text {
namespace {

/// The steering characters that a text still has, newlines and tabs aside.
std::string steering(std::string_view text) {
  std::string found;
  while (!text.empty()) {
    const Decoded character = first_character(text);
    if (!character.valid || (is_steering(character.code) && character.code != '\n'))
      found += visible(text.substr(0, character.size)) + " ";
    text.remove_prefix(character.size);
  }
  return found;
}

const std::vector<std::string> hostile{
    "\x1b]0;PWNED\a\x1b[2J", "del \x7f",          "csi \u009b31m",      "nel \u0085 x",
    "a\u202eb\u202c",        "\u2066x\u2069",     "\u200e\u200f\u061c", "line \u2028 \u2029",
    "mark \uFEFF",           "two\nlines \u202e", "tail\u202e ",        "#\u202e",
    "key: \u009b",           "note \uFFF9\uFFFB",
};

TEST(UntrustedText, NeitherJsonNorYamlShowsWhatSteers) {
  for (const std::string& text : hostile)
    for (const Style style :
         {Style::Any, Style::Plain, Style::Single, Style::Double, Style::Literal, Style::Folded}) {
      Value value = Value::map();
      value.set("value", Value::string(text, style));
      value.set(text, Value::string("key", style));
      Value list = Value::list({Value::string(text, style)});
      value.set("block", list);
      list.set_style(Style::Flow);
      value.set("flow", list);
      value.entries().front().comments().before = {" " + text};
      value.entries().front().comments().beside = " " + text;
      for (const bool pretty : {false, true}) {
        const std::string json = emit_json(value, {.pretty = pretty});
        EXPECT_EQ(steering(json), "") << visible(json);
        EXPECT_EQ(parse_json(json, "t"), value);
      }
      const std::string yaml = emit_yaml(value);
      EXPECT_EQ(steering(yaml), "") << visible(yaml);
      EXPECT_EQ(parse_yaml(yaml, "t"), value) << visible(yaml);
      EXPECT_EQ(steering(set_in_yaml("a: 1\n", {"a"}, Value::string(text, style))), "");
    }
}

TEST(UntrustedText, LegitimateTextStaysReadable) {
  for (const std::string text : {"Grüße", "日本語", "👩‍👩‍👧 ok", "می‌خواهم"}) {
    EXPECT_EQ(emit_json(Value::string(text)), "\"" + text + "\"");
    EXPECT_EQ(emit_yaml(Value::string(text)), text + "\n");
  }
}

TEST(UntrustedText, InvalidBytesCanBeReported) {
  Value value = Value::map();
  value.set("a\xff", Value::list({Value::string("b\xc3"), Value::string("fine")}));
  EXPECT_THROW(emit_json(value), Error);
  EXPECT_EQ(emit_json(with_valid_text(value)), "{\"a\uFFFD\":[\"b\uFFFD\",\"fine\"]}");
  EXPECT_NO_THROW(emit_yaml(with_valid_text(value)));
}

}  // namespace
}  // namespace rocca::text
