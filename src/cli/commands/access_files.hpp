#pragma once

#include "secrets/bundle.hpp"
#include "spec/spec.hpp"

#include <map>
#include <string>

namespace rocca::cli {

struct Context;

/// Where the nodes are, by name: as the spec says it, and where it leaves that to DHCP, as the last
/// run found them.
using Addresses = std::map<std::string, std::string>;
Addresses addresses_of(Context& context, const spec::Spec& spec);

/// Of the first control plane, where the spec leaves it to DHCP; empty: not known, or not needed.
std::string first_address_of(const spec::Spec& spec, const Addresses& addresses);

/// What an admin kubeconfig of this cluster says. Error(Usage) when nobody knows yet where its API
/// will be.
secrets::KubeconfigOptions kubeconfig_options(const spec::Spec& spec, const Addresses& addresses);

/// What an admin talosconfig of this cluster says. Error(Usage) when nobody knows yet where a
/// control plane is.
secrets::TalosconfigOptions talosconfig_options(const spec::Spec& spec, const Addresses& addresses);

}  // namespace rocca::cli
