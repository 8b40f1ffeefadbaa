#pragma once

#include "engine/guards.hpp"
#include "resources/world.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// Where a node is reached: as it turned out in this run, as the spec says, or as was remembered.
/// Empty: nobody knows yet.
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
/// Throws Error(Busy) while it may not: the act is tried again, as long as its patience lasts.
void wait_for_quorum(World& world, const std::string& node);

}  // namespace rocca::resources
