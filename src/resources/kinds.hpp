#pragma once

#include "engine/plan.hpp"
#include "resources/thing.hpp"
#include "resources/world.hpp"
#include "state/state.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace rocca::resources {

/// What expand knows beside the cluster: what was remembered, and what the survey found.
struct Ground {
  const state::State& prior;
  std::set<std::string> shared_storages;
  /// Random, made for this look: what the nonces of clones are derived from. Empty: nothing is
  /// created from this look.
  std::string seed = {};

  const state::Item* item(const std::string& address) const;
};

using Made = std::shared_ptr<const Resource>;

// Names of things. They are kept in the state: never change one.
std::string schematic_address(const std::string& id);
std::string image_address(const std::string& storage, const std::string& host,
                          const std::string& file);
std::string vm_address(const std::string& node);
std::string media_address(const std::string& node);
std::string machine_address(const std::string& node);
std::string member_address(const std::string& node);
std::string bootstrap_address(const std::string& cluster);
std::string vip_address(const std::string& cluster);
std::string access_address(const std::string& cluster);

/// The file of an image: named by its content, so that two clusters share one and a new one never
/// takes an old one's place.
std::string image_file(const Cluster& cluster, const spec::Node& node);

// Each makes one thing, or all of its kind.
Made make_schematic(const Cluster& cluster, const Ground& ground, const spec::Node& node);
Made make_image(const Cluster& cluster, const Ground& ground, const spec::Node& node);
Made make_vm(const Cluster& cluster, const Ground& ground, const spec::Node& node);
Made make_media(const Cluster& cluster, const spec::Node& node);
Made make_machine(const Cluster& cluster, const Ground& ground, const spec::Node& node);
Made make_bootstrap(const Cluster& cluster, const Ground& ground);
Made make_member(const Cluster& cluster, const spec::Node& node);
Made make_vip(const Cluster& cluster);
Made make_access(const Cluster& cluster);
/// Deletes the access files of a cluster that is gone, as far as they are ours: signed by this
/// cluster's authority, and not published with a mark that says they are stale.
void remove_access(World& world);
/// Until when the access files' certificates are good, by file.
std::map<std::string, Instant> access_until(World& world);

// Facts that tell what a thing was when it settled, so that `drift` can say who has changed it
// since.
constexpr const char* options_seen = "options";  // of a VM: digest_options
constexpr const char* config_seen = "config";    // of a machine: digest of all of it

// Facts of a clone of a template that was asked for and has not settled, written before the call.
constexpr const char* clone_nonce = "cloneNonce";
constexpr const char* clone_vmid = "cloneVmid";
constexpr const char* clone_host = "cloneHost";
constexpr const char* clone_template = "cloneTemplate";

/// A fact of a machine that was there before us: it is never made, switched off or destroyed.
constexpr const char* was_there = "existing";

/// What is left over: enough is known of it to find it, to prove it and to take it away.
struct Leftover {
  std::string address;
  std::vector<std::string> needs;
  Fields facts;
  std::string receipt = {};  // of an act that never settled
};
/// Refuses to take away a control plane, and what may be one: its role is "unknown".
void guard_role(Change& change, const std::string& node, const std::string& role);
/// Refuses to make a worker of a control plane, or the other way round.
Change refuse_role(const std::string& node, bool was_control_plane);
Made leftover_image(const Cluster& cluster, const Leftover& leftover);
/// Where the images of the spec's nodes would be, whether or not a state remembers them.
std::map<std::string, Fields> image_facts(const Cluster& cluster, const Ground& ground);
Made leftover_vm(const Cluster& cluster, const Leftover& leftover);
Made leftover_machine(const Cluster& cluster, const Leftover& leftover);
Made leftover_member(const Cluster& cluster, const Leftover& leftover);
/// Things that go with what they stand on: nothing is to be taken away.
Made leftover_memory(const Cluster& cluster, const Leftover& leftover);

}  // namespace rocca::resources
