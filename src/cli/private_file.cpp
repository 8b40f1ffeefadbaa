#include "cli/private_file.hpp"

#include "base/error.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
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

/// Zeros over the content, then the name goes. A tmpfs page may still have been swapped out; that
/// is what encrypted swap is for.
void erase(const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat about {};
  if (file >= 0 && ::fstat(file, &about) == 0) {
    const std::vector<char> zeros(4096, '\0');
    for (off_t left = about.st_size; left > 0; left -= static_cast<off_t>(zeros.size()))
      if (::write(file, zeros.data(), std::min(zeros.size(), static_cast<std::size_t>(left))) < 0)
        break;
  }
  if (file >= 0) ::close(file);
  ::unlink(path.c_str());
}

}  // namespace

PrivateFile::PrivateFile(const std::map<std::string, std::string>& environment,
                         const std::string& name, std::string_view content) {
  std::vector<std::string> places{"/dev/shm"};
  if (const auto runtime = environment.find("XDG_RUNTIME_DIR"); runtime != environment.end())
    places.push_back(runtime->second);
  places.push_back("/run/user/" + std::to_string(::getuid()));
  for (const std::string& place : places) {
    if (!is_in_memory(place)) continue;
    std::string wanted = place + "/rocca-XXXXXX";
    if (::mkdtemp(wanted.data()) == nullptr) continue;  // 0700
    folder_ = wanted;
    break;
  }
  if (folder_.empty())
    throw Error(Fault::Refused, "there is no folder in memory to put a text in clear")
        .hint("a tmpfs is wanted at /dev/shm or XDG_RUNTIME_DIR; `rocca secrets set` needs none");
  path_ = folder_ + "/" + name;
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0)
    throw Error(Fault::Rejected, fmt::format("{} cannot be made: {}", path_, std::strerror(errno)));
  try {
    write_all(file, content, path_);
  } catch (...) {
    ::close(file);
    throw;
  }
  ::close(file);
}

PrivateFile::~PrivateFile() {
  if (folder_.empty()) return;
  if (DIR* entries = ::opendir(folder_.c_str())) {
    while (const dirent* entry = ::readdir(entries)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") erase(folder_ + "/" + name);
    }
    ::closedir(entries);
  }
  ::rmdir(folder_.c_str());
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
