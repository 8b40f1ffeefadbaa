#include "cli/terminal/private_file.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

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

/// A process in a group of its own that has a private file and waits to be killed.
class Editing {
 public:
  Editing() {
    std::array<int, 2> pipe{};
    if (::pipe(pipe.data()) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::setpgid(0, 0);
      const PrivateFile file({}, "s.yaml", "canary");
      const std::string told = file.path() + "\n";
      [[maybe_unused]] const ssize_t wrote = ::write(pipe[1], told.data(), told.size());
      for (;;) ::pause();
    }
    ::close(pipe[1]);
    for (char c = 0; ::read(pipe[0], &c, 1) == 1 && c != '\n';) path_ += c;
    ::close(pipe[0]);
  }
  Editing(const Editing&) = delete;
  Editing& operator=(const Editing&) = delete;
  ~Editing() {
    if (process_ > 0) kill();
  }

  const std::string& path() const { return path_; }
  std::string folder() const { return path_.substr(0, path_.rfind('/')); }
  pid_t process() const { return process_; }
  /// The process that guards its file.
  pid_t guard() const {
    std::ifstream children("/proc/" + std::to_string(process_) + "/task/" +
                           std::to_string(process_) + "/children");
    pid_t child = -1;
    children >> child;
    return child;
  }
  void kill(bool group = false) {
    ::kill(group ? -process_ : process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_ = -1;
  std::string path_;
};

bool is_there(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

/// The guard is another process: it needs a moment.
bool goes_away(const std::string& path) {
  for (int i = 0; i < 1000 && is_there(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  return !is_there(path);
}

TEST(PrivateFile, DoesNotSurviveKillOfItsProcess) {
  Editing editing;
  ASSERT_TRUE(is_there(editing.path()));
  std::ofstream(editing.path() + ".swp") << "what an editor left";
  ASSERT_EQ(::mkdir((editing.folder() + "/undo").c_str(), 0700), 0);
  std::ofstream(editing.folder() + "/undo/1") << "and more";
  editing.kill();
  EXPECT_TRUE(goes_away(editing.folder()));
}

TEST(PrivateFile, DoesNotSurviveKillOfItsWholeGroup) {
  Editing editing;
  ASSERT_TRUE(is_there(editing.path()));
  editing.kill(/*group=*/true);
  EXPECT_TRUE(goes_away(editing.folder()));
}

TEST(PrivateFile, WhoseGuardWasKilledTooIsRemovedByTheNext) {
  Editing editing;
  const pid_t guard = editing.guard();
  ASSERT_GT(guard, 0);
  ::kill(guard, SIGKILL);
  editing.kill();
  ASSERT_TRUE(is_there(editing.path()));
  // A killed process holds its lock until the kernel has taken it apart.
  for (int i = 0; i < 1000 && is_there(editing.folder()); ++i) {
    const PrivateFile next({}, "other.yaml", "text");
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  EXPECT_FALSE(is_there(editing.folder()));
}

TEST(PrivateFile, ThatIsInUseStays) {
  Editing editing;
  remove_stale_private_files({});
  EXPECT_TRUE(is_there(editing.path()));
  const PrivateFile another({}, "s.yaml", "text");
  EXPECT_TRUE(is_there(editing.path()));
  EXPECT_EQ(another.read().reveal(), "text");
}

}  // namespace
}  // namespace rocca::cli
