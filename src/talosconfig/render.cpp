#include "talosconfig/render.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "talosconfig/manifest_secrets.hpp"
#include "talosconfig/secrecy.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::talos {

using text::Value;

namespace {

Value str(std::string_view text) {
  return Value::string(std::string{text});
}

Value list_of(const std::vector<std::string>& texts) {
  Value list = Value::list();
  for (const std::string& text : texts) list.append(str(text));
  return list;
}

Value map_of(const ConfigInput::Pairs& pairs) {
  Value map = Value::map();
  for (const auto& [key, value] : pairs) map.set(key, str(value));
  return map;
}

Value one(std::string_view key, Value value) {
  Value map = Value::map();
  map.set(key, std::move(value));
  return map;
}

Value pem(std::string_view text) {
  return str(to_base64(text));
}

/// Workers get the certificate only; the key stands there empty, as Talos writes it.
Value authority(const secrets::AuthorityPem& ca, bool with_key) {
  Value value = Value::map();
  value.set("crt", pem(ca.crt));
  value.set("key", with_key ? pem(ca.key.reveal()) : str(""));
  return value;
}

Value document(std::string_view kind, std::string_view name = {}) {
  Value value = Value::map();
  value.set("apiVersion", str("v1alpha1"));
  value.set("kind", str(kind));
  if (!name.empty()) value.set("name", str(name));
  return value;
}

std::string host_of(const std::string& url) {
  const auto parts = parse_url(url);
  if (!parts || parts->scheme.empty() || parts->host.empty())
    throw Error(Fault::Usage, fmt::format("the endpoint '{}' is not a URL", url))
        .hint("write it as https://HOST:6443");
  std::string host = parts->host;
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.rfind(':'));
}

class Renderer {
 public:
  explicit Renderer(const ConfigInput& input)
      : input_(input), minor_(static_cast<unsigned>(input.talos.minor())) {
    if (input.talos.major() != 1 || minor_ < oldest_minor)
      throw Error(Fault::Usage,
                  fmt::format("Talos {} is not supported", rocca::to_string(input.talos)))
          .hint(fmt::format("1.{} is the oldest that is", oldest_minor));
    host_of(input.endpoint);  // a worker without a right endpoint would be silent for ever
  }

  std::vector<Value> documents() const {
    std::vector<Value> out;
    out.push_back(main());
    if (documents_for_network()) {
      for (const auto& [host, endpoints] : input_.mirrors) out.push_back(mirror(host, endpoints));
      if (minor_ >= 13 && input_.kubespan.value_or(false)) {
        Value kubespan = document("KubeSpanConfig");
        kubespan.set("enabled", Value::boolean(true));
        out.push_back(std::move(kubespan));
      }
      out.push_back(hostname());
      if (!input_.vip.empty() && input_.control_plane) {
        Value vip = document("Layer2VIPConfig", input_.vip);
        vip.set("link", str(input_.vip_link));
        out.push_back(std::move(vip));
      }
      if (!input_.nameservers.empty()) out.push_back(resolver());
      if (!input_.ntp.empty()) {
        Value time = document("TimeSyncConfig");
        time.set("ntp", one("servers", list_of(input_.ntp)));
        out.push_back(std::move(time));
      }
    }
    for (const ConfigInput::Volume& volume : input_.volumes) out.push_back(user_volume(volume));
    for (const ConfigInput::Service& service : input_.services) out.push_back(extension(service));
    return out;
  }

 private:
  /// From 1.12 on what belongs to the network has documents of its own.
  bool documents_for_network() const { return minor_ >= 12; }

  Value main() const {
    Value config = Value::map();
    config.set("version", str("v1alpha1"));
    config.set("debug", Value::boolean(false));
    config.set("persist", Value::boolean(true));
    config.set("machine", machine());
    config.set("cluster", cluster());
    return config;
  }

  Value machine() const {
    const bool cp = input_.control_plane;
    Value machine = Value::map();
    machine.set("type", str(cp ? "controlplane" : "worker"));
    machine.set("token", str(input_.bundle.trustd_token.reveal()));
    machine.set("ca", authority(input_.bundle.os, cp));
    machine.set("certSANs", list_of(input_.cert_sans));
    machine.set("kubelet", kubelet());
    if (Value net = network(); net.size() != 0 || minor_ <= 12) machine.set("network", net);
    machine.set("install", install());
    if (!input_.ntp.empty() && !documents_for_network())
      machine.set("time", one("servers", list_of(input_.ntp)));
    if (!input_.sysctls.empty()) machine.set("sysctls", map_of(input_.sysctls));
    if (!input_.mirrors.empty() && !documents_for_network()) {
      Value mirrors = Value::map();
      for (const auto& [host, endpoints] : input_.mirrors)
        mirrors.set(host, one("endpoints", list_of(endpoints)));
      machine.set("registries", one("mirrors", std::move(mirrors)));
    }
    machine.set("features", features());
    if (!input_.modules.empty()) machine.set("kernel", one("modules", modules()));
    Value labels = Value::map();
    if (cp) labels.set("node.kubernetes.io/exclude-from-external-load-balancers", str(""));
    for (const auto& [key, value] : input_.labels) labels.set(key, str(value));
    if (labels.size() != 0) machine.set("nodeLabels", std::move(labels));
    if (!input_.taints.empty()) machine.set("nodeTaints", map_of(input_.taints));
    return machine;
  }

  Value kubelet() const {
    Value kubelet = Value::map();
    kubelet.set("image", str("ghcr.io/siderolabs/kubelet:v" + input_.kubernetes));
    if (input_.rotate_server_certificates)
      kubelet.set("extraArgs", one("rotate-server-certificates", str("true")));
    if (!input_.shared_mounts.empty()) {
      Value mounts = Value::list();
      for (const std::string& path : input_.shared_mounts) {
        Value mount = Value::map();
        mount.set("destination", str(path));
        mount.set("type", str("bind"));
        mount.set("source", str(path));
        mount.set("options", list_of({"bind", "rshared", "rw"}));
        mounts.append(std::move(mount));
      }
      kubelet.set("extraMounts", std::move(mounts));
    }
    if (!input_.node_subnets.empty())
      kubelet.set("nodeIP", one("validSubnets", list_of(input_.node_subnets)));
    kubelet.set("defaultRuntimeSeccompProfileEnabled", Value::boolean(true));
    kubelet.set("disableManifestsDirectory", Value::boolean(true));
    return kubelet;
  }

  Value network() const {
    Value network = Value::map();
    if (!documents_for_network() && input_.hostname) network.set("hostname", str(*input_.hostname));
    Value interfaces = Value::list();
    if (input_.link) {
      interfaces.append(interface(*input_.link));
    } else if (!documents_for_network() && input_.control_plane && !input_.vip.empty()) {
      interfaces.append(vip_interface());
    }
    if (interfaces.size() != 0) network.set("interfaces", std::move(interfaces));
    if (!documents_for_network() && !input_.nameservers.empty())
      network.set("nameservers", list_of(input_.nameservers));
    if (input_.kubespan && *input_.kubespan && minor_ <= 12)
      network.set("kubespan", one("enabled", Value::boolean(true)));
    return network;
  }

  Value interface(const ConfigInput::Link& link) const {
    Value value = Value::map();
    if (!link.mac.empty()) {
      value.set("deviceSelector", one("hardwareAddr", str(link.mac)));
    } else if (link.name.empty()) {
      // Every NIC there is: right only where there is one.
      value.set("deviceSelector", one("physical", Value::boolean(true)));
    } else {
      value.set("interface", str(link.name));
    }
    if (!link.addresses.empty()) value.set("addresses", list_of(link.addresses));
    if (!link.gateway.empty()) {
      Value route = Value::map();
      route.set("network", str(link.gateway.find(':') == std::string::npos ? "0.0.0.0/0" : "::/0"));
      route.set("gateway", str(link.gateway));
      Value routes = Value::list();
      routes.append(std::move(route));
      value.set("routes", std::move(routes));
    }
    if (link.mtu) value.set("mtu", Value::integer(*link.mtu));
    // Naming a link switches the default DHCP off on it: it must be asked for.
    value.set("dhcp", Value::boolean(link.dhcp));
    if (!link.vip.empty() && input_.control_plane) value.set("vip", one("ip", str(link.vip)));
    return value;
  }

  Value vip_interface() const {
    Value value = Value::map();
    value.set("interface", str(input_.vip_link));
    value.set("vip", one("ip", str(input_.vip)));
    return value;
  }

  Value install() const {
    Value install = Value::map();
    if (!input_.disk_serial.empty()) {
      install.set("diskSelector", one("serial", str(input_.disk_serial)));
    } else if (!input_.install_disk.empty()) {
      install.set("disk", str(input_.install_disk));
    } else {
      throw Error(Fault::Usage, "nobody says which disk Talos is to be installed on")
          .hint("give its serial number: existing: { disk: SERIAL }");
    }
    install.set("image", str(input_.installer));
    install.set("wipe", Value::boolean(input_.wipe));
    if (minor_ >= 12) install.set("grubUseUKICmdline", Value::boolean(true));
    return install;
  }

  Value features() const {
    Value features = Value::map();
    if (minor_ <= 11) {
      // From 1.12 on these are always so, and stableHostname makes a HostnameConfig be refused.
      for (const std::string_view key : {"rbac", "stableHostname", "apidCheckExtKeyUsage"})
        features.set(key, Value::boolean(true));
    }
    features.set("diskQuotaSupport", Value::boolean(true));
    Value prism = Value::map();
    prism.set("enabled", Value::boolean(true));
    prism.set("port", Value::integer(7445));
    features.set("kubePrism", std::move(prism));
    Value dns = Value::map();
    dns.set("enabled", Value::boolean(true));
    dns.set("forwardKubeDNSToHost", Value::boolean(input_.forward_dns_to_host));
    features.set("hostDNS", std::move(dns));
    return features;
  }

  Value modules() const {
    Value modules = Value::list();
    for (const ConfigInput::Module& module : input_.modules) {
      Value value = one("name", str(module.name));
      if (!module.parameters.empty()) value.set("parameters", list_of(module.parameters));
      modules.append(std::move(value));
    }
    return modules;
  }

  Value cluster() const {
    const secrets::Bundle& bundle = input_.bundle;
    const bool cp = input_.control_plane;
    Value cluster = Value::map();
    cluster.set("id", str(bundle.cluster_id));
    cluster.set("secret", str(bundle.cluster_secret.reveal()));
    cluster.set("controlPlane", one("endpoint", str(input_.endpoint)));
    cluster.set("clusterName", str(input_.cluster));
    cluster.set("network", cluster_network());
    cluster.set("token", str(bundle.bootstrap_token.reveal()));
    if (cp) {
      // A bundle of contracts up to 1.2 has the other one. Without it, what etcd holds is lost.
      if (!bundle.aescbc_secret.empty())
        cluster.set("aescbcEncryptionSecret", str(bundle.aescbc_secret.reveal()));
      if (!bundle.secretbox_secret.empty())
        cluster.set("secretboxEncryptionSecret", str(bundle.secretbox_secret.reveal()));
    }
    cluster.set("ca", authority(bundle.kubernetes, cp));
    if (cp) {
      cluster.set("aggregatorCA", authority(bundle.aggregator, true));
      cluster.set("serviceAccount", one("key", pem(bundle.service_account_key.reveal())));
      cluster.set("apiServer", api_server());
      cluster.set("controllerManager", image("kube-controller-manager"));
      Value proxy = image("kube-proxy");
      if (!input_.proxy) proxy.set("disabled", Value::boolean(true));
      cluster.set("proxy", std::move(proxy));
      cluster.set("scheduler", image("kube-scheduler"));
    }
    cluster.set("discovery", discovery());
    if (input_.external_cloud_provider)
      cluster.set("externalCloudProvider", one("enabled", Value::boolean(true)));
    if (cp) control_plane_extras(cluster);
    return cluster;
  }

  void control_plane_extras(Value& cluster) const {
    Value etcd = one("ca", authority(input_.bundle.etcd, true));
    if (!input_.etcd_subnets.empty()) etcd.set("advertisedSubnets", list_of(input_.etcd_subnets));
    cluster.set("etcd", std::move(etcd));
    if (input_.schedule_on_control_planes)
      cluster.set("allowSchedulingOnControlPlanes",
                  Value::boolean(*input_.schedule_on_control_planes));
  }

  Value image(std::string_view name) const {
    return one("image", str(fmt::format("registry.k8s.io/{}:v{}", name, input_.kubernetes)));
  }

  Value cluster_network() const {
    Value network = Value::map();
    if (!input_.cni.empty() && input_.control_plane) {
      Value cni = one("name", str(input_.cni));
      if (!input_.cni_urls.empty()) cni.set("urls", list_of(input_.cni_urls));
      network.set("cni", std::move(cni));
    }
    network.set("dnsDomain", str(input_.dns_domain));
    network.set("podSubnets", list_of(input_.pod_subnets));
    network.set("serviceSubnets", list_of(input_.service_subnets));
    return network;
  }

  Value api_server() const {
    Value server = image("kube-apiserver");
    std::vector<std::string> sans;
    if (minor_ <= 11) sans.push_back(host_of(input_.endpoint));  // later ones add it themselves
    for (const std::string& san : input_.cert_sans) sans.push_back(san);
    if (!sans.empty()) server.set("certSANs", list_of(sans));
    if (minor_ <= 11) server.set("disablePodSecurityPolicy", Value::boolean(true));
    Value defaults = Value::map();
    defaults.set("enforce", str("baseline"));
    defaults.set("enforce-version", str("latest"));
    for (const std::string mode : {"audit", "warn"}) {
      defaults.set(mode, str("restricted"));
      defaults.set(mode + "-version", str("latest"));
    }
    Value exemptions = Value::map();
    exemptions.set("usernames", Value::list());
    exemptions.set("runtimeClasses", Value::list());
    exemptions.set("namespaces", list_of({"kube-system"}));
    Value security = Value::map();
    security.set("apiVersion", str("pod-security.admission.config.k8s.io/v1alpha1"));
    security.set("kind", str("PodSecurityConfiguration"));
    security.set("defaults", std::move(defaults));
    security.set("exemptions", std::move(exemptions));
    Value plugin = one("name", str("PodSecurity"));
    plugin.set("configuration", std::move(security));
    Value plugins = Value::list();
    plugins.append(std::move(plugin));
    server.set("admissionControl", std::move(plugins));
    Value rules = Value::list();
    rules.append(one("level", str("Metadata")));
    Value policy = one("apiVersion", str("audit.k8s.io/v1"));
    policy.set("kind", str("Policy"));
    policy.set("rules", std::move(rules));
    server.set("auditPolicy", std::move(policy));
    return server;
  }

  Value discovery() const {
    Value registries = Value::map();
    // The registry in Kubernetes needs rights that nodes of newer Kubernetes no longer have.
    registries.set("kubernetes", one("disabled", Value::boolean(true)));
    registries.set("service", Value::map());
    Value discovery = one("enabled", Value::boolean(input_.discovery));
    discovery.set("registries", std::move(registries));
    return discovery;
  }

  static Value mirror(const std::string& host, const std::vector<std::string>& endpoints) {
    Value mirror = document("RegistryMirrorConfig", host);
    Value list = Value::list();
    for (const std::string& endpoint : endpoints) list.append(one("url", str(endpoint)));
    mirror.set("endpoints", std::move(list));
    return mirror;
  }

  Value hostname() const {
    Value value = document("HostnameConfig");
    if (!input_.hostname) {
      value.set("auto", str("stable"));
      return value;
    }
    // `auto: off` beside it: without, a later merge over the default `auto: stable` is refused.
    value.set("auto", str("off"));
    value.set("hostname", str(*input_.hostname));
    return value;
  }

  Value resolver() const {
    Value value = document("ResolverConfig");
    Value servers = Value::list();
    for (const std::string& server : input_.nameservers)
      servers.append(one("address", str(server)));
    value.set("nameservers", std::move(servers));
    return value;
  }

  Value user_volume(const ConfigInput::Volume& volume) const {
    if (minor_ < 10)
      throw Error(Fault::Usage, fmt::format("Talos 1.{} cannot format the disk '{}' as a volume",
                                            minor_, volume.name))
          .hint("user volumes came with Talos 1.10; use Talos 1.10 or later, or `use: raw`");
    Value value = document("UserVolumeConfig", volume.name);
    Value provisioning =
        one("diskSelector",
            one("match", str(fmt::format("disk.serial == \"{}\"", volume.disk_serial))));
    provisioning.set("grow", Value::boolean(true));
    provisioning.set("minSize", str("1GiB"));
    value.set("provisioning", std::move(provisioning));
    value.set("filesystem", one("type", str("xfs")));
    return value;
  }

  static Value extension(const ConfigInput::Service& service) {
    Value value = document("ExtensionServiceConfig", service.name);
    Value environment = Value::list();
    for (const auto& [name, secret] : service.environment)
      environment.append(str(fmt::format("{}={}", name, secret.reveal())));
    value.set("environment", std::move(environment));
    return value;
  }

  const ConfigInput& input_;
  unsigned minor_;
};

std::vector<ConfigDocument> decoded(const std::vector<Value>& values, unsigned minor,
                                    const std::string& name, Fault fault) {
  ConfigProblems problems;
  std::vector<ConfigDocument> documents = decode_config(values, minor, problems);
  if (!problems.empty()) throw Error(fault, to_string(problems.front(), name));
  return documents;
}

constexpr std::array<std::string_view, 13> secret_keys{
    "token",     "secret",       "key",           "aescbcEncryptionSecret",
    "password",  "auth",         "identityToken", "secretboxEncryptionSecret",
    "apiToken",  "presharedKey", "uniqueToken",   "privateKey",
    "passphrase"};

bool sounds_secret(std::string_view name) {
  std::string upper{name};
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  constexpr std::array<std::string_view, 7> words{"KEY",   "TOKEN", "SECRET",    "PASS",
                                                  "PROXY", "AUTH",  "CREDENTIAL"};
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return upper.find(word) != std::string::npos; });
}

Value masked(const Value& value, std::string_view key, const std::vector<Secret>& hidden) {
  if (value.is_map()) {
    Value out = Value::map();
    for (const text::Entry& entry : value.entries()) {
      // Variables, and the headers that Talos asks for manifests with.
      const bool named = key == "env" || key == "variables" || key == "extraManifestHeaders";
      const bool variable = named && sounds_secret(entry.key);
      out.set(entry.key, variable ? Value::string("***") : masked(entry.value, entry.key, hidden));
    }
    return out;
  }
  if (value.is_list()) {
    Value out = Value::list();
    for (const Value& item : value.items()) out.append(masked(item, key, hidden));
    return out;
  }
  if (!value.is_scalar() || value.text().empty() || value.is_null()) return value;
  const auto hide = [] { return Value::string("***"); };
  if (holds_secret(value.text(), hidden)) return hide();
  if (std::find(secret_keys.begin(), secret_keys.end(), key) != secret_keys.end()) return hide();
  if (key == "content") return hide();  // of files: nobody knows what they hold
  if (key == "contents" && manifests_hold_secret(value.text())) return hide();
  if (key == "environment") {
    const auto equals = value.text().find('=');
    const std::string name = value.text().substr(0, equals);
    if (equals == std::string::npos) return hide();  // not the name of anything
    if (sounds_secret(name)) return str(name + "=***");
    return value;
  }
  // Passwords in URLs, and the join token of an API's URL.
  if (const auto scheme = value.text().find("://"); scheme != std::string::npos) {
    const bool password = value.text().find('@', scheme) != std::string::npos;
    const bool join_token = value.text().find("jointoken=") != std::string::npos;
    if ((password || join_token) && value.text().find('\n') == std::string::npos) return hide();
  }
  return value;
}

}  // namespace

std::vector<ConfigDocument> patched(std::vector<ConfigDocument> config, const ConfigPatch& patch,
                                    unsigned minor) {
  if (patch.form == ConfigPatch::Form::Merge) return merged(std::move(config), patch, minor);
  if (config.size() != 1)
    throw Error(Fault::Usage,
                fmt::format("{}: a JSON patch cannot be applied: this configuration has {} "
                            "documents",
                            patch.name, config.size()))
        .hint("write it as a merge patch; `$patch: delete` takes things away");
  return decoded({json_patched(encode_document(config.front(), minor), patch)}, minor, patch.name,
                 Fault::Usage);
}

Value mask_value(const Value& value, std::string_view key, const std::vector<Secret>& hidden) {
  return masked(value, key, hidden);
}

std::string mask_config(const std::vector<ConfigDocument>& config, unsigned minor,
                        const std::vector<Secret>& hidden) {
  std::vector<Value> values;
  for (const ConfigDocument& document : config)
    values.push_back(masked(encode_document(document, minor), "", hidden));
  return text::emit_yaml_stream(values, {.indent = 4});
}

namespace {

std::vector<ConfigDocument> rendered(const ConfigInput& input, unsigned minor) {
  std::vector<ConfigDocument> config =
      decoded(Renderer{input}.documents(), minor, "rendered", Fault::Usage);
  for (const ConfigPatch& patch : input.patches) config = patched(std::move(config), patch, minor);
  return config;
}

}  // namespace

MachineConfig render_config(const ConfigInput& input) {
  const auto minor = static_cast<unsigned>(input.talos.minor());
  const std::vector<ConfigDocument> config = rendered(input, minor);
  return {Secret::take(encode_config(config, minor)), mask_config(config, minor, input.hidden)};
}

Secret render_text(const ConfigInput& input) {
  const auto minor = static_cast<unsigned>(input.talos.minor());
  return Secret::take(encode_config(rendered(input, minor), minor));
}

}  // namespace rocca::talos
