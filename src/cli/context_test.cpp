#include "cli/context.hpp"

#include "base/error.hpp"
#include "cli/app.hpp"
#include "cli/bench_test_support.hpp"
#include "cli/invocation.hpp"
#include "text/value.hpp"

#include <gmock/gmock.h>

namespace rocca::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Fault fault_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.fault();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Fault::Bug;
}

TEST(Confirm, AsksOnlyOnATerminal) {
  Bench bench;
  try {
    confirm(bench.context, "Remove blue?", false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.fault()), 3);
    EXPECT_THAT(error.message(), HasSubstr("Remove blue?"));
    EXPECT_THAT(error.hint(), HasSubstr("--yes"));
  }
  EXPECT_EQ(bench.err.str(), "");  // nothing waits for an answer that cannot come
  confirm(bench.context, "Remove blue?", true);
}

TEST(Confirm, TakesYesAndNothingElse) {
  for (const char* answer : {"y\n", "YES\n", " yes \n"}) {
    Bench bench;
    bench.type(answer);
    confirm(bench.context, "Remove blue?", false);
    EXPECT_EQ(bench.err.str(), "Remove blue? [y/N] ");
    EXPECT_EQ(bench.out.str(), "");
  }
  for (const char* answer : {"", "\n", "n\n", "yep\n"}) {
    Bench bench;
    bench.type(answer);
    EXPECT_EQ(fault_of([&] { confirm(bench.context, "Remove blue?", false); }), Fault::Refused)
        << answer;
  }
}

TEST(Confirm, ByNameTakesTheNameOnly) {
  Bench bench;
  confirm_name(bench.context, "This destroys blue.", "blue", "blue");
  EXPECT_EQ(fault_of([&] { confirm_name(bench.context, "?", "blue", "green"); }), Fault::Refused);
  EXPECT_EQ(fault_of([&] { confirm_name(bench.context, "?", "blue", std::nullopt); }),
            Fault::Refused);
  bench.type("blue\n");
  confirm_name(bench.context, "This destroys blue.", "blue", std::nullopt);
  EXPECT_EQ(bench.err.str(), "This destroys blue. Type blue to go on: ");
  bench.type("yes\n");
  EXPECT_EQ(fault_of([&] { confirm_name(bench.context, "?", "blue", std::nullopt); }),
            Fault::Refused);
}

TEST(ClusterFile, IsFoundByNameFolderFileOrAroundUs) {
  Bench bench;
  bench.add("/home/me/fleet/clusters/blue/cluster.yaml");
  bench.add("/home/me/fleet/deep/er/spec.yaml");
  bench.add("/home/me/fleet/deep/er/near/cluster.yaml");
  const auto at = [&](const char* given) { return cluster_file(bench.context, given); };
  EXPECT_EQ(at("blue"), "/home/me/fleet/clusters/blue/cluster.yaml");
  EXPECT_EQ(at("spec.yaml"), "/home/me/fleet/deep/er/spec.yaml");
  EXPECT_EQ(at("near"), "/home/me/fleet/deep/er/near/cluster.yaml");
  EXPECT_EQ(at("/home/me/fleet/clusters/blue"), "/home/me/fleet/clusters/blue/cluster.yaml");
  bench.context.folder = "/home/me/fleet/clusters/blue";
  EXPECT_EQ(cluster_file(bench.context, std::nullopt), "/home/me/fleet/clusters/blue/cluster.yaml");
}

TEST(ClusterFile, MayLieDeeperUnderItsName) {
  Bench bench;
  bench.add("/home/me/fleet/clusters/blue/proxmox/cluster.yaml");
  EXPECT_EQ(cluster_file(bench.context, "blue"),
            "/home/me/fleet/clusters/blue/proxmox/cluster.yaml");
  bench.add("/home/me/fleet/clusters/blue/metal/cluster.yaml");
  EXPECT_EQ(fault_of([&] { cluster_file(bench.context, "blue"); }), Fault::Usage);
}

TEST(ClusterFile, AbsenceNamesTheNearestAndWhereItLooked) {
  Bench bench;
  bench.add("/home/me/fleet/clusters/blue/cluster.yaml");
  try {
    cluster_file(bench.context, "bleu");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::NotFound);
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("bleu"), HasSubstr("`blue`"), HasSubstr("deep/er")));
  }
  EXPECT_EQ(fault_of([&] { cluster_file(bench.context, std::nullopt); }), Fault::NotFound);
  EXPECT_EQ(fault_of([&] { cluster_file(bench.context, "no/such"); }), Fault::NotFound);
}

int succeed(Context& context, const Invocation& invocation) {
  auto value = text::Value::map();
  value.set("name", text::Value::string("yes"));
  print(context, invocation, value, "for people\n");
  return 2;
}
int break_down(Context&, const Invocation&) {
  throw std::runtime_error("a library's own");
}
int deny(Context&, const Invocation&) {
  throw Error(Fault::Denied, "no token").hint("make one");
}

Catalog verbs() {
  return {{.name = "good", .group = "G", .summary = "s", .flags = {output_flag()}, .run = succeed},
          {.name = "bad", .group = "G", .summary = "s", .run = break_down},
          {.name = "deny", .group = "G", .summary = "s", .run = deny}};
}

TEST(Run, PassesTheCommandsCodeAndPrintsAsAsked) {
  const std::pair<std::string, std::string> rows[] = {{"text", "for people\n"},
                                                      {"json", "{\n  \"name\": \"yes\"\n}\n"},
                                                      {"yaml", "name: \"yes\"\n"}};
  for (const auto& [format, text] : rows) {
    Bench bench;
    EXPECT_EQ(run(verbs(), bench.context, {"good", "-o", format}), 2);
    EXPECT_EQ(bench.out.str(), text);
    EXPECT_EQ(bench.err.str(), "");
  }
}

TEST(Run, TurnsErrorsIntoTextAndCode) {
  Bench bench;
  EXPECT_EQ(run(verbs(), bench.context, {"deny"}), 4);
  EXPECT_EQ(bench.err.str(), "error: no token\nhint: make one\n");
  EXPECT_EQ(bench.out.str(), "");
}

TEST(Run, SurvivesWhatIsNoErrorOfOurs) {
  Bench bench;
  EXPECT_EQ(run(verbs(), bench.context, {"bad"}), 1);
  EXPECT_THAT(bench.err.str(), AllOf(HasSubstr("error: a library's own"), HasSubstr("bug")));
}

struct ColourCase {
  std::string name;
  std::vector<std::string> words;
  std::map<std::string, std::string> environment;
  bool terminal;
  bool coloured;
};

class ColourRule : public testing::TestWithParam<ColourCase> {};

TEST_P(ColourRule, Holds) {
  Bench bench;
  bench.context.environment = GetParam().environment;
  bench.context.terminal.err = GetParam().terminal;
  run(verbs(), bench.context, GetParam().words);
  const std::string expected =
      GetParam().coloured ? "\x1b[31merror:\x1b[0m no token\n\x1b[36mhint:\x1b[0m make one\n"
                          : "error: no token\nhint: make one\n";
  EXPECT_EQ(bench.err.str(), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Run, ColourRule,
    testing::Values(ColourCase{"terminal", {"deny"}, {}, true, true},
                    ColourCase{"pipe", {"deny"}, {}, false, false},
                    ColourCase{"no_color", {"deny"}, {{"NO_COLOR", "1"}}, true, false},
                    ColourCase{"empty_no_color", {"deny"}, {{"NO_COLOR", ""}}, true, true},
                    ColourCase{"dumb", {"deny"}, {{"TERM", "dumb"}}, true, false},
                    ColourCase{"never", {"deny", "--color", "never"}, {}, true, false},
                    ColourCase{
                        "always", {"deny", "--color=always"}, {{"NO_COLOR", "1"}}, false, true},
                    ColourCase{"variable", {"deny"}, {{"ROCCA_COLOR", "always"}}, false, true},
                    ColourCase{"flag_over_variable",
                               {"deny", "--color=never"},
                               {{"ROCCA_COLOR", "always"}},
                               true,
                               false}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace rocca::cli
