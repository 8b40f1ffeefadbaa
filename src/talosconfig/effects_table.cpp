#include "talosconfig/effects.hpp"

// What it costs to change each key of a machine configuration on a running node. Talos 1.9 to 1.13
// decide alike which keys need a reboot (CanApplyImmediate); what is fixed is rocca's own rule.

namespace rocca::talos {

namespace {

using enum ConfigEffect;
constexpr Disturbance none = Disturbance::None;
constexpr Disturbance services = Disturbance::Services;
constexpr Disturbance away = Disturbance::Away;

constexpr std::string_view host_name =
    "the host name is the name of the Kubernetes node and of the etcd member: under another name "
    "the node would join as a new one, beside the old one";
constexpr std::string_view keep_host_name =
    "put naming.host (or the patch) back; a node gets another name by leaving the spec and coming "
    "back under that name";
constexpr std::string_view networks =
    "pods and Services of a running cluster keep the addresses they have, and Kubernetes cannot "
    "move them to another network";
constexpr std::string_view encryption =
    "the Secrets in etcd are encrypted with it: with another key they cannot be read any more";
constexpr std::string_view keep_secrets =
    "put the secrets bundle back that the cluster was created with";

// A row holds for its key and everything below it; the longest path that fits counts. There is no
// row for `machine` or `cluster` as a whole: a key without a row is treated as unknown.
constexpr ConfigKey keys[] = {
    {"version", Reboot, away},
    {"debug", Live, none},
    {"persist", Reboot, away},
    {"machine.type", Fixed, away, "a control plane and a worker keep different data",
     "put the role back; a node changes its role by leaving the spec and coming back"},
    {"machine.token", Reboot, away},
    {"machine.ca", Live, away},  // a client with a certificate of the old one may be locked out
    {"machine.acceptedCAs", Live, away},
    {"machine.certSANs", Live, none},
    {"machine.controlPlane", Service, services},
    {"machine.kubelet", Service, services},
    {"machine.pods", Service, services},
    {"machine.network.hostname", Fixed, away, host_name, keep_host_name},
    {"machine.network.interfaces", Live, away},
    {"machine.network.nameservers", Live, away},
    {"machine.network.searchDomains", Live, away},
    {"machine.network.extraHostEntries", Live, away},
    {"machine.network.kubespan", Live, away},
    {"machine.network.disableSearchDomain", Live, away},
    {"machine.disks", Reboot, away},
    {"machine.install", Live, none},  // read by the next installation or upgrade
    {"machine.files", Reboot, away},
    {"machine.env", Reboot, away},
    {"machine.time", Live, none},
    {"machine.sysctls", Live, services},
    {"machine.sysfs", Live, none},
    {"machine.registries.mirrors", Live, none},
    {"machine.registries.config", Reboot, none},  // its `tls` alone: live
    {"machine.systemDiskEncryption", Reboot, away},
    {"machine.features.rbac", Reboot, away},
    {"machine.features.stableHostname", Reboot, away},
    {"machine.features.kubernetesTalosAPIAccess", Live, none},
    {"machine.features.apidCheckExtKeyUsage", Reboot, away},
    {"machine.features.diskQuotaSupport", Reboot, away},
    {"machine.features.kubePrism", Live, services},
    {"machine.features.hostDNS", Live, services},
    {"machine.features.imageCache", Live, none},
    {"machine.features.nodeAddressSortAlgorithm", Live, services},
    {"machine.udev", Reboot, away},
    {"machine.logging", Live, none},
    {"machine.kernel", Live, none},
    {"machine.seccompProfiles", Live, none},
    {"machine.baseRuntimeSpecOverrides", Reboot, away},
    {"machine.nodeLabels", Live, none},
    {"machine.nodeAnnotations", Live, none},
    {"machine.nodeTaints", Live, none},
    {"cluster.id", Fixed, away, "it is how the members of a cluster find each other", keep_secrets},
    {"cluster.secret", Live, services},
    {"cluster.controlPlane", Service, services},
    {"cluster.clusterName", Live, none},  // only written into kubeconfigs
    {"cluster.network.cni", Fixed, services,
     "Talos does not take the objects of the old CNI away, and two of them break the pods' network",
     "put kubernetes.cni back, or create a new cluster with the other CNI"},
    {"cluster.network.cni.urls", Live, none},
    {"cluster.network.cni.flannel", Live, services},
    {"cluster.network.dnsDomain", Fixed, services,
     "certificates, Services and every pod that runs hold names under it",
     "take cluster.network.dnsDomain out of talos.patches, or create a new cluster with it"},
    {"cluster.network.podSubnets", Fixed, services, networks,
     "put kubernetes.podCIDR back, or create a new cluster with the other network"},
    {"cluster.network.serviceSubnets", Fixed, services, networks,
     "put kubernetes.serviceCIDR back, or create a new cluster with the other network"},
    {"cluster.token", Live, services},
    {"cluster.aescbcEncryptionSecret", Fixed, services, encryption, keep_secrets},
    {"cluster.secretboxEncryptionSecret", Fixed, services, encryption, keep_secrets},
    {"cluster.ca", Service, services},
    {"cluster.acceptedCAs", Service, services},
    {"cluster.aggregatorCA", Service, services},
    {"cluster.serviceAccount", Service, services},
    {"cluster.apiServer", Service, services},
    {"cluster.controllerManager", Service, services},
    {"cluster.proxy", Live, none},
    {"cluster.scheduler", Service, services},
    {"cluster.discovery", Live, services},
    {"cluster.etcd", Service, away},
    {"cluster.coreDNS", Live, none},
    {"cluster.externalCloudProvider", Service, services},
    {"cluster.extraManifests", Live, none},
    {"cluster.extraManifestHeaders", Live, none},
    {"cluster.inlineManifests", Live, none},
    {"cluster.adminKubeconfig", Live, none},
    {"cluster.allowSchedulingOnMasters", Live, none},
    {"cluster.allowSchedulingOnControlPlanes", Live, none},
};

// Documents never make Talos reboot.
constexpr ConfigKey documents[] = {
    {"BlackholeRouteConfig", Live, away},
    {"BondConfig", Live, away},
    {"BridgeConfig", Live, away},
    {"DHCPv4Config", Live, away},
    {"DHCPv6Config", Live, away},
    {"DummyLinkConfig", Live, away},
    {"EnvironmentConfig", Live, none},
    {"EthernetConfig", Live, away},
    {"EventSinkConfig", Live, none},
    {"ExistingVolumeConfig", Live, none},
    {"ExtensionServiceConfig", Service, services},
    {"ExternalVolumeConfig", Live, away},
    {"HCloudVIPConfig", Live, away},
    {"HostnameConfig", Fixed, away, host_name, keep_host_name},
    {"ImageVerificationConfig", Live, none},
    {"KmsgLogConfig", Live, none},
    {"KubeSpanConfig", Live, away},
    {"KubeSpanEndpointsConfig", Live, away},
    {"Layer2VIPConfig", Live, away},
    {"LinkAliasConfig", Live, away},
    {"LinkConfig", Live, away},
    {"NetworkDefaultActionConfig", Live, away},
    {"NetworkRuleConfig", Live, away},
    {"OOMConfig", Live, none},
    {"PCIDriverRebindConfig", Live, none},
    {"RawVolumeConfig", Live, none},
    {"RegistryAuthConfig", Live, none},
    {"RegistryMirrorConfig", Live, none},
    {"RegistryTLSConfig", Live, none},
    {"ResolverConfig", Live, away},
    {"RoutingRuleConfig", Live, away},
    {"SideroLinkConfig", Live, away},
    {"StaticHostConfig", Live, away},
    {"SwapVolumeConfig", Live, none},
    {"TCPProbeConfig", Live, away},
    {"TimeSyncConfig", Live, none},
    {"TrustedRootsConfig", Live, none},
    {"UserVolumeConfig", Live, none},
    {"VLANConfig", Live, away},
    {"VRFConfig", Live, away},
    {"VolumeConfig", Live, none},
    {"WatchdogTimerConfig", Live, none},
    {"WireguardConfig", Live, away},
    {"ZswapConfig", Live, none},
};

bool is_below(std::string_view path, std::string_view section) {
  return path.starts_with(section) && (path.size() == section.size() ||
                                       path[section.size()] == '.' || path[section.size()] == '[');
}

}  // namespace

std::span<const ConfigKey> config_keys() {
  return keys;
}

std::span<const ConfigKey> config_document_keys() {
  return documents;
}

const ConfigKey* find_config_key(std::string_view path) {
  if (const auto slash = path.find('/'); slash != std::string_view::npos) {
    std::string_view kind = path.substr(slash + 1);  // of "v1alpha1/LinkConfig/eth0"
    kind = kind.substr(0, kind.find('/'));
    for (const ConfigKey& key : documents)
      if (key.path == kind) return &key;
    return nullptr;
  }
  const ConfigKey* found = nullptr;
  for (const ConfigKey& key : keys)
    if (is_below(path, key.path) && (found == nullptr || key.path.size() > found->path.size()))
      found = &key;
  return found;
}

bool has_config_keys_below(std::string_view path) {
  for (const ConfigKey& key : keys)
    if (key.path.size() > path.size() && (path.empty() || is_below(key.path, path))) return true;
  return false;
}

}  // namespace rocca::talos
