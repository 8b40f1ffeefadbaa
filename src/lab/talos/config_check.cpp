#include "lab/talos/config_check.hpp"

#include "base/address.hpp"
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "net/http.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace rocca::lab::talos {

namespace {

using text::Value;
using Errors = std::vector<std::string>;

const Value& nothing() {
  static const Value empty = Value::map();
  return empty;
}

const Value& below(const Value& value, std::initializer_list<std::string_view> path) {
  const Value* found = value.find(path);
  return found == nullptr ? nothing() : *found;
}

bool is_on(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found != nullptr && found->as_bool() == true;
}

std::string label_trouble(const std::string& key, const std::string& value, bool label) {
  const auto good = [](std::string_view text, bool empty_too) {
    if (text.empty()) return empty_too;
    if (text.size() > 63) return false;
    for (const char c : text)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.')
        return false;
    return std::isalnum(static_cast<unsigned char>(text.front())) != 0 &&
           std::isalnum(static_cast<unsigned char>(text.back())) != 0;
  };
  if (std::count(key.begin(), key.end(), '/') > 1)
    return fmt::format("invalid format: too many slashes: \"{}\"", key);
  const auto slash = key.find('/');
  if (slash != std::string::npos) {
    const std::string prefix = key.substr(0, slash);
    if (prefix != to_lower(prefix) || !is_dns_name(prefix))
      return fmt::format("prefix \"{0}\" is invalid: domain doesn't match required format: \"{0}\"",
                         prefix);
  }
  const std::string name = slash == std::string::npos ? key : key.substr(slash + 1);
  if (!good(name, false)) return fmt::format("name \"{}\" is invalid", name);
  if (label && !good(value, true)) return fmt::format("label value \"{}\" is invalid", value);
  return "";
}

void check_labels(const char* what, const Value& machine, std::string_view key, bool label,
                  Errors& errors) {
  std::map<std::string, std::string> sorted;
  for (const text::Entry& entry : below(machine, {key}).entries())
    sorted[entry.key] = entry.value.text();
  Errors found;
  for (const auto& [name, value] : sorted)
    if (std::string trouble = label_trouble(name, value, label); !trouble.empty())
      found.push_back(std::move(trouble));
  if (!found.empty())
    errors.push_back(fmt::format("invalid machine node {}: {}", what, errors_text(found)));
}

void check_taints(const Value& machine, Errors& errors) {
  Errors found;
  for (const text::Entry& entry : below(machine, {"nodeTaints"}).entries()) {
    const auto colon = entry.value.text().find(':');
    const std::string effect =
        colon == std::string::npos ? entry.value.text() : entry.value.text().substr(colon + 1);
    if (effect != "NoSchedule" && effect != "PreferNoSchedule" && effect != "NoExecute")
      found.push_back(fmt::format("invalid taint effect: \"{}\"", effect));
  }
  if (!found.empty())
    errors.push_back(fmt::format("invalid machine node taints: {}", errors_text(found)));
}

std::string address_trouble(const std::string& text) {
  if (text.find('/') != std::string::npos)
    return Cidr::parse(text) ? "" : fmt::format("invalid CIDR address: {}", text);
  return IpAddress::parse(text) ? "" : fmt::format("failed to parse IP address \"{}\"", text);
}

void check_bond(const Value& bond, Errors& errors) {
  if (!text_at(bond, "lacpRate").empty() && text_at(bond, "mode") != "802.3ad")
    errors.push_back("bond.lacpRate is only available in 802.3ad mode");
}

void check_routes(const Value& device, Errors& errors) {
  const auto& routes = below(device, {"routes"}).items();
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const std::string network = text_at(routes[i], "network");
    const std::string gateway = text_at(routes[i], "gateway");
    const std::string source = text_at(routes[i], "source");
    const auto wrong = [&](const char* key, const std::string& value) {
      errors.push_back(fmt::format(
          "[networking.os.device.route[{}].{}] \"{}\": invalid network address", i, key, value));
    };
    const bool is_network = network.find('/') != std::string::npos && Cidr::parse(network);
    if (!network.empty() && !is_network) wrong("network", network);
    if (!gateway.empty() && !IpAddress::parse(gateway)) wrong("gateway", gateway);
    if (gateway.empty() && network.empty())
      errors.push_back(fmt::format(
          "[networking.os.device.route[{}]]: either network or gateway should be set", i));
    if (!source.empty() && !IpAddress::parse(source)) wrong("source", source);
  }
}

void check_device(const Value& device, const std::set<std::string>& enslaved, Errors& errors) {
  if (is_on(device, "ignore")) return;
  const std::string name = text_at(device, "interface");
  const bool selector = device.find("deviceSelector") != nullptr;
  constexpr std::string_view both =
      "[networking.os.device.interface], [networking.os.device.deviceSelector]: ";
  if (name.empty() && !selector)
    errors.push_back(std::string(both) + "required either config section to be set");
  if (!name.empty() && selector)
    errors.push_back(std::string(both) + "config sections are mutually exclusive");
  if (is_set(device, "bond")) check_bond(*device.find("bond"), errors);
  if (const Value* wireguard = device.find("wireguard")) {
    const std::string key = text_at(*wireguard, "privateKey");
    if (!from_base64(key)) {
      const auto bad = key.find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=");
      errors.push_back(fmt::format("private key is invalid: illegal base64 data at input byte {}",
                                   bad == std::string::npos ? key.size() / 4 * 4 : bad));
    }
  }
  for (const Value& vlan : below(device, {"vlans"}).items())
    for (const Value& address : below(vlan, {"addresses"}).items())
      if (const std::string trouble = address_trouble(address.text()); !trouble.empty())
        errors.push_back(fmt::format("[networking.os.device.vlan.addresses] {}.{}: {}", name,
                                     text_at(vlan, "vlanId"), trouble));
  if (enslaved.contains(name) &&
      (is_on(device, "dhcp") || is_set(device, "addresses") || is_set(device, "vip")))
    errors.push_back(
        fmt::format("[networking.os.device] \"{}\": bonded/bridged interface shouldn't have any "
                    "addressing methods configured",
                    name));
  for (const Value& address : below(device, {"addresses"}).items())
    if (const std::string trouble = address_trouble(address.text()); !trouble.empty())
      errors.push_back(fmt::format("[networking.os.device.addresses] \"{}\": {}", name, trouble));
  if (const Value* vip = device.find("vip"))
    if (const std::string ip = text_at(*vip, "ip"); !IpAddress::parse(ip))
      errors.push_back(
          fmt::format("[networking.os.device.vip] failed to parse \"{}\" as IP address", ip));
  check_routes(device, errors);
}

void check_network(const Value& machine, Errors& errors) {
  const auto& devices = below(machine, {"network", "interfaces"}).items();
  std::set<std::string> enslaved;
  for (const Value& device : devices) {
    if (is_set(device, "bond") && is_set(device, "bridge"))
      errors.push_back(
          fmt::format("interface has both bridge and bond sections set \"{}\": config sections are "
                      "mutually exclusive",
                      text_at(device, "interface")));
    for (const char* kind : {"bond", "bridge"})
      for (const Value& link : below(device, {kind, "interfaces"}).items())
        enslaved.insert(link.text());
  }
  for (const Value& device : devices) {
    if (device.is_null()) {
      errors.push_back("empty device");  // a crash in Talos itself
      continue;
    }
    check_device(device, enslaved, errors);
  }
  const Value& kubespan = below(machine, {"network", "kubespan"});
  if (const Value* mtu = kubespan.find("mtu");
      is_on(kubespan, "enabled") && mtu != nullptr && mtu->as_int().value_or(1420) < 1280)
    errors.push_back("kubespan link MTU must be at least 1280");
}

void check_disks(const Value& machine, Errors& errors) {
  for (const Value& disk : below(machine, {"disks"}).items()) {
    const auto& partitions = below(disk, {"partitions"}).items();
    for (std::size_t i = 0; i + 1 < partitions.size(); ++i)
      if (const std::string size = text_at(partitions[i], "size"); size.empty() || size == "0")
        errors.push_back(
            fmt::format("partition for disk \"{}\" is set to occupy full disk, but it's not the "
                        "last partition in the list",
                        text_at(disk, "device")));
  }
}

void check_kubelet(const Value& machine, Errors& errors) {
  constexpr const char* protected_fields[] = {
      "apiVersion",    "authentication",     "authorization", "cgroupRoot",
      "kind",          "kubeletCgroups",     "port",          "protectKernelDefaults",
      "resolvConf",    "rotateCertificates", "systemCgroups", "staticPodPath",
      "seccompDefault"};
  const Value& config = below(machine, {"kubelet", "extraConfig"});
  for (const char* field : protected_fields)
    if (config.find(field) != nullptr)
      errors.push_back(
          fmt::format("kubelet configuration field \"{}\" can't be overridden", field));
}

void check_encryption(const Value& machine, Errors& errors) {
  for (const auto& [key, label] :
       {std::pair{"ephemeral", "EPHEMERAL"}, std::pair{"state", "STATE"}}) {
    const Value* part = machine.find({"systemDiskEncryption", key});
    if (part == nullptr || part->is_null()) continue;
    const auto& keys = below(*part, {"keys"}).items();
    if (keys.empty())
      errors.push_back(fmt::format("partition \"{}\": no encryption keys provided", label));
    std::set<std::string> slots;
    for (const Value& each : keys) {
      const std::string slot = text_at(each, "slot").empty() ? "0" : text_at(each, "slot");
      if (!slots.insert(slot).second)
        errors.push_back(
            fmt::format("partition \"{}\": encryption key slot {} is already in use", label, slot));
    }
  }
}

void check_install(const Value& machine, const Version& release, Errors& errors) {
  const Value* install = machine.find("install");
  if (install == nullptr || install->is_null()) {
    errors.push_back("install instructions are required in \"metal\" mode");
    return;
  }
  const Value& selector = below(*install, {"diskSelector"});
  const Value* given = install->find("diskSelector");
  bool usable = given != nullptr && !given->is_null();  // an empty one takes any disk
  const auto invalid = [&](const std::string& why) {
    errors.push_back("install disk selector is invalid: " + why);
    usable = false;
  };
  static const std::set<std::string> types{"", "ssd", "hdd", "nvme", "sd"};
  if (const std::string type = text_at(selector, "type"); !types.contains(type))
    invalid(fmt::format("unsupported disk type \"{}\"", type));
  else if (!text_at(selector, "name").empty())
    invalid("selector on name is not supported");
  else if (!text_at(selector, "busPath").empty() && release < Version(1, 9, 5))
    invalid("ERROR: <input>:-1:0: undefined field 'buspath'");
  if (text_at(*install, "disk").empty() && !usable)
    errors.push_back("either install disk or diskSelector should be defined");
  if (is_on(*install, "grubUseUKICmdline") && is_set(*install, "extraKernelArgs"))
    errors.push_back(
        "install.extraKernelArgs and install.grubUseUKICmdline can't be used together");
}

void check_host_dns(const Value& machine, std::string_view mode, const Version& release,
                    Errors& errors) {
  const Value& dns = below(machine, {"features", "hostDNS"});
  if (mode == "container") {
    if (!is_on(dns, "enabled"))
      errors.push_back(
          "feature HostDNS should be enabled in container mode "
          "(.machine.features.hostDNS.enabled)");
    if (!is_on(dns, "forwardKubeDNSToHost"))
      errors.push_back(
          "feature HostDNS should forward kube-dns to host in container mode "
          "(.machine.features.hostDNS.forwardKubeDNSToHost)");
  }
  if (release.minor() >= 13 && is_on(dns, "forwardKubeDNSToHost") && !is_on(dns, "enabled"))
    errors.push_back(
        "feature hostDNS.forwardKubeDNSToHost requires hostDNS.enabled to be true "
        "(.machine.features.hostDNS)");
}

void check_cni(const Value& cluster, Errors& errors) {
  const Value* cni = cluster.find({"network", "cni"});
  if (cni == nullptr || cni->is_null()) return;
  const std::string name = text_at(*cni, "name");
  if (name != "flannel" && name != "custom" && name != "none") {
    errors.push_back("cni name should be one of [\"flannel\", \"custom\", \"none\"]");
    return;
  }
  if (name != "custom" && is_set(*cni, "urls"))
    errors.push_back(fmt::format("\"urls\" field should be empty for \"{}\" CNI", name));
  if (name != "flannel" && is_set(below(*cni, {"flannel"}), "extraArgs"))
    errors.push_back(
        fmt::format("\"flanneldExtraArgs\" field should be empty for \"{}\" CNI", name));
}

void check_role(const MachineConfig& config, const Value& machine, const Value& cluster,
                Errors& errors) {
  const std::string type = text_at(machine, "type");
  const bool known = type.empty() || type == "controlplane" || type == "worker" || type == "init";
  const std::string crt = config.get({"machine", "ca", "crt"});
  const std::string key = config.get({"machine", "ca", "key"});
  const bool accepted = is_set(machine, "acceptedCAs");
  if (!known) {
    errors.push_back(fmt::format("unknown machine type \"{}\"", type));
    return;
  }
  if (crt.empty() && !accepted)
    errors.push_back(
        "issuing CA or some accepted CAs are required (.machine.ca, machine.acceptedCAs)");
  if (config.is_control_plane()) {
    check_cni(cluster, errors);
    if (crt.empty())
      errors.push_back("issuing CA is required (.machine.ca)");
    else if (key.empty())
      errors.push_back("issuing CA key is required for controlplane nodes (.machine.ca.key)");
    return;
  }
  constexpr const char* vip = "virtual (shared) IP is not allowed on non-controlplane nodes";
  for (const Value& device : below(machine, {"network", "interfaces"}).items()) {
    if (is_set(device, "vip")) errors.push_back(vip);
    for (const Value& vlan : below(device, {"vlans"}).items())
      if (is_set(vlan, "vip")) errors.push_back(vip);
  }
  if (!key.empty())
    errors.push_back(
        "issuing Talos API CA key is not allowed on non-controlplane nodes (.machine.ca)");
  if (!config.get({"cluster", "ca", "key"}).empty())
    errors.push_back(
        "issuing Kubernetes API CA key is not allowed on non-controlplane nodes (.cluster.ca)");
}

void check_features(const Value& machine, bool control_plane, Errors& errors) {
  const Value& access = below(machine, {"features", "kubernetesTalosAPIAccess"});
  if (is_on(access, "enabled")) {
    if (!control_plane)
      errors.push_back(
          "feature Kubernetes Talos API Access can only be enabled on control plane machines");
    static const std::set<std::string> valid{"os:admin", "os:operator", "os:reader",
                                             "os:etcd:backup", "os:impersonator"};
    for (const Value& role : below(access, {"allowedRoles"}).items())
      if (!valid.contains(role.text()))
        errors.push_back(fmt::format(
            "invalid role \"{}\" in allowed roles for Kubernetes Talos API Access", role.text()));
  }
  const std::string sort = text_at(below(machine, {"features"}), "nodeAddressSortAlgorithm");
  if (!sort.empty() && sort != "v1" && sort != "v2")
    errors.push_back(
        fmt::format("invalid node address sort algorithm: {} does not belong to "
                    "AddressSortAlgorithm values",
                    sort));
}

std::string endpoint_trouble(const std::string& endpoint) {
  const auto scheme = endpoint.find("://");
  const std::string host =
      scheme == std::string::npos
          ? ""
          : endpoint.substr(scheme + 3, endpoint.find('/', scheme + 3) - scheme - 3);
  if (host.empty() || host.front() == ':') return "hostname must not be blank";
  if (std::count(host.begin(), host.end(), ':') > 1 && host.front() != '[')
    return "IPv6 addresses MUST be enclosed by square brackets";
  const auto bracket = host.find(']');
  const auto colon = host.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon == std::string::npos) return "";
  const auto port = parse_uint(host.substr(colon + 1));
  return port && *port >= 1 && *port <= 65535 ? "" : "port number must be between 1 and 65535";
}

void check_discovery(const Value& cluster, Errors& errors) {
  const Value& discovery = below(cluster, {"discovery"});
  const Value& service = below(discovery, {"registries", "service"});
  if (!is_on(discovery, "enabled") || is_on(service, "disabled")) return;
  if (const std::string endpoint = text_at(service, "endpoint"); !endpoint.empty()) {
    const auto scheme = endpoint.find("://");
    if (scheme == std::string::npos)
      errors.push_back(
          fmt::format("cluster discovery service registry endpoint is invalid: parse \"{}\": "
                      "invalid URI for request",
                      endpoint));
    else if (const auto path = endpoint.find('/', scheme + 3);
             path != std::string::npos && endpoint.substr(path) != "/")
      errors.push_back("cluster discovery service path should be empty");
  }
  if (text_at(cluster, "id").empty())
    errors.push_back("cluster discovery service requires .cluster.id");
  if (text_at(cluster, "secret").empty())
    errors.push_back("cluster discovery service requires .cluster.secret");
}

void check_etcd(const Value& etcd, Errors& errors) {
  if (!text_at(etcd, "subnet").empty() && is_set(etcd, "advertisedSubnets"))
    errors.push_back("etcd subnet can't be set when advertised subnets are set");
  const auto subnet = [&](const std::string& given) {
    const std::string text = given.starts_with('!') ? given.substr(1) : given;
    if (!Cidr::parse(text) && !IpAddress::parse(text))
      errors.push_back(fmt::format("etcd advertised subnet is not valid: \"{}\"", text));
  };
  if (!text_at(etcd, "subnet").empty()) subnet(text_at(etcd, "subnet"));  // its older name
  for (const Value& each : below(etcd, {"advertisedSubnets"}).items()) subnet(each.text());
}

void check_manifests(const Value& cluster, Errors& errors) {
  std::set<std::string> seen;
  for (const Value& manifest : below(cluster, {"inlineManifests"}).items()) {
    const std::string name = text_at(manifest, "name");
    if (trim(name).empty()) errors.push_back("inline manifest name can't be empty");
    if (!seen.insert(name).second)
      errors.push_back(fmt::format("inline manifest name \"{}\" is duplicate", name));
  }
}

void check_cluster(const MachineConfig& config, const Value* cluster, Errors& errors) {
  if (cluster == nullptr || cluster->is_null()) {
    errors.push_back("cluster instructions are required");
    return;
  }
  const Value* endpoint = cluster->find({"controlPlane", "endpoint"});
  if (endpoint == nullptr || endpoint->is_null()) {
    errors.push_back("cluster controlplane endpoint is required");
    return;
  }
  if (const std::string trouble = endpoint_trouble(endpoint->text()); !trouble.empty())
    errors.push_back("invalid controlplane endpoint: " + trouble);
  if (const std::string domain = config.get({"cluster", "network", "dnsDomain"});
      !domain.empty() && !is_dns_name(domain))
    errors.push_back(fmt::format("\"{}\" is not a valid DNS name", domain));
  const Value& provider = below(*cluster, {"externalCloudProvider"});
  if (is_set(provider, "manifests") && !is_on(provider, "enabled"))
    errors.push_back("external cloud provider is disabled, but manifests are provided");
  if (const Value* etcd = cluster->find("etcd"); etcd != nullptr && !etcd->is_null()) {
    if (config.is_control_plane())
      check_etcd(*etcd, errors);
    else
      errors.push_back("etcd config is only allowed on control plane machines");
  }
  if (!config.is_control_plane() && !config.get({"cluster", "ca", "key"}).empty())
    errors.push_back("cluster CA key is not allowed on non-controlplane nodes (.cluster.ca)");
  check_manifests(*cluster, errors);
  check_discovery(*cluster, errors);
  for (const Value& each : below(*cluster, {"apiServer", "authorizationConfig"}).items())
    if (const std::string type = text_at(each, "type");
        type != "Node" && type != "RBAC" && type != "Webhook")
      errors.push_back(
          fmt::format("apiserver authorization config validation failed: authorizer type {} is not "
                      "allowed, allowed types are [Node RBAC Webhook]",
                      type));
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

}  // namespace

std::string text_at(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found == nullptr || !found->is_scalar() || found->is_null() ? std::string()
                                                                     : found->text();
}

bool is_set(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  if (found == nullptr || found->is_null()) return false;
  return found->is_scalar() ? !found->text().empty() : found->size() != 0;
}

std::vector<std::string> check_main(const MachineConfig& config, std::string_view mode,
                                    bool installed, const Version& release) {
  const Value& main = *config.main();
  const Value* found = main.find("machine");
  if (found == nullptr || found->is_null()) return {"machine instructions are required"};
  const Value& machine = *found;
  const Value* cluster = main.find("cluster");
  Errors errors;
  check_cluster(config, cluster, errors);
  if (mode == "metal" && !installed) check_install(machine, release, errors);
  check_host_dns(machine, mode, release, errors);
  check_role(config, machine, cluster == nullptr ? nothing() : *cluster, errors);
  check_network(machine, errors);
  check_disks(machine, errors);
  check_kubelet(machine, errors);
  check_encryption(machine, errors);
  std::set<std::string> extensions;
  for (const Value& extension : below(machine, {"install", "extensions"}).items())
    if (!extensions.insert(text_at(extension, "image")).second)
      errors.push_back(
          fmt::format("duplicate system extension \"{}\"", text_at(extension, "image")));
  check_labels("labels", machine, "nodeLabels", true, errors);
  check_labels("annotations", machine, "nodeAnnotations", false, errors);
  check_taints(machine, errors);
  check_features(machine, config.is_control_plane(), errors);
  if (const Value* persist = main.find("persist");
      persist != nullptr && persist->as_bool() == false)
    errors.push_back(".persist should be enabled");
  for (const char* part : {"config", "mirrors"})
    for (const text::Entry& entry : below(machine, {"registries", part}).entries())
      if (entry.value.is_null())
        errors.push_back(fmt::format("registries.{}[\"{}\"] is null", part, entry.key));
  return errors;
}

void check_images(const MachineConfig& config, const Version& release,
                  std::vector<std::string>& errors) {
  if (const auto misfit = kubernetes_misfit(config.get({"machine", "kubelet", "image"}), release))
    errors.push_back("kubelet image is not valid: " + *misfit);
  constexpr std::pair<const char*, const char*> parts[] = {
      {"apiServer", "kube-apiserver"},
      {"controllerManager", "kube-controller-manager"},
      {"scheduler", "kube-scheduler"}};
  for (const auto& [section, name] : parts)
    if (const auto misfit = kubernetes_misfit(config.get({"cluster", section, "image"}), release))
      errors.push_back(fmt::format("{} image is not valid: {}", name, *misfit));
}

}  // namespace rocca::lab::talos
