#pragma once

#include "engine/guards.hpp"
#include "engine/resource.hpp"
#include "platform/world.hpp"
#include "proxmox/types.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// Where a create or a clone of ours may have ended in the middle: its host lost power, or its
/// worker was killed. Proxmox takes nothing back then: volumes stay that no VM names, and the next
/// create of that id trips over the one whose name is always the same (`vm-ID-cloudinit`).
struct RestSearch {
  engine::Identity identity;
  proxmox::Vmid vmid = 0;
  std::string host;
  std::string vm_name;
  std::string pool;
  /// Our state remembers an act for this VM that never settled.
  bool remembered = false;
  /// It was to be a clone of this one: the task log names the source, not the clone.
  struct Source {
    proxmox::Vmid vmid = 0;
    std::string host;
  };
  std::optional<Source> source = {};
};

/// Volumes that are provably the rest of such a create: named by an id that no VM has, and made
/// while a create of that id by us, which failed, was at work by its host's own task log. Where a
/// storage tells no times, only if the state remembers the create too.
std::vector<std::string> rest_of_create(World& world, const RestSearch& search);

/// A template by its name. What lies on one host cannot be cloned to another, so that each may have
/// one of that name: the host's own, and else any.
std::optional<proxmox::VmRow> find_template(World& world, const std::string& name,
                                            const std::string& host);

/// A clone of this source by us that is still at work: which VM it will be, nobody can tell yet.
std::optional<proxmox::Upid> clone_at_work(World& world, const RestSearch::Source& source);
/// The same of all templates of that name. A host that is away clones nothing.
std::optional<proxmox::Upid> clone_under_way(World& world, const std::string& from_template);

/// Nobody but a storage's owner may delete a volume; but whoever owns a VM may delete it with all
/// that it names. So the rest is given to a VM with our mark, which is proved and destroyed as any
/// other. The create itself refuses an id that somebody has taken meanwhile.
engine::Receipt gather_rest(World& world, const RestSearch& search,
                            const std::vector<std::string>& volumes);
/// A VM that was made for that, and for nothing else: its SMBIOS says so, and it has no disk in a
/// slot. For VMs that are proved to be ours.
bool is_gathered_rest(const proxmox::VmConfig& config);

/// A create that died has left its lock, which only root may take away: says how.
[[noreturn]] void throw_dead_lock(const proxmox::VmRow& row, const std::string& lock);

}  // namespace rocca::resources
