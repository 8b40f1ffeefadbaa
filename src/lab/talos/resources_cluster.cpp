#include "base/encoding.hpp"
#include "lab/talos/node.hpp"

#include <fmt/format.h>

#include <map>

namespace rocca::lab::talos {

namespace {

/// Fields of a message whose type is not among ours.
std::string raw_address(const std::string& text) {
  const auto address = IpAddress::parse(text);
  if (!address) return "";
  const auto* data = reinterpret_cast<const char*>(address->bytes().data());
  std::string out;
  put_bytes(out, 1, address->is_v4() ? std::string(data + 12, 4) : std::string(data, 16));
  return out;
}

std::string yaml_list(const std::string& key, const std::vector<std::string>& items) {
  std::string out = key + ":\n";
  for (const std::string& item : items) out += "    - " + yaml_string(item) + "\n";
  return items.empty() ? key + ": []\n" : out;
}

std::string yaml_map(const std::string& key, const std::map<std::string, std::string>& entries) {
  std::string out = key + ":\n";
  for (const auto& [name, value] : entries)
    out += fmt::format("    {}: {}\n", name, yaml_string(value));
  return out;
}

}  // namespace

void TalosNode::publish_identity() {
  if (!config_) return;
  const std::string cluster_id = config_->get({"cluster", "id"});
  const std::string name = config_->get({"cluster", "clusterName"});
  std::string info;
  put_bytes(info, 1, cluster_id);
  put_bytes(info, 2, name);
  store_.set("cluster", "Infos.cluster.talos.dev", "current", "cluster.InfoController", info,
             fmt::format("clusterId: {}\nclusterName: {}\n", cluster_id, yaml_string(name)));
  std::string secret, authority;
  put_bytes(authority, 1, from_base64(config_->get({"machine", "ca", "crt"})).value_or(""));
  put_bytes(authority, 2, from_base64(config_->get({"machine", "ca", "key"})).value_or(""));
  put_bytes(secret, 1, authority);
  put_bytes(secret, 4, config_->get({"machine", "token"}));
  store_.set("secrets", "OSRootSecrets.secrets.talos.dev", "os", "secrets.RootOSController", secret,
             fmt::format("issuingCA:\n    crt: {}\n    key: {}\ntoken: {}\n",
                         config_->get({"machine", "ca", "crt"}),
                         yaml_string(config_->get({"machine", "ca", "key"})),
                         yaml_string(config_->get({"machine", "token"}))));
  for (std::size_t i = 0; i < network_.resolvers.size(); ++i)
    store_.set("network", "DNSUpstreams.net.talos.dev",
               fmt::format("#{:03} {}", i, network_.resolvers[i]), "network.DNSUpstreamController",
               "", fmt::format("addr: {}:53\nhealthy: \"true\"\n", network_.resolvers[i]));
}

void TalosNode::publish_etcd_config() {
  if (!is_control_plane() || !network_ready_) return;
  const std::string image = config_->get({"cluster", "etcd", "image"});
  const std::string tail =
      fmt::format("image: {}\nextraArgs: {{}}\n", image.empty() ? "\"\"" : image);
  std::string config;
  put_bytes(config, 3, image);
  store_.set("etcd", "EtcdConfigs.etcd.talos.dev", "etcd", "etcd.ConfigController", config,
             "advertiseExcludeSubnets: []\nlistenExcludeSubnets: []\n" + tail);
  std::string spec;
  put_bytes(spec, 1, hostname_);
  put_bytes(spec, 2, raw_address(address_));
  put_bytes(spec, 3, image);
  put_bytes(spec, 5, raw_address("0.0.0.0"));
  put_bytes(spec, 6, raw_address("0.0.0.0"));
  store_.set("etcd", "EtcdSpecs.etcd.talos.dev", "etcd", "etcd.SpecController", spec,
             fmt::format("name: {}\n{}{}{}{}", yaml_string(hostname_),
                         yaml_list("advertisedAddresses", {address_}),
                         yaml_list("listenPeerAddresses", {"0.0.0.0"}),
                         yaml_list("listenClientAddresses", {"0.0.0.0"}), tail));
}

/// What a machine tells the discovery service about itself, and hears about the others.
void TalosNode::publish_affiliate(const TalosNode& node) {
  const bool control_plane = node.is_control_plane();
  const std::string system = fmt::format("Talos (v{})", to_string(node.release_));
  std::vector<std::string> addresses;
  std::string spec;
  put_bytes(spec, 1, node.disk_.node_id);
  for (const Address& each : node.network_.addresses) {
    addresses.push_back(to_string(each.cidr.address()));
    put_bytes(spec, 2, raw_address(addresses.back()));
  }
  put_bytes(spec, 3, node.hostname_);
  put_bytes(spec, 4, node.hostname_);
  put_bytes(spec, 5, system);
  put_varint(spec, 6, control_plane ? 2 : 3);
  std::string port;
  put_varint(port, 1, 6443);
  if (control_plane) put_bytes(spec, 8, port);
  store_.set(
      "cluster", "Affiliates.cluster.talos.dev", node.disk_.node_id,
      &node == this ? "cluster.LocalAffiliateController" : "cluster.AffiliateMergeController", spec,
      fmt::format("nodeId: {}\n{}hostname: {}\nnodename: {}\noperatingSystem: {}\nmachineType: "
                  "{}\n{}",
                  node.disk_.node_id, yaml_list("addresses", addresses),
                  yaml_string(node.hostname_), yaml_string(node.hostname_), system,
                  control_plane ? "controlplane" : "worker",
                  control_plane ? "controlPlane:\n    port: 6443\n" : ""));
}

/// The partitions of an installed Talos, as far as talosctl's health check looks at them.
std::vector<TalosNode::Partition> TalosNode::partitions() const {
  std::uint64_t size = 0;
  for (const Disk& disk : machine_.disks)
    if (disk.name == disk_.installed_disk) size = disk.size;
  constexpr std::uint64_t small = 104857600;
  const auto place = [&](unsigned number) {
    return fmt::format("/dev/{}{}", disk_.installed_disk, number);
  };
  return {{"META", place(4), "", 1048576},
          {"STATE", place(5), "/system/state", small},
          {"EPHEMERAL", place(6), "/var", size > 2 * small ? size - 2 * small : size}};
}

void TalosNode::publish_volumes() {
  constexpr std::uint64_t ready = 6;  // VolumePhaseReady
  for (const Partition& each : partitions()) {
    std::string spec;
    put_varint(spec, 1, ready);
    put_bytes(spec, 2, each.source);
    put_varint(spec, 9, each.size);
    store_.set("runtime", "VolumeStatuses.block.talos.dev", each.name,
               "block.VolumeManagerController", spec,
               fmt::format("phase: ready\nlocation: {}\nsize: {}\n", each.source, each.size));
    if (each.target.empty()) continue;
    std::string mount;
    put_bytes(mount, 1, each.source);
    put_bytes(mount, 2, each.target);
    put_bytes(mount, 3, "xfs");
    store_.set("runtime", "MountStatuses.runtime.talos.dev", each.name,
               "runtime.MountStatusController", mount,
               fmt::format("source: {}\ntarget: {}\nfilesystemType: xfs\noptions: []\nencrypted: "
                           "false\n",
                           each.source, each.target));
  }
}

/// What Talos puts into a new cluster, and what the kubelet says of the control plane's static
/// pods.
void TalosNode::publish_static_pods() {
  if (!is_control_plane() || !pods_up_ || in_container()) return;
  const auto enabled = [&](std::string_view part) {
    const text::Value* off = config_->main()->find({"cluster", part, "disabled"});
    return off == nullptr || off->as_bool() != true;
  };
  std::string network = config_->get({"cluster", "network", "cni", "name"});
  if (network.empty()) network = "flannel";
  std::string manifests;
  put_varint(manifests, 4, enabled("proxy") ? 1 : 0);
  put_varint(manifests, 7, enabled("coreDNS") ? 1 : 0);
  put_varint(manifests, 11, network == "flannel" ? 1 : 0);
  put_bytes(manifests, 21, network);
  store_.set("controlplane", "BootstrapManifestsConfigs.kubernetes.talos.dev", "manifests",
             "k8s.ControlPlaneBootstrapManifestsController", manifests,
             fmt::format("proxyEnabled: {}\ncoreDNSEnabled: {}\nflannelEnabled: {}\ncniName: {}\n",
                         enabled("proxy"), enabled("coreDNS"), network == "flannel", network));
  // google.protobuf.Struct: fields are entries of a map, a value's text has number 3, a list 6.
  const auto text = [](const std::string& value) {
    std::string out;
    put_bytes(out, 3, value);
    return out;
  };
  const auto entry = [](std::string& of, const std::string& key, const std::string& value) {
    std::string one;
    put_bytes(one, 1, key);
    put_bytes(one, 2, value);
    put_bytes(of, 1, one);
  };
  std::string condition, holder, list, conditions, status, spec;
  entry(condition, "type", text("Ready"));
  entry(condition, "status", text("True"));
  put_bytes(holder, 5, condition);
  put_bytes(list, 1, holder);
  put_bytes(conditions, 6, list);
  entry(status, "phase", text("Running"));
  entry(status, "conditions", conditions);
  put_bytes(spec, 1, status);
  for (const char* component : {"kube-apiserver", "kube-controller-manager", "kube-scheduler"})
    store_.set("k8s", "StaticPodStatuses.kubernetes.talos.dev",
               fmt::format("kube-system/{}-{}", component, hostname_),
               "k8s.KubeletStaticPodController", spec,
               "conditions:\n    - status: \"True\"\n      type: Ready\nphase: Running\n");
}

void TalosNode::publish_kubernetes_node() {
  publish_static_pods();
  if (!node_registered_) return;
  std::map<std::string, std::string> labels{{"beta.kubernetes.io/arch", "amd64"},
                                            {"beta.kubernetes.io/os", "linux"},
                                            {"kubernetes.io/arch", "amd64"},
                                            {"kubernetes.io/hostname", hostname_},
                                            {"kubernetes.io/os", "linux"}};
  std::vector<std::string> owned;
  const auto own = [&](const std::string& key, const std::string& value) {
    labels[key] = value;
    owned.push_back(fmt::format("\"{}\"", key));
  };
  if (is_control_plane()) own("node-role.kubernetes.io/control-plane", "");
  if (const text::Value* wanted = config_->main()->find({"machine", "nodeLabels"}))
    for (const text::Entry& entry : wanted->entries()) own(entry.key, entry.value.text());
  std::string list;
  for (const std::string& each : owned) list += (list.empty() ? "" : ",") + each;
  std::map<std::string, std::string> annotations{
      {"node.alpha.kubernetes.io/ttl", "0"},
      {"talos.dev/owned-labels", "[" + list + "]"},
      {"volumes.kubernetes.io/controller-managed-attach-detach", "true"}};
  if (is_control_plane())
    annotations["talos.dev/owned-taints"] = "[\"node-role.kubernetes.io/control-plane\"]";
  std::string spec;
  put_bytes(spec, 1, hostname_);
  if (node_ready_) put_varint(spec, 2, 1);
  if (unschedulable_) put_varint(spec, 3, 1);
  const auto put_map = [&](unsigned field, const std::map<std::string, std::string>& entries) {
    for (const auto& [key, value] : entries) {
      std::string entry;
      put_bytes(entry, 1, key);
      put_bytes(entry, 2, value);
      put_bytes(spec, field, entry);
    }
  };
  put_map(4, labels);
  put_map(5, annotations);
  store_.set(
      "k8s", "NodeStatuses.kubernetes.talos.dev", hostname_, "k8s.NodeStatusController", spec,
      fmt::format("nodename: {}\nnodeReady: {}\nunschedulable: {}\n{}{}", yaml_string(hostname_),
                  node_ready_ ? "true" : "false", unschedulable_ ? "true" : "false",
                  yaml_map("labels", labels), yaml_map("annotations", annotations)));
}

}  // namespace rocca::lab::talos
