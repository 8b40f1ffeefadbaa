#include "base/error.hpp"
#include "base/files.hpp"
#include "base/temporary.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace rocca {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RealFilesTest : public testing::Test {
 protected:
  RealFilesTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rocca-real-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw Error(Fault::Bug, "no temporary folder");
    folder_ = pattern;
  }
  ~RealFilesTest() override { std::filesystem::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  /// Everything in the folder, temporary files included.
  std::vector<std::string> really_there() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  RealFiles files_;
  std::string folder_;
};

TEST_F(RealFilesTest, TheUmaskDoesNotDecideTheMode) {
  const mode_t before = ::umask(0);
  files_.write(at("private"), "x", 0600);
  files_.append(at("journal"), "x");
  ::umask(0777);
  files_.write(at("public"), "x", 0644);
  ::umask(before);
  EXPECT_EQ(files_.status(at("private"))->mode, 0600u);
  EXPECT_EQ(files_.status(at("journal"))->mode, 0600u);
  EXPECT_EQ(files_.status(at("public"))->mode, 0644u);
}

TEST_F(RealFilesTest, ALeftoverIsNeverUsedAndNeverShown) {
  files_.write(at("f"), "good", 0600);
  const std::string leftover = at(temporary_name("f", 1));
  std::ofstream{leftover} << "torn";
  EXPECT_EQ(files_.get(at("f")), "good");
  files_.write(at("f"), "better", 0600);
  EXPECT_EQ(files_.get(at("f")), "better");
  EXPECT_THAT(files_.list(folder_), ElementsAre("f"));
  std::ifstream file{leftover};
  std::string text;
  file >> text;
  EXPECT_EQ(text, "torn");  // it may belong to a process that is still writing
}

TEST_F(RealFilesTest, AWriteMakesANewFileInsteadOfChangingTheOld) {
  files_.write(at("f"), "old", 0600);
  const int reader = ::open(at("f").c_str(), O_RDONLY);
  files_.write(at("f"), "new", 0600);
  char buffer[8] = {};
  EXPECT_EQ(::read(reader, buffer, sizeof buffer), 3);  // who had it open sees the old one, whole
  EXPECT_STREQ(buffer, "old");
  ::close(reader);
}

/// Runs `body` in a child with files limited to `bytes`; its exit code.
template <class Body>
int in_child_with_limit(rlim_t bytes, Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(RealFilesTest, AFailedWriteLeavesTheOldContentAndNoRubbish) {
  files_.write(at("f"), "old", 0600);
  const int code = in_child_with_limit(1000, [&] {
    try {
      files_.write(at("f"), std::string(5000, 'x'), 0600);
    } catch (const Error&) {
      return 7;
    }
    return 0;
  });
  EXPECT_EQ(code, 7);
  EXPECT_EQ(files_.get(at("f")), "old");
  EXPECT_THAT(really_there(), ElementsAre("f"));
}

TEST_F(RealFilesTest, AFailedAppendIsCutBack) {
  files_.append(at("f"), "first;");
  const int code = in_child_with_limit(1000, [&] {
    try {
      files_.append(at("f"), std::string(5000, 'x'));
    } catch (const Error&) {
      return 7;
    }
    return 0;
  });
  EXPECT_EQ(code, 7);
  EXPECT_EQ(files_.get(at("f")), "first;");
}

TEST_F(RealFilesTest, AKilledWriterLeavesOldOrNew) {
  files_.write(at("f"), "0", 0600);
  for (int round = 0; round < 20; ++round) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) {
        files_.write(at("f"), std::string(20'000, static_cast<char>('a' + i % 26)), 0600);
        if (i == round && ::write(ready[1], "x", 1) != 1) ::_exit(1);
      }
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ready[0]);
    ::close(ready[1]);
    const std::string left = files_.get(at("f"));
    ASSERT_EQ(left, std::string(20'000, left.at(0)));
    ASSERT_THAT(files_.list(folder_), ElementsAre("f"));
  }
}

TEST_F(RealFilesTest, WritingThroughALinkKeepsTheLink) {
  files_.make_folder(at("real"), 0755);
  files_.write(at("real/f"), "old", 0600);
  std::filesystem::create_symlink("real/f", at("link"));
  files_.write(at("link"), "new", 0600);
  EXPECT_TRUE(std::filesystem::is_symlink(at("link")));
  EXPECT_EQ(files_.get(at("real/f")), "new");
}

TEST_F(RealFilesTest, AnEndlessFileIsRefusedAtTheLimit) {
  EXPECT_THROW(files_.find("/dev/zero", 1000), Error);
}

TEST_F(RealFilesTest, APipeIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "spec", 4), 4);
  ::close(ends[1]);
  EXPECT_EQ(files_.get("/dev/fd/" + std::to_string(ends[0])), "spec");
  ::close(ends[0]);
}

TEST_F(RealFilesTest, ALockGoesWithItsProcess) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = files_.try_lock(at("lock"));
    if (::write(ready[1], lock ? "y" : "n", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_EQ(files_.try_lock(at("lock")), nullptr);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_NE(files_.try_lock(at("lock")), nullptr);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(RealFilesTest, ALockIsNotInheritedByProgramsWeStart) {
  const auto lock = files_.try_lock(at("lock"));
  ASSERT_NE(lock, nullptr);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) != at("lock")) continue;
    const int descriptor = std::stoi(entry.path().filename());
    EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
    return;
  }
  FAIL() << "the lock's descriptor was not found";
}

}  // namespace
}  // namespace rocca
