#pragma once

#include "base/files.hpp"
#include "base/uuid.hpp"
#include "base/version.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::spec {

/// A file that was fetched, or will be. The public factory gives no digests: sha256 is there only
/// where rocca itself read the bytes or the user gave one.
struct LockedArtifact {
  std::string url;
  std::optional<std::uint64_t> size;
  std::string sha256;

  friend bool operator==(const LockedArtifact&, const LockedArtifact&) = default;
};

struct LockedAddon {
  std::string version;
  std::string url;
  std::string sha256;

  friend bool operator==(const LockedAddon&, const LockedAddon&) = default;
};

/// What was chosen for a node: a VM's host and id, or the UUID that an existing or adopted machine
/// is known by.
struct LockedNode {
  std::string host;
  std::optional<std::uint64_t> vmid;
  std::optional<Uuid> uuid;

  friend bool operator==(const LockedNode&, const LockedNode&) = default;
};

/// rocca.lock: everything that was resolved once and must come out the same the next time. It holds
/// no secrets.
struct Lock {
  static constexpr std::uint64_t format = 1;

  std::string cluster;
  std::string talos;  // versions without v; empty: not resolved yet
  std::string kubernetes;
  std::map<std::string, std::string>
      schematics;  // by name: `cluster`, `pools.NAME`, `nodes.NAME`; a node's where META is its own
  std::map<std::string, LockedArtifact> images;  // by file name
  std::map<std::string, LockedAddon> addons;
  std::string extensions_of;            // Talos version that the list below is for
  std::vector<std::string> extensions;  // what the factory offers: siderolabs/…
  std::map<std::string, LockedNode> nodes;

  friend bool operator==(const Lock&, const Lock&) = default;
};

/// Throws Usage for text that is no lock, for a format of the future (which a newer rocca wrote),
/// and for values that cannot be.
Lock parse_lock(std::string_view text, const std::string& name);
/// The same lock is the same text, whatever order it was made in.
std::string to_text(const Lock& lock);

/// The lock beside a spec, if there is one.
std::optional<Lock> find_lock(Files& files, const std::string& folder);
void write_lock(Files& files, const std::string& folder, const Lock& lock);

/// One value that differs: `nodes.cp-1.vmid`, what is locked and what would be.
struct LockChange {
  std::string path;
  std::string before;  // empty: not there
  std::string after;

  friend bool operator==(const LockChange&, const LockChange&) = default;
};

/// What would change, in the order of paths.
std::vector<LockChange> changes(const Lock& before, const Lock& after);
/// `--locked`: throws Refused, naming every change, unless there is none.
void require_unchanged(const Lock& before, const Lock& after);

}  // namespace rocca::spec
