#pragma once

#include "engine/guards.hpp"
#include "platform/kinds.hpp"
#include "proxmox/types.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// One disk of a VM: where it stands and how large it should be.
struct DiskWish {
  std::string slot;  // scsi0
  std::string storage;
  Bytes size;
  proxmox::Drive drive;  // as it is asked for
  std::string serial;    // of one that is made anew; one that was taken over keeps what it has
};

/// All that a node's VM should be.
struct VmWish {
  std::string node;
  bool control_plane = false;
  std::size_t workers = 0;  // of the cluster
  std::string host;         // where it is made; afterwards it may be anywhere
  engine::Identity identity;
  proxmox::VmCreate create;
  std::vector<DiskWish> disks;  // system first
  std::string cloud_init_slot;  // empty: it has no such drive
  std::string from_template;    // empty: it is made anew
  std::string address;          // as the spec says it; empty with DHCP
  Duration boot_timeout{};
  std::string nonce;    // of a clone: an earlier run's that never settled, or a new one
  bool pinned = false;  // the spec says its VM id
  bool begun = false;   // by an earlier run, and never settled
  bool bare = false;    // nothing was ever applied to its machine
  /// An interrupted removal or replacement announced that the machine on it would be reset.
  bool reset_begun = false;
  Fields left;  // values that the user leaves as they were found, by field

  /// It was made by another tool: what the spec cannot say of it (notes, tags, order of boot,
  /// sockets, hardware addresses that nobody wrote down) stays as it was found.
  bool adopted() const { return identity.adopted_vmid.has_value(); }
  /// Options and values that are compared, as Proxmox would be asked for them.
  std::map<std::string, std::string> options() const;
};

/// Where the disks of a VM stand, the one it boots from first: cloud-init, ISO and EFI drives are
/// none.
std::vector<std::string> disk_slots(const proxmox::VmConfig& config);
/// Where a disk of the wish stands in a VM: one that was taken over may have it elsewhere than we
/// would have put it.
std::string slot_in(const VmWish& wish, const DiskWish& disk, const proxmox::VmConfig& config);

VmWish vm_wish(const Cluster& cluster, const Ground& ground, const spec::Node& node);

/// The role that the notes of a VM name for this node; nothing: they are not as we write them.
std::optional<bool> control_plane_by_notes(const Cluster& cluster, const std::string& node,
                                           const proxmox::VmConfig& config);

/// What a difference in this option costs.
Effect effect_of(const std::string& option, const std::string& wanted, const std::string& found);

/// A card of a running VM is plugged in elsewhere, which may cut it off.
bool moves_card(const FieldChange& field);
/// What a worker goes through with this: the same words for all whose cards go to the same place.
std::string ordeal_of(const Change& change);

/// The options of a VM as they were read, each with a digest of its value.
std::string digest_options(const proxmox::VmConfig& config);

/// A VM's configuration in the words of the wish: where both mean the same, the wish's own words.
Fields seen_fields(const VmWish& wish, proxmox::Vmid vmid, const proxmox::VmConfig& config,
                   bool running);
/// The option that a field `OPTION.pending` of these is about; empty for any other. Somebody has
/// changed it so that it takes effect with the next start.
std::string pending_option(const std::string& field);
/// The same of the wish.
Fields wished_fields(const VmWish& wish);

/// A value that `drift ignore` leaves: where that is noted, and how. It counts until either side
/// changes once more.
std::string left_key(const std::string& address, const std::string& field);
std::string left_value(const std::string& found, const std::string& declared);

/// The options to send so that a configuration becomes as wished, of those named.
proxmox::VmUpdate update_of(const VmWish& wish, const proxmox::VmConfig& config,
                            const std::vector<std::string>& fields);

}  // namespace rocca::resources
