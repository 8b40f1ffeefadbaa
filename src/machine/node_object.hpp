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

/// The cluster's Node of that name, asked at the endpoint and then at each control plane. Nothing:
/// there is none, or nobody answers, and then nothing can be done about it.
std::optional<NodeObject> find_node_object(World& world, const std::string& name);
/// Nothing new is scheduled there.
void cordon_node(World& world, const std::string& name);
/// False also where there is no such Node. Throws while no API server answers.
bool is_cordoned(World& world, const std::string& name);
/// Pods are scheduled there again. Throws while no API server answers.
void uncordon_node(World& world, const std::string& name);
/// Talos never removes it by itself.
void remove_node_object(World& world, const std::string& name, const std::string& uid);

}  // namespace rocca::resources
