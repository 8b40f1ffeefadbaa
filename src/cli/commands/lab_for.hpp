#pragma once

#include "lab/data_centre.hpp"
#include "spec/spec.hpp"

namespace rocca::cli {

/// A home in which this cluster has what its spec names: hosts, endpoints, storages, bridges,
/// pools, its subnet with its gateway, and a DHCP server where its nodes want one.
void fit(lab::Home::Options& home, const spec::Spec& spec);

}  // namespace rocca::cli
