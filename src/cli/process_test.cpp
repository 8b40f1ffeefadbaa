#include "cli/process.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>

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

}  // namespace
}  // namespace rocca::cli
