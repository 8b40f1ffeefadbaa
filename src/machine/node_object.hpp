#pragma once

#include "platform/world.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

/// A machine as Kubernetes knows it.
struct NodeObject {
  std::string uid;
  bool cordoned = false;
};

// A node that leaves does so also without a Kubernetes that answers: these then do nothing. What
// Kubernetes answers is thrown: a refused cordon is not a cordon.

/// The cluster's Node of that name; nothing if there is none.
std::optional<NodeObject> find_node_object(World& world, const std::string& name);
/// From now on no Pod is scheduled there.
void cordon_node(World& world, const std::string& name);
/// False also where there is no such Node. Throws while no API server answers.
bool is_cordoned(World& world, const std::string& name);
/// Pods are scheduled there again. Throws while no API server answers.
void uncordon_node(World& world, const std::string& name);
/// Talos never removes it by itself. A Node of the same name with another uid stays.
void remove_node_object(World& world, const std::string& name, const std::string& uid);

}  // namespace rocca::resources
