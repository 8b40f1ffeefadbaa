#pragma once

#include "base/files.hpp"
#include "spec/load.hpp"

#include <string>

namespace rocca::session {

/// A spec as text, and where it came from.
struct SpecSource {
  std::string text;
  std::string name;         // for messages: "clusters/blue/cluster.yaml", "Cluster default/blue"
  std::string folder = {};  // where its relative paths start; empty: it has no folder
};

/// Parses and validates a spec, its patches included. `files` holds what the spec refers to: bases,
/// patches, an authority. Every problem is in the diagnostics; with errors the spec must not be
/// opened.
spec::Loaded load(Files& files, const SpecSource& source);
/// The same for a file. Error(NotFound) if there is none.
spec::Loaded load_file(Files& files, const std::string& path);

}  // namespace rocca::session
