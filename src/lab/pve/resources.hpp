#pragma once

#include "lab/pve/datacenter.hpp"

namespace rocca::lab::pve {

/// A VM's row of cluster/resources: live node, tags and lock; name, state and usage as last
/// broadcast.
text::Value vm_resource(Datacenter& dc, const Vm& vm);
/// A storage's row on one node; nothing where the node does not have it.
std::optional<text::Value> storage_resource(Datacenter& dc, const std::string& storage,
                                            const Node& node);
text::Value node_resource(const Datacenter& dc, const Node& node, bool usage);

/// The bytes of the boot disk, as `maxdisk` shows them.
std::uint64_t boot_disk_size(Datacenter& dc, const Vm& vm);
/// CPUs as the config says, capped at the host's.
unsigned cpu_count(const Vm& vm, const Node& node);
std::uint64_t memory_of(const Vm& vm);

std::vector<Route> pool_routes();
std::vector<Route> ha_routes();

}  // namespace rocca::lab::pve
