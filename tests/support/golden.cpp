#include "support/golden.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace rocca::test {

std::string source_folder() {
  return ROCCA_SOURCE_DIR;
}

void expect_golden(std::string_view name, std::string_view text) {
  const std::filesystem::path path =
      std::filesystem::path(ROCCA_SOURCE_DIR) / "tests" / "golden" / std::string(name);
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    GTEST_SKIP() << "rewrote " << path;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path << " is not there; UPDATE_GOLDEN=1 writes it";
  std::ostringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(golden.str(), text) << "golden file " << path
                                << " differs; UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace rocca::test
