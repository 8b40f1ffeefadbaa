#include "secrets/sops/sops.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/edit.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

namespace rocca::secrets::sops {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Sops : public testing::Test {
 protected:
  std::string encrypted(std::string_view text, Format format, Selection selection = {}) {
    return encrypt(Plain::parse(text, format, "in"),
                   {Recipients::age({recipient}), selection, 4, "\t"}, clock, entropy);
  }
  std::string decrypted(std::string_view text, Format format) {
    const File file = File::parse(text, format, "f");
    return std::string{file.decrypt(file.data_key({identity})).text().reveal()};
  }
  std::string trouble(std::string_view text, Format format = Format::Yaml) {
    try {
      decrypted(text, format);
    } catch (const Error& error) {
      EXPECT_FALSE(error.hint().empty()) << error.message();
      return error.message();
    }
    return "no error";
  }

  SeededEntropy entropy{3};
  VirtualClock clock;
  age::Identity identity = age::Identity::generate(entropy);
  age::Identity other = age::Identity::generate(entropy);
  std::string recipient = identity.recipient()->text();
};

constexpr const char* yaml_text = R"(# about all

# about a
a: secret
b: # beside b
    # before c
    c: 42
    d: [1.5, true, null, 2001-01-02]
    # last in b
list:
    # first
    - x # beside x
    - k: z
      e: ""
    # end of list
lines: |
    one
    two
clear_unencrypted: 7
)";

TEST_F(Sops, YamlKeepsOrderTypesAndComments) {
  const std::string text = encrypted(yaml_text, Format::Yaml);
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  EXPECT_THAT(text, Not(HasSubstr("about")));
  EXPECT_THAT(text, Not(HasSubstr("beside")));
  EXPECT_THAT(text, HasSubstr("clear_unencrypted: 7\n"));
  EXPECT_THAT(text, HasSubstr("e: \"\"\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "sops:\n    age:\n        - enc: |\n            -----BEGIN AGE ENCRYPTED FILE-----\n"));
  EXPECT_EQ(replace_all(decrypted(text, Format::Yaml), "2001-01-02T00:00:00Z", "2001-01-02"),
            yaml_text);
}

TEST_F(Sops, JsonKeepsNumbers) {
  const std::string json =
      "{\n\t\"a\": \"x\",\n\t\"i\": 9007199254740993,\n\t\"f\": 25.4,\n\t\"l\": "
      "[\n\t\ttrue,\n\t\tnull,\n\t\t\"\"\n\t]\n}\n";
  EXPECT_EQ(decrypted(encrypted(json, Format::Json), Format::Json), json);
}

TEST_F(Sops, DotenvKeepsLinesAndBlanks) {
  const std::string env = "# head\nA=1\n b = x y \nC=two\\nlines\nEMPTY=\n#tail\n";
  const std::string text = encrypted(env, Format::Dotenv);
  EXPECT_THAT(text, HasSubstr("sops_age__list_0__map_enc=-----BEGIN AGE ENCRYPTED FILE-----\\n"));
  EXPECT_THAT(text, Not(HasSubstr("head")));
  EXPECT_EQ(decrypted(text, Format::Dotenv), env);
}

TEST_F(Sops, BinaryIsBytes) {
  const std::string bytes{"\x00\xFF\x80 not text \n", 15};
  EXPECT_EQ(decrypted(encrypted(bytes, Format::Binary), Format::Binary), bytes);
  EXPECT_EQ(decrypted(encrypted("", Format::Binary), Format::Binary), "");
}

TEST_F(Sops, YamlHoldsBinaryValues) {
  const std::string text = encrypted("a: !!binary //4=\n", Format::Yaml);
  EXPECT_EQ(decrypted(text, Format::Yaml), "a: !!binary //4=\n");
}

TEST_F(Sops, YamlMayHaveManyDocuments) {
  const std::string text = "a: 1\n---\nb: 2\n---\n{}\n";
  const std::string sealed = encrypted(text, Format::Yaml);
  EXPECT_EQ(split(sealed, '\n').size() > 30, true);
  EXPECT_EQ(text::parse_yaml_stream(sealed, "t").size(), 3u);
  for (const auto& document : text::parse_yaml_stream(sealed, "t"))
    EXPECT_NE(document.find({"sops", "mac"}), nullptr);
  EXPECT_EQ(decrypted(sealed, Format::Yaml), text);
}

struct Chosen {
  const char* name;
  Selection selection;
  std::vector<std::string> clear;
  std::vector<std::string> hidden;
};

class SopsRules : public Sops, public testing::WithParamInterface<Chosen> {};

TEST_P(SopsRules, ChooseWhatIsSealed) {
  const std::string text =
      "# hide the next\na_enc: v-one\nb_open:\n    data: v-two\n    x: v-three\n# show this\nc: "
      "v-four\n";
  for (const bool mac_only : {false, true}) {
    Selection selection = GetParam().selection;
    selection.mac_only_encrypted = mac_only;
    const std::string sealed = encrypted(text, Format::Yaml, selection);
    for (const auto& word : GetParam().clear) EXPECT_THAT(sealed, HasSubstr(word));
    for (const auto& word : GetParam().hidden) EXPECT_THAT(sealed, Not(HasSubstr(word)));
    EXPECT_EQ(decrypted(sealed, Format::Yaml), text);
    EXPECT_EQ(File::parse(sealed, Format::Yaml, "f").selection(), selection);
  }
}

INSTANTIATE_TEST_SUITE_P(All, SopsRules,
                         testing::Values(Chosen{"UnencryptedSuffix",
                                                {Rule::UnencryptedSuffix, "_open", false},
                                                {"v-two", "v-three"},
                                                {"v-one", "v-four", "hide"}},
                                         Chosen{"EncryptedSuffix",
                                                {Rule::EncryptedSuffix, "_enc", false},
                                                {"v-two", "v-three", "v-four", "hide"},
                                                {"v-one"}},
                                         Chosen{"UnencryptedRegex",
                                                {Rule::UnencryptedRegex, "^(c|x)$", false},
                                                {"v-three", "v-four"},
                                                {"v-one", "v-two", "hide"}},
                                         Chosen{"EncryptedRegex",
                                                {Rule::EncryptedRegex, "^data$", false},
                                                {"v-one", "v-three", "v-four", "hide"},
                                                {"v-two"}},
                                         Chosen{"UnencryptedCommentRegex",
                                                {Rule::UnencryptedCommentRegex, "show", false},
                                                {"v-four", "show this"},
                                                {"v-one", "v-two", "hide"}},
                                         Chosen{"EncryptedCommentRegex",
                                                {Rule::EncryptedCommentRegex, "hide", false},
                                                {"v-two", "v-four", "hide the next"},
                                                {"v-one"}}),
                         [](const auto& chosen) { return std::string{chosen.param.name}; });

TEST_F(Sops, EditKeepsTheBytesOfWhatDidNotChange) {
  const std::string before = encrypted("# c\na: one\nb: two\nl: [x, x, z]\n", Format::Yaml);
  const File file = File::parse(before, Format::Yaml, "f");
  const Secret key = file.data_key({identity});
  clock.advance(std::chrono::hours{1});
  const std::string after = file.with_content(
      Plain::parse("# c\na: one\nb: new\nl: [x, x, z]\n", Format::Yaml, "p"), key, clock, entropy);
  const auto old_lines = split(before, '\n');
  const auto new_lines = split(after, '\n');
  ASSERT_EQ(old_lines.size(), new_lines.size());
  std::vector<std::string> changed;
  for (std::size_t i = 0; i < old_lines.size(); ++i)
    if (old_lines[i] != new_lines[i])
      changed.push_back(std::string{trim(new_lines[i])}.substr(0, 5));
  EXPECT_THAT(changed, testing::ElementsAre("b: EN", "lastm", "mac: "));
  EXPECT_EQ(decrypted(after, Format::Yaml), "# c\na: one\nb: new\nl: [x, x, z]\n");
}

TEST_F(Sops, SetChangesOneValueInPlace) {
  std::string before = encrypted("a: one\nb:\n    c: two\n", Format::Yaml);
  before = replace_all(before, "b:\n", "b:    # kept as it is\n\n");
  const File file = File::parse(before, Format::Yaml, "f");
  const Secret key = file.data_key({identity});
  const std::string after = file.set({"b", "c"}, text::Value::string("three"), key, clock, entropy);
  EXPECT_THAT(after, HasSubstr("b:    # kept as it is\n\n    c: ENC["));
  EXPECT_EQ(text::parse_yaml(decrypted(after, Format::Yaml), "t").find({"b", "c"})->text(),
            "three");
  const std::string added = file.set({"b", "n", "m"}, text::Value::integer(5), key, clock, entropy);
  EXPECT_EQ(text::parse_yaml(decrypted(added, Format::Yaml), "t").find({"b", "n", "m"})->as_int(),
            5);
  const std::string less =
      File::parse(added, Format::Yaml, "f").unset({"b", "c"}, key, clock, entropy);
  EXPECT_EQ(text::parse_yaml(decrypted(less, Format::Yaml), "t").find({"b", "c"}), nullptr);
  EXPECT_THROW(file.unset({"b", "zz"}, key, clock, entropy), Error);
  EXPECT_THROW(file.set({"sops", "mac"}, text::Value::string("x"), key, clock, entropy), Error);
  EXPECT_THROW(file.set({"a", "x"}, text::Value::string("x"), key, clock, entropy), Error);
  const File json = File::parse(encrypted("{\"a\": {\"b\": 1}}", Format::Json), Format::Json, "j");
  const std::string changed =
      json.set({"a", "b"}, text::Value::integer(2), json.data_key({identity}), clock, entropy);
  EXPECT_EQ(decrypted(changed, Format::Json), "{\n\t\"a\": {\n\t\t\"b\": 2\n\t}\n}\n");
}

TEST_F(Sops, RotateTakesANewDataKey) {
  const std::string before = encrypted("a: one\n", Format::Yaml);
  const File file = File::parse(before, Format::Yaml, "f");
  const Secret key = file.data_key({identity});
  const std::string after = file.rotate(key, clock, entropy);
  const File fresh = File::parse(after, Format::Yaml, "f");
  EXPECT_FALSE(fresh.data_key({identity}) == key);
  EXPECT_THROW(fresh.decrypt(key), Error);
  EXPECT_EQ(decrypted(after, Format::Yaml), "a: one\n");
}

TEST_F(Sops, UpdateKeysLeavesTheValuesAlone) {
  const std::string before = encrypted("a: one # c\nb: 1\n", Format::Yaml);
  const File file = File::parse(before, Format::Yaml, "f");
  const Secret key = file.data_key({identity});
  const std::string both =
      file.with_recipients(Recipients::age({recipient, other.recipient()->text()}), key, entropy);
  EXPECT_EQ(both.substr(0, both.find("sops:")), before.substr(0, before.find("sops:")));
  const File shared = File::parse(both, Format::Yaml, "f");
  EXPECT_EQ(shared.last_modified(), file.last_modified());
  EXPECT_TRUE(shared.data_key({other}) == key);
  EXPECT_TRUE(shared.data_key({identity}) == key);
  const std::string moved =
      shared.with_recipients(Recipients::age({other.recipient()->text()}), key, entropy);
  EXPECT_THROW(File::parse(moved, Format::Yaml, "f").data_key({identity}), Error);
  EXPECT_NO_THROW(File::parse(moved, Format::Yaml, "f")
                      .decrypt(File::parse(moved, Format::Yaml, "f").data_key({other})));
}

TEST_F(Sops, KeyGroupsNeedTheirThreshold) {
  const age::Identity third = age::Identity::generate(entropy);
  Recipients groups;
  for (const auto& one : {identity, other, third})
    groups.groups.push_back({{"age", one.recipient()->text(), {}}});
  groups.threshold = 2;
  for (const Format format : {Format::Yaml, Format::Json, Format::Dotenv, Format::Binary}) {
    const std::string text = encrypt(Plain::parse(format == Format::Json   ? "{}"
                                                  : format == Format::Yaml ? "a: b\n"
                                                                           : "A=b\n",
                                                  format, "p"),
                                     {groups, {}, 4, "\t"}, clock, entropy);
    const File file = File::parse(text, format, "f");
    EXPECT_EQ(file.recipients().groups.size(), 3u);
    EXPECT_NO_THROW(file.decrypt(file.data_key({identity, third})));
    EXPECT_NO_THROW(file.decrypt(file.data_key({other, identity})));
    EXPECT_THROW(file.data_key({identity}), Error);
  }
}

TEST_F(Sops, OtherKeysStayAndAreNamedWhenTheyAreTheOnlyWayIn) {
  std::string text = encrypted("a: one\n", Format::Yaml);
  const text::Value pgp = text::parse_yaml(
      "- created_at: \"2019-08-29T21:52:32Z\"\n  enc: |\n    -----BEGIN PGP MESSAGE-----\n    x\n  "
      "fp: FBC7B9E2\n",
      "t");
  text = text::set_in_yaml(text, {"sops", "pgp"}, pgp);
  text = text::set_in_yaml(text, {"sops", "kms"},
                           text::parse_yaml("[{arn: 'arn:aws:kms:x', enc: abc}]", "t"));
  const File file = File::parse(text, Format::Yaml, "f");
  const Secret key = file.data_key({identity});
  const std::string edited =
      file.with_content(Plain::parse("a: two\n", Format::Yaml, "p"), key, clock, entropy);
  EXPECT_EQ(*text::parse_yaml(edited, "t").find({"sops", "pgp"}), pgp);
  EXPECT_NE(text::parse_yaml(edited, "t").find({"sops", "kms"}), nullptr);
  EXPECT_THROW(file.rotate(key, clock, entropy), Error);
  Recipients wanted = file.recipients();
  wanted.groups[0].push_back({"age", other.recipient()->text(), {}});
  const std::string more = file.with_recipients(wanted, key, entropy);
  EXPECT_EQ(*text::parse_yaml(more, "t").find({"sops", "pgp"}), pgp);
  EXPECT_THAT(trouble(text::erase_in_yaml(text, {"sops", "age"})),
              StartsWith("f: only PGP key FBC7B9E2 or AWS KMS key arn:aws:kms:x can open it"));
  Recipients pgp_only;
  pgp_only.groups.push_back({{"pgp", "NEW", {}}});
  EXPECT_THROW(
      encrypt(Plain::parse("a: b\n", Format::Yaml, "p"), {pgp_only, {}, 4, "\t"}, clock, entropy),
      Error);
}

TEST_F(Sops, NamesTheKeysOfAFileThatIsForOthers) {
  const std::string text = encrypted("a: one\n", Format::Yaml);
  identity = other;
  EXPECT_THAT(trouble(text), StartsWith("f: no key at hand opens it; it is for age " + recipient));
}

TEST_F(Sops, RefusesFilesThatWereChanged) {
  const std::string text = encrypted("a: one\nb: {c: two}\nnum_unencrypted: 1\n", Format::Yaml);
  const text::Value tree = text::parse_yaml(text, "t");
  const auto with = [&](const text::Path& path, const char* value) {
    return text::set_in_yaml(text, path, text::parse_yaml(value, "v"));
  };
  EXPECT_THAT(trouble(with({"num_unencrypted"}, "2")), StartsWith("f: MAC mismatch"));
  EXPECT_THAT(trouble(text::erase_in_yaml(text, {"a"})), StartsWith("f: MAC mismatch"));
  EXPECT_THAT(trouble(with({"a"}, "plain")), StartsWith("f: `a` is not sealed"));
  EXPECT_THAT(trouble(with({"a"}, "5")), StartsWith("f: `a` is not sealed: a int"));
  EXPECT_THAT(trouble(text::set_in_yaml(text, {"a"}, *tree.find({"b", "c"}))),
              StartsWith("f: `a` cannot be opened"));
  EXPECT_THAT(trouble(replace_all(text, ",tag:", ",tag:A")), HasSubstr("cannot be opened"));
  EXPECT_THAT(trouble(replace_all(text, "ENC[AES256_GCM", "ENC[AES512_XYZ")),
              HasSubstr("is not sealed"));
  EXPECT_THAT(trouble(text::erase_in_yaml(text, {"sops", "mac"})), StartsWith("f: it has no MAC"));
  EXPECT_THAT(trouble(with({"sops", "lastmodified"}, "'2020-01-01T00:00:00Z'")),
              StartsWith("f: its MAC cannot be opened"));
  EXPECT_THAT(trouble(text::set_in_yaml(text, {"sops", "mac"}, *tree.find("a"))),
              StartsWith("f: its MAC cannot be opened"));
  EXPECT_THAT(trouble(replace_all(text, "type:str]", "type:int]")), HasSubstr("does not fit"));
}

TEST_F(Sops, RefusesMetadataThatCannotBeRead) {
  const std::string text = encrypted("a: one\n", Format::Yaml);
  const auto parse_trouble = [](const std::string& broken,
                                Format format = Format::Yaml) -> std::string {
    try {
      File::parse(broken, format, "f");
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage);
      return error.message();
    }
    return "no error";
  };
  const auto with = [&](const text::Path& path, const char* value) {
    return text::set_in_yaml(text, path, text::parse_yaml(value, "v"));
  };
  EXPECT_THAT(parse_trouble("a: 1\n"), HasSubstr("not encrypted"));
  EXPECT_THAT(parse_trouble(text::erase_in_yaml(text, {"sops", "age"})), HasSubstr("name no key"));
  EXPECT_THAT(parse_trouble(text::erase_in_yaml(text, {"sops", "lastmodified"})),
              HasSubstr("lastmodified"));
  EXPECT_THAT(parse_trouble(with({"sops", "version"}, "4.0.0")),
              HasSubstr("written by SOPS 4.0.0"));
  EXPECT_THAT(parse_trouble(with({"sops", "encrypted_regex"}, "x")),
              HasSubstr("one rule is allowed"));
  EXPECT_THAT(parse_trouble(with({"sops", "shamir_threshold"}, "many")),
              HasSubstr("shamir_threshold"));
  EXPECT_THAT(parse_trouble(with({"sops"}, "text")), HasSubstr("not encrypted"));
  EXPECT_THAT(parse_trouble(text.substr(0, text.find("    lastmodified"))),
              HasSubstr("lastmodified"));
  EXPECT_THAT(parse_trouble(text.substr(0, text.find("BEGIN AGE") + 40)),
              HasSubstr("lastmodified"));
  EXPECT_THAT(parse_trouble("A=1\nsops_age__list_5__map_enc=x\n", Format::Dotenv),
              HasSubstr("cannot be read"));
  EXPECT_THAT(trouble(with({"sops", "age"}, "[{recipient: age1x, enc: nonsense}]")).substr(0, 40),
              HasSubstr("its data key cannot be read"));
}

TEST_F(Sops, RefusesPlainTextsThatSopsCannotHold) {
  const auto plain_trouble = [](const char* text, Format format = Format::Yaml) -> std::string {
    try {
      Plain::parse(text, format, "p");
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  };
  EXPECT_THAT(plain_trouble("- a\n"), HasSubstr("must be a map, not a list"));
  EXPECT_THAT(plain_trouble("just text\n"), HasSubstr("must be a map"));
  EXPECT_THAT(plain_trouble("1: a\n"), HasSubstr("p:1:1: key `1` is a int"));
  EXPECT_THAT(plain_trouble("sops: {}\n"), HasSubstr("encrypted already"));
  EXPECT_THAT(plain_trouble("sops_x=1\n", Format::Dotenv), HasSubstr("encrypted already"));
  EXPECT_THAT(plain_trouble("A\n", Format::Dotenv), HasSubstr("p:1:1"));
  EXPECT_THAT(plain_trouble("A=1\nA=2\n", Format::Dotenv), HasSubstr("stands twice"));
  EXPECT_THAT(plain_trouble("[1]", Format::Json), HasSubstr("must be a map"));
  EXPECT_THROW(encrypted("a: 18446744073709551615\n", Format::Yaml), Error);
}

TEST_F(Sops, OpensCommentsWhereSopsLeavesThem) {
  const std::string clear = "a: {b: 1} # flow\ne: [] # empty\nc: d\nl: [x]\n";
  std::string sealed = encrypted(clear, Format::Yaml);
  EXPECT_EQ(decrypted(sealed, Format::Yaml), clear);
  // sops puts the comment of an empty collection on a line of its own, sealed for inside of it,
  const std::size_t beside = sealed.find("e: [] #");
  sealed.replace(beside, 7, "e: []\n#");
  EXPECT_THAT(decrypted(sealed, Format::Yaml), HasSubstr("e: []\n# empty\nc: d\n"));
}

TEST_F(Sops, TakesCommentsThatStandAsItemsOfAList) {
  // sops writes a sealed comment in a list as if it were an item.
  std::string sealed = encrypted("l:\n    # about x\n    - x\n    # last\n", Format::Yaml);
  sealed = replace_all(sealed, "    #ENC", "    - ENC");
  EXPECT_EQ(decrypted(sealed, Format::Yaml), "l:\n    # about x\n    - x\n    # last\n");
}

TEST_F(Sops, ListsNamesWithoutTheKey) {
  const File file =
      File::parse(encrypted("a: 1\nb: {c: [x, y]}\n", Format::Yaml), Format::Yaml, "f");
  EXPECT_THAT(file.names(), testing::ElementsAre("a", "b.c.0", "b.c.1"));
}

TEST(SopsFormat, IsChosenByTheNameOfTheFile) {
  EXPECT_EQ(format_of("a.yml"), Format::Yaml);
  EXPECT_EQ(format_of("a.sops.yaml"), Format::Yaml);
  EXPECT_EQ(format_of("x.json"), Format::Json);
  EXPECT_EQ(format_of("x/.env"), Format::Dotenv);
  EXPECT_EQ(format_of("key.pem"), Format::Binary);
  EXPECT_EQ(find_format("dotenv"), Format::Dotenv);
  EXPECT_EQ(find_format("xml"), std::nullopt);
}

}  // namespace
}  // namespace rocca::secrets::sops
