#include "lab/talos/config.hpp"

#include "base/address.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/talos/config_schema.hpp"
#include "net/http.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace rocca::lab::talos {

namespace {

using text::Value;

/// From 1.12.7 on decoding says in which document and line it happened.
bool names_documents(const Version& release) {
  return release.minor() >= 13 || (release.minor() == 12 && release.patch() >= 7);
}

/// When each kind came; all up to the newest release are known to it.
const std::map<std::string, unsigned, std::less<>>& kinds() {
  static const std::map<std::string, unsigned, std::less<>> all = [] {
    std::map<std::string, unsigned, std::less<>> out;
    const auto add = [&](unsigned since, std::string_view names) {
      for (const std::string& name : split(names, ' ')) out[name] = since;
    };
    add(9,
        "EventSinkConfig ExtensionServiceConfig KmsgLogConfig KubeSpanEndpointsConfig "
        "NetworkDefaultActionConfig NetworkRuleConfig SideroLinkConfig TrustedRootsConfig "
        "VolumeConfig WatchdogTimerConfig");
    add(10, "EthernetConfig PCIDriverRebindConfig UserVolumeConfig");
    add(11, "ExistingVolumeConfig RawVolumeConfig SwapVolumeConfig ZswapConfig");
    add(12,
        "BondConfig BridgeConfig DHCPv4Config DHCPv6Config DummyLinkConfig HCloudVIPConfig "
        "Layer2VIPConfig LinkAliasConfig LinkConfig VLANConfig WireguardConfig StaticHostConfig "
        "HostnameConfig ResolverConfig TimeSyncConfig OOMConfig RegistryAuthConfig "
        "RegistryMirrorConfig RegistryTLSConfig");
    add(13,
        "BlackholeRouteConfig EnvironmentConfig ExternalVolumeConfig ImageVerificationConfig "
        "KubeSpanConfig RoutingRuleConfig TCPProbeConfig VRFConfig");
    return out;
  }();
  return all;
}

/// go-yaml's words for what our reader found; both stand on the same scanner.
std::string yaml_error(const Error& error, const Version& release) {
  const std::string& message = error.message();
  const auto number = [&](std::size_t from) {
    std::size_t end = from;
    while (end < message.size() && message[end] >= '0' && message[end] <= '9') ++end;
    return message.substr(from, end - from);
  };
  const std::string line = number(message.find(':') + 1);
  const auto twice = message.find("stands twice");
  if (twice != std::string::npos) {
    const auto open = message.find('`');
    const auto close = message.find('`', open + 1);
    return fmt::format(
        "error decoding  to *v1alpha1.Config: yaml: {} errors:\n  line {}: mapping key \"{}\" "
        "already defined at line {}",
        release.minor() >= 13 ? "construct" : "unmarshal", line,
        message.substr(open + 1, close - open - 1), number(message.find("at line ") + 8));
  }
  const auto space = message.find(": ");
  std::string what = space == std::string::npos ? message : message.substr(space + 2);
  std::string context;
  if (const auto begin = what.find(" ("); begin != std::string::npos) {
    context = what.substr(begin + 2, what.size() - begin - 3);
    what.resize(begin);
  }
  if (release.minor() < 13 || context.empty())
    return fmt::format("decode error: yaml: line {}: {}", line, what);
  const auto begins = context.find(" that begins at line ");
  if (begins != std::string::npos)
    return fmt::format("decode error: yaml: {} at line {}, column 10: line {}: {}",
                       context.substr(0, begins), context.substr(begins + 21), line, what);
  return fmt::format("decode error: yaml: {} at line {}: {}", context, line, what);
}

std::string text_at(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found == nullptr ? std::string() : found->text();
}

std::string decode_prefix(const MachineConfig::Document& document, const Version& release) {
  if (!names_documents(release)) return "";
  return fmt::format("error decoding document {}/{}/{} (line {}): ", document.api, document.kind,
                     document.name, document.line);
}

void check_label(const std::string& what, const Value* labels, std::vector<std::string>& errors) {
  if (labels == nullptr) return;
  std::vector<std::string> found;
  const auto good = [](std::string_view text, bool empty_too) {
    if (text.empty()) return empty_too;
    if (text.size() > 63) return false;
    for (const char c : text)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.')
        return false;
    return std::isalnum(static_cast<unsigned char>(text.front())) != 0 &&
           std::isalnum(static_cast<unsigned char>(text.back())) != 0;
  };
  std::map<std::string, std::string> sorted;
  for (const text::Entry& entry : labels->entries()) sorted[entry.key] = entry.value.text();
  for (const auto& [key, value] : sorted) {
    const auto slash = key.find('/');
    const std::string name = slash == std::string::npos ? key : key.substr(slash + 1);
    if (slash != std::string::npos && !is_dns_name(key.substr(0, slash)))
      found.push_back(fmt::format("prefix \"{}\" is invalid", key.substr(0, slash)));
    else if (!good(name, false))
      found.push_back(fmt::format("name \"{}\" is invalid", name));
    else if (what == "labels" && !good(value, true))
      found.push_back(fmt::format("label value \"{}\" is invalid", value));
  }
  if (!found.empty())
    errors.push_back(fmt::format("invalid machine node {}: {}", what, errors_text(found)));
}

void check_taints(const Value* taints, std::vector<std::string>& errors) {
  if (taints == nullptr) return;
  std::vector<std::string> found;
  for (const text::Entry& entry : taints->entries()) {
    const auto colon = entry.value.text().find(':');
    const std::string effect =
        colon == std::string::npos ? entry.value.text() : entry.value.text().substr(colon + 1);
    if (effect != "NoSchedule" && effect != "PreferNoSchedule" && effect != "NoExecute")
      found.push_back(fmt::format("invalid taint effect: \"{}\"", effect));
  }
  if (!found.empty())
    errors.push_back(fmt::format("invalid machine node taints: {}", errors_text(found)));
}

void check_interfaces(const Value* interfaces, bool control_plane,
                      std::vector<std::string>& errors) {
  if (interfaces == nullptr) return;
  for (const Value& device : interfaces->items()) {
    const std::string name = text_at(device, "interface");
    const bool selector = device.find("deviceSelector") != nullptr;
    constexpr std::string_view both =
        "[networking.os.device.interface], [networking.os.device.deviceSelector]: ";
    if (name.empty() && !selector)
      errors.push_back(std::string(both) + "required either config section to be set");
    if (!name.empty() && selector)
      errors.push_back(std::string(both) + "config sections are mutually exclusive");
    if (const Value* addresses = device.find("addresses"))
      for (const Value& address : addresses->items()) {
        if (address.text().find('/') != std::string::npos && !Cidr::parse(address.text()))
          errors.push_back(
              fmt::format("[networking.os.device.addresses] \"{}\": invalid CIDR address: {}", name,
                          address.text()));
        else if (address.text().find('/') == std::string::npos && !IpAddress::parse(address.text()))
          errors.push_back(
              fmt::format("[networking.os.device.addresses] \"{}\": failed to parse IP address "
                          "\"{}\"",
                          name, address.text()));
      }
    if (const Value* routes = device.find("routes"))
      for (std::size_t i = 0; i < routes->items().size(); ++i) {
        const std::string gateway = text_at(routes->items()[i], "gateway");
        const std::string network = text_at(routes->items()[i], "network");
        if (gateway.empty() && network.empty())
          errors.push_back(
              fmt::format("[networking.os.device.route[{}]]: either network or "
                          "gateway should be set",
                          i));
        if (!gateway.empty() && !IpAddress::parse(gateway))
          errors.push_back(fmt::format(
              "[networking.os.device.route[{}].gateway] \"{}\": invalid network address", i,
              gateway));
      }
    if (const Value* vip = device.find("vip")) {
      const std::string ip = text_at(*vip, "ip");
      if (!IpAddress::parse(ip))
        errors.push_back(
            fmt::format("[networking.os.device.vip] failed to parse \"{}\" as IP address", ip));
      if (!control_plane)
        errors.push_back("virtual (shared) IP is not allowed on non-controlplane nodes");
    }
  }
}

/// The Kubernetes minors a release runs: six of them.
std::optional<std::string> kubernetes_misfit(const std::string& image, const Version& release) {
  const auto colon = image.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string tag = image.substr(colon + 1);
  for (const char* suffix : {"-fat", "-slim"})
    if (tag.ends_with(suffix)) tag.resize(tag.size() - std::string_view(suffix).size());
  const auto version = Version::parse(tag);
  if (!version) return std::nullopt;
  const std::uint64_t newest = release.minor() + 23;
  const char* how = version->minor() > newest       ? "new"
                    : version->minor() + 5 < newest ? "old"
                                                    : nullptr;
  if (how == nullptr) return std::nullopt;
  return fmt::format("version of Kubernetes {} is too {} to be used with Talos {}",
                     to_string(*version), how, to_string(release));
}

void check_cluster(const MachineConfig& config, const Value& cluster, bool control_plane,
                   std::vector<std::string>& errors) {
  const Value* control = cluster.find("controlPlane");
  const std::string endpoint = control == nullptr ? "" : text_at(*control, "endpoint");
  if (endpoint.empty()) {
    errors.push_back("cluster controlplane endpoint is required");
  } else {
    const auto scheme = endpoint.find("://");
    const std::string host =
        scheme == std::string::npos
            ? ""
            : endpoint.substr(scheme + 3, endpoint.find('/', scheme + 3) - scheme - 3);
    if (host.empty())
      errors.push_back("invalid controlplane endpoint: hostname must not be blank");
    else if (std::count(host.begin(), host.end(), ':') > 1 && host.front() != '[')
      errors.push_back(
          "invalid controlplane endpoint: IPv6 addresses MUST be enclosed by square brackets");
  }
  if (const Value* cni = cluster.find({"network", "cni"}); cni != nullptr && control_plane) {
    const std::string name = text_at(*cni, "name");
    const Value* urls = cni->find("urls");
    if (name != "flannel" && name != "custom" && name != "none")
      errors.push_back("cni name should be one of [\"flannel\", \"custom\", \"none\"]");
    else if (name != "custom" && urls != nullptr && urls->size() != 0)
      errors.push_back(fmt::format("\"urls\" field should be empty for \"{}\" CNI", name));
  }
  if (const std::string domain = config.get({"cluster", "network", "dnsDomain"});
      !domain.empty() && !is_dns_name(domain))
    errors.push_back(fmt::format("\"{}\" is not a valid DNS name", domain));
  if (const Value* manifests = cluster.find("inlineManifests")) {
    std::set<std::string> seen;
    std::vector<std::string> found;
    for (const Value& manifest : manifests->items()) {
      const std::string name = text_at(manifest, "name");
      if (name.empty())
        found.push_back("inline manifest name can't be empty");
      else if (!seen.insert(name).second)
        found.push_back(fmt::format("inline manifest name \"{}\" is duplicate", name));
    }
    errors.insert(errors.end(), found.begin(), found.end());
  }
  if (const Value* discovery = cluster.find("discovery")) {
    const Value* enabled = discovery->find("enabled");
    const Value* disabled = discovery->find({"registries", "service", "disabled"});
    if (enabled != nullptr && enabled->as_bool() == true &&
        (disabled == nullptr || disabled->as_bool() != true)) {
      if (text_at(cluster, "id").empty())
        errors.push_back("cluster discovery service requires .cluster.id");
      if (text_at(cluster, "secret").empty())
        errors.push_back("cluster discovery service requires .cluster.secret");
    }
  }
  if (const Value* etcd = cluster.find("etcd")) {
    if (!control_plane) errors.push_back("etcd config is only allowed on control plane machines");
    const auto subnet = [&](const std::string& text) {
      if (!text.empty() && !Cidr::parse(text))
        errors.push_back(fmt::format("etcd advertised subnet is not valid: \"{}\"", text));
    };
    subnet(text_at(*etcd, "subnet"));
    if (const Value* subnets = etcd->find("advertisedSubnets"))
      for (const Value& each : subnets->items())
        subnet(each.text().starts_with('!') ? each.text().substr(1) : each.text());
  }
  if (!control_plane && !config.get({"cluster", "ca", "key"}).empty())
    errors.push_back("cluster CA key is not allowed on non-controlplane nodes (.cluster.ca)");
}

void check_machine(const MachineConfig& config, const Value& main, const Value& machine,
                   std::string_view mode, bool installed, const Version& release,
                   std::vector<std::string>& errors) {
  const std::string type = text_at(machine, "type");
  const bool known = type.empty() || type == "controlplane" || type == "worker" || type == "init";
  const bool control_plane = config.is_control_plane();
  if (mode == "metal" && !installed) {
    const Value* install = machine.find("install");
    if (install == nullptr)
      errors.push_back("install instructions are required in \"metal\" mode");
    else if (text_at(*install, "disk").empty() && install->find("diskSelector") == nullptr)
      errors.push_back("either install disk or diskSelector should be defined");
  }
  if (const Value* name = machine.find({"install", "diskSelector", "name"});
      name != nullptr && !name->text().empty())
    errors.push_back("install disk selector is invalid: selector on name is not supported");
  if (const Value* uki = machine.find({"install", "grubUseUKICmdline"});
      uki != nullptr && uki->as_bool() == true)
    if (const Value* args = machine.find({"install", "extraKernelArgs"});
        args != nullptr && args->size() != 0)
      errors.push_back(
          "install.extraKernelArgs and install.grubUseUKICmdline can't be used together");
  if (mode == "container") {
    const auto on = [&](std::string_view key) {
      const Value* value = machine.find({"features", "hostDNS", key});
      return value != nullptr && value->as_bool() == true;
    };
    if (!on("enabled"))
      errors.push_back(
          "feature HostDNS should be enabled in container mode "
          "(.machine.features.hostDNS.enabled)");
    if (!on("forwardKubeDNSToHost"))
      errors.push_back(
          "feature HostDNS should forward kube-dns to host in container mode "
          "(.machine.features.hostDNS.forwardKubeDNSToHost)");
  }
  const std::string crt = config.get({"machine", "ca", "crt"});
  const std::string key = config.get({"machine", "ca", "key"});
  const Value* accepted = machine.find("acceptedCAs");
  if (!known) {
    errors.push_back(fmt::format("unknown machine type \"{}\"", type));
  } else {
    if (crt.empty() && (accepted == nullptr || accepted->size() == 0))
      errors.push_back(
          "issuing CA or some accepted CAs are required (.machine.ca, machine.acceptedCAs)");
    if (control_plane) {
      if (crt.empty())
        errors.push_back("issuing CA is required (.machine.ca)");
      else if (key.empty())
        errors.push_back("issuing CA key is required for controlplane nodes (.machine.ca.key)");
    } else {
      if (!key.empty())
        errors.push_back(
            "issuing Talos API CA key is not allowed on non-controlplane nodes (.machine.ca)");
      if (!config.get({"cluster", "ca", "key"}).empty())
        errors.push_back(
            "issuing Kubernetes API CA key is not allowed on non-controlplane nodes "
            "(.cluster.ca)");
    }
  }
  check_interfaces(machine.find({"network", "interfaces"}), control_plane, errors);
  check_label("labels", machine.find("nodeLabels"), errors);
  check_label("annotations", machine.find("nodeAnnotations"), errors);
  check_taints(machine.find("nodeTaints"), errors);
  if (const Value* roles = machine.find({"features", "kubernetesTalosAPIAccess", "allowedRoles"}))
    for (const Value& role : roles->items()) {
      static const std::set<std::string> valid{"os:admin", "os:operator", "os:reader",
                                               "os:etcd:backup", "os:impersonator"};
      if (!valid.contains(role.text()))
        errors.push_back(fmt::format(
            "invalid role \"{}\" in allowed roles for Kubernetes Talos API Access", role.text()));
    }
  if (const Value* persist = main.find("persist");
      persist != nullptr && persist->as_bool() == false)
    errors.push_back(".persist should be enabled");
  if (const auto misfit = kubernetes_misfit(
          text_at(machine, "kubelet").empty() ? config.get({"machine", "kubelet", "image"}) : "",
          release))
    errors.push_back("kubelet image is not valid: " + *misfit);
  constexpr std::pair<const char*, const char*> parts[] = {
      {"apiServer", "kube-apiserver"},
      {"controllerManager", "kube-controller-manager"},
      {"scheduler", "kube-scheduler"}};
  for (const auto& [section, name] : parts)
    if (const auto misfit = kubernetes_misfit(config.get({"cluster", section, "image"}), release))
      errors.push_back(fmt::format("{} image is not valid: {}", name, *misfit));
}

std::vector<std::string> check_document(const MachineConfig::Document& document) {
  std::vector<std::string> errors;
  const Value& value = document.value;
  if (document.kind == "ExtensionServiceConfig") {
    const Value* files = value.find("configFiles");
    const Value* environment = value.find("environment");
    if (document.name.empty()) errors.push_back("name is required");
    if ((files == nullptr || files->size() == 0) &&
        (environment == nullptr || environment->size() == 0))
      errors.push_back(fmt::format("no config files found for extension \"{}\"", document.name));
    if (files != nullptr)
      for (const Value& file : files->items())
        if (text_at(file, "mountPath").empty())
          errors.push_back(
              fmt::format("extension mount path is required for extension \"{}\"", document.name));
  } else if (document.kind == "NetworkRuleConfig") {
    const Value* ports = value.find({"portSelector", "ports"});
    if (document.name.empty()) errors.push_back("name is required");
    if (ports == nullptr || ports->size() == 0) errors.push_back("portSelector.ports is required");
  } else if (document.kind == "VolumeConfig") {
    if (document.name != "STATE" && document.name != "EPHEMERAL" && document.name != "IMAGECACHE")
      errors.push_back("only [\"STATE\" \"EPHEMERAL\" \"IMAGECACHE\"] volumes are supported");
  } else if (document.kind == "UserVolumeConfig") {
    std::vector<std::string> lines;
    if (document.name.empty() || document.name.size() > 34)
      lines.push_back("name must be between 1 and 34 characters long");
    else if (std::any_of(document.name.begin(), document.name.end(), [](char c) {
               return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-';
             }))
      lines.push_back(
          "name can only contain lowercase and uppercase ASCII letters, digits, and hyphens");
    const Value* type = value.find("volumeType");
    if (type == nullptr || type->text() != "directory") {
      if (value.find({"provisioning", "diskSelector", "match"}) == nullptr)
        lines.push_back("disk selector is required");
      if ((type == nullptr || type->text() != "disk") &&
          value.find({"provisioning", "minSize"}) == nullptr &&
          value.find({"provisioning", "maxSize"}) == nullptr)
        lines.push_back("min size or max size is required");
    }
    if (!lines.empty()) errors.push_back(join(lines, "\n"));
  } else if (document.kind == "HostnameConfig") {
    const std::string automatic = text_at(value, "auto");
    const std::string hostname = text_at(value, "hostname");
    if (!hostname.empty() && !automatic.empty() && automatic != "off")
      errors.push_back("'auto' and 'hostname' cannot be set at the same time");
    if (hostname.empty() && (automatic.empty() || automatic == "off"))
      errors.push_back("either 'auto' or 'hostname' must be set");
  } else if (document.kind == "LinkConfig" && document.name.empty()) {
    errors.push_back("name must be specified");
  } else if (document.kind == "Layer2VIPConfig" && !IpAddress::parse(document.name)) {
    errors.push_back(
        fmt::format("name must be a valid IP address: ParseAddr(\"{}\"): unable to "
                    "parse IP",
                    document.name));
  }
  return errors;
}

}  // namespace

std::string errors_text(const std::vector<std::string>& errors) {
  std::string out = errors.size() == 1 ? "1 error occurred:\n"
                                       : fmt::format("{} errors occurred:\n", errors.size());
  for (const std::string& error : errors) out += "\t* " + error + "\n";
  return out + "\n";
}

MachineConfig MachineConfig::parse(std::string text, const Version& release) {
  MachineConfig config;
  std::string plain = text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text;
  std::vector<Value> roots;
  try {
    roots = text::parse_yaml_stream(plain, "c", {.size = 32u << 20});
  } catch (const Error& error) {
    std::string what = yaml_error(error, release);
    if (what.find("already defined") != std::string::npos && names_documents(release))
      what = "error decoding document /v1alpha1/ (line 1): " + what;
    throw ConfigError{std::move(what)};
  }
  config.text_ = std::move(text);
  std::set<std::string> seen;
  for (Value& root : roots) {
    if (root.is_null()) continue;
    if (!root.is_map())
      throw ConfigError{names_documents(release)
                            ? fmt::format("expected a YAML document at line {}", root.place().line)
                            : "recovered: expected a mapping node"};
    Document document;
    document.line = root.entries().empty() ? 1 : root.entries().front().key_place.line;
    document.kind = text_at(root, "kind");
    document.api = text_at(root, "apiVersion");
    if (document.kind.empty()) {
      document.kind = "v1alpha1";
    } else {
      document.name = text_at(root, "name");
      const auto known = kinds().find(document.kind);
      if (document.api.empty() && names_documents(release))
        throw ConfigError{decode_prefix(document, release) + "missing apiVersion"};
      if (document.api != "v1alpha1" || known == kinds().end() || known->second > release.minor())
        throw ConfigError{
            decode_prefix(document, release) +
            fmt::format("\"{}\" \"{}\": not registered", document.kind, document.api)};
    }
    if (document.kind == "v1alpha1") {
      Shape shape = v1alpha1_shape();
      const bool any =
          std::any_of(root.entries().begin(), root.entries().end(), [&](const text::Entry& entry) {
            return shape.find(entry.key) != nullptr && entry.key != "version";
          });
      if (!any && root.find("apiVersion") == nullptr)
        throw ConfigError{decode_prefix(document, release) + "missing kind"};
      if (const auto wrong = wrong_scalar(root, shape)) {
        const bool construct = release.minor() >= 13;
        throw ConfigError{
            decode_prefix(document, release) + "error decoding  to *v1alpha1.Config: " +
            (wrong->base64 ? fmt::format("illegal base64 data at input byte {}", wrong->position)
                           : fmt::format("yaml: {} errors:\n  line {}: cannot {} {} into {}",
                                         construct ? "construct" : "unmarshal", wrong->line,
                                         construct ? "construct" : "unmarshal", wrong->found,
                                         wrong->wanted))};
      }
      Value unknown = unknown_parts(root, shape);
      if (release.minor() < 12) {
        if (const Value* uki = root.find({"machine", "install", "grubUseUKICmdline"})) {
          Value machine = Value::map();
          machine.set("install", Value::map())
              .set("grubUseUKICmdline", Value::scalar(uki->kind(), uki->text(), text::Style::Any));
          if (unknown.is_null()) unknown = Value::map();
          unknown.set("machine", std::move(machine));
        }
      }
      if (!unknown.is_null())
        throw ConfigError{decode_prefix(document, release) +
                          "unknown keys found during decoding:\n" +
                          text::emit_yaml(unknown, {.indent = 4})};
      document.value = ordered(root, shape);
    } else {
      document.value = std::move(root);
    }
    const std::string id = document.kind == "v1alpha1" ? "/v1alpha1/"
                                                       : fmt::format("{}/{}/{}", document.api,
                                                                     document.kind, document.name);
    if (!seen.insert(id).second)
      throw ConfigError{fmt::format("duplicate document {} is not allowed", id) +
                        (names_documents(release) ? fmt::format(" (line {})", document.line) : "")};
    config.documents_.push_back(std::move(document));
  }
  if (config.documents_.empty()) throw ConfigError{"config not found"};
  return config;
}

std::string MachineConfig::canonical() const {
  std::vector<Value> values;
  for (const Document& document : documents_) values.push_back(document.value);
  return text::emit_yaml_stream(values, {.indent = 4});
}

const Value* MachineConfig::main() const {
  const Document* found = find("v1alpha1");
  return found == nullptr ? nullptr : &found->value;
}

const MachineConfig::Document* MachineConfig::find(std::string_view kind,
                                                   std::string_view name) const {
  for (const Document& document : documents_)
    if (document.kind == kind && (name.empty() || document.name == name)) return &document;
  return nullptr;
}

std::string MachineConfig::get(std::initializer_list<std::string_view> path) const {
  const Value* root = main();
  const Value* found = root == nullptr ? nullptr : root->find(path);
  return found == nullptr || !found->is_scalar() || found->is_null() ? "" : found->text();
}

bool MachineConfig::is_control_plane() const {
  const std::string type = get({"machine", "type"});
  return type == "controlplane" || type == "init";
}

std::optional<std::string> MachineConfig::validate(std::string_view mode, bool installed,
                                                   const Version& release) const {
  std::vector<std::string> all;
  const bool nested = release.minor() >= 12;
  if (const Value* root = main()) {
    std::vector<std::string> errors;
    const Value* machine = root->find("machine");
    const Value* cluster = root->find("cluster");
    if (machine == nullptr) {
      errors.push_back("machine instructions are required");
    } else {
      if (cluster == nullptr)
        errors.push_back("cluster instructions are required");
      else
        check_cluster(*this, *cluster, is_control_plane(), errors);
      check_machine(*this, *root, *machine, mode, installed, release, errors);
    }
    if (nested && !errors.empty())
      all.push_back("v1alpha1.Config: " + errors_text(errors));
    else
      all = std::move(errors);
  }
  for (const Document& document : documents_) {
    if (document.kind == "v1alpha1") continue;
    for (const std::string& error : check_document(document))
      all.push_back(nested ? fmt::format("{}{}{}: {}", document.kind,
                                         document.name.empty() ? "" : "/", document.name, error)
                           : error);
  }
  if (all.empty() && find("HostnameConfig") != nullptr) {
    if (get({"machine", "features", "stableHostname"}) == "true")
      all.push_back("stable hostname is already set in v1alpha1 config");
    else if (!get({"machine", "network", "hostname"}).empty())
      all.push_back("static hostname is already set in v1alpha1 config");
  }
  if (all.empty()) return std::nullopt;
  return errors_text(all);
}

bool MachineConfig::can_follow(const MachineConfig& before) const {
  const auto stripped = [](const MachineConfig& config) {
    Value value = config.main() == nullptr ? Value::map() : *config.main();
    value.erase("debug");
    value.erase("cluster");
    if (Value* machine = value.find("machine")) {
      for (const char* key :
           {"ca", "acceptedCAs", "time", "certSANs", "install", "network", "sysfs", "sysctls",
            "logging", "controlPlane", "kubelet", "kernel", "registries", "pods", "seccompProfiles",
            "nodeLabels", "nodeAnnotations", "nodeTaints"})
        machine->erase(key);
      if (Value* features = machine->find("features"))
        for (const char* key : {"kubernetesTalosAPIAccess", "kubePrism", "hostDNS", "imageCache",
                                "nodeAddressSortAlgorithm"})
          features->erase(key);
    }
    return value;
  };
  return stripped(*this) == stripped(before);
}

std::string unified_diff(const std::string& before, const std::string& after) {
  if (before == after) return "";
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> lines = split(text, '\n');
    if (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
  };
  const std::vector<std::string> a = before.empty() ? std::vector<std::string>{} : lines_of(before);
  const std::vector<std::string> b = after.empty() ? std::vector<std::string>{} : lines_of(after);
  // Longest common subsequence by a table: configs have hundreds of lines, not thousands.
  std::vector<std::vector<unsigned>> common(a.size() + 1, std::vector<unsigned>(b.size() + 1));
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  struct Line {
    char sign;
    const std::string* text;
    std::size_t a, b;  // how many lines came before
  };
  std::vector<Line> script;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      script.push_back({' ', &a[i], i, j});
      ++i, ++j;
    } else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) {
      script.push_back({'-', &a[i], i, j});
      ++i;
    } else {
      script.push_back({'+', &b[j], i, j});
      ++j;
    }
  }
  constexpr std::size_t context = 3;
  std::string out = "--- a\n+++ b\n";
  for (std::size_t at = 0; at < script.size();) {
    if (script[at].sign == ' ') {
      ++at;
      continue;
    }
    const std::size_t begin = at > context ? at - context : 0;
    std::size_t end = at;
    for (std::size_t next = at; next < script.size() && next <= end + 2 * context; ++next)
      if (script[next].sign != ' ') end = next;
    end = std::min(script.size(), end + context + 1);
    std::size_t from = 0, to = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (script[i].sign != '+') ++from;
      if (script[i].sign != '-') ++to;
    }
    const auto range = [](std::size_t start, std::size_t count) {
      if (count == 1) return std::to_string(start + 1);
      return fmt::format("{},{}", count == 0 ? start : start + 1, count);
    };
    out += fmt::format("@@ -{} +{} @@\n", range(script[begin].a, from), range(script[begin].b, to));
    for (std::size_t i = begin; i < end; ++i)
      out += fmt::format("{}{}\n", script[i].sign, *script[i].text);
    at = end;
  }
  return out;
}

}  // namespace rocca::lab::talos
