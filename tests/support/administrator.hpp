#pragma once

#include "platform/vm_guard.hpp"
#include "platform/volume_guard.hpp"
#include "proxmox/client.hpp"

#include <string>

namespace rocca::test {

/// The guard's verdict on a VM with the right UUID and mark that stands there: for tests of calls,
/// and for those who act as other users of the same Proxmox.
inline proxmox::OwnedVm owned(const std::string& node, proxmox::Vmid vmid) {
  const engine::Identity identity{"test", std::to_string(vmid),
                                  engine::derive_uuid("test", std::to_string(vmid))};
  proxmox::Smbios smbios;
  smbios.uuid = identity.uuid;
  smbios.family = engine::ownership_family;
  smbios.sku = engine::ownership_mark(identity.cluster, identity.node);
  resources::SeenVm seen;
  seen.row.node = node;
  seen.row.vmid = vmid;
  seen.config.options["smbios1"] = smbios.print();
  return resources::VmGuard::judge({seen}, {identity, vmid}).front().vm.value();
}

/// The guard's verdict on an image file that this run has downloaded there.
inline proxmox::OwnedVolume owned_volume(const std::string& node, const std::string& id) {
  proxmox::Volume volume;
  volume.id = id;
  volume.content = "import";
  return resources::VolumeGuard::may_delete({node, id, volume, resources::VolumeOrigin::ThisRun})
      .volume.value();
}

/// A person with a token, who changes any VM by its id as in Proxmox's web interface.
class Administrator : public proxmox::Client {
 public:
  using Client::Client;
  using Node = const std::string&;
  using Vmid = proxmox::Vmid;

  using Client::start_update;
  std::optional<proxmox::Upid> start_update(Node node, Vmid vmid, const proxmox::VmUpdate& update) {
    return Client::start_update(owned(node, vmid), update);
  }
  using Client::update;
  void update(Node node, Vmid vmid, const proxmox::VmUpdate& update) {
    Client::update(owned(node, vmid), update);
  }
  using Client::start_resize;
  proxmox::Upid start_resize(Node node, Vmid vmid, const std::string& slot, Bytes size,
                             const std::string& digest = "") {
    return Client::start_resize(owned(node, vmid), slot, size, digest);
  }
  using Client::start_template;
  proxmox::Upid start_template(Node node, Vmid vmid) {
    return Client::start_template(owned(node, vmid));
  }
  using Client::start_destroy;
  proxmox::Upid start_destroy(Node node, Vmid vmid, bool purge) {
    return Client::start_destroy(owned(node, vmid), purge);
  }
  using Client::regenerate_cloud_init;
  void regenerate_cloud_init(Node node, Vmid vmid) {
    Client::regenerate_cloud_init(owned(node, vmid));
  }
  using Client::start_vm;
  proxmox::Upid start_vm(Node node, Vmid vmid) { return Client::start_vm(owned(node, vmid)); }
  using Client::start_stop;
  proxmox::Upid start_stop(Node node, Vmid vmid, bool overrule_shutdown = true) {
    return Client::start_stop(owned(node, vmid), overrule_shutdown);
  }
  using Client::start_shutdown;
  proxmox::Upid start_shutdown(Node node, Vmid vmid, Duration timeout, bool force_stop) {
    return Client::start_shutdown(owned(node, vmid), timeout, force_stop);
  }
  using Client::start_reboot;
  proxmox::Upid start_reboot(Node node, Vmid vmid, Duration timeout) {
    return Client::start_reboot(owned(node, vmid), timeout);
  }
  using Client::start_reset;
  proxmox::Upid start_reset(Node node, Vmid vmid) { return Client::start_reset(owned(node, vmid)); }
  using Client::start_delete_volume;
  std::optional<proxmox::Upid> start_delete_volume(Node node, const std::string& volume) {
    return Client::start_delete_volume(owned_volume(node, volume));
  }
  using Client::start_migrate;
  proxmox::Upid start_migrate(Node node, Vmid vmid, const std::string& target, bool online) {
    return Client::start_migrate(owned(node, vmid), target, online);
  }
};

}  // namespace rocca::test
