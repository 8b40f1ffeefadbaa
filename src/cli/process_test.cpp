#include "cli/process.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdlib>

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

}  // namespace
}  // namespace rocca::cli
