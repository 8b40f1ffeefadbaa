#include "cli/private_file.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace rocca::cli {
namespace {

TEST(PrivateFile, IsInMemoryForItsOwnerAloneAndGoesWithItsTraces) {
  std::string path;
  std::string folder;
  {
    const PrivateFile file({}, "s.yaml", "canary");
    path = file.path();
    folder = path.substr(0, path.rfind('/'));
    EXPECT_TRUE(path.ends_with("/s.yaml"));
    struct stat about {};
    ASSERT_EQ(::stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777u, 0600u);
    ASSERT_EQ(::stat(folder.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777u, 0700u);
    EXPECT_EQ(file.read().reveal(), "canary");
    std::ofstream(path) << "changed";
    std::ofstream(path + "~") << "backup of the editor";
    EXPECT_EQ(file.read().reveal(), "changed");
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  EXPECT_NE(::access(folder.c_str(), F_OK), 0);
}

TEST(PrivateFile, OverwritesWhatItHeld) {
  // A second name for the same bytes shows what is left of them.
  std::string kept;
  {
    const PrivateFile file({}, "s.yaml", "canary");
    kept = file.path().substr(0, file.path().rfind('/')) + ".kept";
    ASSERT_EQ(::link(file.path().c_str(), kept.c_str()), 0);
  }
  std::ostringstream left;
  left << std::ifstream(kept).rdbuf();
  ::unlink(kept.c_str());
  EXPECT_EQ(left.str(), std::string(6, '\0'));
}

}  // namespace
}  // namespace rocca::cli
