// In which order RealFiles asks the kernel to make things last. base_test is linked with
// -Wl,--wrap=fsync,--wrap=rename: no power cut can be had in a test, but the calls that outlive one
// can be counted.

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/temporary.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace {

/// What the wrapped calls tell, and what they shall answer in place of the kernel.
struct Ledger {
  std::vector<std::string> calls;
  int fsync_fails = 0;
  int rename_fails = 0;
};
Ledger* open_ledger = nullptr;

std::string shown(const std::filesystem::path& path) {
  return rocca::is_temporary_name(path.filename().string()) ? "temporary" : path.filename();
}

}  // namespace

extern "C" {
int __real_fsync(int);                        // NOLINT: the linker's names
int __real_rename(const char*, const char*);  // NOLINT
int __wrap_fsync(int descriptor);             // NOLINT
int __wrap_rename(const char*, const char*);  // NOLINT

int __wrap_fsync(int descriptor) {
  if (open_ledger == nullptr) return __real_fsync(descriptor);
  struct stat status {};
  ::fstat(descriptor, &status);
  const auto path = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor));
  open_ledger->calls.push_back(S_ISDIR(status.st_mode)
                                   ? fmt::format("sync folder {}", shown(path))
                                   : fmt::format("sync {} ({} bytes, {:o})", shown(path),
                                                 status.st_size, status.st_mode & 07777));
  if (open_ledger->fsync_fails == 0) return __real_fsync(descriptor);
  errno = open_ledger->fsync_fails;
  return -1;
}

int __wrap_rename(const char* from, const char* to) {
  if (open_ledger == nullptr) return __real_rename(from, to);
  open_ledger->calls.push_back(fmt::format("rename {} to {}", shown(from), shown(to)));
  if (open_ledger->rename_fails == 0) return __real_rename(from, to);
  errno = open_ledger->rename_fails;
  return -1;
}
}

namespace rocca {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Durability : public testing::Test {
 protected:
  Durability() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rocca-sync-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw Error(Fault::Bug, "no temporary folder");
    root_ = pattern;
    folder_ = root_ + "/home";
    std::filesystem::create_directory(folder_);
    open_ledger = &ledger_;
  }
  ~Durability() override {
    open_ledger = nullptr;
    std::filesystem::remove_all(root_);
  }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> calls() { return std::exchange(ledger_.calls, {}); }

  Ledger ledger_;
  RealFiles files_;
  std::string root_;
  std::string folder_;
};

TEST_F(Durability, AWriteSyncsTheContentBeforeItHasItsNameAndTheFolderAfter) {
  files_.write(at("f"), "secret", 0600);
  EXPECT_THAT(calls(), ElementsAre("sync temporary (6 bytes, 600)", "rename temporary to f",
                                   "sync folder home"));
}

TEST_F(Durability, AnAppendSyncsTheFileAndTheFolderOnlyWhenTheFileIsNew) {
  files_.append(at("journal"), "one;");
  EXPECT_THAT(calls(), ElementsAre("sync journal (4 bytes, 600)", "sync folder home"));
  files_.append(at("journal"), "two;");
  EXPECT_THAT(calls(), ElementsAre("sync journal (8 bytes, 600)"));
}

TEST_F(Durability, ARemovalIsRememberedByTheFolder) {
  files_.write(at("f"), "x", 0600);
  calls();
  EXPECT_TRUE(files_.remove(at("f")));
  EXPECT_THAT(calls(), ElementsAre("sync folder home"));
  EXPECT_FALSE(files_.remove(at("f")));
  EXPECT_THAT(calls(), IsEmpty());
}

TEST_F(Durability, ARenameSyncsBothFolders) {
  files_.write(at("f"), "x", 0600);
  files_.make_folder(at("attic"), 0700);
  calls();
  files_.rename(at("f"), at("g"));
  EXPECT_THAT(calls(), ElementsAre("rename f to g", "sync folder home"));
  files_.rename(at("g"), at("attic/g"));
  EXPECT_THAT(calls(), ElementsAre("rename g to g", "sync folder attic", "sync folder home"));
}

TEST_F(Durability, EveryNewFolderIsRememberedByItsParent) {
  files_.make_folder(at("a/b"), 0700);
  EXPECT_THAT(calls(), ElementsAre("sync folder home", "sync folder a"));
  files_.make_folder(at("a/b"), 0700);
  EXPECT_THAT(calls(), IsEmpty());
}

TEST_F(Durability, WhatCannotBeSyncedNeverTakesTheName) {
  files_.write(at("f"), "old", 0600);
  ledger_.fsync_fails = EIO;
  EXPECT_THROW(files_.write(at("f"), "new", 0600), Error);
  EXPECT_EQ(files_.get(at("f")), "old");
  EXPECT_THROW(files_.append(at("f"), "more"), Error);
  ledger_.fsync_fails = 0;
  std::vector<std::string> there;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    there.push_back(entry.path().filename());
  EXPECT_THAT(there, ElementsAre("f"));
}

TEST_F(Durability, AFileSystemThatCannotSyncIsNoError) {
  ledger_.fsync_fails = EINVAL;
  files_.write(at("f"), "x", 0600);
  EXPECT_EQ(files_.get(at("f")), "x");
}

// Exit code 4 says that an API withholds a right; a file's owner or a read-only disk is not that.
TEST_F(Durability, APermissionOfTheFileSystemIsAnOrdinaryError) {
  for (const int error : {EACCES, EPERM, EROFS}) {
    ledger_.rename_fails = error;
    try {
      files_.write(at("f"), "x", 0600);
      FAIL();
    } catch (const Error& thrown) {
      EXPECT_EQ(exit_code(thrown.fault()), 1) << thrown.render();
      EXPECT_THAT(thrown.message(), testing::StartsWith(at("f")));
    }
  }
}

}  // namespace
}  // namespace rocca
