#pragma once

#include "proxmox/types.hpp"
#include "text/value.hpp"

#include <string>
#include <vector>

namespace rocca::adopt {

/// A VM's hardware in the words of a spec's `machine:`.
struct Hardware {
  text::Value machine = text::Value::map();  // without what is for one VM alone
  text::Value nics = text::Value::list();    // with their hardware addresses
  std::vector<std::string> untold;           // options that no spec can say: they stay as they are
};

/// What a spec says where a machine says nothing.
struct Defaults {
  std::string storage;  // of disks
  std::string bridge;
};

Hardware hardware_of(const proxmox::VmRow& row, const proxmox::VmConfig& config,
                     const Defaults& defaults);

/// Where the cloud-init drive is; empty: there is none.
std::string cloud_init_slot(const proxmox::VmConfig& config);
std::string storage_of_system_disk(const proxmox::VmConfig& config);
std::string bridge_of_first_card(const proxmox::VmConfig& config);

}  // namespace rocca::adopt
