#include "cli/invocation.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::cli {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

/// Commands of every shape that later commands need.
Catalog sample() {
  return {
      {.name = "plan",
       .group = "Life",
       .summary = "show what would change",
       .arguments = {cluster_argument()},
       .flags = {output_flag(),
                 {.name = "yes", .letter = 'y', .value = "", .help = "do not ask"},
                 {.name = "count",
                  .letter = 'c',
                  .kind = FlagKind::Number,
                  .value = "N",
                  .help = "how many"},
                 {.name = "timeout",
                  .kind = FlagKind::Duration,
                  .value = "TIME",
                  .fallback = "10m",
                  .help = "how long"},
                 {.name = "memory", .kind = FlagKind::Size, .value = "SIZE", .help = "how much"},
                 {.name = "dry-run", .value = "", .help = "change nothing"},
                 {.name = "allow",
                  .kind = FlagKind::Choice,
                  .value = "CLASS",
                  .choices = {"reboot", "replace"},
                  .help = "what may happen",
                  .repeats = true}}},
      {.name = "secrets encrypt",
       .group = "Access",
       .summary = "encrypt files",
       .arguments =
           {{.name = "FILE", .offer = Offer::Files, .help = "which"},
            {.name = "MORE", .arity = Arity::Any, .offer = Offer::Files, .help = "others"}},
       .flags = {{.name = "to", .kind = FlagKind::Text, .value = "KEY", .help = "for whom"}}},
      {.name = "secrets decrypt", .group = "Access", .summary = "decrypt a file"},
      {.name = "completion",
       .group = "About",
       .summary = "print a script",
       .arguments = {{.name = "SHELL",
                      .offer = Offer::Choices,
                      .help = "which",
                      .choices = {"bash", "zsh"}}}},
  };
}

struct Understood {
  Catalog catalog = sample();  // the request points into it
  Request request;
  const Invocation* operator->() const { return &request.invocation; }
};

std::unique_ptr<Understood> understand(const std::vector<std::string>& words,
                                       const std::map<std::string, std::string>& environment = {}) {
  auto result = std::make_unique<Understood>();
  result->request = parse(result->catalog, words, environment);
  return result;
}

Error refusal(const std::vector<std::string>& words,
              const std::map<std::string, std::string>& environment = {}) {
  try {
    understand(words, environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    return error;
  }
  ADD_FAILURE() << "was taken";
  return {Fault::Bug, ""};
}

TEST(Invocation, FlagsAndValuesInEverySpelling) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"plan", "blue", "--output", "json", "--yes"},
                                             {"plan", "--output=json", "blue", "--yes"},
                                             {"-o", "json", "-y", "plan", "blue"},
                                             {"plan", "-ojson", "-y", "blue"},
                                             {"plan", "-o=json", "--yes=true", "--", "blue"}}) {
    const auto done = understand(words);
    EXPECT_EQ((*done)->command().name, "plan");
    EXPECT_EQ((*done)->get("output"), "json");
    EXPECT_TRUE((*done)->is_set("yes"));
    EXPECT_THAT((*done)->argument("CLUSTER"), Optional(std::string{"blue"}));
  }
}

TEST(Invocation, SwitchesAndAValueShareADash) {
  const auto done = understand({"plan", "-yojson"});
  EXPECT_TRUE((*done)->is_set("yes"));
  EXPECT_EQ((*done)->get("output"), "json");
}

TEST(Invocation, ValuesHaveTypes) {
  const auto done = understand({"plan", "--count", "-3", "--timeout=90s", "--memory", "8GiB"});
  EXPECT_THAT((*done)->number("count"), Optional(-3));
  EXPECT_THAT((*done)->duration("timeout"), Optional(Duration{90s}));
  EXPECT_THAT((*done)->size("memory"), Optional(Bytes::gib(8)));
}

TEST(Invocation, WhatIsNotGivenHasItsFallback) {
  const auto done = understand({"plan"});
  EXPECT_EQ((*done)->get("output"), "text");
  EXPECT_THAT((*done)->duration("timeout"), Optional(Duration{10min}));
  EXPECT_EQ((*done)->size("memory"), std::nullopt);
  EXPECT_FALSE((*done)->is_set("yes"));
  EXPECT_THAT((*done)->all("allow"), IsEmpty());
  EXPECT_EQ((*done)->argument("CLUSTER"), std::nullopt);
  EXPECT_THROW((*done)->get("nonsense"), Error);
  EXPECT_THROW((*done)->argument("NONSENSE"), Error);
}

TEST(Invocation, VariablesStandInForFlags) {
  const auto done = understand({"plan", "-o", "yaml"}, {{"ROCCA_OUTPUT", "json"},
                                                        {"ROCCA_DRY_RUN", "1"},
                                                        {"ROCCA_YES", "no"},
                                                        {"ROCCA_COUNT", ""},
                                                        {"ROCCA_ALLOW", "reboot,replace"}});
  EXPECT_EQ((*done)->get("output"), "yaml");  // the command line wins
  EXPECT_TRUE((*done)->is_set("dry-run"));
  EXPECT_FALSE((*done)->is_set("yes"));
  EXPECT_EQ((*done)->number("count"), std::nullopt);
  EXPECT_THAT((*done)->all("allow"), ElementsAre("reboot", "replace"));
  EXPECT_THAT(refusal({"plan"}, {{"ROCCA_OUTPUT", "jsn"}}).message(),
              testing::AllOf(HasSubstr("ROCCA_OUTPUT"), HasSubstr("`json`")));
  EXPECT_THAT(refusal({"plan"}, {{"ROCCA_YES", "maybe"}}).message(), HasSubstr("ROCCA_YES"));
}

TEST(Invocation, ASwitchCanBeTakenBack) {
  EXPECT_FALSE((*understand({"plan", "--yes=false"}, {{"ROCCA_YES", "1"}}))->is_set("yes"));
}

TEST(Invocation, RepeatedFlagsOnlyWhereTheyMayBe) {
  EXPECT_THAT((*understand({"plan", "--allow", "reboot", "--allow=replace"}))->all("allow"),
              ElementsAre("reboot", "replace"));
  EXPECT_EQ(refusal({"plan", "-o", "json", "--output=json"}).message(), "--output is given twice");
  EXPECT_EQ(refusal({"plan", "--yes", "-y"}).message(), "--yes is given twice");
}

TEST(Invocation, NestedVerbs) {
  const auto done = understand({"secrets", "encrypt", "a", "b", "c", "--to", "x"});
  EXPECT_EQ((*done)->command().name, "secrets encrypt");
  EXPECT_THAT((*done)->argument("FILE"), Optional(std::string{"a"}));
  EXPECT_THAT((*done)->arguments("MORE"), ElementsAre("b", "c"));
  EXPECT_THAT(refusal({"secrets"}).message(), HasSubstr("encrypt or decrypt"));
  EXPECT_THAT(refusal({"secrets", "encrpt"}).message(),
              testing::AllOf(HasSubstr("`secrets encrpt`"), HasSubstr("`encrypt`")));
  const auto help = understand({"secrets", "--help"});
  EXPECT_EQ(help->request.kind, Request::Kind::Help);
  EXPECT_EQ(help->request.topic, "secrets");
}

TEST(Invocation, TwoDashesEndTheFlags) {
  EXPECT_THAT((*understand({"secrets", "encrypt", "--", "--to", "-x"}))->arguments("MORE"),
              ElementsAre("-x"));
  EXPECT_THAT((*understand({"plan", "--", "-"}))->argument("CLUSTER"), Optional(std::string{"-"}));
  EXPECT_THAT((*understand({"plan", "-"}))->argument("CLUSTER"), Optional(std::string{"-"}));
}

TEST(Invocation, AVerbMayStandBehindTwoDashes) {
  EXPECT_EQ((*understand({"--", "plan"}))->command().name, "plan");
  EXPECT_EQ((*understand({"secrets", "--", "encrypt", "encrypt"}))->command().name,
            "secrets encrypt");
}

TEST(Invocation, HelpNeedsNoArguments) {
  const auto help = understand({"secrets", "encrypt", "-h"});
  EXPECT_EQ(help->request.kind, Request::Kind::Help);
  EXPECT_EQ(help->request.topic, "secrets encrypt");
  EXPECT_EQ(understand({"--help"})->request.topic, "");
}

struct Mistake {
  std::string name;
  std::vector<std::string> words;
  std::string message;
};

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreNamedWithTheWayOut) {
  const Error error = refusal(GetParam().words);
  EXPECT_EQ(error.message(), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Invocation, Mistakes,
    testing::Values(
        Mistake{"command", {"plna"}, "unknown command `plna` (did you mean `plan`?)"},
        Mistake{"command_of_another_tool",
                {"destroy", "blue"},
                "unknown command `destroy` (did you mean `down`?)"},
        Mistake{"command_far_off", {"xyzzy", "--nonsense"}, "unknown command `xyzzy`"},
        Mistake{"flag",
                {"plan", "--outptu", "json"},
                "`rocca plan` has no flag --outptu (did you mean `--output`?)"},
        Mistake{"flag_with_value",
                {"plan", "--outpt=json"},
                "`rocca plan` has no flag --outpt (did you mean `--output`?)"},
        Mistake{"flag_without_verb", {"--outptu"}, "`rocca` has no flag --outptu"},
        Mistake{"flag_of_another_verb",
                {"secrets", "decrypt", "-y"},
                "`rocca secrets decrypt` has no flag -y"},
        Mistake{"letter", {"plan", "-x"}, "`rocca plan` has no flag -x"},
        Mistake{"no_value", {"plan", "--output"}, "--output needs a value"},
        Mistake{"flag_as_value", {"plan", "--output", "--yes"}, "--output needs a value"},
        Mistake{"empty_value", {"plan", "--output="}, "--output takes text, json or yaml, not ''"},
        Mistake{"choice",
                {"plan", "-o", "jsn"},
                "-o takes text, json or yaml, not 'jsn' (did you mean `json`?)"},
        Mistake{"number", {"plan", "--count", "many"}, "--count takes a whole number, not 'many'"},
        Mistake{"duration",
                {"plan", "--timeout", "90"},
                "--timeout takes a duration such as 90s, 10m or 1h30m, not '90'"},
        Mistake{"size",
                {"plan", "--memory", "8GB"},
                "--memory takes a size such as 512MiB or 8GiB, not '8GB'"},
        Mistake{
            "switch_value", {"plan", "--yes=perhaps"}, "--yes takes true or false, not 'perhaps'"},
        Mistake{"empty_text",
                {"secrets", "encrypt", "a", "--to="},
                "--to takes a text that is not empty, not ''"},
        Mistake{"missing", {"secrets", "encrypt"}, "`rocca secrets encrypt` needs FILE"},
        Mistake{"missing_choice", {"completion"}, "`rocca completion` needs SHELL: bash or zsh"},
        Mistake{"wrong_choice",
                {"completion", "bsh"},
                "SHELL is bash or zsh, not 'bsh' (did you mean `bash`?)"},
        Mistake{"extra", {"plan", "blue", "green"}, "`rocca plan` has no place for 'green'"}),
    [](const auto& row) { return row.param.name; });

TEST(Invocation, MistakesSayWhereToRead) {
  EXPECT_EQ(refusal({"plan", "--outptu"}).hint(), "rocca plan --help");
  EXPECT_EQ(refusal({"plna"}).hint(), "rocca --help lists them");
  EXPECT_EQ(refusal({"plan", "--output", "--yes"}).hint(),
            "write --output=VALUE if the value begins with a dash");
}

}  // namespace
}  // namespace rocca::cli
