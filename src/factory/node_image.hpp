#pragma once

#include "base/files.hpp"
#include "factory/schematic.hpp"
#include "spec/spec.hpp"

#include <optional>
#include <string>

namespace rocca::factory {

/// The image a node boots and is installed with.
struct NodeImage {
  std::string id;
  std::optional<Schematic> schematic;  // absent: the spec names only an id
};

/// Extensions and kernel arguments of the node, or else of the spec; with META addressing also the
/// node's own network (key 10) and `net.ifnames=0`, because META knows links by their name only.
/// Throws Error(Usage) for a schematic file that is none, and for META with a schematic that is
/// only an id.
NodeImage node_image(Files& files, const spec::Spec& spec, const spec::Node& node);

/// The value of META's key 10: addresses, routes, name and servers of the node on the metal
/// platform.
std::string meta_network(const spec::Spec& spec, const spec::Node& node);

}  // namespace rocca::factory
