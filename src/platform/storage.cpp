#include "platform/storage.hpp"

#include "spec/gitignore.hpp"

namespace rocca::resources {

namespace {

class FolderLock final : public LockStorage {
 public:
  FolderLock(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  std::optional<spec::Lock> find() override { return spec::find_lock(files_, folder_); }
  void write(const spec::Lock& lock) override { spec::write_lock(files_, folder_, lock); }

 private:
  Files& files_;
  std::string folder_;
};

class FolderAccess final : public AccessStorage {
 public:
  FolderAccess(Files& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  std::string describe() const override { return folder_ + "/configs"; }
  void check() override {
    for (const std::string& place : {describe(), path("kubeconfig"), path("talosconfig")})
      refuse_link(files_, place);
  }
  std::optional<std::string> find(const std::string& name) override {
    return files_.find(path(name));
  }
  void write(const std::string& name, const Secret& text) override {
    spec::keep_out_of_git(files_, folder_);
    files_.make_folder(describe(), 0700);
    files_.write_private(path(name), text.reveal(), 0600);
  }
  void remove(const std::string& name) override { files_.remove(path(name)); }

 private:
  std::string path(const std::string& name) const { return describe() + "/" + name; }

  Files& files_;
  std::string folder_;
};

class FolderManifests final : public ManifestCache {
 public:
  FolderManifests(Files& files, const std::string& folder)
      : files_(files), folder_(folder + "/.rocca/addons") {}

  std::optional<std::string> find(const std::string& sha256) override {
    return files_.find(path(sha256));
  }
  void write(const std::string& sha256, const std::string& text) override {
    files_.make_folder(folder_, 0700);
    files_.write_private(path(sha256), text, 0600);
  }

 private:
  std::string path(const std::string& sha256) const { return folder_ + "/" + sha256 + ".yaml"; }

  Files& files_;
  std::string folder_;
};

}  // namespace

Storage folder_storage(Files& files, const std::string& folder, Storage given) {
  if (!given.lock) given.lock = std::make_shared<FolderLock>(files, folder);
  if (!given.access) given.access = std::make_shared<FolderAccess>(files, folder);
  if (!given.manifests) given.manifests = std::make_shared<FolderManifests>(files, folder);
  return given;
}

}  // namespace rocca::resources
