#pragma once

#include "base/files.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::adopt {

/// Files that are written in memory over those that are there, until all of them are right: then
/// `commit` writes them, or nobody does. What was there before can be read but not changed. Safe
/// from many threads.
class StagedFiles final : public Files {
 public:
  explicit StagedFiles(Files& below) : below_(below) {}

  std::optional<std::string> find(const std::string& path,
                                  std::uint64_t limit = default_limit) override;
  void write(const std::string& path, std::string_view content, unsigned mode = 0600) override;
  void append(const std::string& path, std::string_view content) override;
  bool remove(const std::string& path) override;
  bool remove_folder(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void make_folder(const std::string& path, unsigned mode = 0755) override;
  std::vector<std::string> list(const std::string& folder) override;
  std::optional<FileStatus> status(const std::string& path) override;
  std::unique_ptr<FileLock> try_lock(const std::string& path) override;

  /// Makes `folder` beside its place, writes what lies outside of it, and lets it appear with one
  /// rename; what lies below `in_clear`, a folder in it, comes last, so that a power cut leaves
  /// nothing of that in a folder that nobody looks at. What an earlier cut left there goes first.
  /// An error takes all of it back. Error(Conflict) if something is there already. Returns the
  /// paths of all files in the order in which they were written.
  std::vector<std::string> commit(const std::string& folder, const std::string& in_clear);

 private:
  struct Entry {
    std::string content;
    unsigned mode = 0600;
  };
  void take_back(const std::string& folder, const std::vector<std::string>& folders,
                 const std::vector<std::string>& files);
  std::optional<std::string> find_here(const std::string& path) const;

  Files& below_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> files_;
  std::map<std::string, unsigned> folders_;
  std::shared_ptr<std::set<std::string>> locks_ = std::make_shared<std::set<std::string>>();
};

}  // namespace rocca::adopt
