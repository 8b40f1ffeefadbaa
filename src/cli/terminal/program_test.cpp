#include "cli/terminal/program.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::map<std::string, std::string> environment = {{"PATH", "/usr/bin:/bin"},
                                                        {"GREETING", "hello there"}};

Error failure_of(const std::vector<std::string>& words, std::stop_token stop = {}) {
  try {
    run_program(words, environment, stop);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Fault::Bug, ""};
}

TEST(RunProgram, GivesStandardOutputAsItIs) {
  EXPECT_EQ(run_program({"printf", "a\\nb\\n"}, environment).reveal(), "a\nb\n");
}

TEST(RunProgram, UsesNoShell) {
  EXPECT_EQ(run_program({"echo", "$GREETING; *"}, environment).reveal(), "$GREETING; *\n");
}

TEST(RunProgram, HandsTheEnvironmentOnAndNoInput) {
  EXPECT_EQ(run_program({"sh", "-c", "echo $GREETING; cat; env | wc -l"}, environment)
                .reveal()
                .substr(0, 12),
            "hello there\n");
}

TEST(RunProgram, TakesMoreThanAPipeHoldsOnBothStreams) {
  const Secret out = run_program(
      {"sh", "-c", "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero"}, environment);
  EXPECT_EQ(out.size(), 300000u);
}

TEST(RunProgram, TellsTheCodeAndTheLastComplaintButNeverTheOutput) {
  const Error error =
      failure_of({"sh", "-c", "echo canary-out; echo first >&2; echo no such entry >&2; exit 7"});
  EXPECT_EQ(error.fault(), Fault::Rejected);
  EXPECT_EQ(error.message(), "`sh` ended with exit code 7: no such entry");
}

TEST(RunProgram, TellsASignal) {
  EXPECT_EQ(failure_of({"sh", "-c", "kill -KILL $$"}).message(), "`sh` was killed by signal 9");
}

TEST(RunProgram, NamesAProgramThatIsNotThere) {
  const Error error = failure_of({"rocca-no-such-program", "canary"});
  EXPECT_EQ(error.fault(), Fault::NotFound);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("rocca-no-such-program"), Not(HasSubstr("canary"))));
}

TEST(RunProgram, SaysWhatItWaitsForAndGivesUp) {
  using std::chrono::milliseconds;
  std::vector<std::string> told;
  Patience patience{milliseconds{50}, milliseconds{10},
                    [&](const std::string& program) { told.push_back(program); }};
  try {
    run_program({"sleep", "1000"}, environment, {}, patience);
    FAIL() << "it ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Timeout);
    EXPECT_EQ(error.message(), "`sleep` did not end within 50ms");
  }
  EXPECT_THAT(told, testing::ElementsAre("sleep"));
}

TEST(RunProgram, EndsWhenItIsToStop) {
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(failure_of({"cat", "/dev/zero"}, source.get_token()).fault(), Fault::Interrupted);
}

}  // namespace
}  // namespace rocca::cli
