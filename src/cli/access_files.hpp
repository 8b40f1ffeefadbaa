#pragma once

#include "secrets/bundle.hpp"
#include "spec/spec.hpp"

namespace rocca::cli {

/// What an admin kubeconfig of this cluster says. Error(Usage) when nobody knows yet where its API
/// will be.
secrets::KubeconfigOptions kubeconfig_options(const spec::Spec& spec);

/// What an admin talosconfig of this cluster says. Error(Usage) when no control plane has an
/// address in the spec.
secrets::TalosconfigOptions talosconfig_options(const spec::Spec& spec);

}  // namespace rocca::cli
