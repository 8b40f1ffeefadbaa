#pragma once

#include "platform/kinds.hpp"

#include <string>
#include <vector>

namespace rocca::kube {
struct Verdict;
}

namespace rocca::resources {

// The address is stored in the state: never change it.
std::string health_address(const std::string& cluster);

/// What a cluster that works has: a Node for every node of the spec, ready where the spec has a CNI
/// for it. Pure: `found` are Node objects.
kube::Verdict nodes_healthy(const std::vector<text::Value>& found,
                            const std::vector<std::string>& wanted, bool must_be_ready);

/// The last wait of `up`: the Kubernetes API answers through the cluster's endpoint and every Node
/// is there and ready. It changes nothing. `needs`: what has to settle before.
Made make_health(const Cluster& cluster, std::vector<std::string> needs);

}  // namespace rocca::resources
