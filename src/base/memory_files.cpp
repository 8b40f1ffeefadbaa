#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "base/temporary.hpp"
#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca {

namespace {

/// `a//b/./c/../d` is `a/b/d`; a relative path stays one. The root is "/" or, for relative paths,
/// ".".
std::string normal(const std::string& path) {
  if (path.empty()) throw Error(Fault::Usage, "a file's path is empty");
  if (path.find('\0') != std::string::npos)
    throw Error(Fault::Usage, "a file's path holds a NUL byte");
  const bool absolute = path.front() == '/';
  std::vector<std::string> kept;
  for (std::string& part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." && !kept.empty() && kept.back() != "..") {
      kept.pop_back();
    } else if (part != ".." || !absolute) {
      kept.push_back(std::move(part));
    }
  }
  if (kept.empty()) return absolute ? "/" : ".";
  return (absolute ? "/" : "") + join(kept, "/");
}

std::string parent_of(const std::string& normal_path) {
  const std::size_t slash = normal_path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : normal_path.substr(0, slash);
}

bool is_root(const std::string& normal_path) {
  return normal_path == "/" || normal_path == ".";
}

/// What the names of everything below a folder begin with.
std::string prefix_of(const std::string& folder) {
  if (folder == ".") return "";
  return folder == "/" ? "/" : folder + "/";
}

bool is_below(const std::string& path, const std::string& folder) {
  if (is_root(path) || path == folder) return false;
  if (folder == ".") return path.front() != '/';
  return path.starts_with(prefix_of(folder));
}

Error refused(Fault fault, const std::string& path, std::string_view what, std::string_view why) {
  return {fault, fmt::format("{} cannot be {}: {}", path, what, why)};
}

}  // namespace

class MemoryFiles::Lock final : public FileLock {
 public:
  Lock(std::shared_ptr<std::set<std::string>> locks, std::string path)
      : locks_(std::move(locks)), path_(std::move(path)) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() override { locks_->erase(path_); }

 private:
  std::shared_ptr<std::set<std::string>> locks_;
  std::string path_;
};

bool MemoryFiles::is_folder(const std::string& path) const {
  return is_root(path) || folders_.count(path) > 0;
}

void MemoryFiles::need_parent(const std::string& path, std::string_view what) const {
  if (!is_folder(parent_of(path)))
    throw refused(Fault::NotFound, path, what, "its folder is not there");
}

std::optional<std::string> MemoryFiles::find(const std::string& path, std::uint64_t limit) {
  const std::string key = normal(path);
  if (is_folder(key)) throw refused(Fault::Usage, path, "read", "it is a folder");
  const auto found = files_.find(key);
  if (found == files_.end()) return std::nullopt;
  if (found->second.content.size() > limit)
    throw Error(Fault::Usage, fmt::format("{} is larger than the {} that are read of it", path,
                                          to_string(Bytes{limit})));
  return found->second.content;
}

void MemoryFiles::write(const std::string& path, std::string_view content, unsigned mode) {
  const std::string key = normal(path);
  need_parent(key, "written");
  if (is_folder(key)) throw refused(Fault::Usage, path, "written", "it is a folder");

  const std::string name = key.substr(key.find_last_of('/') + 1);
  const std::string temporary = prefix_of(parent_of(key)) + temporary_name(name, durable_steps_);
  files_[temporary] = {std::string{content.substr(0, content.size() / 2)}, mode};
  step();  // the data reaches the disk; cut: a torn temporary file stays
  files_[temporary].content = content;
  step();  // the rename; cut: a whole temporary file stays, the old content too
  files_.erase(temporary);
  files_[key] = {std::string{content}, mode};
  step();  // the folder reaches the disk; cut: all is done, only nobody was told
}

void MemoryFiles::append(const std::string& path, std::string_view content) {
  const std::string key = normal(path);
  need_parent(key, "written");
  if (is_folder(key)) throw refused(Fault::Usage, path, "written", "it is a folder");
  if (files_.count(key) == 0) step();  // the name reaches the disk; cut: no file
  std::string& whole = files_[key].content;
  const std::size_t before = whole.size();
  whole += content.substr(0, content.size() / 2);
  step();  // the data reaches the disk; cut: a prefix of it
  whole.resize(before);
  whole += content;
  step();  // cut: all of it, only nobody was told
}

bool MemoryFiles::remove(const std::string& path) {
  const std::string key = normal(path);
  if (is_folder(key)) throw refused(Fault::Usage, path, "removed", "it is a folder");
  if (files_.count(key) == 0) return false;
  step();
  files_.erase(key);
  step();
  return true;
}

bool MemoryFiles::remove_folder(const std::string& path) {
  const std::string key = normal(path);
  if (files_.count(key) > 0) throw refused(Fault::NotFound, path, "removed", "it is not a folder");
  if (folders_.count(key) == 0) return false;
  // From the end: what is in a folder goes before the folder. Cut: what has gone is gone.
  const auto remove_below = [&](auto& entries) {
    for (auto last = entries.end(); last != entries.begin();) {
      --last;
      if (last->first != key && !is_below(last->first, key)) continue;
      step();
      last = entries.erase(last);
    }
  };
  remove_below(files_);
  remove_below(folders_);
  step();
  return true;
}

void MemoryFiles::rename(const std::string& from, const std::string& to) {
  const std::string source = normal(from);
  const std::string target = normal(to);
  const bool folder = folders_.count(source) > 0;
  if (!folder && files_.count(source) == 0)
    throw refused(Fault::NotFound, from, "renamed to " + to, "it is not there");
  need_parent(target, "made by renaming");
  if (source == target) return;
  const auto below_target = [&](const auto& entry) { return is_below(entry.first, target); };
  if (folder && (files_.count(target) > 0 || is_below(target, source)))
    throw refused(Fault::NotFound, from, "renamed to " + to, "not a folder that can hold it");
  if (!folder && is_folder(target))
    throw refused(Fault::Usage, from, "renamed to " + to, "that is a folder");
  if (folder && (std::any_of(files_.begin(), files_.end(), below_target) ||
                 std::any_of(folders_.begin(), folders_.end(), below_target)))
    throw refused(Fault::Conflict, from, "renamed to " + to, "that folder is not empty");
  step();
  const auto move_all = [&](auto& entries) {
    auto old = std::exchange(entries, {});
    for (auto& [name, value] : old) {
      const bool moves = name == source || is_below(name, source);
      if (name == target && !moves) continue;
      entries[moves ? target + name.substr(source.size()) : name] = std::move(value);
    }
  };
  move_all(files_);
  move_all(folders_);
  step();
}

void MemoryFiles::make_folder(const std::string& path, unsigned mode) {
  const std::string key = normal(path);
  if (is_folder(key)) return;
  if (files_.count(key) > 0)
    throw refused(Fault::Conflict, path, "made a folder", "a file has its name");
  make_folder(parent_of(key), mode);
  step();
  folders_[key] = mode;
}

std::vector<std::string> MemoryFiles::list(const std::string& folder) {
  const std::string key = normal(folder);
  if (files_.count(key) > 0) throw refused(Fault::NotFound, folder, "listed", "it is not a folder");
  std::vector<std::string> names;
  const auto collect = [&](const auto& entries) {
    for (const auto& [path, entry] : entries) {
      if (!is_below(path, key) || parent_of(path) != key) continue;
      const std::string name = path.substr(prefix_of(key).size());
      if (!is_temporary_name(name)) names.push_back(name);
    }
  };
  collect(files_);
  collect(folders_);
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<FileStatus> MemoryFiles::status(const std::string& path) {
  const std::string key = normal(path);
  if (is_root(key)) return FileStatus{true, 0, 0755};
  if (const auto folder = folders_.find(key); folder != folders_.end())
    return FileStatus{true, 0, folder->second};
  const auto found = files_.find(key);
  if (found == files_.end()) return std::nullopt;
  return FileStatus{false, found->second.content.size(), found->second.mode};
}

std::unique_ptr<FileLock> MemoryFiles::try_lock(const std::string& path) {
  const std::string key = normal(path);
  need_parent(key, "locked");
  if (is_folder(key)) throw refused(Fault::Usage, path, "locked", "it is a folder");
  if (!locks_->insert(key).second) return nullptr;
  files_.try_emplace(key);
  return std::make_unique<Lock>(locks_, key);
}

void MemoryFiles::power_cut() {
  // A new set, not an emptied one: locks of the dead process still point to theirs, and must not
  // free one that a later process takes.
  locks_ = std::make_shared<std::set<std::string>>();
  cut_in_ = 0;
}

void MemoryFiles::step() {
  ++durable_steps_;
  if (cut_in_ == 0 || --cut_in_ > 0) return;
  power_cut();
  throw Error(Fault::Lost, "the power went off");
}

}  // namespace rocca
