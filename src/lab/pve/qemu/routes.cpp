#include "lab/pve/qemu/qemu.hpp"

namespace rocca::lab::pve {

std::vector<Route> qemu_routes() {
  std::vector<Route> all;
  for (const auto& table :
       {qemu_read_routes(), qemu_create_routes(), qemu_update_routes(), qemu_disk_routes(),
        qemu_clone_routes(), qemu_migrate_routes(), qemu_snapshot_routes(), qemu_cloudinit_routes(),
        qemu_power_routes(), qemu_agent_routes(), qemu_destroy_routes()})
    all.insert(all.end(), table.begin(), table.end());
  return all;
}

}  // namespace rocca::lab::pve
