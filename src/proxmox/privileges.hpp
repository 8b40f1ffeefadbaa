#pragma once

#include "proxmox/types.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::proxmox {

/// Something rocca does on a Proxmox, as far as rights are concerned.
enum class Act {
  ReadCluster,  ///< quorum and datacenter options
  ListVms,      ///< see our VMs and their configuration
  ListStorage,  ///< see storages and what is on them
  ListBridges,
  DownloadImage,  ///< let a host fetch an image
  DeleteImage,
  CreateVm,  ///< with disks, cloud-init drive, NICs, tags
  ChangeVm,  ///< CPU, memory, options, NICs, disks of an existing VM
  ResizeDisk,
  Power,  ///< start, stop, shut down, reboot
  DestroyVm,
  ReadAgent,         ///< ask the guest agent for addresses
  ChangeCdrom,       ///< of an existing VM: take its ISO out, give it a cloud-init drive
  RewriteCloudInit,  ///< write the cloud-init drive again after a change of its contents
  CloneTemplate,
  ReadTasks,  ///< other people's tasks: who changed what
  ReadLog,    ///< the cluster log: who made a change that left no task
  MigrateVm,
};

const std::vector<Act>& all_acts();
const char* to_string(Act act) noexcept;  // "create-vm"

/// What the acts are about: the things a spec names.
struct Scope {
  Version version{9, 0, 0};
  std::vector<std::string> hosts;
  Vmid vmid = 100;   // any id of ours: rights on /vms cover all of them
  std::string pool;  // VMs are made in this pool, if named
  std::string image_storage;
  std::vector<std::string> disk_storages;
  struct Link {
    std::string bridge;
    std::optional<unsigned> vlan;
    std::string zone = "localnetwork";
  };
  std::vector<Link> links;
  std::vector<std::string> pci_mappings;
  Vmid template_vmid = 0;  // CloneTemplate
  bool manage_ha = false;
};

/// One right an act needs: any of `any_of` on `path`.
struct Need {
  Act act;
  std::string path;
  std::vector<std::string> any_of;
  std::string why;
  /// Without it Proxmox does not refuse but leaves rows out of its answer, and things seem to be
  /// missing.
  bool hides = false;
  /// What rocca can do without, at the price named in `why`.
  bool optional = false;

  friend bool operator==(const Need&, const Need&) = default;
};

/// Everything an act needs in this scope. Pure: what Proxmox checks, per version.
std::vector<Need> needs(Act act, const Scope& scope);

/// The needs that these effective permissions (by path) do not meet.
std::vector<Need> missing(const std::vector<Need>& needs, const Permissions& effective);

/// The pveum lines that grant what the acts need: one role per place, then the grants, to the token
/// and, because a token with privilege separation has the intersection of both, to its user. They
/// only add: other clusters may use the same roles.
std::vector<std::string> pveum_lines(const std::vector<Act>& acts, const Scope& scope,
                                     const std::string& token_id, bool privilege_separation);

}  // namespace rocca::proxmox
