#include "lab/talos/config_schema.hpp"

#include "base/address.hpp"
#include "base/encoding.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace {

using text::Kind;
using text::Value;

// One key a line, indented by two; a word behind it is its type, none means a struct (with the
// lines below) or, without any, text. `items` is a list and `named` a map of such structs.
// `@12` says since which minor there is such a key; behind `items` and `enum` stands the Go type.
constexpr std::string_view v1alpha1_text = R"(
version text
debug bool
persist bool
machine
  type text
  token text
  ca
    crt base64
    key base64
  acceptedCAs items
    crt base64
  certSANs list
  controlPlane
    controllerManager
      disabled bool
    scheduler
      disabled bool
  kubelet
    image text
    clusterDNS list
    extraArgs any
    extraMounts list
    extraConfig any
    credentialProviderConfig any
    defaultRuntimeSeccompProfileEnabled bool
    registerWithFQDN bool
    nodeIP
      validSubnets list
    skipNodeRegistration bool
    disableManifestsDirectory bool
  pods list
  network
    hostname text
    interfaces items
      interface text
      deviceSelector
        busPath text
        hardwareAddr text
        permanentAddr text
        pciID text
        driver text
        physical bool
      addresses list
      cidr text
      routes items
        network text
        gateway text
        source text
        metric uint32
        mtu uint32
      bond any
      bridge any
      bridgePort any
      vlans items
        addresses list
        cidr text
        routes list
        dhcp bool
        vlanId int
        mtu int
        vip any
        dhcpOptions any
      mtu int
      dhcp bool
      ignore bool
      dummy bool
      dhcpOptions
        routeMetric int
        ipv4 bool
        ipv6 bool
        duidv6 text
      wireguard any
      vip
        ip text
        equinixMetal any
        hcloud any
    nameservers list
    searchDomains list
    extraHostEntries list
    kubespan
      enabled bool
      advertiseKubernetesNetworks bool
      allowDownPeerBypass bool
      harvestExtraEndpoints bool
      mtu int
      filters any
    disableSearchDomain bool
  disks list
  install
    disk text
    diskSelector
      size disksize
      name text
      model text
      serial text
      modalias text
      uuid text
      wwid text
      type text
      busPath text
    extraKernelArgs list
    image text
    extensions list
    wipe bool
    legacyBIOSSupport bool
    grubUseUKICmdline bool @12
  files items v1alpha1.MachineFile
    content text
    permissions filemode
    path text
    op text
  env strings
  time
    disabled bool
    servers list
    bootTimeout duration
  sysctls strings
  sysfs strings
  registries
    mirrors any
    config any
  systemDiskEncryption any
  features
    rbac bool
    stableHostname bool
    kubernetesTalosAPIAccess
      enabled bool
      allowedRoles list
      allowedKubernetesNamespaces list
    apidCheckExtKeyUsage bool
    diskQuotaSupport bool
    kubePrism
      enabled bool
      port int
    hostDNS
      enabled bool
      forwardKubeDNSToHost bool
      resolveMemberNames bool
    imageCache
      localEnabled bool
    nodeAddressSortAlgorithm text
  udev any
  logging any
  kernel
    modules items v1alpha1.KernelModuleConfig
      name text
      parameters list
  seccompProfiles list
  baseRuntimeSpecOverrides any
  nodeLabels strings
  nodeAnnotations strings
  nodeTaints strings
cluster
  id text
  secret text
  controlPlane
    endpoint url
    localAPIServerPort int
  clusterName text
  network
    cni
      name text
      urls list
      flannel any
    dnsDomain text
    podSubnets list
    serviceSubnets list
  token text
  aescbcEncryptionSecret text
  secretboxEncryptionSecret text
  ca
    crt base64
    key base64
  acceptedCAs items
    crt base64
  aggregatorCA
    crt base64
    key base64
  serviceAccount
    key base64
  apiServer
    image text
    extraArgs any
    extraVolumes list
    env strings
    certSANs list
    disablePodSecurityPolicy bool
    admissionControl items v1alpha1.AdmissionPluginConfig
      name text
      configuration map
    auditPolicy map
    resources any
    authorizationConfig list
  controllerManager any
  proxy any
  scheduler any
  discovery
    enabled bool
    registries
      kubernetes
        disabled bool
      service
        disabled bool
        endpoint text
  etcd
    image text
    ca
      crt base64
      key base64
    extraArgs any
    subnet text
    advertisedSubnets list
    listenSubnets list
  coreDNS any
  externalCloudProvider any
  extraManifests list
  extraManifestHeaders strings
  inlineManifests list
  adminKubeconfig any
  allowSchedulingOnMasters bool
  allowSchedulingOnControlPlanes bool
)";

constexpr std::string_view volume_text = R"(
apiVersion text
kind text
name text
provisioning
  diskSelector any
  grow bool
  minSize size
  maxSize size
encryption any @11
mount any
)";

constexpr std::string_view user_volume_text = R"(
apiVersion text
kind text
name text
volumeType enum VolumeType partition,disk,directory @12
provisioning
  diskSelector any
  grow bool
  minSize size
  maxSize size
filesystem
  type enum FilesystemType xfs,ext4
  projectQuotaSupport bool
encryption any
mount any @12
)";

constexpr std::string_view rule_text = R"(
apiVersion text
kind text
name text
portSelector
  ports list
  protocol text
ingress items network.IngressRule
  subnet prefix
  except prefix
)";

constexpr std::string_view link_text = R"(
apiVersion text
kind text
name text
up bool
mtu uint32
multicast bool
addresses items network.AddressConfig
  address prefix
  routePriority uint32
routes items network.RouteConfig
  destination prefix
  gateway text
  source text
  metric uint32
  mtu uint32
  table text
)";

constexpr std::string_view hostname_text = R"(
apiVersion text
kind text
auto enum AutoHostnameKind off,stable
hostname text
)";

constexpr std::string_view resolver_text = R"(
apiVersion text
kind text
nameservers items network.NameserverConfig
  address text
searchDomains any
)";

constexpr std::string_view dhcp4_text = R"(
apiVersion text
kind text
name text
routeMetric uint32
ignoreHostname bool
clientIdentifier enum ClientIdentifier none,mac,duid
duidRaw text
)";

constexpr std::string_view default_action_text = R"(
apiVersion text
kind text
ingress enum DefaultAction accept,block
)";

Shape::Type type_of(std::string_view word) {
  constexpr std::pair<std::string_view, Shape::Type> names[] = {
      {"bool", Shape::Type::Bool},         {"int", Shape::Type::Int},
      {"uint32", Shape::Type::Unsigned},   {"filemode", Shape::Type::FileMode},
      {"duration", Shape::Type::Duration}, {"base64", Shape::Type::Base64},
      {"url", Shape::Type::Url},           {"prefix", Shape::Type::Prefix},
      {"size", Shape::Type::Size},         {"disksize", Shape::Type::DiskSize},
      {"enum", Shape::Type::Enum},         {"any", Shape::Type::Any},
      {"map", Shape::Type::Map},           {"list", Shape::Type::List},
      {"strings", Shape::Type::Strings},   {"items", Shape::Type::Items},
      {"text", Shape::Type::Text}};
  for (const auto& [name, type] : names)
    if (name == word) return type;
  return Shape::Type::Struct;
}

Shape read_shape(std::string_view source) {
  Shape root;
  std::vector<Shape*> path{&root};
  for (const std::string& line : split(source, '\n')) {
    const auto begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    path.resize(begin / 2 + 1);
    const std::vector<std::string> words = split(line.substr(begin), ' ');
    Shape shape;
    shape.type = type_of(words.size() > 1 ? words[1] : "");
    if (words.back().starts_with('@'))
      shape.since = static_cast<unsigned>(parse_uint(words.back().substr(1)).value_or(0));
    if (shape.type == Shape::Type::Items || shape.type == Shape::Type::Enum)
      shape.go_type = words.size() > 2 ? words[2] : "";
    if (shape.type == Shape::Type::Enum && words.size() > 3) shape.values = split(words[3], ',');
    path.back()->keys.push_back({words[0], std::move(shape)});
    path.push_back(&path.back()->keys.back().shape);
  }
  return root;
}

bool has_keys(const Shape& shape) {
  return shape.type == Shape::Type::Struct || shape.type == Shape::Type::Items;
}

bool is_duration(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.empty()) return false;
  bool digit = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= '0' && c <= '9') || c == '.') {
      digit = true;
      continue;
    }
    const auto end = text.find_first_of("0123456789", i);
    const std::string_view unit = text.substr(i, end == text.npos ? end : end - i);
    if (!digit ||
        (unit != "h" && unit != "m" && unit != "s" && unit != "ms" && unit != "us" && unit != "ns"))
      return false;
    i += unit.size() - 1;
    digit = false;
  }
  return !digit;
}

std::size_t first_bad_base64(std::string_view text) {
  constexpr std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::size_t i = 0;
  while (i < text.size() && alphabet.find(text[i]) != alphabet.npos) ++i;
  return i;
}

const char* tag_of(const Value& value) {
  switch (value.kind()) {
    case Kind::Bool:
      return "!!bool";
    case Kind::Int:
      return "!!int";
    case Kind::Float:
      return "!!float";
    default:
      return "!!str";
  }
}

/// "!!str `br_netf...`", "!!seq": as go-yaml names a value that does not fit.
std::string described(const Value& value) {
  if (value.is_map()) return "!!map";
  if (value.is_list()) return "!!seq";
  const std::string& text = value.text();
  return fmt::format("{} `{}`", tag_of(value), text.size() > 10 ? text.substr(0, 7) + "..." : text);
}

/// go-yaml takes the words of YAML 1.1 where a bool is wanted.
bool is_bool_word(std::string_view text) {
  const std::string word = to_lower(text);
  return word == "y" || word == "yes" || word == "on" || word == "n" || word == "no" ||
         word == "off";
}

std::string prefix_complaint(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos) return fmt::format("netip.ParsePrefix(\"{}\"): no '/'", text);
  if (Cidr::parse(text)) return "";
  const std::string address = text.substr(0, slash);
  if (IpAddress::parse(address))
    return fmt::format("netip.ParsePrefix(\"{}\"): prefix length out of range", text);
  return fmt::format("netip.ParsePrefix(\"{}\"): ParseAddr(\"{}\"): IPv4 field has value >255",
                     text, address);
}

std::string size_complaint(const std::string& text, unsigned minor) {
  const auto end = text.find_first_not_of("0123456789.");
  if (end == 0) return "strconv.ParseFloat: parsing \"\": invalid syntax";
  if (end == std::string::npos) return "";
  const std::string unit(trim(text.substr(end)));
  if (unit == "%" && minor >= 12) return "";
  static const std::vector<std::string> units{"b", "kb", "mb",  "gb",  "tb",  "pb",  "k",  "m",
                                              "g", "t",  "kib", "mib", "gib", "tib", "pib"};
  return std::find(units.begin(), units.end(), to_lower(unit)) == units.end()
             ? "unhandled size name: " + unit
             : "";
}

std::string url_complaint(const std::string& text, unsigned minor) {
  const auto scheme = text.find("://");
  std::string why;
  if (scheme == std::string::npos) {
    if (text.substr(0, text.find('/')).find(':') != std::string::npos)
      why = "first path segment in URL cannot contain colon";
  } else {
    const std::string host = text.substr(scheme + 3, text.find('/', scheme + 3) - scheme - 3);
    if (const auto percent = host.find('%'); percent != std::string::npos)
      why = fmt::format("invalid URL escape \"{}\"", host.substr(percent, 3));
    else if (minor >= 13 && host.front() != '[' && std::count(host.begin(), host.end(), ':') > 1)
      why = fmt::format("invalid port \"{}\" after host", host.substr(host.find(':')));
  }
  return why.empty() ? "" : fmt::format("parse \"{}\": {}", text, why);
}

std::optional<WrongScalar> check_scalar(const Value& value, const Shape& shape, unsigned minor) {
  const auto wrong = [&](const std::string& wanted, const Value& at) {
    return WrongScalar{at.place().line, described(at), wanted, ""};
  };
  const auto complain = [&](std::string text) -> std::optional<WrongScalar> {
    if (text.empty()) return std::nullopt;
    return WrongScalar{value.place().line, "", "", std::move(text)};
  };
  if (value.is_null()) return std::nullopt;
  switch (shape.type) {
    case Shape::Type::Bool:
      if (!value.as_bool() && !is_bool_word(value.text())) return wrong("bool", value);
      break;
    case Shape::Type::Int:
      if (!value.as_int()) return wrong("int", value);
      break;
    case Shape::Type::Unsigned:
      if (value.as_int().value_or(-1) < 0) return wrong("uint32", value);
      break;
    case Shape::Type::FileMode:
      if (value.kind() != Kind::Int) return wrong("v1alpha1.FileMode", value);
      break;
    case Shape::Type::Duration:
      if (!value.as_int() && !is_duration(value.text())) return wrong("time.Duration", value);
      break;
    case Shape::Type::Base64:
      // What a redacted configuration has in place of keys is taken.
      if (value.text() != "******" && !from_base64(value.text()))
        return complain(
            fmt::format("illegal base64 data at input byte {}", first_bad_base64(value.text())));
      break;
    case Shape::Type::Url:
      return complain(url_complaint(value.text(), minor));
    case Shape::Type::Prefix:
      return complain(value.text().empty() ? "" : prefix_complaint(value.text()));
    case Shape::Type::Size:
      return complain(size_complaint(value.text(), minor));
    case Shape::Type::DiskSize: {
      const std::string text(trim(value.text().substr(
          std::min(value.text().find_first_not_of("<>= "), value.text().size()))));
      const std::string why = size_complaint(text, minor);
      return complain(why.empty() ? ""
                                  : fmt::format("failed to parse disk size {}: {}", text, why));
    }
    case Shape::Type::Enum:
      if (std::find(shape.values.begin(), shape.values.end(), value.text()) == shape.values.end())
        return complain(
            fmt::format("{} does not belong to {} values", value.text(), shape.go_type));
      break;
    case Shape::Type::Strings:
      if (!value.is_map()) return wrong("map[string]string", value);
      for (const text::Entry& entry : value.entries())
        if (!entry.value.is_scalar()) return wrong("string", entry.value);
      break;
    case Shape::Type::List:
      if (value.is_scalar()) return wrong("[]string", value);
      break;
    default:
      break;
  }
  return std::nullopt;
}

Value bare(const Value& value) {
  if (value.is_map()) {
    std::vector<const text::Entry*> entries;
    for (const text::Entry& entry : value.entries()) entries.push_back(&entry);
    // Go's maps are written sorted.
    std::sort(entries.begin(), entries.end(),
              [](const auto* a, const auto* b) { return a->key < b->key; });
    Value out = Value::map();
    for (const text::Entry* entry : entries) out.set(entry->key, bare(entry->value));
    return out;
  }
  if (value.is_list()) {
    Value out = Value::list();
    for (const Value& item : value.items()) out.append(bare(item));
    return out;
  }
  return Value::scalar(value.kind(), value.text(), text::Style::Any);
}

}  // namespace

const Shape* Shape::find(std::string_view key) const {
  for (const auto& [name, shape] : keys)
    if (name == key) return &shape;
  return nullptr;
}

const Shape& v1alpha1_shape() {
  static const Shape shape = read_shape(v1alpha1_text);
  return shape;
}

const DocumentShape* find_document_shape(std::string_view kind) {
  static const std::vector<DocumentShape> all = [] {
    std::vector<DocumentShape> out;
    const auto add = [&](const char* name, const char* go_type, std::string_view text) {
      out.push_back({name, go_type, read_shape(text)});
    };
    add("VolumeConfig", "*block.VolumeConfigV1Alpha1", volume_text);
    add("UserVolumeConfig", "*block.UserVolumeConfigV1Alpha1", user_volume_text);
    add("NetworkRuleConfig", "*network.RuleConfigV1Alpha1", rule_text);
    add("NetworkDefaultActionConfig", "*network.DefaultActionConfigV1Alpha1", default_action_text);
    add("LinkConfig", "*network.LinkConfigV1Alpha1", link_text);
    add("HostnameConfig", "*network.HostnameConfigV1Alpha1", hostname_text);
    add("ResolverConfig", "*network.ResolverConfigV1Alpha1", resolver_text);
    add("DHCPv4Config", "*network.DHCPv4ConfigV1Alpha1", dhcp4_text);
    return out;
  }();
  for (const DocumentShape& each : all)
    if (each.kind == kind) return &each;
  return nullptr;
}

namespace {

Value unsorted_unknown_parts(const Value& value, const Shape& shape, unsigned minor) {
  if (shape.type == Shape::Type::Items) {
    Value out = Value::list();
    Shape element;
    element.keys = shape.keys;
    for (const Value& item : value.items()) {
      Value part = unsorted_unknown_parts(item, element, minor);
      if (!part.is_null()) out.append(std::move(part));
    }
    return out.size() == 0 ? Value::null() : out;
  }
  if (shape.type != Shape::Type::Struct || !value.is_map()) return Value::null();
  Value out = Value::map();
  for (const text::Entry& entry : value.entries()) {
    const Shape* inner = shape.find(entry.key);
    if (inner == nullptr || inner->since > minor) {
      out.set(entry.key, entry.value);
      continue;
    }
    Value part = unsorted_unknown_parts(entry.value, *inner, minor);
    if (!part.is_null()) out.set(entry.key, std::move(part));
  }
  return out.size() == 0 ? Value::null() : out;
}

}  // namespace

Value unknown_parts(const Value& value, const Shape& shape, unsigned minor) {
  const Value found = unsorted_unknown_parts(value, shape, minor);
  return found.is_null() ? Value::null() : bare(found);
}

std::optional<WrongScalar> wrong_scalar(const Value& value, const Shape& shape, unsigned minor) {
  if (shape.type == Shape::Type::Items) {
    Shape element;
    element.keys = shape.keys;
    for (const Value& item : value.items()) {
      if (item.is_scalar() && !item.is_null() && !shape.go_type.empty())
        return WrongScalar{item.place().line, described(item), shape.go_type, ""};
      if (auto found = wrong_scalar(item, element, minor)) return found;
    }
    return std::nullopt;
  }
  if (!has_keys(shape)) return check_scalar(value, shape, minor);
  for (const text::Entry& entry : value.entries())
    if (const Shape* inner = shape.find(entry.key); inner != nullptr && inner->since <= minor)
      if (auto found = wrong_scalar(entry.value, *inner, minor)) return found;
  return std::nullopt;
}

Value ordered(const Value& value, const Shape& shape) {
  switch (shape.type) {
    case Shape::Type::Struct: {
      if (!value.is_map()) return bare(value);
      Value out = Value::map();
      for (const auto& [key, inner] : shape.keys)
        if (const Value* found = value.find(key)) out.set(key, ordered(*found, inner));
      return out;
    }
    case Shape::Type::Items: {
      Value out = Value::list();
      Shape element;
      element.keys = shape.keys;
      for (const Value& item : value.items()) out.append(ordered(item, element));
      return out;
    }
    case Shape::Type::Strings: {
      Value out = bare(value);
      for (text::Entry& entry : out.entries())
        if (entry.value.is_scalar()) entry.value = Value::string(entry.value.text());
      return out;
    }
    case Shape::Type::List: {
      // Items of lists are structs whose order is kept as it was written.
      Value out = Value::list();
      for (const Value& item : value.items()) {
        if (!item.is_map()) {
          out.append(bare(item));
          continue;
        }
        Value map = Value::map();
        for (const text::Entry& entry : item.entries()) map.set(entry.key, bare(entry.value));
        out.append(std::move(map));
      }
      return out;
    }
    case Shape::Type::Any: {
      if (!value.is_map()) return bare(value);
      Value map = Value::map();
      for (const text::Entry& entry : value.entries()) map.set(entry.key, bare(entry.value));
      return map;
    }
    default:
      return bare(value);
  }
}

}  // namespace rocca::lab::talos
