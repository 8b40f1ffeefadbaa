#pragma once

#include "talos/config_codec.hpp"
#include "talos/config_secrecy.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace rocca::talos {

/// What it costs to bring a changed configuration to a running node.
enum class ConfigEffect : std::uint8_t {
  None,
  Live,     // applied at once, nothing restarts (or nothing happens before the next upgrade)
  Service,  // kubelet, a control plane's pods or an extension's service start again
  Reboot,
};

const char* to_string(ConfigEffect effect) noexcept;

struct ConfigChange {
  std::string path;  // a section, never a value: "machine.kubelet", "v1alpha1/LinkConfig/eth0"
  ConfigEffect effect = ConfigEffect::Live;

  friend bool operator==(const ConfigChange&, const ConfigChange&) = default;
};

/// What differs, section by section, in the order of the configuration. Talos up to 1.13 decides
/// alike: documents never force a reboot, of the main one only the sections it knows how to
/// re-read do not.
std::vector<ConfigChange> config_changes(const std::vector<ConfigDocument>& before,
                                         const std::vector<ConfigDocument>& after);
/// The costliest of them.
ConfigEffect effect_of(const std::vector<ConfigChange>& changes);

/// The same for two texts. Throws Error(Usage) for one that this Talos would not read.
std::vector<ConfigChange> effects_of_change(std::string_view before, std::string_view after,
                                            unsigned minor);

/// What a change may do to a control plane that it does not restart for.
enum class Disturbance : std::uint8_t {
  None,
  Services,  // something there begins anew; etcd goes on
  Away,      // it may be cut off, or its etcd stop
};
/// By the path of a section or of something in it. What is not known to be harmless is not.
Disturbance disturbance_at(std::string_view path);
/// The worst of them.
Disturbance disturbance_of(const std::vector<ConfigChange>& changes);

/// One value that differs, as people may see it: a secret is `***`, a long text is cut to where it
/// differs. Before and after are never the same words.
struct ShownChange {
  std::string path;    // "machine.sysctls.vm.nr_hugepages", "v1alpha1/LinkConfig/eth0/mtu"
  std::string before;  // empty: not there
  std::string after;
  ConfigEffect effect = ConfigEffect::Live;  // of the section it stands in

  friend bool operator==(const ShownChange&, const ShownChange&) = default;
};
/// The same differences as `effects_of_change`, down to their values. `before` is what a node runs,
/// `after` what is rendered now.
std::vector<ShownChange> shown_changes(std::string_view before, std::string_view after,
                                       unsigned minor, const Secrecy& secrecy);

}  // namespace rocca::talos
