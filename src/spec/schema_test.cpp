#include "spec/schema.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/effects.hpp"
#include "spec/fields.hpp"
#include "spec/validation/check.hpp"
#include "spec/validation/rules.hpp"
#include "support/golden.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <set>

namespace rocca::spec {
namespace {

using testing::HasSubstr;

void each(const text::Value& value, const std::function<void(const text::Value&)>& visit) {
  visit(value);
  for (const text::Value& item : value.items()) each(item, visit);
  for (const text::Entry& entry : value.entries()) each(entry.value, visit);
}

TEST(JsonSchema, IsGolden) {
  test::expect_golden("spec/schema.json", text::emit_json(json_schema(), {.pretty = true}) + "\n");
}

TEST(JsonSchema, FollowsTheMetaSchema) {
  const text::Value schema = json_schema();
  EXPECT_EQ(schema.find("$schema")->text(), "https://json-schema.org/draft/2020-12/schema");
  const std::vector<std::string> types = {"object",  "array",   "string",
                                          "boolean", "integer", "number"};
  const std::vector<std::string> keywords = {
      "$schema",     "$id",     "$defs", "$ref",       "title",
      "description", "default", "type",  "properties", "additionalProperties",
      "required",    "items",   "enum",  "pattern",    "format",
      "minimum",     "maximum", "anyOf", "allOf",      "not"};
  // Every schema in it: known keywords, known types, references that lead somewhere.
  std::function<void(const text::Value&)> check = [&](const text::Value& one) {
    if (!one.is_map()) {
      EXPECT_EQ(one.kind(), text::Kind::Bool);
      return;
    }
    for (const text::Entry& entry : one.entries()) {
      EXPECT_THAT(keywords, testing::Contains(entry.key));
      const text::Value& value = entry.value;
      if (entry.key == "type" && value.is_string()) {
        EXPECT_THAT(types, testing::Contains(value.text()));
      }
      if (entry.key == "$ref") {
        const std::string name = value.text().substr(std::string("#/$defs/").size());
        EXPECT_NE(schema.find({"$defs", name}), nullptr) << value.text();
      }
      if (entry.key == "properties" || entry.key == "$defs")
        for (const text::Entry& child : value.entries()) check(child.value);
      if (entry.key == "items" || entry.key == "not" || entry.key == "additionalProperties")
        check(value);
      if (entry.key == "anyOf" || entry.key == "allOf")
        for (const text::Value& item : value.items()) check(item);
    }
  };
  check(schema);
}

TEST(JsonSchema, DescribesEveryKey) {
  const std::string json = text::emit_json(json_schema());
  std::size_t descriptions = 0;
  each(json_schema(), [&](const text::Value& value) {
    if (value.find("description") != nullptr) ++descriptions;
  });
  EXPECT_GE(descriptions + 1, fields().size());  // "$secret" itself is a definition
  for (const Field& field : fields()) {
    EXPECT_FALSE(field.text.empty()) << field.path;
    if (field.is(Internal)) continue;
    if (field.path.ends_with('*') || field.path.starts_with('$')) continue;
    EXPECT_THAT(json,
                HasSubstr(fmt::format("\"{}\":", field.path.substr(field.path.rfind('.') + 1))))
        << field.path;
  }
}

TEST(Table, ExamplesAndDefaultsAreRight) {
  for (const Field& field : fields()) {
    for (const std::string_view text : {field.example, field.fallback}) {
      if (text.empty() || field.path.starts_with("$") || field.is(Internal)) continue;
      const FieldNode* node = find_field(field.path);
      ASSERT_NE(node, nullptr) << field.path;
      Findings findings;
      const std::uint32_t file = findings.add_file("example", std::string(text));
      const TreePtr tree = to_tree(text::parse_yaml(text, "example"), file);
      EXPECT_TRUE(clean(tree, *node, std::string(field.path), "", findings)) << field.path;
      EXPECT_EQ(findings.finish().render(), "") << field.path;
    }
  }
}

TEST(Explain, TellsAKey) {
  test::expect_golden("spec/explain_memory.txt", explain("machine.memory"));
}
TEST(Explain, TellsASection) {
  test::expect_golden("spec/explain_nodes.txt", explain("nodes"));
}
TEST(Explain, FindsNamedEntries) {
  EXPECT_EQ(explain("nodes.cp-1.address"), explain("spec.nodes.*.address"));
}
TEST(Explain, TellsARule) {
  test::expect_golden("spec/explain_rule.txt", explain("even-control-planes"));
}

TEST(Explain, HelpsWithTheRest) {
  try {
    explain("machine.memroy");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::NotFound);
    EXPECT_THAT(error.message(), HasSubstr("machine.memory"));
  }
  try {
    explain("vlan");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.hint(), HasSubstr("network.vlan, machine.nics.vlan and backup.drill.vlan"));
  }
}

/// A key without keys below it, that a user may write.
bool is_leaf(const Field& field) {
  const FieldNode* node = find_field(field.path);
  return node != nullptr && !field.is(Internal) && !field.path.starts_with('$') &&
         node->key_names().empty() && node->named() == nullptr;
}

TEST(Effects, HaveARowForEveryKey) {
  for (const Field& field : fields()) {
    if (!is_leaf(field)) continue;
    EXPECT_NE(find_key_effect(field.path), nullptr)
        << field.path << " has no effect: add a row to effects.cpp";
  }
}

TEST(Effects, AreOfKnownKeysAndClasses) {
  const std::set<std::string_view> classes{"none",      "live",        "service",
                                           "reboot",    "power-cycle", "replace",
                                           "data-loss", "refused",     "varies"};
  std::set<std::string_view> seen;
  for (const KeyEffect& row : key_effects()) {
    EXPECT_TRUE(seen.insert(row.path).second) << row.path << " stands twice";
    EXPECT_TRUE(classes.contains(row.effect)) << row.path;
    EXPECT_NE(row.path, "spec");
    EXPECT_NE(find_field(row.path), nullptr) << row.path;
    if (row.effect == "refused" || row.effect == "varies") {
      EXPECT_NE(row.note, "") << row.path << " must say why";
    }
  }
  EXPECT_EQ(find_key_effect("spec.kubernetes.somethingNew"), nullptr);
}

TEST(Reference, IsUpToDate) {
  test::expect_golden("../../docs/spec.md", reference_markdown());
}

}  // namespace
}  // namespace rocca::spec
