#include "support/reference.hpp"

#include <gmock/gmock.h>

#include <cstdio>

// The reference tier: says so when its data is not there, and counts what it ran.
int main(int argc, char** argv) {
  constexpr int skipped = 77;
  testing::InitGoogleMock(&argc, argv);
  const int result = RUN_ALL_TESTS();
  const std::size_t cases = rocca::test::counted_cases();
  std::printf("reference cases run: %zu\n", cases);
  for (const std::string& folder : rocca::test::reference_missing())
    std::printf("SKIPPED: no reference data for %s below %s (set ROCCA_SHARED)\n", folder.c_str(),
                rocca::test::shared_folder().c_str());
  if (cases > 0 || result != 0) return result;
  if (!rocca::test::reference_missing().empty()) return skipped;
  std::printf("error: a reference test that ran no case proves nothing\n");
  return 1;
}
