#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "platform/storage.hpp"
#include "state/local_store.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace rocca::test {

/// MemoryFiles that several threads may use.
class SharedFiles final : public Files {
 public:
  std::optional<std::string> find(const std::string& path, std::uint64_t limit) override {
    const std::lock_guard guard{mutex_};
    return files_.find(path, limit);
  }
  void write(const std::string& path, std::string_view content, unsigned mode) override {
    const std::lock_guard guard{mutex_};
    files_.write(path, content, mode);
  }
  void append(const std::string& path, std::string_view content) override {
    const std::lock_guard guard{mutex_};
    files_.append(path, content);
  }
  bool remove(const std::string& path) override {
    const std::lock_guard guard{mutex_};
    return files_.remove(path);
  }
  bool remove_folder(const std::string& path) override {
    const std::lock_guard guard{mutex_};
    return files_.remove_folder(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    const std::lock_guard guard{mutex_};
    files_.rename(from, to);
  }
  void make_folder(const std::string& path, unsigned mode) override {
    const std::lock_guard guard{mutex_};
    files_.make_folder(path, mode);
  }
  std::vector<std::string> list(const std::string& folder) override {
    const std::lock_guard guard{mutex_};
    return files_.list(folder);
  }
  std::optional<FileStatus> status(const std::string& path) override {
    const std::lock_guard guard{mutex_};
    return files_.status(path);
  }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    const std::lock_guard guard{mutex_};
    return files_.try_lock(path);
  }

 private:
  std::mutex mutex_;
  MemoryFiles files_;
};

/// The Files door of a cluster without a folder: nothing is there, and a write is a bug.
class NoFiles final : public Files {
 public:
  std::optional<std::string> find(const std::string&, std::uint64_t) override {
    return std::nullopt;
  }
  void write(const std::string& path, std::string_view, unsigned) override { refuse(path); }
  void append(const std::string& path, std::string_view) override { refuse(path); }
  bool remove(const std::string& path) override { return refuse(path); }
  bool remove_folder(const std::string& path) override { return refuse(path); }
  void rename(const std::string& from, const std::string&) override { refuse(from); }
  void make_folder(const std::string& path, unsigned) override { refuse(path); }
  std::vector<std::string> list(const std::string&) override { return {}; }
  std::optional<FileStatus> status(const std::string&) override { return std::nullopt; }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    refuse(path);
    return nullptr;
  }

 private:
  [[noreturn]] static bool refuse(const std::string& path) {
    throw Error(Fault::Bug, "a cluster without a folder has changed the file " + path);
  }
};

class MemoryLock final : public resources::LockStorage {
 public:
  std::optional<spec::Lock> find() override {
    const std::lock_guard guard{mutex_};
    return lock_;
  }
  void write(const spec::Lock& lock) override {
    const std::lock_guard guard{mutex_};
    lock_ = lock;
  }

 private:
  std::mutex mutex_;
  std::optional<spec::Lock> lock_;
};

class MemoryAccess final : public resources::AccessStorage {
 public:
  std::string describe() const override { return "memory"; }
  void check() override {}
  std::optional<std::string> find(const std::string& name) override {
    const std::lock_guard guard{mutex_};
    const auto found = texts_.find(name);
    return found == texts_.end() ? std::nullopt : std::optional{found->second};
  }
  void write(const std::string& name, const Secret& text) override {
    const std::lock_guard guard{mutex_};
    texts_[name] = std::string{text.reveal()};
  }
  void remove(const std::string& name) override {
    const std::lock_guard guard{mutex_};
    texts_.erase(name);
  }
  std::vector<std::string> names() {
    const std::lock_guard guard{mutex_};
    std::vector<std::string> all;
    for (const auto& [name, text] : texts_) all.push_back(name);
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> texts_;
};

class MemoryManifests final : public resources::ManifestCache {
 public:
  std::optional<std::string> find(const std::string& sha256) override {
    const std::lock_guard guard{mutex_};
    const auto found = texts_.find(sha256);
    return found == texts_.end() ? std::nullopt : std::optional{found->second};
  }
  void write(const std::string& sha256, const std::string& text) override {
    const std::lock_guard guard{mutex_};
    texts_[sha256] = text;
  }
  std::size_t size() {
    const std::lock_guard guard{mutex_};
    return texts_.size();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> texts_;
};

/// All that a cluster without a folder keeps between runs.
struct MemoryStorage {
  std::shared_ptr<MemoryLock> lock = std::make_shared<MemoryLock>();
  std::shared_ptr<MemoryAccess> access = std::make_shared<MemoryAccess>();
  std::shared_ptr<MemoryManifests> manifests = std::make_shared<MemoryManifests>();
  SharedFiles state = {};

  resources::Storage storage() const { return {lock, access, manifests}; }
  std::unique_ptr<state::Store> open_store(state::Sealing sealing) {
    return state::local_store(state, "/state", std::move(sealing));
  }
};

}  // namespace rocca::test
