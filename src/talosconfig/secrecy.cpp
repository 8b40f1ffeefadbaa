#include "talosconfig/secrecy.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "secrets/crypto.hpp"
#include "talosconfig/render.hpp"
#include "talosconfig/scalars.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

namespace rocca::talos {

using text::Value;

namespace {

// Places whose values are no secrets: they are shown by Kubernetes, by Talos's own screen or by
// whoever looks at the network, and people need them to understand a plan. A row stands for all
// that is below it. Everything else may hold a secret. What has a type of its own (numbers, bools,
// durations, addresses, sizes) needs no row.
constexpr std::array open_table = std::to_array<std::string_view>({
    "version",
    "machine.type",
    "machine.controlPlane",
    "machine.kubelet.image",
    "machine.kubelet.clusterDNS",
    "machine.kubelet.extraMounts.destination",
    "machine.kubelet.extraMounts.type",
    "machine.kubelet.extraMounts.source",
    "machine.kubelet.nodeIP",
    "machine.network.hostname",
    "machine.network.nameservers",
    "machine.network.interfaces.interface",
    "machine.network.interfaces.deviceSelector",
    "machine.network.interfaces.addresses",
    "machine.network.interfaces.cidr",
    "machine.network.interfaces.routes",
    "machine.network.interfaces.bond",
    "machine.network.interfaces.bridge",
    "machine.network.interfaces.bridgePort",
    "machine.network.interfaces.vlans.addresses",
    "machine.network.interfaces.vlans.cidr",
    "machine.network.interfaces.vlans.routes",
    "machine.network.interfaces.vlans.vip.ip",
    "machine.network.interfaces.vip.ip",
    "machine.network.interfaces.dhcpOptions",
    "machine.network.interfaces.wireguard.peers.publicKey",
    "machine.network.interfaces.wireguard.peers.allowedIPs",
    "machine.network.extraHostEntries.ip",
    "machine.network.kubespan.filters",
    "machine.disks",
    "machine.install.disk",
    "machine.install.diskSelector",
    "machine.install.image",
    "machine.install.extensions.image",
    "machine.files.path",
    "machine.files.op",
    "machine.time.servers",
    "machine.systemDiskEncryption.state.provider",
    "machine.systemDiskEncryption.state.cipher",
    "machine.systemDiskEncryption.ephemeral.provider",
    "machine.systemDiskEncryption.ephemeral.cipher",
    "machine.features",
    "machine.logging.destinations.format",
    "machine.kernel.modules.name",
    "machine.seccompProfiles.name",
    "machine.nodeLabels",
    "machine.nodeTaints",
    "cluster.id",
    "cluster.clusterName",
    "cluster.controlPlane.endpoint",
    "cluster.network.dnsDomain",
    "cluster.network.podSubnets",
    "cluster.network.serviceSubnets",
    "cluster.network.cni.name",
    "cluster.apiServer.image",
    "cluster.apiServer.extraVolumes",
    "cluster.apiServer.admissionControl.name",
    "cluster.apiServer.authorizationConfig.type",
    "cluster.apiServer.authorizationConfig.name",
    "cluster.controllerManager.image",
    "cluster.controllerManager.extraVolumes",
    "cluster.proxy.image",
    "cluster.proxy.mode",
    "cluster.scheduler.image",
    "cluster.scheduler.extraVolumes",
    "cluster.etcd.image",
    "cluster.etcd.subnet",
    "cluster.etcd.advertisedSubnets",
    "cluster.etcd.listenSubnets",
    "cluster.coreDNS.image",
    "cluster.inlineManifests.name",
    "BondConfig.links",
    "BridgeConfig.links",
    "ExistingVolumeConfig.discovery",
    "ExtensionServiceConfig.configFiles.mountPath",
    "HCloudVIPConfig.link",
    "HostnameConfig.hostname",
    "ImageVerificationConfig.rules.image",
    "Layer2VIPConfig.link",
    "LinkAliasConfig.selector",
    "OOMConfig",
    "PCIDriverRebindConfig.targetDriver",
    "RawVolumeConfig.provisioning",
    "RoutingRuleConfig",
    "SwapVolumeConfig.provisioning",
    "TimeSyncConfig",
    "UserVolumeConfig.provisioning",
    "VLANConfig.parent",
    "VRFConfig.links",
    "VolumeConfig.provisioning",
    "WatchdogTimerConfig.device",
    "WireguardConfig.peers.publicKey",
});

// Kernel settings are mostly small numbers, which people need to see and which are no secrets.
constexpr std::array number_table =
    std::to_array<std::string_view>({"machine.sysctls", "machine.sysfs"});

bool is_below(std::string_view path, std::string_view row) {
  return path == row ||
         (path.size() > row.size() && path.starts_with(row) && path[row.size()] == '.');
}

bool is_any_of(std::string_view path, const auto& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](std::string_view row) { return is_below(path, row); });
}

bool are_small_numbers(const std::string& text) {
  constexpr std::size_t longest = 7;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || c == ' ' || c == '\t'; }) &&
         [&] {
           std::size_t digits = 0;
           for (const char c : text) {
             digits = c >= '0' && c <= '9' ? digits + 1 : 0;
             if (digits > longest) return false;
           }
           return true;
         }();
}

/// One scalar of a configuration and the kind of place it stands at.
struct Leaf {
  const Value& value;
  Value* masked;            // the same one in what is shown
  const std::string& path;  // with indices and keys
  const std::string& place;
  Shape shape;
};
using Visit = std::function<void(const Leaf&)>;

class Walk {
 public:
  Walk(unsigned minor, const Visit& visit) : minor_(minor), visit_(visit) {}

  void document(const ConfigDocument& document, Value* masked) {
    const std::string kind = document.kind();
    fields(document.value, document.fields(), masked, kind.empty() ? "" : kind + ": ", kind);
  }

 private:
  static Value* below(Value* masked, const std::string& key) {
    return masked == nullptr ? nullptr : masked->find(key);
  }

  void fields(const Value& value, const StructType& type, Value* masked, const std::string& path,
              const std::string& place) {
    static const Type unknown = [] {
      Type any_type;
      any_type.shape = Shape::Any;
      return any_type;
    }();
    for (const text::Entry& entry : value.entries()) {
      const Field* field = type.find(entry.key, minor_);
      const bool first = path.empty() || path.ends_with(": ");
      any(entry.value, field != nullptr ? field->type : unknown, below(masked, entry.key),
          path + (first ? "" : ".") + entry.key, place + (place.empty() ? "" : ".") + entry.key);
    }
  }

  void any(const Value& value, const Type& type, Value* masked, const std::string& path,
           const std::string& place) {
    if (value.is_map()) {
      if (type.shape == Shape::Struct) return fields(value, *type.fields, masked, path, place);
      const bool names = type.shape == Shape::Map;
      for (const text::Entry& entry : value.entries())
        any(entry.value, names ? *type.item : type, below(masked, entry.key),
            path + "." + entry.key, names ? place + ".*" : place);
    } else if (value.is_list()) {
      const Type& item = type.shape == Shape::List ? *type.item : type;
      for (std::size_t i = 0; i < value.items().size(); ++i) {
        Value* hidden =
            masked != nullptr && i < masked->items().size() ? &masked->items()[i] : nullptr;
        any(value.items()[i], item, hidden, fmt::format("{}[{}]", path, i), place);
      }
    } else {
      visit_({value, masked, path, place, type.shape});
    }
  }

  unsigned minor_;
  const Visit& visit_;
};

void each_leaf(const std::vector<ConfigDocument>& config, unsigned minor, const Visit& visit) {
  for (const ConfigDocument& document : config) Walk{minor, visit}.document(document, nullptr);
}

constexpr std::size_t digest_size = 32;  // hex digits: half of it is enough to know a text again

std::string digest(const Secrecy& secrecy, std::string_view what, std::string_view text) {
  std::string bytes = fmt::format("{}\n{}", what, text);
  std::string mac = to_hex(secrets::crypto::hmac_sha256(secrecy.key.reveal(), bytes));
  wipe(bytes);
  mac.resize(digest_size);
  return mac;
}

/// Of the secrets of today, so that it shows when a text that was clear becomes one.
std::string digest_of_hidden(const Secrecy& secrecy) {
  std::set<std::string> each;
  for (const Secret& secret : secrecy.hidden)
    each.insert(digest(secrecy, "secret", secret.reveal()));
  std::string all;
  for (const std::string& one : each) all += one;
  return digest(secrecy, "secrets", all);
}

/// Are these the first words of the text?
bool is_first(std::string_view text, std::string_view words) {
  return text.starts_with(words) && (text.size() == words.size() || text[words.size()] == ' ');
}

/// Talos writes some texts in its own spelling: a secret is hidden in that one as well.
std::vector<Secret> in_all_spellings(const std::vector<Secret>& secrets) {
  std::vector<Secret> all = secrets;
  for (const Secret& secret : secrets)
    for (const Shape shape : {Shape::Url, Shape::Base64, Shape::AddressPort}) {
      Type type;
      type.shape = shape;
      ReadScalar read = read_scalar(type, Value::string(std::string{secret.reveal()}));
      if (read.refusal.empty() && !read.value.text().empty() &&
          read.value.text() != secret.reveal())
        all.push_back(Secret{read.value.text()});
      read.value.wipe();
    }
  return all;
}

bool is_shown(const Value& value) {
  return !value.is_string() || value.text().empty() || value.text() == "true" ||
         value.text() == "false";
}

/// `NAME=***` where a text names what it sets, as the environment of an extension does.
std::string hidden_form(const Leaf& leaf) {
  const auto equals = leaf.value.text().find('=');
  if (leaf.place == "ExtensionServiceConfig.environment" && equals != std::string::npos)
    return leaf.value.text().substr(0, equals) + "=***";
  return "***";
}

std::vector<Value> by_name(const std::vector<ConfigDocument>& config,
                           const std::vector<Secret>& hidden) {
  std::vector<Value> masked;
  for (const ConfigDocument& document : config)
    masked.push_back(mask_value(document.value, "", hidden));
  return masked;
}

void add_places(const StructType& type, unsigned minor, const std::string& path,
                std::vector<ConfigPlace>& out);

void add_places(const Type& type, unsigned minor, const std::string& path,
                std::vector<ConfigPlace>& out) {
  if (type.shape == Shape::Struct)
    add_places(*type.fields, minor, path, out);
  else if (type.shape == Shape::List)
    add_places(*type.item, minor, path, out);
  else if (type.shape == Shape::Map)
    add_places(*type.item, minor, path + ".*", out);
  else
    out.push_back({path, type.shape});
}

void add_places(const StructType& type, unsigned minor, const std::string& path,
                std::vector<ConfigPlace>& out) {
  for (const std::string& key : type.keys(minor))
    add_places(type.find(key, minor)->type, minor, path + (path.empty() ? "" : ".") + key, out);
}

}  // namespace

bool holds_secret(std::string_view text, const std::vector<Secret>& hidden) {
  return std::any_of(hidden.begin(), hidden.end(), [&](const Secret& secret) {
    const std::string_view word = secret.reveal();
    return !word.empty() &&
           (text == word || (word.size() >= 8 && text.find(word) != std::string_view::npos));
  });
}

Secret digest_key(const secrets::Bundle& bundle) {
  const Secret* parts[] = {&bundle.cluster_secret,   &bundle.bootstrap_token,
                           &bundle.secretbox_secret, &bundle.aescbc_secret,
                           &bundle.trustd_token,     &bundle.os.key};
  std::string all;
  for (const Secret* part : parts) all += fmt::format("{}:{}\n", part->size(), part->reveal());
  Secret key = secrets::crypto::hkdf_sha256(all, bundle.cluster_id, "rocca: digests in the state");
  wipe(all);
  return key;
}

std::string remember(std::string_view text, unsigned minor, const Secrecy& secrecy) {
  if (secrecy.key.empty()) return "";
  const std::string head = digest(secrecy, "configuration", text) + " " + digest_of_hidden(secrecy);
  // Mostly nothing has changed, and reading a configuration takes milliseconds.
  if (is_first(secrecy.remembered, head)) return secrecy.remembered;
  const std::vector<Secret> hidden = in_all_spellings(secrecy.hidden);
  ConfigProblems ignored;
  std::vector<Value> documents = text::parse_yaml_stream(text, "configuration");
  std::vector<ConfigDocument> config = decode_config(documents, minor, ignored);
  std::set<std::string> digests;
  each_leaf(config, minor, [&](const Leaf& leaf) {
    if (holds_secret(leaf.value.text(), hidden))
      digests.insert(digest(secrecy, "text", leaf.value.text()));
  });
  for (Value& document : documents) document.wipe();
  for (ConfigDocument& document : config) document.value.wipe();
  std::string out = head;
  for (const std::string& one : digests) out += " " + one;
  return out;
}

std::vector<ConfigPlace> config_places(unsigned minor) {
  std::vector<ConfigPlace> places;
  add_places(main_document(), minor, "", places);
  for (const std::string& kind : document_kinds(minor))
    add_places(*find_document_type(kind)->fields, minor, kind, places);
  return places;
}

bool can_hold_secret(std::string_view path, Shape shape) {
  switch (shape) {
    case Shape::Text:
    case Shape::Any:
    case Shape::Url:
    case Shape::Expression:
    case Shape::Base64:
    case Shape::AddressPort:
    case Shape::Argument:
      break;
    case Shape::Struct:
    case Shape::List:
    case Shape::Map:
    case Shape::Bool:
    case Shape::Integer:
    case Shape::Duration:
    case Shape::Size:
    case Shape::MaxSize:
    case Shape::DiskSize:
    case Shape::Mode:
    case Shape::Prefix:
    case Shape::Address:
    case Shape::Hardware:
    case Shape::SizeMatch:
    case Shape::Port:
    case Shape::Word:
      return false;
  }
  // What says which document it is.
  const auto dot = path.find('.');
  if (dot != std::string_view::npos && path.front() >= 'A' && path.front() <= 'Z') {
    const std::string_view key = path.substr(dot + 1);
    if (key == "apiVersion" || key == "kind" || key == "name") return false;
  }
  return !is_any_of(path, open_table);
}

std::vector<std::string_view> open_places() {
  std::vector<std::string_view> all{open_table.begin(), open_table.end()};
  all.insert(all.end(), number_table.begin(), number_table.end());
  return all;
}

std::vector<FoundValue> values_equal_to(const std::vector<ConfigDocument>& config, unsigned minor,
                                        std::string_view text) {
  std::vector<FoundValue> found;
  each_leaf(config, minor, [&](const Leaf& leaf) {
    if (leaf.value.text() == text)
      found.push_back({leaf.path, !can_hold_secret(leaf.place, leaf.shape)});
  });
  return found;
}

MaskedConfigs mask_both(std::string_view before_text, const std::vector<ConfigDocument>& before,
                        const std::vector<ConfigDocument>& after, unsigned minor,
                        const Secrecy& secrecy) {
  const std::vector<Secret> hidden = in_all_spellings(secrecy.hidden);
  MaskedConfigs out{by_name(before, hidden), by_name(after, hidden)};
  std::set<std::string> clear;  // texts of the spec, and what rocca makes of it
  for (std::size_t i = 0; i < after.size(); ++i)
    Walk{minor,
         [&](const Leaf& leaf) {
           if (leaf.masked != nullptr && leaf.value == *leaf.masked)
             clear.insert(leaf.value.text());
         }}
        .document(after[i], &out.after[i]);
  // The state's words: of the configuration, of the secrets then, and of each text that held one.
  const std::vector<std::string> remembered = split(secrecy.remembered, ' ');
  const bool known = !secrecy.key.empty() && remembered.size() >= 2;
  const bool vouched = known && remembered[0] == digest(secrecy, "configuration", before_text);
  std::set<std::string> secret_then;
  if (known) secret_then.insert(remembered.begin() + 2, remembered.end());
  const auto may_show = [&](const Leaf& leaf) {
    if (is_shown(leaf.value)) return true;
    const std::string& text = leaf.value.text();
    if (known && secret_then.contains(digest(secrecy, "text", text))) return false;
    if (vouched || !can_hold_secret(leaf.place, leaf.shape) || clear.contains(text)) return true;
    return is_any_of(leaf.place, number_table) && are_small_numbers(text);
  };
  for (std::size_t i = 0; i < before.size(); ++i)
    Walk{minor,
         [&](const Leaf& leaf) {
           if (leaf.masked != nullptr && leaf.value == *leaf.masked && !may_show(leaf))
             *leaf.masked = Value::string(hidden_form(leaf));
         }}
        .document(before[i], &out.before[i]);
  return out;
}

}  // namespace rocca::talos
