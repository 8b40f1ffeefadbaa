#pragma once

#include "kubernetes/external_inputs.hpp"
#include "platform/storage.hpp"
#include "platform/world.hpp"

#include <stop_token>
#include <string>
#include <vector>

namespace rocca::resources {

/// Something that is installed and has a version, and the manifests it is installed from, if it has
/// any that somebody else publishes.
struct AddonSource {
  std::string name;     // in rocca.lock: `flux`, `metricsServer`; a manifest's is its URL or path
  std::string version;  // empty: it has none
  std::string from;     // a URL, a path, or (of more than one line) the objects themselves
  std::string place;    // in the spec
};

bool is_url(const std::string& from);
bool is_inline(const std::string& from);

/// All that a spec installs. What it leaves open stays as it is locked; what is not locked yet gets
/// the version that this rocca was made with.
std::vector<AddonSource> addon_sources(const spec::Spec& spec, const spec::Lock& lock);
/// The version of one of them. Error(Bug) for what the spec does not install.
std::string addon_version(const Cluster& cluster, const std::string& name);

/// Reads what add-ons are made of, and pins it: what came from a URL is kept in `cache` by its
/// digest and is not downloaded again. Error(Refused) when a URL gives something else than what
/// is pinned; Error(Unreachable) when it must be fetched and cannot be.
void fetch_addons(const spec::Spec& spec, spec::Lock& lock, Outside& outside,
                  net::Transport& transport, Files& files, ManifestCache& cache,
                  std::stop_token stop);

}  // namespace rocca::resources
