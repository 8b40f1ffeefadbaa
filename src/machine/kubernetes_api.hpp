#pragma once

#include "base/version.hpp"
#include "kube/client.hpp"
#include "platform/world.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// Where the cluster's Kubernetes may answer: its endpoint, then each control plane.
std::vector<std::string> kubernetes_servers(World& world);

/// How the cluster's admin reaches one of them.
kube::Access kubernetes_access(World& world, const std::string& server);

/// Runs `body` at the first server that answers, as the cluster's admin. What `body` does may be
/// begun anew at the next server when one falls silent. None answers: throws what the last one
/// said.
void at_kubernetes(World& world, const std::function<void(kube::Client&)>& body);

/// Why no API server of this cluster answers at an address; empty: one does. Whatever it answers,
/// it does so with the cluster's certificate.
std::string kubernetes_trouble(World& world, const std::string& host,
                               Duration knock = std::chrono::milliseconds{1500});

/// What the API server at an address says it is; nothing: it does not say.
std::optional<Version> api_server_version(World& world, const std::string& host);

}  // namespace rocca::resources
