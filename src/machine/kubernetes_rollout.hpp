#pragma once

#include "base/secret.hpp"
#include "machine/kubernetes_upgrade.hpp"
#include "platform/world.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

/// A fact of a control plane: the version of its API server.
constexpr const char* api_server_seen = "kubernetes";

/// What may be applied to a node now on its way to another version of Kubernetes.
struct NextConfig {
  Secret config;          // the desired one, with the images held back whose turn has not come
  std::string waits_for;  // for people; empty: nothing is held back
};
/// Decides from what the control planes run now, so that an upgrade that was interrupted goes on
/// where it was. Throws Error(Busy) while one of them cannot be asked.
NextConfig next_config(World& world, const std::string& node, const Secret& active,
                       const Secret& desired);

/// A new node is not configured with a kubelet that is newer than an API server of the cluster.
/// Throws Error(Busy) while it would be.
void wait_for_api_servers(World& world, const std::string& node, const Secret& desired);

}  // namespace rocca::resources
