#pragma once

#include "base/files.hpp"
#include "base/secret.hpp"
#include "spec/lock.hpp"

#include <memory>
#include <optional>
#include <string>

namespace rocca::resources {

/// Where rocca.lock is kept between runs.
class LockStorage {
 public:
  virtual ~LockStorage() = default;
  virtual std::optional<spec::Lock> find() = 0;
  /// Durable when it returns.
  virtual void write(const spec::Lock& lock) = 0;
};

/// Where the access files of a cluster are kept: `kubeconfig` and `talosconfig`.
class AccessStorage {
 public:
  virtual ~AccessStorage() = default;
  /// For plans and messages: "/clusters/blue/configs".
  virtual std::string describe() const = 0;
  /// Throws if a secret must not be written there. Called before anything is created.
  virtual void check() = 0;
  virtual std::optional<std::string> find(const std::string& name) = 0;
  virtual void write(const std::string& name, const Secret& text) = 0;
  virtual void remove(const std::string& name) = 0;
};

/// Manifests that were downloaded, by the SHA-256 of their text. An entry may be lost at any time:
/// it is downloaded again.
class ManifestCache {
 public:
  virtual ~ManifestCache() = default;
  virtual std::optional<std::string> find(const std::string& sha256) = 0;
  virtual void write(const std::string& sha256, const std::string& text) = 0;
};

/// What a cluster keeps between runs beside its state. Used from many threads.
struct Storage {
  std::shared_ptr<LockStorage> lock = {};
  std::shared_ptr<AccessStorage> access = {};
  std::shared_ptr<ManifestCache> manifests = {};
};

/// In the cluster's folder: rocca.lock, configs/ and .rocca/addons/, except for what is given.
/// `files` must outlive it.
Storage folder_storage(Files& files, const std::string& folder, Storage given = {});

}  // namespace rocca::resources
