#pragma once

#include "talosconfig/codec.hpp"
#include "talosconfig/secrecy.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::talos {

/// What it costs to bring a changed configuration to a running node.
enum class ConfigEffect : std::uint8_t {
  None,
  Live,     // applied at once, nothing restarts (or nothing happens before the next upgrade)
  Service,  // kubelet, a control plane's pods or an extension's service start again
  Reboot,
  Fixed,  // decided when the node or the cluster is created: rocca refuses the change
};

const char* to_string(ConfigEffect effect) noexcept;

/// What a change may do to a control plane that it does not restart for.
enum class Disturbance : std::uint8_t {
  None,
  Services,  // something restarts there; etcd keeps running
  Away,      // it may be cut off, or its etcd stop
};

/// One row of the table that says what changing a key costs.
struct ConfigKey {
  std::string_view path;  // of the main document ("machine.kubelet"), or the kind of another one
  ConfigEffect effect;
  Disturbance disturbance;
  // Of a fixed one, for people.
  std::string_view why = {};
  std::string_view way_out = {};
};
/// The rows of the main document. A row holds for its key and all below it.
std::span<const ConfigKey> config_keys();
/// The rows of the other documents, by kind.
std::span<const ConfigKey> config_document_keys();
/// The row for a path as ConfigChange and ShownChange have it; nullptr: the key is unknown.
const ConfigKey* find_config_key(std::string_view path);
/// Does the table tell parts of this section apart?
bool has_config_keys_below(std::string_view path);
/// For people: why a fixed key cannot be changed.
std::string why_fixed(std::string_view path);
/// And what to do instead.
std::string way_out(std::string_view path);

struct ConfigChange {
  std::string path;  // a section, never a value: "machine.kubelet", "v1alpha1/LinkConfig/eth0"
  ConfigEffect effect = ConfigEffect::Reboot;

  friend bool operator==(const ConfigChange&, const ConfigChange&) = default;
};

/// What differs, section by section, in the order of the configuration. A key without a row in the
/// table is taken to need a reboot.
std::vector<ConfigChange> config_changes(const std::vector<ConfigDocument>& before,
                                         const std::vector<ConfigDocument>& after);
/// The costliest of them.
ConfigEffect effect_of(const std::vector<ConfigChange>& changes);

/// The same for two texts. Throws Error(Usage) for one that this Talos would not read.
std::vector<ConfigChange> effects_of_change(std::string_view before, std::string_view after,
                                            unsigned minor);

/// By the path of a section or of a key in it. An unknown key may cut the node off.
Disturbance disturbance_at(std::string_view path);
/// The worst of them.
Disturbance disturbance_of(const std::vector<ConfigChange>& changes);

/// One value that differs, as people may see it: a secret is `***`, a long text is cut to where it
/// differs. Before and after are never the same words.
struct ShownChange {
  std::string path;    // "machine.sysctls.vm.nr_hugepages", "v1alpha1/LinkConfig/eth0/mtu"
  std::string before;  // empty: not there
  std::string after;
  ConfigEffect effect = ConfigEffect::Reboot;  // of the section it stands in

  friend bool operator==(const ShownChange&, const ShownChange&) = default;
};
/// The same differences as `effects_of_change`, down to their values. `before` is what a node runs,
/// `after` what is rendered now.
std::vector<ShownChange> shown_changes(std::string_view before, std::string_view after,
                                       unsigned minor, const Secrecy& secrecy);

}  // namespace rocca::talos
