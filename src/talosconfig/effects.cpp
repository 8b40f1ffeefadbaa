#include "talosconfig/effects.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rocca::talos {

using text::Value;

namespace {

/// Where a key without a row in the table stands.
constexpr ConfigKey unknown{"", ConfigEffect::Reboot, Disturbance::Away};

const ConfigKey& key_at(std::string_view path) {
  const ConfigKey* key = find_config_key(path);
  return key != nullptr ? *key : unknown;
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

/// A section that differs, and what stands in it.
struct Difference {
  std::string path;
  ConfigEffect effect;
  const Value* before;
  const Value* after;
};

std::vector<std::string> keys_of(const Value* before, const Value* after) {
  std::vector<std::string> keys;
  for (const Value* value : {before, after}) {
    if (value == nullptr || !value->is_map()) continue;
    for (const text::Entry& entry : value->entries())
      if (std::find(keys.begin(), keys.end(), entry.key) == keys.end()) keys.push_back(entry.key);
  }
  return keys;
}

const Value* child(const Value* value, const std::string& key) {
  return value == nullptr || !value->is_map() ? nullptr : value->find(key);
}

void compare(const Value* before, const Value* after, const std::string& path,
             std::vector<Difference>& out) {
  const Value nothing = Value::map();
  const Value& old_value = before != nullptr ? *before : nothing;
  const Value& new_value = after != nullptr ? *after : nothing;
  if (old_value == new_value) return;
  // Sections whose parts cost differently are compared part by part.
  if (!has_config_keys_below(path)) {
    out.push_back(
        {path,
         path == "machine.registries.config" ? registry_effect(before, after) : key_at(path).effect,
         before, after});
    return;
  }
  for (const std::string& key : keys_of(before, after))
    compare(child(before, key), child(after, key), path.empty() ? key : path + "." + key, out);
}

const ConfigDocument* find(const std::vector<ConfigDocument>& config, const std::string& id) {
  for (const ConfigDocument& document : config)
    if (document.id() == id) return &document;
  return nullptr;
}

/// The name that a configuration gives to its node, wherever it stands in it: Talos 1.12 moved it
/// into a document of its own. Empty: how Talos finds one decides.
std::string host_name_of(const std::vector<ConfigDocument>& config) {
  std::string name, rule;
  for (const ConfigDocument& document : config) {
    const auto text = [&](std::initializer_list<std::string_view> path) {
      const Value* value = document.value.find(path);
      return value != nullptr && value->is_scalar() ? value->text() : std::string();
    };
    if (document.kind() == "HostnameConfig") {
      if (const std::string own = text({"hostname"}); !own.empty()) name = own;
      rule = text({"auto"});
    } else if (document.type == nullptr) {
      if (name.empty()) name = text({"machine", "network", "hostname"});
      if (rule.empty() && text({"machine", "features", "stableHostname"}) == "true")
        rule = "stable";
    }
  }
  return name.empty() ? "auto: " + rule : name;
}

bool is_host_name(const std::string& path) {
  return path == "machine.network.hostname" || path == "v1alpha1/HostnameConfig";
}

std::vector<Difference> differences(const std::vector<ConfigDocument>& before,
                                    const std::vector<ConfigDocument>& after) {
  std::vector<Difference> out;
  for (const std::vector<ConfigDocument>* side : {&before, &after}) {
    for (const ConfigDocument& document : *side) {
      const ConfigDocument* old_one = find(before, document.id());
      const ConfigDocument* new_one = find(after, document.id());
      if (side == &after && old_one != nullptr) continue;  // seen from the other side
      const Value* old_value = old_one != nullptr ? &old_one->value : nullptr;
      const Value* new_value = new_one != nullptr ? &new_one->value : nullptr;
      if (document.type == nullptr) {
        compare(old_value, new_value, "", out);
      } else if (old_value == nullptr || new_value == nullptr || !(*old_value == *new_value)) {
        out.push_back({document.id(), key_at(document.id()).effect, old_value, new_value});
      }
    }
  }
  if (host_name_of(before) == host_name_of(after))  // it only stands elsewhere now
    for (Difference& each : out)
      if (is_host_name(each.path)) each.effect = ConfigEffect::Live;
  return out;
}

std::vector<ConfigDocument> read(std::string_view text, const char* name, unsigned minor) {
  ConfigProblems problems;
  auto documents = decode_config(text::parse_yaml_stream(text, name), minor, problems);
  if (!problems.empty()) throw Error(Fault::Usage, to_string(problems.front(), name));
  return documents;
}

// ---- for people

constexpr std::size_t longest = 60;

std::string cut(const std::string& line) {
  if (line.size() <= longest) return line;
  std::size_t end = longest - 3;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0u) == 0x80u) --end;
  return line.substr(0, end) + "…";
}

std::string plain(const Value* value) {
  if (value == nullptr) return "";
  return value->is_scalar() && !value->is_null() ? value->text() : text::emit_json(*value);
}

/// Of two texts that may be long what tells them apart.
std::pair<std::string, std::string> told_apart(const std::string& before,
                                               const std::string& after) {
  const std::vector<std::string> a = split(before, '\n');
  const std::vector<std::string> b = split(after, '\n');
  if (a.size() == 1 && b.size() == 1) {
    std::string first = cut(before);
    std::string second = cut(after);
    if (first == second) second += " (another from there on)";
    return {std::move(first), std::move(second)};
  }
  std::size_t line = 0;
  while (line < a.size() && line < b.size() && a[line] == b[line]) ++line;
  const auto shown = [&](const std::string& whole, const std::vector<std::string>& lines) {
    if (whole.empty()) return std::string();
    const std::string words = line < lines.size() ? std::string(trim(lines[line])) : "(its end)";
    return lines.size() == 1 ? cut(whole) : fmt::format("line {}: {}", line + 1, cut(words));
  };
  std::string first = shown(before, a);
  std::string second = shown(after, b);
  if (first == second) second += " (another)";  // in its blanks, or behind the cut
  return {std::move(first), std::move(second)};
}

/// What may be shown of a part of a configuration: the same part of the masked one.
const Value* masked_like(const Value* part, const Value& whole, const Value& masked) {
  if (part == &whole) return &masked;
  for (std::size_t i = 0; i < whole.entries().size() && i < masked.entries().size(); ++i)
    if (const Value* found = masked_like(part, whole.entries()[i].value, masked.entries()[i].value))
      return found;
  for (std::size_t i = 0; i < whole.items().size() && i < masked.items().size(); ++i)
    if (const Value* found = masked_like(part, whole.items()[i], masked.items()[i])) return found;
  return nullptr;
}

const Value* masked_like(const Value* part, const std::vector<ConfigDocument>& config,
                         const std::vector<Value>& masked) {
  if (part == nullptr) return nullptr;
  for (std::size_t i = 0; i < config.size(); ++i)
    if (const Value* found = masked_like(part, config[i].value, masked[i])) return found;
  throw Error(Fault::Bug, "a difference is in neither of the two configurations");
}

/// Walks what is there and what may be shown of it side by side.
class Shower {
 public:
  Shower(ConfigEffect effect, std::vector<ShownChange>& out) : effect_(effect), out_(out) {}

  struct Side {
    const Value* value;
    const Value* masked;
    Side at(const std::string& key) const { return {child(value, key), child(masked, key)}; }
    Side at(std::size_t index) const {
      return {&value->items()[index], masked->is_list() ? &masked->items()[index] : masked};
    }
    bool is_list() const { return value != nullptr && value->is_list(); }
    bool is_tree() const { return value == nullptr || value->is_map(); }
  };

  void show(const Side& before, const Side& after, const std::string& path, char joint) {
    if (before.value == nullptr && after.value == nullptr) return;
    if (before.value != nullptr && after.value != nullptr && *before.value == *after.value) return;
    if (before.is_tree() && after.is_tree()) {
      for (const std::string& key : keys_of(before.value, after.value))
        show(before.at(key), after.at(key), path + joint + key, '.');
      return;
    }
    if (before.is_list() && after.is_list() &&
        before.value->items().size() == after.value->items().size()) {
      for (std::size_t i = 0; i < after.value->items().size(); ++i)
        show(before.at(i), after.at(i), fmt::format("{}[{}]", path, i), '.');
      return;
    }
    const std::string to = plain(after.masked);
    std::string from = plain(before.masked);
    // Where a secret stands now, the value before it was one as well.
    if (to == "***" && !from.empty()) from = "***";
    auto [first, second] = told_apart(from, to);
    if (first == "***" && to == "***") second = "*** (another)";
    out_.push_back({path, std::move(first), std::move(second), effect_});
  }

 private:
  ConfigEffect effect_;
  std::vector<ShownChange>& out_;
};

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
    case ConfigEffect::Fixed:
      return "fixed";
  }
  return "";
}

std::vector<ConfigChange> config_changes(const std::vector<ConfigDocument>& before,
                                         const std::vector<ConfigDocument>& after) {
  std::vector<ConfigChange> out;
  for (const Difference& each : differences(before, after)) out.push_back({each.path, each.effect});
  return out;
}

ConfigEffect effect_of(const std::vector<ConfigChange>& changes) {
  ConfigEffect worst = ConfigEffect::None;
  for (const ConfigChange& change : changes) worst = std::max(worst, change.effect);
  return worst;
}

Disturbance disturbance_at(std::string_view path) {
  return key_at(path).disturbance;
}

std::string why_fixed(std::string_view path) {
  return std::string(key_at(path).why);
}

std::string way_out(std::string_view path) {
  return std::string(key_at(path).way_out);
}

Disturbance disturbance_of(const std::vector<ConfigChange>& changes) {
  Disturbance worst = Disturbance::None;
  for (const ConfigChange& change : changes) worst = std::max(worst, disturbance_at(change.path));
  return worst;
}

std::vector<ConfigChange> effects_of_change(std::string_view before, std::string_view after,
                                            unsigned minor) {
  if (before == after) return {};  // mostly it is so, and reading both takes milliseconds
  return config_changes(read(before, "old configuration", minor),
                        read(after, "new configuration", minor));
}

std::vector<ShownChange> shown_changes(std::string_view before, std::string_view after,
                                       unsigned minor, const Secrecy& secrecy) {
  if (before == after) return {};
  const auto old_config = read(before, "old configuration", minor);
  const auto new_config = read(after, "new configuration", minor);
  const MaskedConfigs masked = mask_both(before, old_config, new_config, minor, secrecy);
  std::vector<ShownChange> out;
  for (const Difference& each : differences(old_config, new_config)) {
    const Shower::Side old_side{each.before, masked_like(each.before, old_config, masked.before)};
    const Shower::Side new_side{each.after, masked_like(each.after, new_config, masked.after)};
    const std::size_t shown = out.size();
    Shower{each.effect, out}.show(old_side, new_side, each.path,
                                  each.path.find('/') != std::string::npos ? '/' : '.');
    // Something that is empty has come or gone.
    if (out.size() == shown)
      out.push_back({each.path, plain(old_side.masked), plain(new_side.masked), each.effect});
  }
  return out;
}

}  // namespace rocca::talos
