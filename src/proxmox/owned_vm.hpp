#pragma once

#include "proxmox/types.hpp"

#include <string>
#include <utility>

namespace rocca::resources {
class VmGuard;
}

namespace rocca::proxmox {

/// A VM that was proved to be ours, and where it is. Every call that changes or destroys a VM takes
/// one, and only the identity guard makes one: no code path can act on a VM by its id alone.
class OwnedVm {
 public:
  const std::string& node() const noexcept { return node_; }
  Vmid vmid() const noexcept { return vmid_; }

 private:
  friend class rocca::resources::VmGuard;
  OwnedVm(std::string node, Vmid vmid) : node_(std::move(node)), vmid_(vmid) {}

  std::string node_;
  Vmid vmid_;
};

}  // namespace rocca::proxmox
