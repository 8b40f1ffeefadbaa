#include "talosconfig/schema.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace rocca::talos {

namespace {

// STRUCT: field, field…     a struct of the main document or of another document
// kind KIND SINCE [named] [link]: field…
// A field is `key type`: `key!` is written even when empty, `=type` is replaced by a patch, `@[]`
// merged by the items' key, `*` a pointer, `[]` a list, `{}` a map, `e:` a word; `+12` and `-11`
// are the first and last minor version that has it. The order is the one Talos writes.
constexpr std::string_view table = R"(
Config: version! s, debug *b, persist *b, machine! *MachineConfig, cluster! *ClusterConfig
BlockProvisioning: diskSelector BlockDiskSelector, grow *b, minSize size, maxSize maxsize+12,
    maxSize size-11
BlockDiskSelector: match cel
NetRulePortSelector: ports! =[]ports, protocol! e:Protocol
NetIngressRule: subnet! prefix, except prefix
ExtensionConfigFile: content! s, mountPath! s
MachineConfig: type! s, token! s, ca *CertKey, acceptedCAs []*CertOnly, certSANs! []s,
    controlPlane *MachineControlPlaneConfig, kubelet *KubeletConfig, pods []any,
    network *NetworkConfig, disks []*MachineDisk, install *InstallConfig, files []*MachineFile,
    env {}s, time *TimeConfig, sysctls {}s, sysfs {}s, registries RegistriesConfig,
    systemDiskEncryption *SystemDiskEncryptionConfig, features *FeaturesConfig, udev *UdevConfig,
    logging *LoggingConfig, kernel *KernelConfig, seccompProfiles []*MachineSeccompProfile,
    baseRuntimeSpecOverrides any, nodeLabels {}s, nodeAnnotations {}s, nodeTaints {}s
MachineSeccompProfile: name! s, value! any
ClusterConfig: id s, secret s, controlPlane! *ControlPlaneConfig, clusterName s,
    network *ClusterNetworkConfig, token s, aescbcEncryptionSecret s,
    secretboxEncryptionSecret s, ca *CertKey, acceptedCAs []*CertOnly, aggregatorCA *CertKey,
    serviceAccount *KeyOnly, apiServer *APIServerConfig,
    controllerManager *ControllerManagerConfig, proxy *ProxyConfig, scheduler *SchedulerConfig,
    discovery *ClusterDiscoveryConfig, etcd *EtcdConfig, coreDNS *CoreDNS,
    externalCloudProvider *ExternalCloudProviderConfig, extraManifests []s,
    extraManifestHeaders {}s, inlineManifests []ClusterInlineManifest,
    adminKubeconfig *AdminKubeconfigConfig, allowSchedulingOnMasters *b,
    allowSchedulingOnControlPlanes *b
LinuxIDMapping: containerID! u32, hostID! u32, size! u32
ExtraMount: destination! s, type s, source s, options []s, uidMappings []LinuxIDMapping,
    gidMappings []LinuxIDMapping
MachineControlPlaneConfig: controllerManager *MachineControllerManagerConfig,
    scheduler *MachineSchedulerConfig
MachineControllerManagerConfig: disabled *b
MachineSchedulerConfig: disabled *b
KubeletConfig: image s, clusterDNS []s, extraArgs {}arg+13, extraArgs {}s-12,
    extraMounts []ExtraMount, extraConfig any, credentialProviderConfig any,
    defaultRuntimeSeccompProfileEnabled *b, registerWithFQDN *b, nodeIP *KubeletNodeIPConfig,
    skipNodeRegistration *b, disableManifestsDirectory *b
KubeletNodeIPConfig: validSubnets []s
NetworkConfig: hostname s, interfaces @[]*Device, nameservers []s, searchDomains []s,
    extraHostEntries []*ExtraHost, kubespan *NetworkKubeSpan, disableSearchDomain *b
InstallConfig: disk s, diskSelector *InstallDiskSelector, extraKernelArgs []s, image s,
    extensions []InstallExtensionConfig, bootloader *b, wipe! *b, legacyBIOSSupport *b,
    grubUseUKICmdline *b+12
InstallDiskSelector: size *sizematch, name s, model s, serial s, modalias s, uuid s, wwid s,
    type s, busPath s
InstallExtensionConfig: image! s
TimeConfig: disabled *b, servers []s, bootTimeout dur
RegistriesConfig: mirrors {}*RegistryMirrorConfig, config {}*RegistryConfig
CoreDNS: disabled *b, image s
ControlPlaneConfig: endpoint! *url, localAPIServerPort i
APIServerConfig: image s, extraArgs {}arg+13, extraArgs {}s-12, extraVolumes []VolumeMountConfig,
    env {}s, certSANs []s, disablePodSecurityPolicy *b,
    admissionControl @[]*AdmissionPluginConfig, auditPolicy =any, resources *ResourcesConfig,
    authorizationConfig []*AuthorizationConfigAuthorizerConfig
AdmissionPluginConfig: name! s, configuration! any
AuthorizationConfigAuthorizerConfig: type! s, name! s, webhook any
ControllerManagerConfig: image s, extraArgs {}arg+13, extraArgs {}s-12,
    extraVolumes []VolumeMountConfig, env {}s, resources *ResourcesConfig
ProxyConfig: disabled *b, image s, mode s, extraArgs {}arg+13, extraArgs {}s-12
SchedulerConfig: image s, extraArgs {}arg+13, extraArgs {}s-12, extraVolumes []VolumeMountConfig,
    env {}s, resources *ResourcesConfig, config any
EtcdConfig: image s, ca! *CertKey, extraArgs {}arg+13, extraArgs {}s-12, subnet s,
    advertisedSubnets []s, listenSubnets []s
ClusterNetworkConfig: cni *CNIConfig, dnsDomain! s, podSubnets! =[]s, serviceSubnets! =[]s
CNIConfig: name s, urls []s, flannel *FlannelCNIConfig
FlannelCNIConfig: extraArgs []s, kubeNetworkPoliciesEnabled *b+13
ExternalCloudProviderConfig: enabled *b, manifests []s
AdminKubeconfigConfig: certLifetime dur
MachineDisk: device s, partitions []*DiskPartition
DiskPartition: size disksize, mountpoint s
EncryptionConfig: provider! s, keys! []*EncryptionKey, cipher s, keySize u64, blockSize u64,
    options []s
EncryptionKey: static *EncryptionKeyStatic, nodeID *Empty, kms *EncryptionKeyKMS, slot! i,
    tpm *EncryptionKeyTPM
EncryptionKeyStatic: passphrase s
EncryptionKeyKMS: endpoint! s
EncryptionKeyTPM: checkSecurebootStatusOnEnroll *b
ResourcesConfig: requests any, limits any
MachineFile: content! s, permissions! mode, path! s, op! s
ExtraHost: ip! s, aliases! []s
Device: interface s, deviceSelector *NetworkDeviceSelector, addresses []s, cidr s,
    routes []*Route, bond *Bond, bridge *Bridge, bridgePort *BridgePort, vlans @[]*Vlan, mtu i,
    dhcp *b, ignore *b, dummy *b, dhcpOptions *DHCPOptions, wireguard *DeviceWireguardConfig,
    vip *DeviceVIPConfig
DHCPOptions: routeMetric! u32, ipv4 *b, ipv6 *b, duidv6 s
DeviceWireguardConfig: privateKey s, listenPort i, firewallMark i, peers []*DeviceWireguardPeer
DeviceWireguardPeer: publicKey s, endpoint s, persistentKeepaliveInterval dur, allowedIPs []s
DeviceVIPConfig: ip s, equinixMetal *VIPEquinixMetalConfig, hcloud *VIPHCloudConfig
VIPEquinixMetalConfig: apiToken! s
VIPHCloudConfig: apiToken! s
Bond: interfaces! []s, deviceSelectors []NetworkDeviceSelector, arpIPTarget []s, mode! s,
    xmitHashPolicy s, lacpRate s, adActorSystem s, arpValidate s, arpAllTargets s, primary s,
    primaryReselect s, failOverMac s, adSelect s, miimon u32, updelay u32, downdelay u32,
    arpInterval u32, resendIgmp u32, minLinks u32, lpInterval u32, packetsPerSlave u32,
    numPeerNotif u8, tlbDynamicLb u8, allSlavesActive u8, useCarrier *b, adActorSysPrio u16,
    adUserPortKey u16, peerNotifyDelay u32
STP: enabled *b
BridgeVLAN: vlanFiltering *b
Bridge: interfaces! []s, stp *STP, vlan *BridgeVLAN
BridgePort: master s
Vlan: addresses []s, cidr s, routes! []*Route, dhcp *b, vlanId! u16, mtu u32,
    vip *DeviceVIPConfig, dhcpOptions *DHCPOptions
Route: network! s, gateway! s, source s, metric u32, mtu u32
RegistryMirrorConfig: endpoints! []s, overridePath *b, skipFallback *b
RegistryConfig: tls *RegistryTLSConfig, auth *RegistryAuthConfig
RegistryAuthConfig: username s, password s, auth s, identityToken s
RegistryTLSConfig: clientIdentity *CertKey, ca b64, insecureSkipVerify *b
SystemDiskEncryptionConfig: state *EncryptionConfig, ephemeral *EncryptionConfig
FeaturesConfig: rbac *b, stableHostname *b,
    kubernetesTalosAPIAccess *KubernetesTalosAPIAccessConfig, apidCheckExtKeyUsage *b,
    diskQuotaSupport *b, kubePrism *KubePrism, hostDNS *HostDNSConfig,
    imageCache *ImageCacheConfig, nodeAddressSortAlgorithm s
KubePrism: enabled *b, port i
ImageCacheConfig: localEnabled *b
KubernetesTalosAPIAccessConfig: enabled *b, allowedRoles []s, allowedKubernetesNamespaces []s
HostDNSConfig: enabled *b, forwardKubeDNSToHost *b, resolveMemberNames *b
VolumeMountConfig: hostPath! s, mountPath! s, readonly b
ClusterInlineManifest: name! s, contents! s
NetworkKubeSpan: enabled *b, advertiseKubernetesNetworks *b, allowDownPeerBypass *b,
    harvestExtraEndpoints *b, mtu *u32, filters *KubeSpanFilters
KubeSpanFilters: endpoints []s, excludeAdvertisedNetworks []s+12
NetworkDeviceSelector: busPath s, hardwareAddr s, permanentAddr s, pciID s, driver s, physical *b
ClusterDiscoveryConfig: enabled *b, registries! DiscoveryRegistriesConfig
DiscoveryRegistriesConfig: kubernetes! RegistryKubernetesConfig, service! RegistryServiceConfig
RegistryKubernetesConfig: disabled *b
RegistryServiceConfig: disabled *b, endpoint s
UdevConfig: rules []s
LoggingConfig: destinations! []LoggingDestination
LoggingDestination: endpoint! *url, format! s, extraTags {}s
KernelConfig: modules []*KernelModuleConfig
KernelModuleConfig: name! s, parameters []s
BlockEncryption: provider! e:EncryptionProviderType, keys! []BlockEncryptionKey, cipher s,
    keySize u64, blockSize u64, options []s
BlockEncryptionKey: slot! i, static *BlockEncryptionKeyStatic, nodeID *Empty,
    kms *BlockEncryptionKeyKMS, tpm *BlockEncryptionKeyTPM, lockToState *b+11
BlockEncryptionKeyStatic: passphrase s
BlockEncryptionKeyKMS: endpoint! s
BlockEncryptionKeyTPM: options *BlockEncryptionKeyTPMOptions+12, checkSecurebootStatusOnEnroll *b
BlockFilesystem: type e:FilesystemType, projectQuotaSupport *b+11
NetEthernetRings: rx *u32, tx *u32, rx-mini *u32, rx-jumbo *u32, rx-buf-len *u32, cqe-size *u32,
    tx-push *b, rx-push *b, tx-push-buf-len *u32, tcp-data-split *b
NetEthernetChannels: rx *u32, tx *u32, other *u32, combined *u32
BlockVolumeDiscovery: volumeSelector BlockVolumeSelector
BlockVolumeSelector: match cel
BlockMount: secure *b+13, readOnly *b-12
BlockEncryptionKeyTPMOptions: pcrs []i
CriRegistryEndpoint: url! url, overridePath *b
NetBridgeSTP: enabled *b
NetBridgeVLAN: filtering *b
NetAddress: address! prefix, routePriority *u32
NetRoute: destination prefix, gateway addr, source addr, metric u32, mtu u32,
    table e:RoutingTable
NetLinkSelector: match cel
NetNameserver: address! addr
NetSearchDomains: domains []s, disableDefault *b
NetNTP: servers []s
NetPTP: devices []s
NetWireguardPeer: publicKey s, presharedKey s, endpoint addrport,
    persistentKeepaliveInterval dur, allowedIPs []prefix
BlockExistingMount: readOnly *b, disableAccessTime *b, secure *b
BlockExternalMount: readOnly *b, disableAccessTime *b, secure *b, virtiofs *BlockVirtiofsMount
BlockVirtiofsMount: tag! s
BlockUserMount: disableAccessTime *b, secure *b
NetKubeSpanFilters: endpoints []s, excludeAdvertisedNetworks []prefix
SecurityImageVerificationRule: image s, skip *b, deny *b, keyless *SecurityImageKeylessVerifier,
    publicKey *SecurityImagePublicKeyVerifier
SecurityImageKeylessVerifier: issuer s, subject s, subjectRegex s
SecurityImagePublicKeyVerifier: certificate s
CertKey: crt! b64, key! b64
CertOnly: crt! b64
KeyOnly: key! b64
Empty:
kind EventSinkConfig 9: endpoint! s
kind ExtensionServiceConfig 9 named: configFiles @[]ExtensionConfigFile, environment []s
kind KmsgLogConfig 9 named: url! url
kind KubeSpanEndpointsConfig 9: extraAnnouncedEndpoints! []addrport
kind NetworkDefaultActionConfig 9: ingress! e:DefaultAction
kind NetworkRuleConfig 9 named: portSelector! NetRulePortSelector, ingress! =[]NetIngressRule
kind SideroLinkConfig 9: apiUrl! url, uniqueToken s+10
kind TrustedRootsConfig 9 named: certificates! s
kind VolumeConfig 9 named: provisioning BlockProvisioning, encryption BlockEncryption+11,
    mount BlockMount+13
kind WatchdogTimerConfig 9: device! s, timeout dur
kind EthernetConfig 10 named: features {}b, rings *NetEthernetRings,
    channels *NetEthernetChannels, wakeOnLan []e:WOLMode+12
kind PCIDriverRebindConfig 10 named: targetDriver! s
kind UserVolumeConfig 10 named: volumeType *e:VolumeType+12, provisioning BlockProvisioning,
    filesystem BlockFilesystem, encryption BlockEncryption, mount BlockUserMount+13
kind ExistingVolumeConfig 11 named: discovery BlockVolumeDiscovery, mount BlockExistingMount+13,
    mount BlockMount-12
kind RawVolumeConfig 11 named: provisioning BlockProvisioning, encryption BlockEncryption
kind SwapVolumeConfig 11 named: provisioning BlockProvisioning, encryption BlockEncryption
kind ZswapConfig 11: maxPoolPercent *i, shrinkerEnabled *b
kind BondConfig 12 named link: hardwareAddr hw, links []s, bondMode *e:BondMode, miimon *u32,
    updelay *u32, downdelay *u32, useCarrier *b, xmitHashPolicy *e:BondXmitHashPolicy,
    arpInterval *u32, arpIpTargets []addr, nsIp6Targets []addr, arpValidate *e:ARPValidate,
    arpAllTargets *e:ARPAllTargets, lacpRate *e:LACPRate, failOverMac *e:FailOverMAC,
    adSelect *e:ADSelect, adActorSysPrio *u16, adUserPortKey *u16, adLACPActive *e:ADLACPActive,
    primaryReselect *e:PrimaryReselect, resendIGMP *u32, minLinks *u32, lpInterval *u32,
    packetsPerSlave *u32, numPeerNotif *u8, tlbLogicalLb *u8, allSlavesActive *u8,
    peerNotifDelay *u32, missedMax *u8
kind BridgeConfig 12 named link: hardwareAddr hw, links []s, stp NetBridgeSTP, vlan NetBridgeVLAN
kind DHCPv4Config 12 named: routeMetric u32, ignoreHostname *b,
    clientIdentifier *e:ClientIdentifier, duidRaw hw
kind DHCPv6Config 12 named: routeMetric u32, ignoreHostname *b,
    clientIdentifier *e:ClientIdentifier, duidRaw hw
kind DummyLinkConfig 12 named link: hardwareAddr hw
kind HCloudVIPConfig 12 named: link! s, apiToken! s
kind HostnameConfig 12: auto *e:AutoHostnameKind, hostname s
kind Layer2VIPConfig 12 named: link! s
kind LinkAliasConfig 12 named: selector NetLinkSelector
kind LinkConfig 12 named link:
kind OOMConfig 12: triggerExpression cel, cgroupRankingExpression cel,
    strictCgroupClassOrdering *b+13, sampleInterval dur
kind RegistryAuthConfig 12 named: username s, password s, auth s, identityToken s
kind RegistryMirrorConfig 12 named: endpoints []CriRegistryEndpoint, skipFallback *b
kind RegistryTLSConfig 12 named: clientIdentity *CertKey, ca s, insecureSkipVerify *b
kind ResolverConfig 12: nameservers []NetNameserver, searchDomains NetSearchDomains
kind StaticHostConfig 12 named: hostnames! []s
kind TimeSyncConfig 12: enabled *b, bootTimeout dur, ntp *NetNTP, ptp *NetPTP
kind VLANConfig 12 named link: vlanID u16, vlanMode *e:VLANProtocol, parent s
kind WireguardConfig 12 named link: privateKey s, listenPort i, firewallMark i,
    peers []NetWireguardPeer
kind BlackholeRouteConfig 13 named: metric u32
kind EnvironmentConfig 13: variables! {}s
kind ExternalVolumeConfig 13 named: filesystemType! e:FilesystemType, mount BlockExternalMount
kind ImageVerificationConfig 13: rules @[]SecurityImageVerificationRule
kind KubeSpanConfig 13: enabled *b, advertiseKubernetesNetworks *b, allowDownPeerBypass *b,
    harvestExtraEndpoints *b, mtu *u32, filters *NetKubeSpanFilters
kind RoutingRuleConfig 13 named: src prefix, dst prefix, table! e:RoutingTable,
    action e:RoutingRuleAction, iifName s, oifName s, fwMark u32, fwMask u32
kind TCPProbeConfig 13 named: interval dur, failureThreshold i, endpoint! s, timeout dur
kind VRFConfig 13 named link: hardwareAddr hw, links []s, table! e:RoutingTable
)";

// The first word is Go's zero: without a pointer a patch cannot set it, because zeros are ignored.
constexpr std::string_view word_table = R"(
DefaultAction: accept block
Protocol: - icmp tcp udp icmpv6
AutoHostnameKind: off talos-addr stable
ClientIdentifier: none mac duid
BondMode: balance-rr active-backup balance-xor broadcast 802.3ad balance-tlb balance-alb
BondXmitHashPolicy: layer2 layer3+4 layer2+3 encap2+3 encap3+4
ARPValidate: none active backup all filter filter-active filter-backup
ARPAllTargets: any all
LACPRate: slow fast
FailOverMAC: none active follow
ADSelect: stable bandwidth count
ADLACPActive: off on
PrimaryReselect: always better failure
VLANProtocol: - 802.1q 802.1ad
WOLMode: phy unicast multicast broadcast arp magic magicsecure filter
RoutingTable: unspec default main local #252
RoutingRuleAction: unspec unicast blackhole unreachable prohibit
VolumeType: partition disk tmpfs directory symlink overlay external
FilesystemType: none xfs vfat ext4 iso9660 swap virtiofs
EncryptionProviderType: none luks2
)";

struct Schema {
  std::map<std::string, std::unique_ptr<StructType>, std::less<>> structs;
  std::map<std::string, std::vector<std::string>, std::less<>> words;
  std::vector<DocumentType> documents;
};

std::string_view trimmed(std::string_view text) {
  const auto from = text.find_first_not_of(" \n");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \n") - from + 1);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(at), text.size());
    if (const auto part = trimmed(text.substr(0, end)); !part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

unsigned number(std::string_view text) {
  unsigned value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

StructType& struct_of(Schema& schema, std::string_view name) {
  auto& made = schema.structs[std::string{name}];
  if (!made) {
    made = std::make_unique<StructType>();
    made->name = std::string{name};
  }
  return *made;
}

Type type_of(Schema& schema, std::string_view text) {
  static constexpr std::pair<std::string_view, Shape> plain[] = {
      {"s", Shape::Text},
      {"b", Shape::Bool},
      {"dur", Shape::Duration},
      {"url", Shape::Url},
      {"cel", Shape::Expression},
      {"size", Shape::Size},
      {"maxsize", Shape::MaxSize},
      {"disksize", Shape::DiskSize},
      {"mode", Shape::Mode},
      {"b64", Shape::Base64},
      {"prefix", Shape::Prefix},
      {"addr", Shape::Address},
      {"addrport", Shape::AddressPort},
      {"hw", Shape::Hardware},
      {"sizematch", Shape::SizeMatch},
      {"ports", Shape::Port},
      {"arg", Shape::Argument},
      {"any", Shape::Any},
  };
  Type type;
  type.keyed = take(text, "@");
  type.pointer = take(text, "*");
  if (take(text, "[]") || take(text, "{}")) {
    type.shape = *(text.data() - 1) == ']' ? Shape::List : Shape::Map;
    type.item = std::make_shared<const Type>(type_of(schema, text));
    return type;
  }
  if (take(text, "e:")) {
    type.shape = Shape::Word;
    const auto words = schema.words.find(text);
    if (words == schema.words.end()) throw Error(Fault::Bug, "no words for " + std::string{text});
    type.words = words->second;
    return type;
  }
  for (const auto& [name, shape] : plain) {
    if (text != name) continue;
    type.shape = shape;
    return type;
  }
  if (text == "i" || (text.front() == 'u' && text.size() <= 3)) {
    type.shape = Shape::Integer;
    type.is_signed = text == "i";
    type.bits = text == "i" ? 64 : number(text.substr(1));
    return type;
  }
  type.shape = Shape::Struct;
  type.fields = &struct_of(schema, text);
  return type;
}

Field field_of(Schema& schema, std::string_view text) {
  const auto blank = text.find(' ');
  std::string_view key = text.substr(0, blank);
  std::string_view type = trimmed(text.substr(blank));
  Field field;
  if (key.ends_with('!')) {
    field.always = true;
    key.remove_suffix(1);
  }
  field.key = std::string{key};
  field.replace = take(type, "=");
  if (const auto minus = type.rfind('-'); minus != std::string_view::npos) {
    field.until = number(type.substr(minus + 1));
    type = type.substr(0, minus);
  }
  if (const auto plus = type.rfind('+'); plus != std::string_view::npos) {
    field.since = number(type.substr(plus + 1));
    type = type.substr(0, plus);
  }
  field.type = type_of(schema, type);
  return field;
}

void add_fields(Schema& schema, StructType& owner, std::string_view list) {
  for (const std::string_view field : split(list, ','))
    owner.fields.push_back(field_of(schema, field));
}

void read_words(Schema& schema) {
  for (const std::string_view line : split(word_table, '\n')) {
    const auto colon = line.find(':');
    auto& words = schema.words[std::string{line.substr(0, colon)}];
    for (const std::string_view word : split(line.substr(colon + 1), ' ')) {
      if (word.front() == '#') {  // routing tables have numbers for names
        for (unsigned n = 1; n <= number(word.substr(1)); ++n) words.push_back(std::to_string(n));
      } else {
        words.emplace_back(word);
      }
    }
  }
}

void read_entry(Schema& schema, std::string_view head, std::string_view list) {
  const auto words = split(head, ' ');
  if (words.front() != "kind") {
    add_fields(schema, struct_of(schema, head), list);
    return;
  }
  DocumentType document;
  document.kind = std::string{words[1]};
  document.since = number(words[2]);
  document.named = std::find(words.begin(), words.end(), "named") != words.end();
  document.link = std::find(words.begin(), words.end(), "link") != words.end();
  StructType& fields = struct_of(schema, document.kind + " document");
  add_fields(schema, fields, "apiVersion! s, kind! s");
  if (document.named) add_fields(schema, fields, "name! s");
  add_fields(schema, fields, list);
  if (document.link)
    add_fields(schema, fields,
               "up *b, mtu u32, addresses []NetAddress, routes []NetRoute, multicast *b");
  document.fields = &fields;
  schema.documents.push_back(std::move(document));
}

Schema read_table() {
  Schema schema;
  read_words(schema);
  std::string_view rest = table;
  while (!rest.empty()) {
    // An entry goes on over the lines that begin with a blank.
    auto end = rest.find('\n');
    while (end != std::string_view::npos && end + 1 < rest.size() && rest[end + 1] == ' ')
      end = rest.find('\n', end + 1);
    const std::string_view entry = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (trimmed(entry).empty()) continue;
    const auto colon = entry.find(':');
    std::string list{entry.substr(colon + 1)};
    std::replace(list.begin(), list.end(), '\n', ' ');
    read_entry(schema, trimmed(entry.substr(0, colon)), list);
  }
  return schema;
}

const Schema& schema() {
  static const Schema made = read_table();
  return made;
}

unsigned known(unsigned minor) {
  return std::clamp(minor, oldest_minor, newest_minor);
}

}  // namespace

const Field* StructType::find(std::string_view key, unsigned minor) const noexcept {
  const unsigned at = known(minor);
  for (const Field& field : fields)
    if (field.key == key && field.since <= at && at <= field.until) return &field;
  return nullptr;
}

std::vector<std::string> StructType::keys(unsigned minor) const {
  const unsigned at = known(minor);
  std::vector<std::string> out;
  for (const Field& field : fields)
    if (field.since <= at && at <= field.until) out.push_back(field.key);
  return out;
}

const StructType& main_document() {
  return *schema().structs.find("Config")->second;
}

const DocumentType* find_document_type(std::string_view kind) {
  for (const DocumentType& document : schema().documents)
    if (document.kind == kind) return &document;
  return nullptr;
}

std::vector<std::string> document_kinds(unsigned minor) {
  std::vector<std::string> out;
  for (const DocumentType& document : schema().documents)
    if (document.since <= known(minor)) out.push_back(document.kind);
  return out;
}

}  // namespace rocca::talos
