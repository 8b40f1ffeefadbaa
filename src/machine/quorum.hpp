#pragma once

#include "base/error.hpp"
#include "engine/guards.hpp"
#include "platform/world.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// The name under which `Survey::opened` keeps where a node without an address of its own was found
/// in this run.
std::string address_found(const std::string& node);

/// Where a node is reached: as the spec says, as it was found in this run, or as was remembered.
/// Empty: not known yet.
std::string address_of(const World& world, const std::string& node);

/// etcd as its members themselves tell it.
struct EtcdView {
  std::vector<engine::Member> members;
  std::string asked;                // the node that answered for all; empty: none did
  std::vector<std::string> silent;  // control planes that did not answer
  std::size_t waiting = 0;          // those that answer, and whose etcd has not begun
};
EtcdView etcd_view(World& world);

/// May this control plane be away for a while? Asks the others now. Nothing to lose (no etcd yet)
/// is a yes.
engine::Verdict quorum_gate(World& world, const std::string& node);
/// Throws if another control plane has not come back from what this run did to it.
void refuse_after_loss(World& world, const std::string& node);
/// Another node keeps `node` from being disrupted. Error(Busy), to be asked again; once that has
/// lasted as long as a boot may take, Error(Timeout).
[[noreturn]] void throw_not_yet(World& world, const std::string& node, const Error& reason);
/// It may be disrupted now: the next such wait begins anew.
void turn_has_come(World& world, const std::string& node);
/// Throws as above while quorum does not allow it.
void wait_for_quorum(World& world, const std::string& node);

}  // namespace rocca::resources
