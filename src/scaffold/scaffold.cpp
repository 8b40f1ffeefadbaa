#include "scaffold/scaffold.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "scaffold/scaffold_parts.hpp"
#include "spec/gitignore.hpp"
#include "spec/load.hpp"
#include "spec/locate.hpp"
#include "spec/schema.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::spec {

namespace {

/// A line with its comment in a column of its own.
std::string noted(const std::string& line, const char* comment) {
  constexpr std::size_t column = 44;
  std::size_t width = 0;
  for (const char c : line) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1u : 0u;
  return line + std::string(width < column ? column - width : 2, ' ') + comment + "\n";
}

std::string spec_text(const std::string& schema, const std::string& name, const Site& site) {
  std::string text = fmt::format(
      R"(# yaml-language-server: $schema={schema}
# A Talos cluster on Proxmox. `rocca explain KEY` tells what a key means, `rocca validate` what is wrong.
apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: {name} }}
spec:
  talos:
    version: v1.11.5
    extensions: [qemu-guest-agent]          # short for siderolabs/…; add iscsi-tools, util-linux-tools for Longhorn
  kubernetes:
    version: v1.34.1                        # Talos 1.11 runs 1.29 to 1.34
)",
      fmt::arg("schema", schema), fmt::arg("name", name));
  if (site.vip)
    text += noted(fmt::format("    endpoint: {{ vip: {} }}", to_string(*site.vip)),
                  "# an address that nobody has; the control planes share it");
  if (!site.subnet.address().is_v4())
    text += noted("    podCIDR: fd00:10:244::/56", "# of the nodes' family, as the next") +
            "    serviceCIDR: fd00:10:96::/112\n";
  std::vector<std::string> nameservers;
  for (const IpAddress& address : site.nameservers) nameservers.push_back(to_string(address));
  text += fmt::format(
      R"(    # cni: {{ cilium: {{ version: 1.18.4 }} }}  # flannel when left out
  network:
    addressing: static                      # or dhcp, meta
    subnet: {}
    gateway: {}
    nameservers: [{}]
  proxmox:
    endpoints: [{}]
)",
      to_string(site.subnet), to_string(site.gateway), join(nameservers, ", "),
      join(site.endpoints, ", "));
  text += site.fingerprint.empty() ? noted("    # fingerprint: \"AB:CD:…\"",
                                           "# `pvenode cert info` on the host; or caFile")
                                   : fmt::format("    fingerprint: \"{}\"\n", site.fingerprint);
  text += fmt::format(
      R"(    token: {{ secret: proxmox.token }}        # rocca secrets set secrets.sops.yaml proxmox.token
    hosts: [{}]
    storage: {{ images: {}, disks: {} }}
    bridge: {}
  machine: {{ cores: 2, memory: 4GiB, disks: {{ system: 20GiB }} }}   # for every node; nodes and pools may differ
  nodes:
)",
      join(site.hosts, ", "), site.images, site.disks, site.bridge);
  std::size_t number = 0;
  for (const IpAddress& address : site.control_planes)
    text += fmt::format("    cp-{}: {{ role: controlplane, address: {} }}\n", ++number,
                        to_string(address));
  if (site.workers > 0 && site.worker_addresses)
    text += fmt::format("  pools:\n    worker: {{ count: {}, addresses: {}-{} }}\n", site.workers,
                        to_string(site.worker_addresses->first()),
                        to_string(site.worker_addresses->last()));
  return text + fmt::format(R"(  # handover:
  #   flux: {{ url: https://github.com/YOU/fleet, path: clusters/{0}, auth: {{ secret: flux.git }} }}
  # backup: {{ schedule: "0 3 * * *", keep: 14, to: {{ folder: /srv/backups/{0} }} }}
)",
                            name);
}

constexpr const char* envrc_text =
    "# For direnv; `source .envrc` does the same.\n"
    "export KUBECONFIG=\"$PWD/configs/kubeconfig\"\n"
    "export TALOSCONFIG=\"$PWD/configs/talosconfig\"\n";

}  // namespace

std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

std::string schema_path(const std::string& root, const std::string& folder) {
  const std::string top = below(root, "clusters");
  if (!folder.starts_with(top + "/")) return "../cluster.schema.json";
  const auto depth =
      std::count(folder.begin() + static_cast<std::ptrdiff_t>(top.size()), folder.end(), '/');
  std::string path;
  for (std::ptrdiff_t i = 0; i < depth; ++i) path += "../";
  return path + "cluster.schema.json";
}

std::string sops_config(const std::string& recipient) {
  return fmt::format(
      "# Who can read the secrets of this repository; `rocca secrets updatekeys` applies a "
      "change.\n"
      "creation_rules:\n  - path_regex: secrets\\.sops\\.ya?ml$\n    age: {}\n",
      recipient);
}

void add_common(Scaffold& scaffold, const std::string& root, const std::string& recipient) {
  scaffold.files.push_back({below(scaffold.folder, ".gitignore"), gitignore_text(), 0644, true});
  scaffold.files.push_back({below(scaffold.folder, ".envrc"), envrc_text, 0644, true});
  scaffold.files.push_back({below(root, ".sops.yaml"), sops_config(recipient), 0644, true});
  scaffold.files.push_back({below(root, "clusters/cluster.schema.json"),
                            text::emit_json(json_schema(), {.pretty = true}) + "\n", 0644, true});
}

void require_name(const std::string& name) {
  if (!is_dns_label(name))
    throw Error(Fault::Usage,
                fmt::format("`{}` cannot be a cluster's name: it is not a DNS label", name))
        .hint("1 to 63 of a-z, 0-9 and -, and no - at either end");
}

void claim(const Spec& spec, Claims& claims) {
  const auto one = [&](const IpAddress& address) {
    claims.addresses.emplace_back(address, address);
  };
  for (const Node& node : spec.nodes) {
    if (node.address) one(**node.address);
    if (!node.machine) continue;
    if (node.machine->vmid) claims.vmids.insert(**node.machine->vmid);
    for (const Nic& nic : node.machine->nics)
      if (nic.mac) claims.macs.insert(**nic.mac);
  }
  for (const Pool& pool : spec.pools)
    for (const auto& range : pool.ranges) claims.addresses.push_back(*range);
  if (spec.kubernetes.endpoint && spec.kubernetes.endpoint->vip)
    one(*spec.kubernetes.endpoint->vip->address);
}

Site Site::example() {
  const auto at = [](std::uint32_t last) { return IpAddress::v4(0xc0a80100u + last); };
  Site site;
  site.endpoints = {"https://pve.home:8006"};
  site.hosts = {"pve"};
  site.images = "local";
  site.disks = "local-lvm";
  site.bridge = "vmbr0";
  site.subnet = Cidr{at(0), 24};
  site.gateway = at(1);
  site.nameservers = {at(1)};
  site.vip = at(60);
  site.control_planes = {at(61), at(62), at(63)};
  site.workers = 2;
  site.worker_addresses = AddressRange{at(64), at(79)};
  return site;
}

void propose_addresses(Site& site, unsigned control_planes, unsigned workers, Files& files,
                       const std::vector<std::string>& others,
                       const std::vector<IpAddress>& taken) {
  Claims claims;
  for (const std::string& other : others) claim(load(files, other).spec, claims);
  for (const IpAddress& address : taken) claims.addresses.emplace_back(address, address);
  claims.addresses.emplace_back(site.gateway, site.gateway);
  // Round blocks are easier to read, and leave the addresses below them to routers and printers.
  constexpr std::uint64_t round = 20;
  const std::uint64_t room = workers == 0 ? 0 : std::max<std::uint64_t>(16, workers);
  const std::uint64_t size = 1 + control_planes + room;
  for (std::uint64_t offset = round;; offset += round) {
    const auto first = site.subnet.network().plus(offset);
    const auto last = first ? first->plus(size - 1) : std::nullopt;
    if (!last || !site.subnet.usable(*last)) break;
    const AddressRange block{*first, *last};
    const auto clash =
        std::any_of(claims.addresses.begin(), claims.addresses.end(),
                    [&](const AddressRange& range) { return range.overlaps(block); });
    if (clash) continue;
    if (control_planes > 1) site.vip = *first;
    site.control_planes.clear();
    for (unsigned i = 1; i <= control_planes; ++i) site.control_planes.push_back(*first->plus(i));
    site.workers = workers;
    if (workers > 0) site.worker_addresses = AddressRange{*first->plus(control_planes + 1), *last};
    return;
  }
  throw Error(Fault::Conflict,
              fmt::format("{} has no free block of {} addresses", to_string(site.subnet), size))
      .hint("a larger subnet, or fewer machines");
}

Scaffold scaffold(const std::string& root, const std::string& name, const std::string& recipient,
                  const Site& site) {
  require_name(name);
  Scaffold made;
  made.folder = below(root, "clusters/" + name);
  made.files.push_back({below(made.folder, spec_file_name),
                        spec_text(schema_path(root, made.folder), name, site), 0644, false});
  add_common(made, root, recipient);
  made.references = {"proxmox.token"};
  return made;
}

}  // namespace rocca::spec
