#pragma once

#include "base/uuid.hpp"
#include "platform/world.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

/// Another machine than the node, where the node should be.
struct Stranger {
  std::string why;
  std::string hint;
  bool leaves = false;  // a node that the spec has no longer
};

/// Whether the machine that shows this UUID at an address is another one than the node: the node is
/// known by another UUID, or the machine by another name. One that shows none is another one unless
/// the node is known by none either (Talos in a container).
std::optional<Stranger> find_stranger(const Cluster& cluster, const std::string& node,
                                      const std::optional<Uuid>& shown, const std::string& where);

/// Why nobody can say which machine the node is: spec, lock and state name different ones. Empty:
/// they do not.
std::string find_doubt(const Cluster& cluster, const std::string& node);

/// What it shows.
std::optional<Uuid> shown_uuid(talos::Client& client);

}  // namespace rocca::resources
