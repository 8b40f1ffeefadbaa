#include "cli/terminal/private_folder.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::pair<std::string, Secret>> some_files() {
  std::vector<std::pair<std::string, Secret>> all;
  for (const char* name : {"secrets.yaml", "kubeconfig", "nodes/cp-1.yaml", "nodes/w-1.yaml"})
    all.emplace_back(name, Secret{"canary"});
  return all;
}

/// A disk that is full from the n-th change on; it can still be read, and cleared.
class FullDisk final : public Files {
 public:
  FullDisk(MemoryFiles& disk, unsigned change) : disk_(disk), left_(change) {}

  std::optional<std::string> find(const std::string& path, std::uint64_t limit) override {
    return disk_.find(path, limit);
  }
  void write(const std::string& path, std::string_view content, unsigned mode) override {
    need_space();
    disk_.write(path, content, mode);
  }
  void append(const std::string& path, std::string_view content) override {
    need_space();
    disk_.append(path, content);
  }
  bool remove(const std::string& path) override { return disk_.remove(path); }
  bool remove_folder(const std::string& path) override { return disk_.remove_folder(path); }
  void rename(const std::string& from, const std::string& to) override {
    need_space();
    disk_.rename(from, to);
  }
  void make_folder(const std::string& path, unsigned mode) override {
    need_space();
    disk_.make_folder(path, mode);
  }
  std::vector<std::string> list(const std::string& folder) override { return disk_.list(folder); }
  std::optional<FileStatus> status(const std::string& path) override { return disk_.status(path); }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    return disk_.try_lock(path);
  }

 private:
  void need_space() {
    if (left_ <= 1) throw Error(Fault::Rejected, "No space left on device");
    --left_;
  }

  MemoryFiles& disk_;
  unsigned left_;
};

TEST(PrivateFolder, IsForItsOwnerAloneAndKeptOutOfGit) {
  MemoryFiles disk;
  disk.make_folder("/repo");
  write_private_folder(disk, "/repo/blue-export/", some_files());
  EXPECT_THAT(disk.list("/repo"), ElementsAre("blue-export"));
  EXPECT_THAT(disk.list("/repo/blue-export"),
              ElementsAre(".gitignore", "kubeconfig", "nodes", "secrets.yaml"));
  EXPECT_EQ(disk.get("/repo/blue-export/.gitignore"), "*\n");
  for (const char* folder : {"/repo/blue-export", "/repo/blue-export/nodes"})
    EXPECT_EQ(disk.status(folder)->mode, 0700u) << folder;
  for (const char* file : {"secrets.yaml", "nodes/cp-1.yaml"})
    EXPECT_EQ(disk.status(std::string("/repo/blue-export/") + file)->mode, 0600u) << file;
}

TEST(PrivateFolder, NothingIsOverwritten) {
  MemoryFiles disk;
  disk.make_folder("/repo/blue-export");
  write_private_folder(disk, "/repo/blue-export", {});  // it was empty
  EXPECT_THROW(write_private_folder(disk, "/repo/blue-export", some_files()), Error);
  EXPECT_THAT(disk.list("/repo/blue-export"), ElementsAre(".gitignore"));
  disk.write("/repo/file", "x");
  EXPECT_THROW(write_private_folder(disk, "/repo/file", some_files()), Error);
  EXPECT_EQ(disk.get("/repo/file"), "x");
}

TEST(PrivateFolder, AFullDiskLeavesNothing) {
  unsigned failed = 0;
  for (unsigned change = 1; change < 30; ++change) {
    MemoryFiles disk;
    disk.make_folder("/repo");
    FullDisk full{disk, change};
    try {
      write_private_folder(full, "/repo/blue-export", some_files());
      break;
    } catch (const Error&) {
      ++failed;
      EXPECT_THAT(disk.list("/repo"), IsEmpty()) << change;
    }
  }
  EXPECT_GE(failed, 7u);
}

TEST(PrivateFolder, APowerCutLeavesAWholeFolderOrOneThatGitIgnoresAndTheNextRunRemoves) {
  unsigned cuts = 0;
  for (std::uint64_t step = 1; step < 60; ++step) {
    MemoryFiles disk;
    disk.make_folder("/repo");
    disk.cut_in(step);
    try {
      write_private_folder(disk, "/repo/blue-export", some_files());
      break;
    } catch (const Error&) {
      ++cuts;
    }
    disk.cut_in(0);
    const std::string rest = "/repo/.blue-export.exporting";
    if (disk.status("/repo/blue-export")) {
      EXPECT_TRUE(disk.status("/repo/blue-export/nodes/w-1.yaml")) << step;
      continue;
    }
    if (disk.find(rest + "/secrets.yaml")) {
      EXPECT_EQ(disk.get(rest + "/.gitignore"), "*\n") << step;
    }
    write_private_folder(disk, "/repo/blue-export", some_files());
    EXPECT_THAT(disk.list("/repo"), ElementsAre("blue-export")) << step;
  }
  EXPECT_GT(cuts, 6u);
}

}  // namespace
}  // namespace rocca::cli
