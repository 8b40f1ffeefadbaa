#include "spec/gitignore.hpp"

#include "base/files.hpp"

#include <gmock/gmock.h>

namespace rocca::spec {
namespace {

const std::string all =
    "# Access files, local state and temporary files: never in Git.\n"
    "configs/\n.rocca/\n.*.rocca-tmp\n";

TEST(Gitignore, IsMadeWhereThereIsNone) {
  MemoryFiles files;
  files.make_folder("/blue");
  EXPECT_TRUE(keep_out_of_git(files, "/blue"));
  EXPECT_EQ(files.get("/blue/.gitignore"), all);
  EXPECT_EQ(files.status("/blue/.gitignore")->mode, 0644u);
  EXPECT_EQ(gitignore_text(), all);
}

TEST(Gitignore, LinesOfTheUserStayAndOnlyWhatIsMissingIsAdded) {
  struct Case {
    std::string before;
    std::string after;
  };
  const std::string head = all.substr(0, all.find('\n') + 1);
  const std::vector<Case> cases = {
      {all, all},
      {"*\n", "*\n"},
      {"# mine\n*.bak", "# mine\n*.bak\n" + all},
      {"/configs\n.rocca\n.*.rocca-tmp\n", "/configs\n.rocca\n.*.rocca-tmp\n"},
      {"configs/\r\n.rocca/\r\n", "configs/\r\n.rocca/\r\n" + head + ".*.rocca-tmp\n"},
      {"!configs/\n.rocca/\n", "!configs/\n.rocca/\n" + head + ".*.rocca-tmp\n"},
      {"# configs/\nconfigs/kubeconfig\n", "# configs/\nconfigs/kubeconfig\n" + all},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(with_ignored(each.before), each.after);
    EXPECT_EQ(with_ignored(each.after), each.after);
  }
}

TEST(Gitignore, AFileThatSaysItAllIsNotWritten) {
  MemoryFiles files;
  files.make_folder("/blue");
  files.write("/blue/.gitignore", all, 0600);
  const auto before = files.durable_steps();
  EXPECT_FALSE(keep_out_of_git(files, "/blue"));
  EXPECT_EQ(files.durable_steps(), before);
}

}  // namespace
}  // namespace rocca::spec
