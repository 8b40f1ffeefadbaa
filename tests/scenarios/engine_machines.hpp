#pragma once

#include "scenarios/engine_rig.hpp"

namespace rocca::scenarios {

// Whoever else is at work in the simulated home: somebody with all rights.

inline test::Administrator root(ClusterRig& rig) {
  return client_with(rig, rig.home.root_token);
}

inline void wait_for(ClusterRig& rig, test::Administrator& client, const proxmox::Upid& upid) {
  while (client.find_task(upid)->running) rig.home.world.run_for(std::chrono::seconds{1});
  EXPECT_TRUE(client.find_task(upid)->ok()) << client.find_task(upid)->exit_status;
}

/// A spec whose nodes are given up sooner than usual.
inline std::string impatient(const std::string& nodes) {
  return replace_all(static_spec(nodes), "  kubernetes:\n",
                     "  timeouts: { boot: 3m, bootstrap: 4m }\n  kubernetes:\n");
}

inline std::size_t times_asked(const ClusterRig& rig, const std::string& what) {
  const auto found = rig.counting.counts.find(what);
  return found == rig.counting.counts.end() ? 0 : found->second;
}

constexpr const char* with_agent =
    "customization:\n  systemExtensions:\n    officialExtensions: "
    "[siderolabs/qemu-guest-agent]\n";

inline void fetch_image(ClusterRig& rig, test::Administrator& client, const std::string& name,
                        const std::string& version = "v1.11.5",
                        const std::string& customization = with_agent,
                        const std::string& host = "pve1") {
  if (rig.home.dc.storages.at("local").on(host).count("import/" + name) != 0) return;
  const std::string schematic = rig.home.factory.add(customization);
  proxmox::Download download;
  download.storage = "local";
  download.filename = name;
  download.url =
      fmt::format("https://factory.talos.dev/image/{}/{}/nocloud-amd64.qcow2", schematic, version);
  wait_for(rig, client, client.start_download(host, download));
}

/// VM 9000, a template that somebody else has made, and a spec whose nodes are clones of it.
inline void make_template(ClusterRig& rig, unsigned vmid = 9000, const std::string& host = "pve1",
                          const std::string& customization = with_agent,
                          const std::string& version = "v1.11.5") {
  test::Administrator client = root(rig);
  fetch_image(rig, client, "talos.qcow2", version, customization, host);
  proxmox::VmCreate create;
  create.vmid = vmid;
  create.name = "talos-template";
  create.agent = true;
  create.efi_disk = proxmox::EfiDisk{"local-lvm", false};
  proxmox::Drive disk;
  disk.storage = "local-lvm";
  disk.import_from = "local:import/talos.qcow2";
  create.drives["scsi0"] = disk;
  create.boot_order = {"scsi0"};
  wait_for(rig, client, std::get<proxmox::Upid>(client.start_create(host, create)));
  wait_for(rig, client, client.start_template(host, vmid));
  rig.home.world.run_for(std::chrono::seconds{20});
}
inline std::string clones(const std::string& nodes) {
  return replace_all(static_spec(nodes), "extensions: [qemu-guest-agent]",
                     "extensions: [qemu-guest-agent], boot: { template: talos-template }");
}

/// A machine that boots Talos into maintenance mode, made by somebody else. With `other`, its first
/// NIC is in another network, and the one we mean is its second.
inline void make_machine(ClusterRig& rig, unsigned vmid, const std::string& address,
                         const std::string& other = "",
                         const std::string& customization = with_agent,
                         const std::string& version = "v1.11.5") {
  test::Administrator client = root(rig);
  fetch_image(rig, client, "metal.qcow2", version, customization);
  proxmox::VmCreate create;
  create.vmid = vmid;
  create.name = fmt::format("bare-{}", vmid);
  create.bios = "seabios";
  create.agent = true;
  proxmox::Drive disk;
  disk.storage = "local-lvm";
  disk.import_from = "local:import/metal.qcow2";
  disk.serial = "bare";
  create.drives["scsi0"] = disk;
  proxmox::Drive drive;
  drive.storage = "local-lvm";
  drive.cloud_init = true;
  create.drives["ide2"] = drive;
  proxmox::Nic nic;
  nic.bridge = "vmbr0";
  create.nics = {nic};
  proxmox::IpConfig ip;
  ip.address = address + "/16";
  ip.gateway = "10.0.0.1";
  create.ip_configs = {ip};
  if (!other.empty()) {
    create.nics = {nic, nic};
    proxmox::IpConfig first;
    first.address = other + "/24";
    create.ip_configs = {first, ip};
  }
  create.nameservers = {"10.0.0.1"};
  create.boot_order = {"scsi0"};
  wait_for(rig, client, std::get<proxmox::Upid>(client.start_create("pve1", create)));
  wait_for(rig, client, client.start_vm("pve1", vmid));
  rig.home.world.run_for(std::chrono::minutes{2});
}

}  // namespace rocca::scenarios
