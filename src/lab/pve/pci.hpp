#pragma once

#include "lab/pve/datacenter.hpp"

#include <string>
#include <vector>

namespace rocca::lab::pve {

std::vector<Route> pci_routes();

/// The functions on this host that one `hostpciN` would give to a VM: the first alternative that
/// nobody has. Throws what ends a start.
std::vector<std::string> choose_pci_devices(const Process& process, unsigned vmid,
                                            const std::string& key, const std::string& value);

}  // namespace rocca::lab::pve
