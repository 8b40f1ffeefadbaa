#pragma once

#include "base/units.hpp"
#include "platform/world.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace rocca::resources {

/// One node as spec and lock describe it: known before anything is created.
struct NodeOverview {
  struct Disk {
    std::string name;
    Bytes size{};
    std::string storage;
  };

  std::string name;
  bool control_plane = false;
  bool existing = false;   // a machine that rocca did not create
  std::uint64_t vmid = 0;  // 0: not chosen yet, or not a VM
  std::string host{};
  std::string address{};  // empty: from DHCP
  std::uint64_t cores = 0;
  Bytes memory{};
  std::vector<Disk> disks{};
  std::vector<std::string> macs{};  // one for each NIC
};

struct ClusterOverview {
  std::string cluster;
  std::string talos;  // versions, with v
  std::string kubernetes{};
  std::string vip{};                  // empty: none
  std::vector<NodeOverview> nodes{};  // in the order of the spec
};

/// `lock` has the hosts and ids that were chosen.
ClusterOverview overview_of(const Cluster& cluster, const spec::Lock& lock);

}  // namespace rocca::resources
