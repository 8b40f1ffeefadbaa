#include "talosconfig/input.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::talos {

namespace {

// Both images that we install give links their plain names (net.ifnames=0).
constexpr const char* first_link = "eth0";
// The addresses that Tailscale gives to nodes.
constexpr const char* tailscale_v4 = "100.64.0.0/10";
constexpr const char* tailscale_v6 = "fd7a:115c:a1e0::/48";

std::string host_text(const IpAddress& address) {
  return address.is_v4() ? to_string(address) : "[" + to_string(address) + "]";
}

ConfigInput::Pairs pairs_of(const spec::Pairs& pairs) {
  ConfigInput::Pairs out;
  for (const auto& [key, value] : pairs) out.emplace_back(*key, value);
  return out;
}

void set_install(ConfigInput& input, const spec::Node& node, const Surroundings& around) {
  if (node.machine) {
    input.disk_serial = disk_serial(node.machine->system());
    return;
  }
  std::string disk = around.install_disk;
  if (node.existing && node.existing->disk) disk = **node.existing->disk;
  (disk.starts_with("/dev/") ? input.install_disk : input.disk_serial) = disk;
}

const spec::Vip* find_vip(const spec::Spec& spec) {
  return spec.kubernetes.endpoint && spec.kubernetes.endpoint->vip ? &*spec.kubernetes.endpoint->vip
                                                                   : nullptr;
}

/// The address of a machine that was there before, where its configuration must say it.
bool is_pinned(const spec::Spec& spec, const spec::Node& node) {
  return node.existing && *spec.network.addressing != spec::Addressing::Dhcp && node.address &&
         spec.network.subnet;
}

/// No drive and no META reaches a machine that was there before.
bool says_link(const spec::Spec& spec, const spec::Node& node) {
  const auto* vip = find_vip(spec);
  const bool talos_vip = vip != nullptr && !vip->by_kube_vip;
  return is_pinned(spec, node) || (node.existing && talos_vip && node.control_plane());
}

void set_network(ConfigInput& input, const spec::Spec& spec, const spec::Node& node,
                 const Surroundings& around) {
  const auto addressing = *spec.network.addressing;
  const bool ours = !node.existing;
  const auto* vip = find_vip(spec);
  const bool talos_vip = vip != nullptr && !vip->by_kube_vip;
  const bool pinned = is_pinned(spec, node);
  const std::string link = vip != nullptr && vip->interface ? **vip->interface : "";
  if (says_link(spec, node)) {
    ConfigInput::Link made;
    made.name = link;
    if (link.empty()) {
      const bool mac = MacAddress::parse(around.link).has_value();
      (mac ? made.mac : made.name) = around.link;
    }
    made.dhcp = !pinned;
    if (pinned) {
      made.addresses = {
          fmt::format("{}/{}", to_string(**node.address), (*spec.network.subnet)->prefix())};
      if (spec.network.gateway) made.gateway = to_string(**spec.network.gateway);
    }
    if (spec.network.mtu) made.mtu = **spec.network.mtu;
    if (talos_vip) made.vip = to_string(*vip->address);
    input.link = std::move(made);
  } else if (talos_vip && node.control_plane()) {
    const std::string name = link.empty() ? first_link : link;
    if (addressing == spec::Addressing::Dhcp && input.talos.minor() <= 11) {
      ConfigInput::Link made;
      made.name = name;
      made.dhcp = true;
      made.vip = to_string(*vip->address);
      input.link = std::move(made);
    } else {
      input.vip = to_string(*vip->address);
      input.vip_link = name;
    }
  }
  // The drive and META carry name servers; elsewhere the configuration does.
  if (!ours || addressing == spec::Addressing::Dhcp)
    for (const auto& server : spec.network.nameservers)
      input.nameservers.push_back(to_string(*server));
  for (const auto& server : spec.network.ntp) input.ntp.push_back(*server);
}

/// Secrets where a patch names them.
void put_secrets(text::Value& value, std::string_view key,
                 const std::map<std::string, Secret>& secrets, std::vector<Secret>& hidden) {
  if (const auto reference = spec::secret_in_patch(value, key)) {
    const auto found = secrets.find(secret_key(*reference));
    if (found == secrets.end())
      throw Error(Fault::NotFound,
                  fmt::format("the secret {} that a patch names is not known", reference->path));
    value = text::Value::string(std::string{found->second.reveal()});
    hidden.push_back(found->second);
  } else if (value.is_map()) {
    for (text::Entry& entry : value.entries()) put_secrets(entry.value, entry.key, secrets, hidden);
  } else if (value.is_list()) {
    for (text::Value& item : value.items()) put_secrets(item, key, secrets, hidden);
  }
}

void set_tailscale(ConfigInput& input, const spec::Spec& spec, const spec::Node& node,
                   const Surroundings& around) {
  if (!spec.tailscale) return;
  if (!around.tailscale_key || around.tailscale_key->empty())
    throw Error(Fault::NotFound, "the Tailscale auth key is not known")
        .hint("tailscale.authKey names the secret that holds it");
  // Tailscale gives the node a second address. Neither the kubelet nor etcd may choose that one.
  if (spec.network.subnet) {
    input.node_subnets = {to_string(**spec.network.subnet)};
  } else {
    input.node_subnets = {fmt::format("!{}", tailscale_v4), fmt::format("!{}", tailscale_v6)};
  }
  input.etcd_subnets = input.node_subnets;
  ConfigInput::Service service{"tailscale", {}};
  const auto add = [&](const char* name, std::string value) {
    service.environment.emplace_back(name, Secret::take(std::move(value)));
  };
  service.environment.emplace_back("TS_AUTHKEY", *around.tailscale_key);
  add("TS_AUTH_ONCE", "true");  // otherwise every start logs in anew
  add("TS_HOSTNAME", node.host_name);
  add("TS_ACCEPT_DNS", "false");
  if (!spec.tailscale->routes.empty()) {
    std::string routes;
    for (const auto& route : spec.tailscale->routes)
      routes += (routes.empty() ? "" : ",") + to_string(*route);
    add("TS_ROUTES", std::move(routes));
  }
  if (spec.tailscale->login_server)
    add("TS_EXTRA_ARGS", "--login-server=" + **spec.tailscale->login_server);
  input.services.push_back(std::move(service));
}

void set_disks(ConfigInput& input, const spec::Spec& spec, const spec::Node& node) {
  const std::string& path = *spec.addons.longhorn_path;
  bool longhorn_disk = false;
  if (node.machine) {
    for (const spec::Disk& disk : node.machine->disks) {
      if (&disk == &node.machine->system() || *disk.use == spec::DiskUse::Raw) continue;
      std::string name = disk.name;
      if (*disk.use == spec::DiskUse::Longhorn) {
        // The volume is mounted at /var/mnt/NAME, where Longhorn then looks for it.
        constexpr std::string_view below = "/var/mnt/";
        name = path.starts_with(below) ? path.substr(below.size()) : "longhorn";
        if (longhorn_disk) name += "-" + disk.name;
        longhorn_disk = true;
      }
      input.volumes.push_back({std::move(name), disk_serial(disk)});
    }
  }
  if (*spec.addons.longhorn && !longhorn_disk && path.starts_with("/var/lib/"))
    input.shared_mounts.push_back(path);
}

bool is_true(const text::Value* value) {
  return value != nullptr && (value->as_bool().value_or(false) || value->text() == "true");
}

bool is_false(const text::Value* value) {
  return value != nullptr && (!value->as_bool().value_or(true) || value->text() == "false");
}

void set_cni(ConfigInput& input, const spec::Spec& spec) {
  const spec::Cni& cni = spec.kubernetes.cni;
  switch (cni.kind) {
    case spec::Cni::Kind::Flannel:
      break;
    case spec::Cni::Kind::None:
      input.cni = "none";
      break;
    case spec::Cni::Kind::Cilium: {
      input.cni = "none";
      const text::Value nothing = text::Value::map();
      const text::Value& values = cni.cilium.values ? *cni.cilium.values : nothing;
      input.proxy = is_false(values.find("kubeProxyReplacement"));
      // Masquerading in eBPF bypasses the host's DNS address.
      input.forward_dns_to_host = !is_true(values.find({"bpf", "masquerade"}));
      break;
    }
    case spec::Cni::Kind::Manifests:
      // They are applied from outside, pinned by digest: Talos would put back what it finds at
      // every boot, over what Flux has changed.
      input.cni = "none";
      break;
  }
}

void set_kubernetes(ConfigInput& input, const spec::Spec& spec) {
  input.pod_subnets = {to_string(*spec.kubernetes.pod_cidr)};
  input.service_subnets = {to_string(*spec.kubernetes.service_cidr)};
  set_cni(input, spec);
  input.discovery = *spec.talos.discovery;
  input.schedule_on_control_planes = *spec.kubernetes.schedule_on_control_planes;
  // Kubelets ask for serving certificates only if somebody signs them: then metrics-server trusts
  // them, and without an approver `kubectl logs` would fail.
  const spec::Addons& addons = spec.addons;
  input.rotate_server_certificates = *addons.cert_approver.on || *addons.metrics_server.on;
  // Where a cloud controller manager is, a kubelet leaves it to say what its node is and where.
  input.external_cloud_provider = *addons.proxmox_ccm.on;
}

}  // namespace

std::string image_platform(const spec::Spec& spec, const spec::Node& node) {
  if (node.existing || *spec.network.addressing == spec::Addressing::Meta) return "metal";
  return "nocloud";
}

std::string installer_of(const spec::Spec& spec, const spec::Node& node,
                         const std::string& schematic) {
  std::string host = *spec.talos.factory;
  if (const auto scheme = host.find("://"); scheme != std::string::npos) host.erase(0, scheme + 3);
  while (host.ends_with('/')) host.pop_back();
  const std::string prefix =
      spec.talos.version->minor() >= 10 ? image_platform(spec, node) + "-" : "";
  return fmt::format("{}/{}installer/{}:v{}", host, prefix, schematic,
                     to_string(*spec.talos.version));
}

std::string disk_serial(const spec::Disk& disk) {
  return disk.name;
}

std::string secret_key(const spec::SecretRef& reference) {
  return (reference.from == spec::SecretRef::From::Infisical ? "infisical " : "secret ") +
         reference.path;
}

std::string endpoint_of(const spec::Spec& spec, const std::string& first_address) {
  const auto url = [](const std::string& host) { return fmt::format("https://{}:6443", host); };
  if (const auto& endpoint = spec.kubernetes.endpoint) {
    if (endpoint->vip) return url(host_text(*endpoint->vip->address));
    if (endpoint->host) {
      const auto address = IpAddress::parse(**endpoint->host);
      return fmt::format("https://{}:{}", address ? host_text(*address) : **endpoint->host,
                         endpoint->port);
    }
  }
  if (!first_address.empty()) {
    const auto address = IpAddress::parse(first_address);
    return url(address ? host_text(*address) : first_address);
  }
  const auto control_planes = spec.control_planes();
  if (!control_planes.empty() && control_planes.front()->address)
    return url(host_text(**control_planes.front()->address));
  throw Error(Fault::NotFound,
              "the address of the Kubernetes API is not known before the machines "
              "have booted")
      .hint("give kubernetes.endpoint, or the first control plane an address");
}

bool needs_link(const spec::Spec& spec, const spec::Node& node) {
  const auto* vip = find_vip(spec);
  return says_link(spec, node) && (vip == nullptr || !vip->interface);
}

std::vector<std::string> mark_unknown(Surroundings& around, const spec::Spec& spec,
                                      const spec::Node& node) {
  std::vector<std::string> marks;
  if (node.existing && !node.existing->disk && around.install_disk.empty()) {
    around.install_disk = "asked-of-the-machine";
    marks.push_back("machine.install.diskSelector.serial");
  }
  if (needs_link(spec, node) && around.link.empty()) {
    around.link = "00:00:00:00:00:00";
    marks.push_back("machine.network.interfaces.deviceSelector.hardwareAddr");
  }
  return marks;
}

ConfigInput config_input(const spec::Spec& spec, const spec::Node& node,
                         const Surroundings& around) {
  ConfigInput input;
  input.talos = *spec.talos.version;
  input.kubernetes = to_string(*spec.kubernetes.version);
  input.control_plane = node.control_plane();
  input.cluster = *spec.name;
  input.endpoint = endpoint_of(spec, around.first_address);
  input.bundle = around.bundle;
  input.installer = installer_of(spec, node, around.schematic);
  set_install(input, node, around);
  input.hostname = node.host_name;
  for (const auto& san : spec.kubernetes.cert_sans) input.cert_sans.push_back(*san);
  input.labels = pairs_of(node.labels);
  input.taints = pairs_of(node.taints);
  set_network(input, spec, node, around);
  input.sysctls = pairs_of(spec.talos.sysctls);
  for (const spec::KernelModule& module : spec.talos.modules)
    input.modules.push_back({*module.name, module.parameters});
  for (const auto& [host, endpoints] : spec.talos.mirrors) {
    auto& mirror = input.mirrors.emplace_back(*host, ConfigInput::Texts{});
    for (const auto& endpoint : endpoints) mirror.second.push_back(*endpoint);
  }
  set_disks(input, spec, node);
  set_tailscale(input, spec, node, around);
  set_kubernetes(input, spec);
  for (const auto& patch : node.patches) {
    ConfigPatch& made = input.patches.emplace_back();
    made.form =
        patch->form == spec::Patch::Form::Json ? ConfigPatch::Form::Json : ConfigPatch::Form::Merge;
    made.name = patch->source;
    made.documents = patch->documents;
    if (patch->secrets.empty()) continue;
    for (text::Value& document : made.documents)
      put_secrets(document, "", around.patch_secrets, input.hidden);
  }
  return input;
}

}  // namespace rocca::talos
