#pragma once

#include "lab/services/web.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::pve {

/// One volume of a storage. `size` is what a guest sees, `used` what it takes.
struct Volume {
  std::string
      name;  // behind the colon: "import/x.qcow2", "100/vm-100-disk-0.qcow2", "vm-100-disk-0"
  std::string content;  // images, iso, import, vztmpl, backup, snippets
  std::string format;   // raw, qcow2, vmdk, iso, …
  std::uint64_t size = 0;
  std::uint64_t used = 0;
  std::int64_t ctime = 0;
  std::optional<unsigned> vmid;  // owner, for images
  std::string parent;            // volume name of the base
  std::string notes;
  std::map<std::string, std::string> digests;  // of the file, by algorithm
  ImageFacts image;                            // what is on it; follows import, clone and move
  std::uint64_t read_rate = 0;                 // bytes per second; 0: as fast as others
};

/// A configured storage (storage.cfg) and what lies on it: per node, or once for all when shared.
struct Storage {
  std::string id;
  std::string type;  // dir, lvmthin, lvm, zfspool, nfs, …
  std::map<std::string, std::string>
      options;                       // path, vgname, thinpool, pool, server, export, format, …
  std::vector<std::string> content;  // in the order of the config
  std::set<std::string> nodes;       // empty: all
  bool disabled = false;
  bool shared = false;
  bool online = true;  // a server that does not answer makes it false
  std::uint64_t total = 500ull << 30;
  std::uint64_t reserved = 0;  // taken by things that are no volumes; "storage full" sets it
  std::map<std::string, std::map<std::string, Volume>>
      volumes;  // node ("" when shared) -> name -> volume

  bool allows(std::string_view kind) const;
  bool on_node(std::string_view node) const {
    return nodes.empty() || nodes.contains(std::string(node));
  }
  bool file_based() const;
  std::string path() const;
  std::string volid(const Volume& volume) const { return id + ":" + volume.name; }
  /// The file or device of a volume, as error texts name it.
  std::string path_of(const Volume& volume) const;
  std::string path_of(std::string_view content, std::string_view name) const;

  std::map<std::string, Volume>& on(const std::string& node) { return volumes[shared ? "" : node]; }
  const std::map<std::string, Volume>& on(const std::string& node) const;
  std::uint64_t used(const std::string& node) const;
  std::uint64_t available(const std::string& node) const;
  /// A size as this type of storage rounds it up (LVM extents of 4 MiB, ZFS 1 MiB, files 1 KiB).
  std::uint64_t round_up(std::uint64_t bytes) const;
  std::string default_format() const;  // for new images
  std::vector<std::string> formats() const;
};

/// `local:iso/x.iso` -> {"local", "iso/x.iso"}; nothing if it has no such form.
struct VolumeId {
  std::string storage;
  std::string name;
  static std::optional<VolumeId> parse(std::string_view text);
};

/// What a volume's name says about it: its content type, owner, format and base. Throws Failure
/// with the storage type's own text (`unable to parse directory volume name '32G'`).
struct VolumeName {
  std::string content;
  std::string file;  // last part
  std::optional<unsigned> vmid;
  std::string base;  // name of the base volume, for linked clones
  std::string format;
  bool is_base = false;
};
VolumeName parse_volume_name(const Storage& storage, std::string_view name);

}  // namespace rocca::lab::pve
