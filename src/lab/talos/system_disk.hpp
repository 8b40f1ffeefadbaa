#pragma once

#include "lab/talos/etcd.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocca::lab::talos {

/// What Talos keeps on its disk over a power cycle: both boot entries, META, STATE and EPHEMERAL.
struct SystemDisk {
  std::optional<std::string> config;
  std::optional<std::string> staged;
  std::map<unsigned, std::string> meta;
  bool installed = false;
  std::string installed_disk;
  std::string version, platform, schematic;
  std::string previous_version, previous_platform, previous_schematic;  // the other boot entry
  std::vector<std::string> kernel_args;  // carried over from the medium it was installed from
  std::shared_ptr<EtcdCluster> etcd;
  std::uint64_t etcd_member = 0;
  bool etcd_dirty = false;
  bool etcd_image = false;  // it was pulled
  std::string snapshot;
  bool snapshot_there = false;
  std::string node_id;
};

}  // namespace rocca::lab::talos
