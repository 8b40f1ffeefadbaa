#include "secrets/sops/config.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::secrets::sops {
namespace {

using testing::HasSubstr;

constexpr const char* config_text = R"(stores: {yaml: {indent: 2}, json: {indent: -1}}
creation_rules:
  - path_regex: ^prod/.*\.yaml$
    encrypted_regex: ^(data|stringData)$
    mac_only_encrypted: true
    age: age1aaa, age1bbb
  - path_regex: groups
    shamir_threshold: 2
    key_groups:
      - age: [age1aaa, age1aaa]
        pgp: [FP1]
      - age: [age1bbb]
        merge: [{age: [age1ccc]}]
  - age: [age1ddd]
    pgp: FP2
)";

TEST(SopsConfig, PicksTheFirstRuleThatFits) {
  const Config config = Config::parse(config_text, "/repo/.sops.yaml");
  const Recipe prod = *config.find_rule("/repo/prod/a.yaml");
  EXPECT_EQ(prod.selection, (Selection{Rule::EncryptedRegex, "^(data|stringData)$", true}));
  ASSERT_EQ(prod.recipients.groups.at(0).size(), 2u);
  EXPECT_EQ(prod.recipients.groups[0][1].id, "age1bbb");
  EXPECT_EQ(prod.yaml_indent, 2u);
  EXPECT_EQ(prod.json_indent, "\t");
  const Recipe groups = *config.find_rule("/repo/x/groups.env");
  ASSERT_EQ(groups.recipients.groups.size(), 2u);
  EXPECT_EQ(groups.recipients.threshold, 2u);
  ASSERT_EQ(groups.recipients.groups[0].size(), 2u);  // the second age1aaa is the first again
  EXPECT_EQ(groups.recipients.groups[0][1].shown(), "PGP key FP1");
  EXPECT_EQ(groups.recipients.groups[1][1].id, "age1ccc");
  // The pattern sees the path below the folder of the config, not the whole one.
  EXPECT_EQ(config.find_rule("/repo/sub/prod/a.yaml")->recipients.groups[0][0].id, "age1ddd");
  EXPECT_EQ(config.find_rule("/repo/z")->selection, Selection{});
}

TEST(SopsConfig, IsFoundUpward) {
  MemoryFiles files;
  files.make_folder("/a", 0755);
  files.write("/a/.sops.yaml", "creation_rules: [{age: age1x}]", 0600);
  EXPECT_EQ(Config::find(files, "/a/b/c")->name(), "/a/.sops.yaml");
  EXPECT_FALSE(Config::find(files, "/b"));
  files.write("/.sops.yaml", "{}", 0600);
  EXPECT_EQ(Config::find(files, "/b")->name(), "/.sops.yaml");
  EXPECT_FALSE(Config::find(files, "/b")->find_rule("/b/c"));
}

TEST(SopsConfig, SaysWhatIsWrong) {
  const auto trouble = [](const char* text) -> std::string {
    try {
      const Config config = Config::parse(text, "/.sops.yaml");
      config.find_rule("/x.yaml");
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  };
  EXPECT_THAT(trouble("creation_rules: [{path_regex: no, age: age1x}]"),
              HasSubstr("no creation rule fits `x.yaml`"));
  EXPECT_THAT(trouble("creation_rules: [{path_regex: '('}]"),
              HasSubstr("/.sops.yaml:1:31: invalid regular expression `(`: missing )"));
  EXPECT_THAT(trouble("creation_rules: 5"), HasSubstr("must be a list"));
  EXPECT_THAT(trouble("creation_rules: [{encrypted_regex: a, unencrypted_suffix: b}]"),
              HasSubstr("one rule is allowed"));
  EXPECT_THAT(trouble("a: 1\na: 2"), HasSubstr("stands twice"));
}

}  // namespace
}  // namespace rocca::secrets::sops
