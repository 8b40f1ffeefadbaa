#pragma once

#include <string_view>

namespace rocca::talos {

/// May these Kubernetes manifests (a YAML or JSON stream) hold a secret? True for a Secret, at any
/// depth and in any spelling, for a private key, and for what cannot be read: nobody knows what is
/// in that.
bool manifests_hold_secret(std::string_view manifests);

}  // namespace rocca::talos
