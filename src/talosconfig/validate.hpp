#pragma once

#include "talosconfig/codec.hpp"

#include <string>
#include <string_view>
#include <vector>

/// Finds offline what a node would refuse, and what it would take although it cannot work.
namespace rocca::talos {

/// Stands for a secret that is not looked up while a patch is checked: it fits wherever base64 or a
/// key of 32 bytes must be, and no check of what a text says complains about it.
inline constexpr std::string_view secret_stand_in = "dGhpcyB0ZXh0IHN0YW5kcyBpbiBmb3IgYSBzZWNyZXQ=";

/// Where the configuration is for: `Metal` must say where to install, `Cloud` (nocloud too) need
/// not, and a `Container` must resolve names through its host.
enum class ConfigMode { Cloud, Metal, Container };

/// Every problem, with its place and path; those that Talos does not find are marked `ours`, those
/// that it only warns of `warning` (with `--strict` it refuses those of the main document). No
/// value that could be a secret is repeated.
ConfigProblems validate_config(std::string_view text, const std::string& name, unsigned minor,
                               ConfigMode mode);
ConfigProblems validate_documents(const std::vector<ConfigDocument>& config, unsigned minor,
                                  ConfigMode mode);

}  // namespace rocca::talos
