#pragma once

#include "platform/proxmox/needs.hpp"
#include "proxmox/client.hpp"
#include "proxmox/privileges.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

// What would stop a run half-way, found before its first change: names that do not exist, rights
// that the token does not have. Judged from facts, so that every message is a test.

namespace rocca::resources {

/// One reason why a change would fail.
struct Hindrance {
  std::string text;
  std::string hint;
  bool about_rights = false;

  friend bool operator==(const Hindrance&, const Hindrance&) = default;
};

/// What these grants allow on a path: what is listed for it, else what the nearest listed path
/// above it passes down.
std::set<std::string> effective_on(const proxmox::Grants& grants, const std::string& path);

/// The needs that the grants do not meet; those that rocca can do without are left out.
std::vector<proxmox::Need> unmet(const std::vector<proxmox::Need>& needs,
                                 const proxmox::Grants& grants);

/// A name of the spec as one host shows it.
enum class Presence {
  There,
  Missing,  // the host has no such thing
  Hidden,   // it exists, and the token may not use it
  Unknown,  // not shown: it does not exist, or the token may not see it
};

/// A bridge that is not among those that `visible` shows. `exists`: what the host says of it, where
/// the token may ask.
Presence judge_bridge(bool may_see, std::optional<bool> exists);

/// "bridge 'vmbr9' does not exist on pve1 (did you mean `vmbr0`?)", never a missing right where
/// the name is wrong.
Hindrance bridge_problem(const std::string& bridge, const std::string& host, Presence presence,
                         const std::vector<std::string>& visible);

/// What is wrong with a storage as one host shows it; nothing: it takes this content there.
/// `may_see`: the token has a right on it.
std::optional<Hindrance> storage_problem(const std::string& name, const std::string& content,
                                         const std::string& host,
                                         const std::vector<proxmox::StorageInfo>& storages,
                                         bool may_see);

Hindrance pool_problem(const std::string& pool, const std::vector<std::string>& known,
                       bool may_see);

/// May the token see every VM? Else ids in use may be hidden from it.
bool sees_every_vm(const proxmox::Grants& grants);

}  // namespace rocca::resources
