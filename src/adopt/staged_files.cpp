#include "adopt/staged_files.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

namespace rocca::adopt {

namespace {

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

bool is_below(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

class StagedLock final : public FileLock {
 public:
  StagedLock(std::shared_ptr<std::set<std::string>> locks, std::string path)
      : locks_(std::move(locks)), path_(std::move(path)) {}
  StagedLock(const StagedLock&) = delete;
  StagedLock& operator=(const StagedLock&) = delete;
  ~StagedLock() override { locks_->erase(path_); }

 private:
  std::shared_ptr<std::set<std::string>> locks_;
  std::string path_;
};

}  // namespace

std::optional<std::string> StagedFiles::find_here(const std::string& path) const {
  const std::lock_guard lock{mutex_};
  const auto found = files_.find(path);
  return found == files_.end() ? std::nullopt : std::optional{found->second.content};
}

std::optional<std::string> StagedFiles::find(const std::string& path, std::uint64_t limit) {
  auto here = find_here(path);
  return here ? here : below_.find(path, limit);
}

void StagedFiles::write(const std::string& path, std::string_view content, unsigned mode) {
  if (!status(parent_of(path)))
    throw Error(Fault::NotFound,
                fmt::format("{} cannot be written: its folder is not there", path));
  const std::lock_guard lock{mutex_};
  files_[path] = {std::string{content}, mode};
}

void StagedFiles::append(const std::string& path, std::string_view content) {
  const std::string before = find(path).value_or("");
  write(path, before + std::string{content}, 0600);
}

bool StagedFiles::remove(const std::string& path) {
  {
    const std::lock_guard lock{mutex_};
    if (files_.erase(path) > 0) return true;
  }
  if (below_.status(path))
    throw Error(Fault::Bug, fmt::format("{} was there before, and is not ours to remove", path));
  return false;
}

void StagedFiles::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock{mutex_};
  const auto found = files_.find(from);
  if (found == files_.end())
    throw Error(Fault::NotFound, fmt::format("{} cannot be renamed: it is not there", from));
  Entry entry = std::move(found->second);
  files_.erase(found);
  files_[to] = std::move(entry);
}

void StagedFiles::make_folder(const std::string& path, unsigned mode) {
  for (std::string folder = path; !status(folder); folder = parent_of(folder)) {
    const std::lock_guard lock{mutex_};
    folders_[folder] = folder == path ? mode : 0755;
  }
}

std::vector<std::string> StagedFiles::list(const std::string& folder) {
  std::set<std::string> names;
  for (std::string& name : below_.list(folder)) names.insert(std::move(name));
  const std::lock_guard lock{mutex_};
  const auto add = [&](const std::string& path) {
    if (parent_of(path) == folder) names.insert(path.substr(path.rfind('/') + 1));
  };
  for (const auto& [path, entry] : files_) add(path);
  for (const auto& [path, mode] : folders_) add(path);
  return {names.begin(), names.end()};
}

std::optional<FileStatus> StagedFiles::status(const std::string& path) {
  {
    const std::lock_guard lock{mutex_};
    if (const auto file = files_.find(path); file != files_.end())
      return FileStatus{false, file->second.content.size(), file->second.mode};
    if (const auto folder = folders_.find(path); folder != folders_.end())
      return FileStatus{true, 0, folder->second};
  }
  return below_.status(path);
}

std::unique_ptr<FileLock> StagedFiles::try_lock(const std::string& path) {
  const std::lock_guard lock{mutex_};
  if (!locks_->insert(path).second) return nullptr;
  return std::make_unique<StagedLock>(locks_, path);
}

std::vector<std::string> StagedFiles::commit(const std::string& folder) {
  const std::lock_guard lock{mutex_};
  if (below_.status(folder))
    throw Error(Fault::Conflict, fmt::format("{} is already there", folder))
        .hint("nothing was written; choose another place with --out, or move it away first");
  const std::string made =
      fmt::format("{}/.{}.adopting", parent_of(folder), folder.substr(folder.rfind('/') + 1));
  const auto place = [&](const std::string& path) {
    return path == folder || is_below(path, folder) ? made + path.substr(folder.size()) : path;
  };
  std::vector<std::string> written;
  for (const auto& [path, mode] : folders_) below_.make_folder(place(path), mode);
  below_.make_folder(made, 0755);
  // What others need stands before the cluster that needs it.
  for (const bool inside : {false, true})
    for (const auto& [path, entry] : files_) {
      if (is_below(path, folder) != inside) continue;
      below_.write(place(path), entry.content, entry.mode);
      written.push_back(path);
    }
  below_.rename(made, folder);
  return written;
}

}  // namespace rocca::adopt
