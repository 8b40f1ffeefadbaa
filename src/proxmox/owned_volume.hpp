#pragma once

#include <string>
#include <utility>

namespace rocca::resources {
class VolumeGuard;
}

namespace rocca::proxmox {

/// A volume that may be deleted, and the host through which it is reached. Only the guard makes
/// one: no code path can delete a volume by its name alone.
class OwnedVolume {
 public:
  const std::string& node() const noexcept { return node_; }
  const std::string& id() const noexcept { return id_; }

 private:
  friend class rocca::resources::VolumeGuard;
  OwnedVolume(std::string node, std::string id) : node_(std::move(node)), id_(std::move(id)) {}

  std::string node_;
  std::string id_;
};

}  // namespace rocca::proxmox
