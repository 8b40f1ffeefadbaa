#pragma once

#include "base/files.hpp"
#include "spec/findings.hpp"
#include "spec/lock.hpp"
#include "spec/spec.hpp"

namespace rocca::spec {

/// What a look at a whole spec needs beside the spec.
struct Look {
  const Spec& spec;
  Findings& findings;
  const Lock* lock = nullptr;
  Files* files = nullptr;
  bool warn_even_control_planes = false;
};

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
