#include "cli/terminal/process.hpp"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

namespace rocca::cli {
namespace {

// In a child, because it cannot be taken back.
TEST(Process, LeavesNoCoreAndLetsNobodyLookIn) {
  const auto closed = [] {
    if (::prctl(PR_GET_DUMPABLE) != 1) std::exit(3);  // else the test shows nothing
    close_memory();
    rlimit limit{};
    if (::prctl(PR_GET_DUMPABLE) != 0) std::exit(1);
    if (::getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur != 0 || limit.rlim_max != 0)
      std::exit(2);
    std::exit(0);
  };
  EXPECT_EXIT(closed(), testing::ExitedWithCode(0), "");
}

TEST(Interrupts, TheFirstSignalAsksForAStop) {
  std::mutex mutex;
  std::condition_variable_any rang;
  const Interrupts interrupts;
  EXPECT_FALSE(interrupts.token().stop_requested());
  ::raise(SIGINT);
  std::unique_lock lock{mutex};
  rang.wait(lock, interrupts.token(), [] { return false; });
  EXPECT_TRUE(interrupts.token().stop_requested());
}

TEST(Interrupts, TheSecondSignalLeavesAtOnce) {
  const auto twice = [] {
    const Interrupts interrupts;
    ::raise(SIGTERM);
    ::raise(SIGINT);
    std::exit(1);
  };
  EXPECT_EXIT(twice(), testing::ExitedWithCode(130), "");
}

TEST(Interrupts, LeavesTheSignalsAsTheyWere) {
  const auto once = [] {
    { const Interrupts interrupts; }
    ::raise(SIGTERM);
    std::exit(1);
  };
  EXPECT_EXIT(once(), testing::KilledBySignal(SIGTERM), "");
}

/// The far end of a terminal that is the controlling one of a child of ours.
struct Pseudo {
  int main_end = -1;
  pid_t child = -1;
};

/// Runs `act` in a child in front of a terminal of its own.
Pseudo in_front_of_a_terminal(int (*act)()) {
  Pseudo pseudo;
  pseudo.child = ::forkpty(&pseudo.main_end, nullptr, nullptr, nullptr);
  if (pseudo.child == 0) ::_exit(act());
  return pseudo;
}

bool echoes(int terminal) {
  termios settings{};
  return ::tcgetattr(terminal, &settings) == 0 && (settings.c_lflag & ECHO) != 0;
}

std::string read_until(int terminal, std::string_view end) {
  std::string text;
  char c = 0;
  while (text.find(end) == std::string::npos && ::read(terminal, &c, 1) == 1) text += c;
  return text;
}

TEST(AskSecret, ReadsALineThatIsNotShown) {
  const Pseudo pseudo = in_front_of_a_terminal(
      [] { return ask_secret_on_terminal("the key").reveal() == "a secret" ? 0 : 1; });
  EXPECT_EQ(read_until(pseudo.main_end, ": "), "Passphrase for the key: ");
  EXPECT_FALSE(echoes(pseudo.main_end));
  ASSERT_EQ(::write(pseudo.main_end, "a secret\n", 9), 9);
  EXPECT_EQ(read_until(pseudo.main_end, "\n"), "\r\n");
  int status = 0;
  ::waitpid(pseudo.child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ::close(pseudo.main_end);
}

TEST(AskSecret, GivesTheEchoBackWhenItIsLeftWithCtrlC) {
  // The shell that stays in front of the terminal is a child of the child.
  const Pseudo pseudo = in_front_of_a_terminal([] {
    std::signal(SIGINT, SIG_IGN);
    const pid_t asking = ::fork();
    if (asking == 0) {
      std::signal(SIGINT, SIG_DFL);
      ask_secret_on_terminal("the key");
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(asking, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGINT) return 1;
    return echoes(STDIN_FILENO) ? 0 : 2;
  });
  read_until(pseudo.main_end, ": ");
  EXPECT_FALSE(echoes(pseudo.main_end));
  ASSERT_EQ(::write(pseudo.main_end, "\x03", 1), 1);
  read_until(pseudo.main_end, "\n");
  int status = 0;
  ::waitpid(pseudo.child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ::close(pseudo.main_end);
}

}  // namespace
}  // namespace rocca::cli
