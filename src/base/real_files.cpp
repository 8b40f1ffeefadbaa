#include "base/entropy.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/handle.hpp"
#include "base/strings.hpp"
#include "base/temporary.hpp"
#include "base/units.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace rocca {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  explicit operator bool() const { return number_ >= 0; }
  int get() const { return number_; }
  void release() { number_ = -1; }

 private:
  int number_;
};

class RealLock final : public FileLock {
 public:
  explicit RealLock(Descriptor file) : file_(std::move(file)) {}

 private:
  Descriptor file_;  // closing it gives the lock back, and so does the end of the process
};

Fault fault_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Fault::NotFound;
    case EEXIST:
    case ENOTEMPTY:
      return Fault::Conflict;
    case EISDIR:
    case ELOOP:
    case EINVAL:
    case ENAMETOOLONG:
      return Fault::Usage;
    default:
      // Full, over quota, broken; and a mode or a read-only disk too: Denied is for rights at an
      // API.
      return Fault::Rejected;
  }
}

[[noreturn]] void fail(const std::string& path, std::string_view what, int error = errno) {
  throw Error(fault_of(error),
              fmt::format("{} cannot be {}: {}", path, what, std::strerror(error)));
}

/// A path that a C call would cut short at a NUL byte names another file.
const char* checked(const std::string& path) {
  if (path.empty()) throw Error(Fault::Usage, "a file's path is empty");
  if (path.find('\0') != std::string::npos)
    throw Error(Fault::Usage, "a file's path holds a NUL byte");
  return path.c_str();
}

std::string folder_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Descriptor open_file(const std::string& path, int flags, unsigned mode = 0) {
  for (;;) {
    const int number = ::open(checked(path), flags | O_CLOEXEC | O_NOCTTY, mode);
    if (number >= 0 || errno != EINTR) return Descriptor{number};
  }
}

/// What stands where a file should: for a message.
const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "something else";
}

[[noreturn]] void refuse_kind(const std::string& path, mode_t mode) {
  throw Error(Fault::Usage, fmt::format("{} is {}, not a file", path, kind_of(mode)))
      .hint("put a regular file in its place");
}

[[noreturn]] void refuse_link_at(const std::string& path) {
  throw Error(
      Fault::Refused,
      fmt::format("{} is a symbolic link, and rocca does not write this file through links", path))
      .hint("remove the link, or put the file itself in its place");
}

/// A descriptor that whoever started us has opened: a pipe of `<(…)` or `|` is meant to be read.
bool is_own_descriptor(std::string_view path) {
  if (path == "/dev/stdin") return true;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"})
    if (path.starts_with(folder)) return parse_uint(path.substr(folder.size())).has_value();
  return false;
}

/// Opens a regular file. O_NONBLOCK: open() would wait for the other end of a FIFO; the kind is
/// then asked of what was opened, so nothing can be exchanged in between.
Descriptor open_regular(const std::string& path, int flags, unsigned mode = 0) {
  Descriptor file = open_file(path, flags | O_NONBLOCK, mode);
  struct stat status {};
  if (!file) {
    const int error = errno;
    // ENXIO: a socket, or a FIFO that has no reader. EISDIR: a folder, opened for writing.
    if ((error == ENXIO || error == EISDIR) && ::stat(path.c_str(), &status) == 0)
      refuse_kind(path, status.st_mode);
    if (error == ELOOP && ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) &&
        (flags & O_NOFOLLOW) != 0)
      refuse_link_at(path);
    errno = error;
    return file;
  }
  if (::fstat(file.get(), &status) != 0) fail(path, "opened");
  if (S_ISREG(status.st_mode)) return file;
  if (!is_own_descriptor(path) || S_ISDIR(status.st_mode)) refuse_kind(path, status.st_mode);
  const int now = ::fcntl(file.get(), F_GETFL);
  if (now < 0 || ::fcntl(file.get(), F_SETFL, now & ~O_NONBLOCK) < 0) fail(path, "read");
  return file;
}

void sync_file(const Descriptor& file, const std::string& path) {
  // EINVAL: what cannot be synced (a pipe, some FUSE folders) has no disk to wait for.
  if (::fsync(file.get()) != 0 && errno != EINVAL) fail(path, "synced");
}

void sync_folder(const std::string& path) {
  const Descriptor folder = open_file(path, O_RDONLY | O_DIRECTORY);
  if (!folder) fail(path, "synced");
  sync_file(folder, path);
}

/// 0 or the error.
int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t wrote = ::write(file, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return 0;
}

/// Where a link leads, so that writing through a link changes the file and keeps the link.
std::string behind_link(const std::string& path) {
  struct stat status {};
  if (::lstat(checked(path), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
  const Handle<char, std::free> resolved{::realpath(path.c_str(), nullptr)};
  if (!resolved) fail(path, "written");
  return resolved.get();
}

/// Opens a new temporary file and locks it: whoever finds one that is not locked knows that its
/// process is gone.
Descriptor open_temporary(const std::string& path) {
  for (;;) {
    Descriptor file = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!file) return file;
    while (::flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    // Removed as a leftover before it was locked: once more.
    struct stat status {};
    if (::fstat(file.get(), &status) != 0 || status.st_nlink > 0) return file;
  }
}

/// Removes the temporary files that dead processes left in a folder. What cannot be removed stays:
/// nothing depends on it.
void remove_leftovers(const std::string& folder) {
  const Handle<DIR, ::closedir> open{::opendir(folder.c_str())};
  if (!open) return;
  while (const dirent* entry = ::readdir(open.get())) {
    if (!is_temporary_name(entry->d_name)) continue;
    const int at = ::dirfd(open.get());
    const Descriptor file{
        ::openat(at, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    struct stat status {};
    if (file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_uid == ::geteuid() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0)
      ::unlinkat(at, entry->d_name, 0);
  }
}

/// Removes its file unless the rename has taken it away.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)), file_(open_temporary(path_)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (file_ && !renamed_) ::unlink(path_.c_str());
  }

  const Descriptor& file() const { return file_; }
  bool rename_to(const std::string& target) {
    renamed_ = ::rename(path_.c_str(), target.c_str()) == 0;
    return renamed_;
  }

 private:
  std::string path_;
  Descriptor file_;
  bool renamed_ = false;
};

void replace_file(const std::string& path, const std::string& target, std::string_view content,
                  unsigned mode) {
  struct stat there {};
  if (::lstat(checked(target), &there) == 0 && !S_ISREG(there.st_mode))
    refuse_kind(path, there.st_mode);
  const std::string folder = folder_of(target);
  const std::string name = target.substr(target.find_last_of('/') + 1);
  // O_EXCL and a name that nobody else draws: what a dead process left behind is never opened, so
  // never renamed.
  {
    Temporary temporary{folder + "/" + temporary_name(name, SystemEntropy{}.word())};
    if (!temporary.file()) fail(path, "written");
    // Before the content goes in, and past the umask: the mode that was asked for, not less, not
    // more.
    if (::fchmod(temporary.file().get(), mode) != 0) fail(path, "written");
    if (const int error = write_all(temporary.file().get(), content)) fail(path, "written", error);
    sync_file(temporary.file(), path);
    if (!temporary.rename_to(target)) fail(path, "written");
  }
  sync_folder(folder);
  remove_leftovers(folder);
}

}  // namespace

std::optional<std::string> RealFiles::find(const std::string& path, std::uint64_t limit) {
  const Descriptor file = open_regular(path, O_RDONLY);
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail(path, "read");
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(path, "read");
  const auto too_large = [&] {
    return Error(Fault::Usage, fmt::format("{} is larger than the {} that are read of it", path,
                                           to_string(Bytes{limit})));
  };
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (S_ISREG(status.st_mode) && size > limit) throw too_large();

  // The size is a hint only: a pipe has none, and a file may grow while it is read.
  std::string content(std::min<std::uint64_t>(size, limit) + 1, '\0');
  std::size_t filled = 0;
  for (;;) {
    if (filled == content.size()) content.resize(content.size() * 2);
    const ssize_t got = ::read(file.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "read");
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
    if (filled > limit) throw too_large();
  }
  content.resize(filled);
  return content;
}

void RealFiles::write(const std::string& path, std::string_view content, unsigned mode) {
  replace_file(path, behind_link(path), content, mode);
}

void RealFiles::write_private(const std::string& path, std::string_view content, unsigned mode) {
  // The rename below would replace a link and not follow it, but its owner should know.
  struct stat status {};
  if (::lstat(checked(path), &status) == 0 && S_ISLNK(status.st_mode)) refuse_link_at(path);
  replace_file(path, path, content, mode);
}

void RealFiles::append(const std::string& path, std::string_view content) {
  const bool made = !status(path);
  const Descriptor file = open_regular(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600);
  if (!file) fail(path, "written");
  struct stat before {};
  if (::fstat(file.get(), &before) != 0) fail(path, "written");
  if (const int error = write_all(file.get(), content)) {
    // A full disk must not leave half a record behind; only a power cut may.
    if (S_ISREG(before.st_mode) && ::ftruncate(file.get(), before.st_size) != 0)
      fail(path, "cut back after a failed write");
    fail(path, "written", error);
  }
  sync_file(file, path);
  if (made) sync_folder(folder_of(path));
}

bool RealFiles::remove(const std::string& path) {
  if (::unlink(checked(path)) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    fail(path, "removed");
  }
  sync_folder(folder_of(path));
  return true;
}

bool RealFiles::remove_folder(const std::string& path) {
  Descriptor folder{::open(checked(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!folder) {
    if (errno == ENOENT) return false;
    fail(path, "removed");
  }
  const Handle<DIR, ::closedir> open{::fdopendir(folder.get())};
  if (!open) fail(path, "removed");
  folder.release();  // it is closed with `open`
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr && errno != 0) fail(path, "removed");
    if (entry == nullptr) break;
    const std::string_view name{entry->d_name};
    if (name != "." && name != "..") names.push_back(path + "/" + std::string{name});
  }
  for (const std::string& each : names)
    if (::unlink(each.c_str()) != 0 && errno != ENOENT) {
      if (errno != EISDIR) fail(each, "removed");
      remove_folder(each);
    }
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT) fail(path, "removed");
  sync_folder(folder_of(path));
  return true;
}

void RealFiles::rename(const std::string& from, const std::string& to) {
  checked(to);
  if (::rename(checked(from), to.c_str()) != 0) fail(from, "renamed to " + to);
  sync_folder(folder_of(to));
  if (folder_of(from) != folder_of(to)) sync_folder(folder_of(from));
}

void RealFiles::make_folder(const std::string& path, unsigned mode) {
  if (::mkdir(checked(path), mode) == 0) return sync_folder(folder_of(path));
  if (errno == EEXIST) {
    const auto there = status(path);
    if (there && there->folder) return;
    fail(path, "made a folder", EEXIST);
  }
  const std::string parent = folder_of(path);
  if (errno != ENOENT || parent == path || parent == ".") fail(path, "made a folder");
  make_folder(parent, mode);
  // Some places (/proc) say that nothing is there even where the parent is: not again and again.
  if (::mkdir(checked(path), mode) == 0) return sync_folder(parent);
  if (errno != EEXIST) fail(path, "made a folder");
}

std::vector<std::string> RealFiles::list(const std::string& folder) {
  const Handle<DIR, ::closedir> open{::opendir(checked(folder))};
  if (!open) {
    if (errno == ENOENT) return {};
    fail(folder, "listed");
  }
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr && errno != 0) fail(folder, "listed");
    if (entry == nullptr) break;
    const std::string_view name{entry->d_name};
    if (name != "." && name != ".." && !is_temporary_name(name)) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<FileStatus> RealFiles::status(const std::string& path) {
  struct stat status {};
  if (::stat(checked(path), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail(path, "looked at");
  }
  const bool folder = S_ISDIR(status.st_mode);
  struct stat itself {};
  return FileStatus{folder, folder ? 0 : static_cast<std::uint64_t>(status.st_size),
                    status.st_mode & 07777,
                    ::lstat(path.c_str(), &itself) == 0 && S_ISLNK(itself.st_mode)};
}

std::unique_ptr<FileLock> RealFiles::try_lock(const std::string& path) {
  for (;;) {
    Descriptor file = open_regular(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (!file) fail(path, "locked");
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return nullptr;
      if (errno == EINTR) continue;
      fail(path, "locked");
    }
    // Between open and flock somebody may have removed the file: then this locks a name that is
    // gone.
    struct stat held {};
    struct stat named {};
    if (::fstat(file.get(), &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
        held.st_ino == named.st_ino && held.st_dev == named.st_dev)
      return std::make_unique<RealLock>(std::move(file));
  }
}

}  // namespace rocca
