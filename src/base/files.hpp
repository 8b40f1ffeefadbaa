#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rocca {

struct FileStatus {
  bool folder = false;
  std::uint64_t size = 0;
  unsigned mode = 0;  // permission bits only, e.g. 0600
  bool link = false;  // the path is a symbolic link; the rest describes what it leads to
};

/// Held while it lives. Goes with the process that holds it, however that ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

/// One of the four doors: files that belong to rocca or its user. A write that has returned
/// survives a power cut. Paths are plain strings with '/'; errors are Error with the path in the
/// message. A file's folder must be there.
class Files {
 public:
  virtual ~Files() = default;

  /// The whole content, or nothing if there is no such file. Refuses (Usage) more than `limit`
  /// bytes, and at once everything that is not a regular file: a FIFO, a device, a socket, a
  /// folder. The process's own descriptors (`/dev/stdin`, `/dev/fd/3`) may be pipes.
  virtual std::optional<std::string> find(const std::string& path,
                                          std::uint64_t limit = default_limit) = 0;
  std::string get(const std::string& path,
                  std::uint64_t limit = default_limit);  // NotFound when absent

  /// All or nothing, durable: a temporary file beside it (which list() never shows), fsync, rename,
  /// fsync of the folder. A link is followed: the file behind it changes, the link stays. Temporary
  /// files that dead processes left in the folder are removed. Refuses to replace what is not a
  /// regular file.
  virtual void write(const std::string& path, std::string_view content, unsigned mode = 0600) = 0;

  /// The same for secrets, access files and rocca's own records: refuses to write through a link,
  /// because whoever can place a link in the folder would choose who reads or what is overwritten.
  virtual void write_private(const std::string& path, std::string_view content,
                             unsigned mode = 0600) {
    write(path, content, mode);
  }

  /// Adds to the end and makes it durable; makes the file (0600) if it is not there. A power cut
  /// during the call may leave a prefix of `content`. Refuses links.
  virtual void append(const std::string& path, std::string_view content) = 0;

  virtual bool remove(const std::string& path) = 0;  // a file; false: was not there
  /// With all that is in it, temporary files of writes that were cut off too. A link in it is
  /// removed and never followed. False: was not there.
  virtual bool remove_folder(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void make_folder(const std::string& path, unsigned mode = 0755) = 0;  // and its parents
  virtual std::vector<std::string> list(
      const std::string& folder) = 0;  // names, sorted; empty if absent
  virtual std::optional<FileStatus> status(const std::string& path) = 0;

  /// An exclusive lock on a file that is made if needed, or nothing if another process holds it.
  /// Never waits. Refuses links.
  virtual std::unique_ptr<FileLock> try_lock(const std::string& path) = 0;

  static constexpr std::uint64_t default_limit = 64ull * 1024 * 1024;
};

/// Error(Refused) if the path is a symbolic link: what is secret does not go where a link leads.
void refuse_link(Files& files, const std::string& path);

class RealFiles final : public Files {
 public:
  std::optional<std::string> find(const std::string& path,
                                  std::uint64_t limit = default_limit) override;
  void write(const std::string& path, std::string_view content, unsigned mode = 0600) override;
  void write_private(const std::string& path, std::string_view content,
                     unsigned mode = 0600) override;
  void append(const std::string& path, std::string_view content) override;
  bool remove(const std::string& path) override;
  bool remove_folder(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void make_folder(const std::string& path, unsigned mode = 0755) override;
  std::vector<std::string> list(const std::string& folder) override;
  std::optional<FileStatus> status(const std::string& path) override;
  std::unique_ptr<FileLock> try_lock(const std::string& path) override;
};

/// Files in memory with what a disk does on a power cut: what was not synced is gone or torn, locks
/// go with their process. `cut_in(n)` makes the n-th next durable step the last one that happens.
class MemoryFiles final : public Files {
 public:
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

  /// The power goes off now and comes back: unsynced data and all locks are gone.
  void power_cut();
  /// The power goes off inside the n-th durable step from now (1 = the next), which then throws
  /// Error(Lost).
  void cut_in(std::uint64_t steps) { cut_in_ = steps; }
  std::uint64_t durable_steps() const noexcept { return durable_steps_; }

 private:
  struct Entry {
    std::string content;
    unsigned mode = 0600;
  };
  class Lock;

  /// Counts one durable step; throws when the power goes off inside it.
  void step();
  bool is_folder(const std::string& path) const;
  void need_parent(const std::string& path, std::string_view what) const;

  std::map<std::string, Entry> files_;
  std::map<std::string, unsigned> folders_;
  std::shared_ptr<std::set<std::string>> locks_ = std::make_shared<std::set<std::string>>();
  std::uint64_t durable_steps_ = 0;
  std::uint64_t cut_in_ = 0;
};

}  // namespace rocca
