#pragma once

#include "base/files.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace rocca::spec {

/// The name of the file that a cluster's folder holds.
constexpr const char* spec_file_name = "cluster.yaml";

/// Every cluster.yaml in a folder or below it, sorted. Hidden folders and `configs` are not looked
/// into.
std::vector<std::string> find_specs(Files& files, const std::string& folder, std::size_t depth = 4);

}  // namespace rocca::spec
