#pragma once

#include "base/version.hpp"
#include "kube/client.hpp"
#include "platform/world.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// Where the cluster's Kubernetes may answer: where it did last in this run, its endpoint, each
/// control plane.
std::vector<std::string> kubernetes_servers(World& world);

/// How the cluster's admin reaches one of them.
kube::Access kubernetes_access(World& world, const std::string& server);

/// Runs `body` at the first server that answers, as the cluster's admin. A server that cannot be
/// reached, or whose certificate is not the cluster's, is passed over, and `body` starts again at
/// the next. If none answers, throws why the last one did not.
void at_kubernetes(World& world, const std::function<void(kube::Client&)>& body);

/// The same for a `body` that may run twice: also a lost answer leads to the next server. False: no
/// server answered. A refusal is an answer, and is thrown.
bool try_kubernetes(World& world, const std::function<void(kube::Client&)>& body);

/// Why no API server of this cluster answers at an address; empty: one does. Whatever it answers,
/// it does so with the cluster's certificate.
std::string kubernetes_trouble(World& world, const std::string& host,
                               Duration knock = std::chrono::milliseconds{1500});

/// What the API server at an address says it is; nothing: it does not say.
std::optional<Version> api_server_version(World& world, const std::string& host);

}  // namespace rocca::resources
