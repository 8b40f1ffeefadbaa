#pragma once

#include "kubernetes/external_inputs.hpp"
#include "platform/kinds.hpp"
#include "text/value.hpp"

#include <functional>
#include <string>
#include <vector>

namespace rocca::resources {

/// All that is installed before Git takes over, as sets: addon/cni, addon/cert-approver… Throws
/// Error(Usage) with file, line and column for manifests that cannot be read.
void make_addons(const Cluster& cluster, const OutsidePtr& outside,
                 const std::function<void(const Made&)>& add);
/// Addresses of them, for what comes after.
std::vector<std::string> addon_addresses(const Cluster& cluster, const OutsidePtr& outside);

/// Cilium's Helm values: those that Talos needs, and the user's on top.
text::Value cilium_values(const spec::Spec& spec);

}  // namespace rocca::resources
