#pragma once

#include "text/value.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::lab::flux {

/// Replaces what SOPS encrypted for age in an object by what it was, and drops its `sops` block.
/// Why that cannot be done, as kustomize-controller says it; nothing: done. `identities` are texts
/// of age identity files.
std::optional<std::string> decrypt_object(text::Value& object,
                                          const std::vector<std::string>& identities);

/// For tests: an age identity made of 32 bytes, and its recipient.
struct AgePair {
  std::string identity, recipient;
};
AgePair age_pair(const std::string& seed);

}  // namespace rocca::lab::flux
