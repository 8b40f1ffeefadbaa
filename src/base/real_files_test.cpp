#include "base/error.hpp"
#include "base/files.hpp"
#include "base/temporary.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

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

TEST_F(RealFilesTest, ALeftoverIsNeverUsedOrShownAndGoesWithTheNextWrite) {
  files_.write(at("f"), "good", 0600);
  std::ofstream{at(temporary_name("f", 1))} << "torn";
  std::ofstream{at(temporary_name("other", 2))} << "torn";
  std::ofstream{at(".keep.rocca-tmp.bak")} << "of the user";
  EXPECT_EQ(files_.get(at("f")), "good");
  EXPECT_THAT(files_.list(folder_), ElementsAre(".keep.rocca-tmp.bak", "f"));
  files_.write(at("f"), "better", 0600);
  EXPECT_EQ(files_.get(at("f")), "better");
  EXPECT_THAT(really_there(), ElementsAre(".keep.rocca-tmp.bak", "f"));
}

TEST_F(RealFilesTest, TheTemporaryFileOfALivingProcessStays) {
  const std::string theirs = temporary_name("f", 1);
  const int writer = ::open(at(theirs).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  files_.write(at("f"), "ours", 0600);
  EXPECT_THAT(really_there(), ElementsAre(theirs, "f"));
  ::close(writer);
  files_.write(at("f"), "ours", 0600);
  EXPECT_THAT(really_there(), ElementsAre("f"));
}

TEST_F(RealFilesTest, WritersSideBySideNeverTakeEachOthersTemporaryFile) {
  std::vector<std::jthread> writers;
  std::atomic<int> failed{0};
  for (int i = 0; i < 4; ++i)
    writers.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) try {
          files_.write(at("f" + std::to_string(i)), std::to_string(round), 0600);
        } catch (const Error&) {
          ++failed;
        }
    });
  writers.clear();
  EXPECT_EQ(failed, 0);
  EXPECT_THAT(really_there(), ElementsAre("f0", "f1", "f2", "f3"));
}

/// Everything that may stand in place of a file and is none.
class NotAFile : public RealFilesTest, public testing::WithParamInterface<const char*> {
 protected:
  NotAFile() {
    const std::string kind = GetParam();
    const std::string path = at("f");
    if (kind == "a FIFO") {
      EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    }
    if (kind == "a folder") std::filesystem::create_directory(path);
    if (kind == "a device") std::filesystem::create_symlink("/dev/null", path);
    if (kind == "a socket") {
      socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_un name{};
      name.sun_family = AF_UNIX;
      path.copy(name.sun_path, sizeof name.sun_path - 1);
      EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    }
    ::alarm(20);  // a call that hangs ends the test program
  }
  ~NotAFile() override {
    ::alarm(0);
    if (socket_ >= 0) ::close(socket_);
  }

  void expect_refused(const std::function<void()>& act) {
    try {
      act();
      ADD_FAILURE() << "was not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage);
      EXPECT_EQ(error.message(), at("f") + " is " + GetParam() + ", not a file");
      EXPECT_FALSE(error.hint().empty());
    }
  }

 private:
  int socket_ = -1;
};

TEST_P(NotAFile, IsRefusedAtOnce) {
  expect_refused([&] { files_.find(at("f")); });
  expect_refused([&] { files_.write(at("f"), "x", 0600); });
  if (std::filesystem::is_symlink(at("f"))) return;  // the others refuse links
  expect_refused([&] { files_.write_private(at("f"), "x", 0600); });
  expect_refused([&] { files_.append(at("f"), "x"); });
  expect_refused([&] { files_.try_lock(at("f")); });
}

INSTANTIATE_TEST_SUITE_P(Kinds, NotAFile,
                         testing::Values("a FIFO", "a folder", "a device", "a socket"));

TEST_F(RealFilesTest, SecretsAreNotWrittenThroughLinks) {
  files_.write(at("elsewhere"), "old", 0644);
  std::filesystem::create_symlink("elsewhere", at("link"));
  std::filesystem::create_symlink("nowhere", at("dangling"));
  for (const std::string name : {"link", "dangling"}) {
    const std::vector<std::function<void()>> acts = {
        [&] { files_.write_private(at(name), "secret", 0600); },
        [&] { files_.append(at(name), "secret"); }, [&] { files_.try_lock(at(name)); }};
    for (const auto& act : acts) try {
        act();
        ADD_FAILURE() << name << " was not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::Refused) << error.render();
        EXPECT_THAT(error.message(), testing::HasSubstr(at(name) + " is a symbolic link"));
      }
  }
  EXPECT_EQ(files_.get(at("elsewhere")), "old");
  EXPECT_TRUE(std::filesystem::is_symlink(at("link")));
  EXPECT_THAT(really_there(), ElementsAre("dangling", "elsewhere", "link"));
  EXPECT_TRUE(files_.status(at("link"))->link);
  EXPECT_FALSE(files_.status(at("elsewhere"))->link);
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
  files_.write(at("f"), "last", 0600);
  EXPECT_THAT(really_there(), ElementsAre("f"));
}

TEST_F(RealFilesTest, WritingThroughALinkKeepsTheLink) {
  files_.make_folder(at("real"), 0755);
  files_.write(at("real/f"), "old", 0600);
  std::filesystem::create_symlink("real/f", at("link"));
  files_.write(at("link"), "new", 0600);
  EXPECT_TRUE(std::filesystem::is_symlink(at("link")));
  EXPECT_EQ(files_.get(at("real/f")), "new");
}

TEST_F(RealFilesTest, AnEndlessPipeIsRefusedAtTheLimit) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string much(2000, 'x');
  ASSERT_EQ(::write(ends[1], much.data(), much.size()), 2000);
  EXPECT_THROW(files_.find("/dev/fd/" + std::to_string(ends[0]), 1000), Error);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(RealFilesTest, APipeThatIsStillEmptyIsWaitedFor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::jthread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    EXPECT_EQ(::write(ends[1], "late", 4), 4);
    ::close(ends[1]);
  });
  EXPECT_EQ(files_.get("/dev/fd/" + std::to_string(ends[0])), "late");
  late.join();
  ::close(ends[0]);
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
