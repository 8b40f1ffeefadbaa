#include "support/reference.hpp"

#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>

// The reference tier: says so when its data is not there, and counts what it ran.
int main(int argc, char** argv) {
  constexpr int skipped = 77;
  const std::string folder = rocca::test::shared_folder();
  if (!std::filesystem::is_directory(folder)) {
    std::printf("SKIPPED: no reference data at %s (set ROCCA_SHARED)\n", folder.c_str());
    return skipped;
  }
  testing::InitGoogleMock(&argc, argv);
  const int result = RUN_ALL_TESTS();
  std::printf("reference cases run: %zu\n", rocca::test::counted_cases());
  if (result == 0 && rocca::test::counted_cases() == 0) {
    std::printf("error: a reference test that ran no case proves nothing\n");
    return 1;
  }
  return result;
}
