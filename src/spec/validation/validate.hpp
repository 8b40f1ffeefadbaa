#pragma once

#include "base/files.hpp"
#include "spec/lock.hpp"
#include "spec/spec.hpp"
#include "spec/validation/findings.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace rocca::spec {

/// What a look at a whole spec needs beside the spec.
struct Look {
  const Spec& spec;
  Findings& findings;
  const Lock* lock = nullptr;
  Files* files = nullptr;
  bool warn_even_control_planes = false;
};

/// Credentials that would cross a network in clear.
void validate_credentials(const Look& look);

/// An image that the spec speaks of, and where its extensions stand.
struct ImageLook {
  const Image& image;
  const Node* node = nullptr;  // the first of those that have it; null: nobody has it
  std::string extensions;      // talos.extensions, pools.gpu.talos.extensions

  bool has(std::string_view extension) const;
  /// What a schematic holds cannot be told: it may have everything.
  bool may_have(std::string_view extension) const { return image.schematic || has(extension); }
};
/// Where the extensions of this node's image stand.
std::string extensions_path(const Node& node);
/// That of the spec first, then those of nodes and pools in their order.
std::vector<ImageLook> images_of(const Spec& spec);

void validate_names(const Look& look);
void validate_network(const Look& look);
void validate_nodes(const Look& look);
void validate_hardware(const Look& look);
void validate_versions(const Look& look);
void validate_patches(const Look& look);
void validate_addons(const Look& look);
void validate_platform(const Look& look);

/// All of the above.
void validate(const Look& look);

}  // namespace rocca::spec
