#pragma once

#include "platform/kinds.hpp"
#include "talos/types.hpp"

#include <functional>
#include <string>
#include <vector>

namespace rocca::resources {

/// What a node says of itself.
struct NodeFacts {
  std::vector<std::string> extensions{};  // iscsi-tools
  std::vector<talos::Service> services{};
  std::vector<std::string> disks{};  // serial numbers
  std::vector<talos::Address> addresses{};
  std::vector<std::string> mounts{};   // that the kubelet shares with Pods both ways
  std::vector<std::string> volumes{};  // of its configuration: longhorn
  std::vector<std::string> modules{};  // that its kernel has loaded: nvme_tcp
};

/// What a node lacks.
struct Lacks {
  std::vector<std::string> for_good{};  // will not come by waiting: an extension, a mount, a disk
  std::vector<std::string> yet{};       // may still come: a service that starts
};

/// Kernel modules that the spec names and that are not loaded. Pure.
Lacks lacks_of_modules(const spec::Spec& spec, const NodeFacts& facts);
/// What Longhorn needs and this node does not have. Pure.
Lacks lacks_for_longhorn(const spec::Spec& spec, const spec::Node& node, const NodeFacts& facts);
/// That it joined its tailnet: the service runs and it has an address of 100.64.0.0/10. Pure.
Lacks lacks_for_tailscale(const NodeFacts& facts);

/// A node that can carry what the spec asks of it: `prepared/NODE`, for clusters with Longhorn,
/// Tailscale or kernel modules. Verified, not assumed.
void make_prepared(const Cluster& cluster, const std::function<void(const Made&)>& add);

}  // namespace rocca::resources
