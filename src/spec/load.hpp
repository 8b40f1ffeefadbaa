#pragma once

#include "base/diagnostics.hpp"
#include "base/files.hpp"
#include "spec/lock.hpp"
#include "spec/spec.hpp"

#include <set>
#include <string>
#include <string_view>

namespace rocca::spec {

struct LoadOptions {
  /// Specs made from tofu-controller's objects may have two control planes: their users have them
  /// already.
  bool warn_even_control_planes = false;
  /// Where the paths of all fields that were read go; for the test that no key of the table is
  /// idle.
  std::set<std::string>* touched = nullptr;
};

/// A spec and everything that is wrong with it. With errors the spec is as complete as could be
/// made of it.
struct Loaded {
  Spec spec;
  Diagnostics diagnostics;
};

/// Reads, merges, resolves and validates. Throws NotFound when there is no such file; every other
/// problem of the files is in the diagnostics.
Loaded load(Files& files, const std::string& path, const LoadOptions& options = {});
/// The same for a text that did not come from a file (a custom resource); relative paths start in
/// `folder`.
Loaded load_text(Files& files, std::string_view text, const std::string& name,
                 const std::string& folder, const LoadOptions& options = {});

/// The resolved spec as YAML: itself a valid spec, which resolves to itself.
std::string resolved_yaml(const Spec& spec);

}  // namespace rocca::spec
