#pragma once

#include "base/clock.hpp"
#include "platform/kinds.hpp"

#include <map>
#include <string>

namespace rocca::resources {

// Addresses are stored in the state: never change one.
std::string machine_address(const std::string& node);
std::string member_address(const std::string& node);
std::string bootstrap_address(const std::string& cluster);
std::string vip_address(const std::string& cluster);
std::string access_address(const std::string& cluster);

// Each makes one resource, or all of its kind.
Made make_machine(const Cluster& cluster, const Ground& ground, const spec::Node& node);
Made make_bootstrap(const Cluster& cluster, const Ground& ground);
Made make_member(const Cluster& cluster, const Ground& ground, const spec::Node& node);
Made make_vip(const Cluster& cluster);
Made make_access(const Cluster& cluster);

/// Deletes the access files of a cluster that is gone, as far as they are ours: signed by this
/// cluster's authority, and not published with a mark that says they are stale.
void remove_access(World& world);

/// Why access files that are there do not lead to the cluster: they name addresses that it no
/// longer has, or their certificates are of no use. Empty: they do, or there are none.
std::string stale_access(World& world);

/// Until when the access files' certificates are good, by file.
std::map<std::string, Instant> access_until(World& world);

/// A fact of a machine when it settled, a digest of all of its configuration, so that `drift` can
/// say who has changed it since.
constexpr const char* config_seen = "config";

/// A fact of a machine that was there before us: it is never made, switched off or destroyed.
constexpr const char* was_there = "existing";

/// Refuses to take away a control plane, and what may be one: its role is "unknown".
void guard_role(Change& change, const std::string& node, const std::string& role);

/// Refuses to make a worker of a control plane, or the other way round.
Change refuse_role(const std::string& node, bool was_control_plane);

Made leftover_machine(const Cluster& cluster, const Leftover& leftover);
Made leftover_member(const Cluster& cluster, const Leftover& leftover);

}  // namespace rocca::resources
