#pragma once

#include "secrets/bundle.hpp"
#include "spec/spec.hpp"
#include "talosconfig/render.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace rocca::cli {

struct Context;

using RenderedNode = std::pair<const spec::Node*, talos::MachineConfig>;

/// The machine configuration of each node, as `up` would apply it. What Talos would refuse is
/// printed, and there is nothing then. `first_address`: of the first control plane, where the spec
/// leaves it to DHCP and it is known.
std::optional<std::vector<RenderedNode>> render_nodes(Context& context, const spec::Spec& spec,
                                                      const std::vector<const spec::Node*>& nodes,
                                                      secrets::Bundle bundle,
                                                      const std::string& first_address);

}  // namespace rocca::cli
