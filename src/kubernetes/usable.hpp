#pragma once

#include "platform/world.hpp"

#include <map>
#include <optional>
#include <string>

namespace rocca::resources {

/// What was seen of a cluster at work. Nodes that are ready prove little: a Pod must have run, its
/// node must give its logs away (their certificates are approved, the way there is open), and
/// somebody outside must reach a Service.
struct Use {
  bool usable = false;
  std::string told;  // what was seen, or the first thing that was not
};

/// How far Flux is.
struct HandedOver {
  bool ready = false;
  std::string told;  // main@sha1:…, or why not
};

/// Reads, and knocks at one address. Never throws but for an interruption.
Use see_use(World& world);
/// The version of every node's kubelet, as Kubernetes tells it; empty where it does not answer.
std::map<std::string, std::string> see_kubelets(World& world);
/// Nothing: the cluster has no root of Flux.
std::optional<HandedOver> see_flux(World& world);

}  // namespace rocca::resources
