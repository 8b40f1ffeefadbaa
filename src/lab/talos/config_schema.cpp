#include "lab/talos/config_schema.hpp"

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
        metric int
        mtu int
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
      size text
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
    grubUseUKICmdline bool
  files list
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
  kernel any
  seccompProfiles list
  baseRuntimeSpecOverrides any
  nodeLabels strings
  nodeAnnotations strings
  nodeTaints strings
cluster
  id text
  secret text
  controlPlane
    endpoint text
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
  apiServer any
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

Shape::Type type_of(std::string_view word) {
  if (word == "bool") return Shape::Type::Bool;
  if (word == "int") return Shape::Type::Int;
  if (word == "duration") return Shape::Type::Duration;
  if (word == "base64") return Shape::Type::Base64;
  if (word == "any") return Shape::Type::Any;
  if (word == "list") return Shape::Type::List;
  if (word == "strings") return Shape::Type::Strings;
  if (word == "items") return Shape::Type::Items;
  if (word == "named") return Shape::Type::Named;
  if (word == "text") return Shape::Type::Text;
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
    path.back()->keys.push_back({words[0], std::move(shape)});
    path.push_back(&path.back()->keys.back().shape);
  }
  return root;
}

bool has_keys(const Shape& shape) {
  return shape.type == Shape::Type::Struct || shape.type == Shape::Type::Items ||
         shape.type == Shape::Type::Named;
}

bool is_duration(std::string_view text) {
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

std::optional<WrongScalar> check_scalar(const Value& value, const Shape& shape) {
  const auto wrong = [&](const char* wanted) {
    return WrongScalar{value.place().line, fmt::format("{} `{}`", tag_of(value), value.text()),
                       wanted, false, 0};
  };
  if (value.is_null()) return std::nullopt;
  switch (shape.type) {
    case Shape::Type::Bool:
      if (!value.as_bool()) return wrong("bool");
      break;
    case Shape::Type::Int:
      if (!value.as_int()) return wrong("int");
      break;
    case Shape::Type::Duration:
      if (!value.as_int() && !is_duration(value.text())) return wrong("time.Duration");
      break;
    case Shape::Type::Base64:
      if (!from_base64(value.text()))
        return WrongScalar{value.place().line, "", "", true, first_bad_base64(value.text())};
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

Value unknown_parts(const Value& value, const Shape& shape) {
  if (shape.type == Shape::Type::Items) {
    Value out = Value::list();
    Shape element{Shape::Type::Struct, shape.keys};
    for (const Value& item : value.items()) {
      Value part = unknown_parts(item, element);
      if (!part.is_null()) out.append(std::move(part));
    }
    return out.size() == 0 ? Value::null() : out;
  }
  if (shape.type != Shape::Type::Struct || !value.is_map()) return Value::null();
  Value out = Value::map();
  for (const text::Entry& entry : value.entries()) {
    const Shape* inner = shape.find(entry.key);
    if (inner == nullptr) {
      out.set(entry.key, bare(entry.value));
      continue;
    }
    Value part = unknown_parts(entry.value, *inner);
    if (!part.is_null()) out.set(entry.key, std::move(part));
  }
  return out.size() == 0 ? Value::null() : out;
}

std::optional<WrongScalar> wrong_scalar(const Value& value, const Shape& shape) {
  if (shape.type == Shape::Type::Items) {
    const Shape element{Shape::Type::Struct, shape.keys};
    for (const Value& item : value.items())
      if (auto found = wrong_scalar(item, element)) return found;
    return std::nullopt;
  }
  if (!has_keys(shape)) return check_scalar(value, shape);
  for (const text::Entry& entry : value.entries())
    if (const Shape* inner = shape.find(entry.key))
      if (auto found = wrong_scalar(entry.value, *inner)) return found;
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
      const Shape element{Shape::Type::Struct, shape.keys};
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
