#include "cli/terminal/private_file.hpp"

#include "base/error.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

namespace rocca::cli {
namespace {

bool is_in_memory(const std::string& folder) {
  struct statfs about {};
  if (::statfs(folder.c_str(), &about) != 0) return false;
  const auto type = static_cast<unsigned long>(about.f_type);
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

void write_all(int file, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t wrote = ::write(file, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0)
      throw Error(Fault::Rejected,
                  fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
    content.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

// What follows, down to `wipe_folder`, also runs in a process that was forked off: it calls nothing
// but the kernel, because a thread that is not there any more may hold a lock of the C library.

constexpr int deepest = 8;  // folders within the folder: no editor makes that many

void wipe_entries(int folder, int depth) noexcept;

/// Zeros over the content, then the name goes. A tmpfs page may still have been swapped out; that
/// is what encrypted swap is for.
void erase(int folder, const char* name, int depth) noexcept {
  static const char zeros[4096]{};
  const int file = ::openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  struct stat about {};
  if (file >= 0 && ::fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
    for (off_t left = about.st_size; left > 0; left -= static_cast<off_t>(sizeof zeros))
      if (::write(file, zeros, std::min(sizeof zeros, static_cast<std::size_t>(left))) < 0) break;
  }
  if (file >= 0) ::close(file);
  if (::unlinkat(folder, name, 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
  const int below =
      depth > 0 ? ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
  if (below >= 0) {
    wipe_entries(below, depth - 1);
    ::close(below);
  }
  ::unlinkat(folder, name, AT_REMOVEDIR);
}

void wipe_entries(int folder, int depth) noexcept {
  struct Entry {  // as getdents64(2) writes it
    std::uint64_t inode;
    std::int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[1];
  };
  alignas(Entry) char buffer[8192];
  ::lseek(folder, 0, SEEK_SET);
  for (;;) {
    const long got = ::syscall(SYS_getdents64, folder, buffer, sizeof buffer);
    if (got <= 0) return;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const Entry*>(buffer + at);
      at += entry->size;
      const char* name = entry->name;
      if (std::strcmp(name, ".") != 0 && std::strcmp(name, "..") != 0) erase(folder, name, depth);
    }
  }
}

/// An editor that still runs may write while this goes on; once the folder is gone it cannot.
void wipe_folder(const char* path, int folder) noexcept {
  for (int attempt = 0; attempt < 100; ++attempt) {
    wipe_entries(folder, deepest);
    if (::rmdir(path) == 0 || errno == ENOENT) return;
    const timespec moment{0, 20'000'000};
    ::nanosleep(&moment, nullptr);
  }
}

/// Everything but these two: a pipe that it kept open would keep those waiting who read from it.
void close_others(int first, int second) noexcept {
  const unsigned low = static_cast<unsigned>(std::min(first, second));
  const unsigned high = static_cast<unsigned>(std::max(first, second));
  const auto range = [](unsigned from, unsigned to) {
    if (from > to) return;
    if (::syscall(SYS_close_range, from, to, 0) == 0) return;
    for (unsigned each = from; each <= std::min(to, 4096U); ++each) ::close(static_cast<int>(each));
  };
  if (low > 0) range(0, low - 1);
  range(low + 1, high - 1);
  range(high + 1, ~0U);
}

/// The guard's whole life: it waits until the other end of the line is closed, which the kernel
/// does however that process ends.
[[noreturn]] void guard(const char* path, int folder, int line) noexcept {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();  // what is sent to the group, or to the terminal's session, does not reach it
  close_others(folder, line);
  char byte = 'r';
  [[maybe_unused]] const ssize_t told = ::write(line, &byte, 1);
  ssize_t got = 0;
  do got = ::read(line, &byte, 1);
  while (got > 0 || (got < 0 && errno == EINTR));
  wipe_folder(path, folder);
  ::_exit(0);
}

constexpr std::string_view prefix = "rocca-edit-";

std::vector<std::string> places_in_memory(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> places{"/dev/shm"};
  if (const auto runtime = environment.find("XDG_RUNTIME_DIR"); runtime != environment.end())
    places.push_back(runtime->second);
  places.push_back("/run/user/" + std::to_string(::getuid()));
  std::erase_if(places, [](const std::string& place) { return !is_in_memory(place); });
  return places;
}

int open_folder(const std::string& path) noexcept {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/// Is the folder still there under its name? Who removes stale ones may have been faster.
bool is_at(const std::string& path, int folder) noexcept {
  struct stat named {};
  struct stat opened {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(folder, &opened) == 0 &&
         named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

}  // namespace

bool PrivateFile::make_folder(const std::string& place) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::string wanted = fmt::format("{}/{}XXXXXX", place, prefix);
    if (::mkdtemp(wanted.data()) == nullptr) return false;  // 0700
    const int opened = open_folder(wanted);
    if (opened >= 0 && ::flock(opened, LOCK_EX | LOCK_NB) == 0 && is_at(wanted, opened)) {
      folder_ = wanted;
      folder_descriptor_ = opened;
      return true;
    }
    if (opened >= 0) ::close(opened);
    ::rmdir(wanted.c_str());
  }
  return false;
}

void PrivateFile::start_guard() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0) {
    guard_ = ::fork();
    if (guard_ == 0) {
      ::close(ends[0]);
      guard(folder_.c_str(), folder_descriptor_, ends[1]);
    }
    ::close(ends[1]);
    line_ = ends[0];
  }
  // Nothing is written before the guard cannot be killed together with us any more.
  char byte = 0;
  ssize_t got = guard_ > 0 ? -1 : 0;
  while (got < 0) {
    got = ::read(line_, &byte, 1);
    if (got < 0 && errno != EINTR) break;
  }
  if (got != 1)
    throw Error(Fault::Busy, "no process can be started that would remove the text in clear")
        .hint("try again; `rocca secrets set` needs none");
}

void PrivateFile::remove() noexcept {
  if (folder_descriptor_ >= 0) {
    wipe_folder(folder_.c_str(), folder_descriptor_);
    ::close(folder_descriptor_);
  }
  if (line_ >= 0) ::close(line_);
  if (guard_ > 0)
    while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

PrivateFile::PrivateFile(const std::map<std::string, std::string>& environment,
                         const std::string& name, std::string_view content) {
  remove_stale_private_files(environment);
  for (const std::string& place : places_in_memory(environment))
    if (make_folder(place)) break;
  if (folder_.empty())
    throw Error(Fault::Refused, "there is no folder in memory to put a text in clear")
        .hint("a tmpfs is wanted at /dev/shm or XDG_RUNTIME_DIR; `rocca secrets set` needs none");
  path_ = folder_ + "/" + name;
  int file = -1;
  try {
    start_guard();
    file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
      throw Error(Fault::Rejected,
                  fmt::format("{} cannot be made: {}", path_, std::strerror(errno)));
    write_all(file, content, path_);
  } catch (...) {
    if (file >= 0) ::close(file);
    remove();
    throw;
  }
  ::close(file);
}

PrivateFile::~PrivateFile() {
  remove();
}

void remove_stale_private_files(const std::map<std::string, std::string>& environment) noexcept
    try {
  for (const std::string& place : places_in_memory(environment)) {
    std::vector<std::string> found;
    if (DIR* entries = ::opendir(place.c_str())) {
      while (const dirent* entry = ::readdir(entries))
        if (std::string_view{entry->d_name}.starts_with(prefix))
          found.push_back(place + "/" + entry->d_name);
      ::closedir(entries);
    }
    for (const std::string& path : found) {
      const int folder = open_folder(path);
      struct stat about {};
      if (folder >= 0 && ::fstat(folder, &about) == 0 && about.st_uid == ::getuid() &&
          ::flock(folder, LOCK_EX | LOCK_NB) == 0 && is_at(path, folder))
        wipe_folder(path.c_str(), folder);
      if (folder >= 0) ::close(folder);
    }
  }
} catch (const std::exception&) {
  // ignored: the next command tries again; this one was not asked to clean up.
}

Secret PrivateFile::read() const {
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about {};
  if (file < 0 || ::fstat(file, &about) != 0) {
    if (file >= 0) ::close(file);
    throw Error(Fault::NotFound, "the editor took the file away; nothing was changed");
  }
  std::string content(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t have = 0;
  while (have < content.size()) {
    const ssize_t got = ::read(file, content.data() + have, content.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  ::close(file);
  content.resize(have);
  return Secret::take(std::move(content));
}

}  // namespace rocca::cli
