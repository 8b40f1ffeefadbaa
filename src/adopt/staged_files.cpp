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

bool StagedFiles::remove_folder(const std::string& path) {
  if (below_.status(path))
    throw Error(Fault::Bug, fmt::format("{} was there before, and is not ours to remove", path));
  const std::lock_guard lock{mutex_};
  const auto is_its = [&](const auto& entry) {
    return entry.first == path || is_below(entry.first, path);
  };
  return std::erase_if(files_, is_its) + std::erase_if(folders_, is_its) > 0;
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

std::vector<std::string> StagedFiles::commit(const std::string& folder,
                                             const std::string& in_clear) {
  const std::lock_guard lock{mutex_};
  if (below_.status(folder))
    throw Error(Fault::Conflict, fmt::format("{} is already there", folder))
        .hint("nothing was written; choose another place with --out, or move it away first");
  const std::string made =
      fmt::format("{}/.{}.adopting", parent_of(folder), folder.substr(folder.rfind('/') + 1));
  const auto is_inside = [&](const std::string& path) {
    return path == folder || is_below(path, folder);
  };
  const auto is_clear = [&](const std::string& path) {
    return path == in_clear || is_below(path, in_clear);
  };
  std::vector<std::string> folders, outside, written;
  bool moved = false;
  const auto write = [&](const std::string& path, const std::string& place) {
    const Entry& entry = files_.at(path);
    below_.write(place, entry.content, entry.mode);
    written.push_back(path);
  };
  below_.remove_folder(made);
  try {
    for (const auto& [path, mode] : folders_) {
      if (is_inside(path) || below_.status(path)) continue;
      folders.push_back(path);
      below_.make_folder(path, mode);
    }
    below_.make_folder(made, 0755);
    for (const auto& [path, mode] : folders_)
      if (is_inside(path)) below_.make_folder(made + path.substr(folder.size()), mode);
    for (const auto& [path, entry] : files_)
      if (is_inside(path) && !is_clear(path)) write(path, made + path.substr(folder.size()));
    // What others need stands before the cluster that needs it.
    for (const auto& [path, entry] : files_) {
      if (is_inside(path)) continue;
      if (!below_.status(path)) outside.push_back(path);
      write(path, path);
    }
    moved = true;
    below_.rename(made, folder);
    for (const auto& [path, entry] : files_)
      if (is_inside(path) && is_clear(path)) write(path, path);
  } catch (const Error&) {
    // What stands in its place is ours only if it went there: another run may have been faster.
    take_back(moved && !below_.status(made) ? folder : made, folders, outside);
    throw;
  }
  return written;
}

void StagedFiles::take_back(const std::string& folder, const std::vector<std::string>& folders,
                            const std::vector<std::string>& files) {
  const auto attempt = [](const auto& act) {
    try {
      act();
    } catch (const Error&) {
      // ignored: the first error is the one that the user must read; the next run removes the rest.
    }
  };
  attempt([&] { below_.remove_folder(folder); });
  for (const std::string& path : files) attempt([&] { below_.remove(path); });
  // From the inner to the outer, and only if nobody else has put something there meanwhile.
  for (auto path = folders.rbegin(); path != folders.rend(); ++path)
    attempt([&] {
      if (below_.list(*path).empty()) below_.remove_folder(*path);
    });
}

}  // namespace rocca::adopt
