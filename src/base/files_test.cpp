#include "base/files.hpp"

#include "base/error.hpp"
#include "base/temporary.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

namespace rocca {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

Fault fault_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_FALSE(error.message().empty());
    return error.fault();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Fault::Bug;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rocca-files-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw Error(Fault::Bug, "no temporary folder");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// What every Files promises, whatever is behind it.
struct Subject {
  virtual ~Subject() = default;
  virtual Files& files() = 0;
  virtual std::string root() = 0;
};

struct RealSubject final : Subject {
  Files& files() override { return files_; }
  std::string root() override { return folder_.path(); }
  TemporaryFolder folder_;
  RealFiles files_;
};

struct MemorySubject final : Subject {
  MemorySubject() { files_.make_folder("/data", 0755); }
  Files& files() override { return files_; }
  std::string root() override { return "/data"; }
  MemoryFiles files_;
};

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;
};

class FilesContract : public testing::TestWithParam<Kind> {
 protected:
  std::string at(const std::string& name) { return subject_->root() + "/" + name; }
  Files& files() { return subject_->files(); }

 private:
  std::unique_ptr<Subject> subject_ = GetParam().make();
};

TEST_P(FilesContract, AbsenceIsAnAnswer) {
  EXPECT_EQ(files().find(at("a")), std::nullopt);
  EXPECT_EQ(files().find(at("a/b")), std::nullopt);
  EXPECT_FALSE(files().status(at("a")).has_value());
  EXPECT_FALSE(files().remove(at("a")));
  EXPECT_THAT(files().list(at("a")), IsEmpty());
  EXPECT_EQ(fault_of([&] { files().get(at("a")); }), Fault::NotFound);
}

TEST_P(FilesContract, AWriteReplacesTheWhole) {
  files().write(at("a"), "long first content");
  files().write(at("a"), std::string_view{"x\0y", 3});
  EXPECT_EQ(files().get(at("a")), std::string("x\0y", 3));
  EXPECT_THAT(files().list(at("")), ElementsAre("a"));
  files().write(at("a"), "");
  EXPECT_EQ(files().get(at("a")), "");
}

TEST_P(FilesContract, AWriteIsPrivateUnlessToldOtherwise) {
  files().write(at("a"), "x");
  EXPECT_EQ(files().status(at("a"))->mode, 0600u);
  files().write(at("b"), "x", 0644);
  EXPECT_EQ(files().status(at("b"))->mode, 0644u);
  files().write(at("b"), "x");  // and becomes private again
  EXPECT_EQ(files().status(at("b"))->mode, 0600u);
  files().append(at("c"), "x");
  EXPECT_EQ(files().status(at("c"))->mode, 0600u);
}

TEST_P(FilesContract, AppendAddsToTheEnd) {
  files().append(at("log"), "one\n");
  files().append(at("log"), "two\n");
  files().append(at("log"), "");
  EXPECT_EQ(files().get(at("log")), "one\ntwo\n");
}

TEST_P(FilesContract, AFilesFolderMustBeThere) {
  EXPECT_EQ(fault_of([&] { files().write(at("no/a"), "x"); }), Fault::NotFound);
  EXPECT_EQ(fault_of([&] { files().append(at("no/a"), "x"); }), Fault::NotFound);
  EXPECT_EQ(fault_of([&] { files().try_lock(at("no/a")); }), Fault::NotFound);
}

TEST_P(FilesContract, ErrorsNameThePath) {
  try {
    files().write(at("no/a"), "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr(at("no/a")));
  }
}

TEST_P(FilesContract, RefusesMoreThanTheLimit) {
  files().write(at("a"), "12345");
  EXPECT_THAT(files().find(at("a"), 5), Optional(std::string{"12345"}));
  EXPECT_EQ(fault_of([&] { files().find(at("a"), 4); }), Fault::Usage);
}

TEST_P(FilesContract, MakesFoldersWithTheirParents) {
  files().make_folder(at("x/y/z"), 0700);
  files().make_folder(at("x/y/z"), 0755);  // already so
  EXPECT_TRUE(files().status(at("x/y"))->folder);
  EXPECT_EQ(files().status(at("x/y/z"))->mode, 0700u);
  files().write(at("x/y/z/f"), "1");
  EXPECT_THAT(files().list(at("x")), ElementsAre("y"));
  EXPECT_THAT(files().list(at("x/y/z")), ElementsAre("f"));
  EXPECT_EQ(files().get(at("x/./y//z/../z/f")), "1");
  EXPECT_EQ(fault_of([&] { files().make_folder(at("x/y/z/f")); }), Fault::Conflict);
}

TEST(RealFiles, GivesUpWhereNoFolderCanBeMade) {
  RealFiles files;
  // The kernel says that nothing is there, although the parent is.
  EXPECT_THROW(files.make_folder("/proc/rocca/a", 0700), Error);
}

TEST_P(FilesContract, AFolderIsNoFile) {
  files().make_folder(at("d"));
  EXPECT_EQ(fault_of([&] { files().find(at("d")); }), Fault::Usage);
  EXPECT_EQ(fault_of([&] { files().write(at("d"), "x"); }), Fault::Usage);
  EXPECT_EQ(fault_of([&] { files().append(at("d"), "x"); }), Fault::Usage);
  EXPECT_EQ(fault_of([&] { files().remove(at("d")); }), Fault::Usage);
  files().write(at("f"), "x");
  EXPECT_EQ(fault_of([&] { files().list(at("f")); }), Fault::NotFound);
  EXPECT_THAT(files().list(at("")), ElementsAre("d", "f"));  // and no temporary file is left
}

TEST_P(FilesContract, RefusesPathsThatCCutsShort) {
  EXPECT_EQ(fault_of([&] { files().find(at(std::string("a\0b", 3))); }), Fault::Usage);
  EXPECT_EQ(fault_of([&] { files().write(at(std::string("a\0b", 3)), "x"); }), Fault::Usage);
  EXPECT_EQ(fault_of([&] { files().find(""); }), Fault::Usage);
}

TEST_P(FilesContract, RemovesOnce) {
  files().write(at("a"), "x");
  EXPECT_TRUE(files().remove(at("a")));
  EXPECT_FALSE(files().remove(at("a")));
  EXPECT_THAT(files().list(at("")), IsEmpty());
}

TEST_P(FilesContract, AFolderGoesWithAllThatIsInIt) {
  files().make_folder(at("d/e/f"));
  files().write(at("d/a"), "x");
  files().write(at("d/e/b"), "x");
  const std::string cut_off = at("d/" + temporary_name("c", 7));
  files().write(cut_off, "x");
  files().write(at("d-beside"), "x");
  EXPECT_TRUE(files().remove_folder(at("d")));
  EXPECT_FALSE(files().status(at("d")));
  EXPECT_FALSE(files().status(at("d/e/b")));
  EXPECT_FALSE(files().status(cut_off)) << "what list() does not show goes, too";
  EXPECT_FALSE(files().remove_folder(at("d")));
  EXPECT_EQ(fault_of([&] { files().remove_folder(at("d-beside")); }), Fault::NotFound);
  EXPECT_THAT(files().list(at("")), ElementsAre("d-beside"));
}

TEST_P(FilesContract, RenamesOverAFile) {
  files().write(at("a"), "new");
  files().write(at("b"), "old");
  files().rename(at("a"), at("b"));
  EXPECT_EQ(files().get(at("b")), "new");
  EXPECT_THAT(files().list(at("")), ElementsAre("b"));
  EXPECT_EQ(fault_of([&] { files().rename(at("a"), at("c")); }), Fault::NotFound);
  EXPECT_EQ(fault_of([&] { files().rename(at("b"), at("no/b")); }), Fault::NotFound);
  files().rename(at("b"), at("b"));
  EXPECT_EQ(files().get(at("b")), "new");
}

TEST_P(FilesContract, RenamesFoldersWithAllBelow) {
  files().make_folder(at("old/in"));
  files().write(at("old/in/f"), "1");
  files().write(at("older"), "2");
  files().rename(at("old"), at("new"));
  EXPECT_EQ(files().get(at("new/in/f")), "1");
  EXPECT_EQ(files().get(at("older")), "2");
  EXPECT_FALSE(files().status(at("old")).has_value());
  files().make_folder(at("full/in"));
  EXPECT_EQ(fault_of([&] { files().rename(at("new"), at("full")); }), Fault::Conflict);
  EXPECT_EQ(fault_of([&] { files().rename(at("older"), at("full")); }), Fault::Usage);
}

TEST_P(FilesContract, ALockIsHeldByOne) {
  auto first = files().try_lock(at("lock"));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(files().try_lock(at("lock")), nullptr);
  EXPECT_NE(files().try_lock(at("other")), nullptr);
  first.reset();
  EXPECT_NE(files().try_lock(at("lock")), nullptr);
  EXPECT_TRUE(files().status(at("lock")).has_value());
}

TEST_P(FilesContract, LockingLeavesTheContent) {
  files().write(at("a"), "kept");
  EXPECT_NE(files().try_lock(at("a")), nullptr);
  EXPECT_EQ(files().get(at("a")), "kept");
}

INSTANTIATE_TEST_SUITE_P(
    Files, FilesContract,
    testing::Values(Kind{"Real", [] { return std::make_unique<RealSubject>(); }},
                    Kind{"Memory", [] { return std::make_unique<MemorySubject>(); }}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace rocca
