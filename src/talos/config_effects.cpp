#include "talos/config_effects.hpp"

#include "base/error.hpp"
#include "text/yaml.hpp"

#include <algorithm>
#include <set>

namespace rocca::talos {

using text::Value;

namespace {

struct Section {
  std::string_view path;
  ConfigEffect effect;
};

// A section that is not here makes the node reboot. The longest path that fits counts.
constexpr Section sections[] = {
    {"debug", ConfigEffect::Live},
    {"cluster", ConfigEffect::Live},
    {"cluster.apiServer", ConfigEffect::Service},
    {"cluster.controllerManager", ConfigEffect::Service},
    {"cluster.scheduler", ConfigEffect::Service},
    {"cluster.etcd", ConfigEffect::Service},
    {"cluster.controlPlane", ConfigEffect::Service},
    {"cluster.ca", ConfigEffect::Service},
    {"cluster.aggregatorCA", ConfigEffect::Service},
    {"cluster.serviceAccount", ConfigEffect::Service},
    {"cluster.aescbcEncryptionSecret", ConfigEffect::Service},
    {"cluster.secretboxEncryptionSecret", ConfigEffect::Service},
    {"machine.ca", ConfigEffect::Live},
    {"machine.acceptedCAs", ConfigEffect::Live},
    {"machine.time", ConfigEffect::Live},
    {"machine.certSANs", ConfigEffect::Live},
    {"machine.install", ConfigEffect::Live},
    {"machine.network", ConfigEffect::Live},
    {"machine.sysfs", ConfigEffect::Live},
    {"machine.sysctls", ConfigEffect::Live},
    {"machine.logging", ConfigEffect::Live},
    {"machine.controlPlane", ConfigEffect::Service},
    {"machine.kubelet", ConfigEffect::Service},
    {"machine.kernel", ConfigEffect::Live},
    {"machine.registries.mirrors", ConfigEffect::Live},
    {"machine.pods", ConfigEffect::Service},
    {"machine.seccompProfiles", ConfigEffect::Live},
    {"machine.nodeLabels", ConfigEffect::Live},
    {"machine.nodeAnnotations", ConfigEffect::Live},
    {"machine.nodeTaints", ConfigEffect::Live},
    {"machine.features.kubernetesTalosAPIAccess", ConfigEffect::Live},
    {"machine.features.kubePrism", ConfigEffect::Live},
    {"machine.features.hostDNS", ConfigEffect::Live},
    {"machine.features.imageCache", ConfigEffect::Live},
    {"machine.features.nodeAddressSortAlgorithm", ConfigEffect::Live},
};

ConfigEffect effect_at(std::string_view path) {
  ConfigEffect effect = ConfigEffect::Reboot;
  std::size_t longest = 0;
  for (const Section& section : sections) {
    const bool fits = path == section.path ||
                      (path.starts_with(section.path) && path[section.path.size()] == '.');
    if (!fits || section.path.size() < longest) continue;
    longest = section.path.size();
    effect = section.effect;
  }
  return effect;
}

/// Sections whose parts cost differently are looked into.
bool is_split(std::string_view path) {
  return path.empty() || path == "machine" || path == "cluster" || path == "machine.features" ||
         path == "machine.registries";
}

/// A registry's TLS is read again, its credentials are not.
ConfigEffect registry_effect(const Value* before, const Value* after) {
  const auto credentials = [](const Value* config) {
    Value found = Value::map();
    if (config == nullptr) return found;
    for (const text::Entry& entry : config->entries())
      if (const Value* auth = entry.value.find("auth")) found.set(entry.key, *auth);
    return found;
  };
  return credentials(before) == credentials(after) ? ConfigEffect::Live : ConfigEffect::Reboot;
}

void compare(const Value* before, const Value* after, const std::string& path,
             std::vector<ConfigChange>& out) {
  const Value nothing = Value::map();
  const Value& old_value = before != nullptr ? *before : nothing;
  const Value& new_value = after != nullptr ? *after : nothing;
  if (old_value == new_value) return;
  if (!is_split(path)) {
    out.push_back({path, path == "machine.registries.config" ? registry_effect(before, after)
                                                             : effect_at(path)});
    return;
  }
  std::vector<std::string> keys;
  for (const Value* value : {&old_value, &new_value})
    for (const text::Entry& entry : value->entries())
      if (std::find(keys.begin(), keys.end(), entry.key) == keys.end()) keys.push_back(entry.key);
  for (const std::string& key : keys)
    compare(old_value.find(key), new_value.find(key), path.empty() ? key : path + "." + key, out);
}

const ConfigDocument* find(const std::vector<ConfigDocument>& config, const std::string& id) {
  for (const ConfigDocument& document : config)
    if (document.id() == id) return &document;
  return nullptr;
}

ConfigEffect document_effect(const ConfigDocument& document) {
  return document.kind() == "ExtensionServiceConfig" ? ConfigEffect::Service : ConfigEffect::Live;
}

}  // namespace

const char* to_string(ConfigEffect effect) noexcept {
  switch (effect) {
    case ConfigEffect::None:
      return "none";
    case ConfigEffect::Live:
      return "live";
    case ConfigEffect::Service:
      return "service";
    case ConfigEffect::Reboot:
      return "reboot";
  }
  return "";
}

std::vector<ConfigChange> config_changes(const std::vector<ConfigDocument>& before,
                                         const std::vector<ConfigDocument>& after) {
  std::vector<ConfigChange> out;
  for (const std::vector<ConfigDocument>* side : {&before, &after}) {
    for (const ConfigDocument& document : *side) {
      const ConfigDocument* old_one = find(before, document.id());
      const ConfigDocument* new_one = find(after, document.id());
      if (side == &after && old_one != nullptr) continue;  // seen from the other side
      if (document.type == nullptr) {
        compare(old_one != nullptr ? &old_one->value : nullptr,
                new_one != nullptr ? &new_one->value : nullptr, "", out);
      } else if (old_one == nullptr || new_one == nullptr || !(old_one->value == new_one->value)) {
        out.push_back({document.id(), document_effect(document)});
      }
    }
  }
  return out;
}

ConfigEffect effect_of(const std::vector<ConfigChange>& changes) {
  ConfigEffect worst = ConfigEffect::None;
  for (const ConfigChange& change : changes) worst = std::max(worst, change.effect);
  return worst;
}

std::vector<ConfigChange> effects_of_change(std::string_view before, std::string_view after,
                                            unsigned minor) {
  if (before == after) return {};  // mostly it is so, and reading both takes milliseconds
  const auto read = [&](std::string_view text, const char* name) {
    ConfigProblems problems;
    auto documents = decode_config(text::parse_yaml_stream(text, name), minor, problems);
    if (!problems.empty()) throw Error(Fault::Usage, to_string(problems.front(), name));
    return documents;
  };
  return config_changes(read(before, "old configuration"), read(after, "new configuration"));
}

}  // namespace rocca::talos
