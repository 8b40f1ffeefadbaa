#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "factory/client.hpp"
#include "locking/choose.hpp"
#include "proxmox/client.hpp"

#include <functional>
#include <optional>

namespace rocca::locking {

/// Who is asked for what the old lock does not say. A lock that already says everything is resolved
/// without asking anybody.
struct Sources {
  factory::Client& factory;
  /// What is there, asked once and only when a host or an id must be chosen.
  std::function<Occupied()> look;
  /// Is this id really free? A token may not see every VM. Asked for each new id.
  std::function<bool(std::uint64_t vmid)> is_free;
  /// A factory builds an image when it is first asked for.
  Duration patience = std::chrono::minutes{10};
  /// Asks again for what is locked: extensions, sizes and digests.
  bool refresh = false;
  /// Reads every image whose digest is not locked yet, all of it, and locks that: the factory
  /// publishes none, and what Proxmox fetches later must be the same.
  bool digests = false;
  /// How far that is; called for every piece that comes.
  std::function<void(const std::string& file, Bytes so_far, std::optional<Bytes> all)> heard = {};
};

/// rocca.lock as the spec wants it now: versions, schematic ids, image URLs and sizes, the list of
/// extensions that the factory has for this Talos, hosts and VM ids. What is locked stays wherever
/// the spec still allows it; digests, add-ons and UUIDs are kept as they are, and so are nodes that
/// the spec no longer names. Throws Usage for an extension that the factory does not have.
spec::Lock resolve(Files& files, const spec::Spec& spec, const spec::Lock& before,
                   const Sources& sources);

/// The part of it that nobody need be asked for: versions, schematic ids and image URLs. Throws
/// Refused for the lock of another cluster.
spec::Lock pin(Files& files, const spec::Spec& spec, const spec::Lock& before);

/// Are the spec's extensions among those that the factory has for this Talos? Its list is asked for
/// once and kept in the lock. Throws Usage for one that it does not have.
void check_extensions(const spec::Spec& spec, spec::Lock& lock, factory::Client& factory,
                      bool refresh = false);

/// Hosts and VM ids of all virtual nodes, written into `lock`. Each id that is chosen anew is made
/// sure of with `is_free`, because a token may not see every VM.
void choose_nodes(const spec::Spec& spec, const spec::Lock& before, spec::Lock& lock,
                  Occupied there, const std::function<bool(std::uint64_t)>& is_free);

/// The disk image (or ISO) that a node boots first; nothing for machines that are already there and
/// for VMs that are cloned from a template.
std::optional<factory::Artifact> artifact_of(const spec::Spec& spec, const spec::Node& node);

/// What a Proxmox says of its VMs and hosts.
Occupied occupied(proxmox::Client& client);

}  // namespace rocca::locking
