#include "kubernetes/addons.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "kubernetes/addon_source.hpp"
#include "kubernetes/object_set_resource.hpp"
#include "machine/kinds.hpp"
#include "platform/proxmox/helper_tokens.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using kube::Manifest;
using kube::Wait;
using text::Value;

// Helm is enough to bring Cilium in: what it needs is one program, the chart and the values.
constexpr const char* helm_image = "docker.io/alpine/helm:3.16.4";

constexpr const char* cilium_job = R"(
apiVersion: v1
kind: ServiceAccount
metadata: {{ name: cilium-install, namespace: kube-system }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{ name: cilium-install }}
roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin }}
subjects: [ {{ kind: ServiceAccount, name: cilium-install, namespace: kube-system }} ]
---
apiVersion: v1
kind: ConfigMap
metadata: {{ name: cilium-install-{0}, namespace: kube-system }}
data: {{}}
---
apiVersion: batch/v1
kind: Job
metadata: {{ name: cilium-install-{0}, namespace: kube-system }}
spec:
  backoffLimit: 10
  template:
    metadata: {{ labels: {{ app.kubernetes.io/name: cilium-install }} }}
    spec:
      # There is no network yet: it runs on a control plane's own and asks the API server beside it.
      hostNetwork: true
      dnsPolicy: Default
      restartPolicy: OnFailure
      serviceAccountName: cilium-install
      tolerations: [ {{ operator: Exists }} ]
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions: [ {{ key: node-role.kubernetes.io/control-plane, operator: Exists }} ]
      containers:
        - name: install
          image: {1}
          args: [ upgrade, --install, cilium, cilium, --repo, "https://helm.cilium.io", --version, "{2}",
                  --namespace, kube-system, --values, /values/values.yaml ]
          env:
            - name: KUBERNETES_SERVICE_HOST
              valueFrom: {{ fieldRef: {{ fieldPath: status.podIP }} }}
            - {{ name: KUBERNETES_SERVICE_PORT, value: "6443" }}
            - {{ name: HELM_CACHE_HOME, value: /tmp/helm }}
            - {{ name: HELM_CONFIG_HOME, value: /tmp/helm }}
            - {{ name: HELM_DATA_HOME, value: /tmp/helm }}
          volumeMounts: [ {{ name: values, mountPath: /values }} ]
      volumes: [ {{ name: values, configMap: {{ name: cilium-install-{0} }} }} ]
)";

constexpr const char* kube_vip = R"(
apiVersion: v1
kind: ServiceAccount
metadata: {{ name: kube-vip, namespace: kube-system }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{ name: "system:kube-vip-role" }}
# As `kube-vip manifest rbac` has it.
rules:
  - {{ apiGroups: [""], resources: [services/status], verbs: [update] }}
  - {{ apiGroups: [""], resources: [services, endpoints], verbs: [list, get, watch, update] }}
  - {{ apiGroups: [""], resources: [nodes], verbs: [list, get, watch, update, patch] }}
  - {{ apiGroups: [""], resources: [pods], verbs: [list] }}
  - {{ apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list, get, watch, update, create] }}
  - {{ apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, get, watch, update] }}
  - {{ apiGroups: [networking.k8s.io], resources: [servicecidrs], verbs: [list, get, watch] }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{ name: "system:kube-vip-binding" }}
roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:kube-vip-role" }}
subjects: [ {{ kind: ServiceAccount, name: kube-vip, namespace: kube-system }} ]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{ name: kube-vip, namespace: kube-system }}
spec:
  selector: {{ matchLabels: {{ app.kubernetes.io/name: kube-vip }} }}
  template:
    metadata: {{ labels: {{ app.kubernetes.io/name: kube-vip }} }}
    spec:
      hostNetwork: true
      serviceAccountName: kube-vip
      priorityClassName: system-node-critical
      tolerations: [ {{ operator: Exists }} ]
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions: [ {{ key: node-role.kubernetes.io/control-plane, operator: Exists }} ]
      containers:
        - name: kube-vip
          image: ghcr.io/kube-vip/kube-vip:v{0}
          args: [manager]
          env:
            - {{ name: KUBERNETES_SERVICE_HOST, value: localhost }}
            - {{ name: KUBERNETES_SERVICE_PORT, value: "7445" }}
            - {{ name: vip_arp, value: "true" }}
            - {{ name: cp_enable, value: "true" }}
            - {{ name: cp_namespace, value: kube-system }}
            - {{ name: vip_leaderelection, value: "true" }}
            - {{ name: svc_enable, value: "false" }}
            - {{ name: port, value: "6443" }}
            - {{ name: address, value: "{1}" }}
            - {{ name: vip_subnet, value: "{2}" }}
            - {{ name: vip_nodename, valueFrom: {{ fieldRef: {{ fieldPath: spec.nodeName }} }} }}
          securityContext: {{ capabilities: {{ add: [NET_ADMIN, NET_RAW], drop: [ALL] }} }}
)";

Wait rolled_out(const char* kind, const char* space, const char* name) {
  return {Wait::For::RolledOut, {"apps/v1", kind, space, name}};
}

/// Every node of the spec can be reached by the others' Pods.
std::vector<Wait> nodes_ready(const spec::Spec& spec) {
  std::vector<Wait> all;
  for (const spec::Node& node : spec.nodes)
    all.push_back({Wait::For::Condition, {"v1", "Node", "", node.host_name}, "Ready"});
  return all;
}

SetWish begin(const Cluster& cluster, const char* name, const spec::Where& where) {
  SetWish wish;
  wish.about = {addon_address(name),
                {bootstrap_address(cluster.name())},
                where.written() ? to_string(cluster.spec.position(where)) : ""};
  wish.name = name;
  wish.patience = cluster.spec.timeouts.handover;
  return wish;
}

std::vector<Manifest> read(const Outside& outside, const std::string& source) {
  const auto text = outside.addon_texts.find(source);
  if (text == outside.addon_texts.end()) return {};
  return kube::parse_manifests(text->second, source);
}

void append(std::vector<Manifest>& all, std::vector<Manifest> more) {
  for (Manifest& manifest : more) all.push_back(std::move(manifest));
}

SetWish cilium(const Cluster& cluster) {
  const spec::Cni& cni = cluster.spec.kubernetes.cni;
  SetWish wish = begin(cluster, "cni", cni.where);
  const std::string version = to_string(*cni.cilium.version);
  const std::string values = text::emit_yaml(cilium_values(cluster.spec));
  // A Job cannot be changed: other values are another Job.
  const std::string id = digest(version + "\n" + values + helm_image).substr(0, 10);
  wish.objects =
      kube::parse_manifests(fmt::format(fmt::runtime(cilium_job), id, helm_image, version),
                            "the Job that installs Cilium");
  for (Manifest& manifest : wish.objects)
    if (manifest.name.kind == "ConfigMap")
      manifest.object.find("data")->set("values.yaml", Value::string(values));
  wish.waits = {rolled_out("DaemonSet", "kube-system", "cilium"),
                rolled_out("Deployment", "kube-system", "cilium-operator")};
  for (const Wait& wait : wish.waits) wish.installs.push_back(wait.name);
  for (Wait& wait : nodes_ready(cluster.spec)) wish.waits.push_back(std::move(wait));
  return wish;
}

SetWish given_network(const Cluster& cluster, const OutsidePtr& outside) {
  const spec::Cni& cni = cluster.spec.kubernetes.cni;
  SetWish wish = begin(cluster, "cni", cni.where);
  for (const auto& manifest : cni.manifests)
    append(wish.objects,
           read(*outside, is_inline(*manifest) ? to_string(cluster.spec.position(manifest.where))
                                               : *manifest));
  wish.waits = nodes_ready(cluster.spec);
  return wish;
}

/// The Talos' own network: nothing is applied, but that the nodes are ready is made sure of.
SetWish own_network(const Cluster& cluster) {
  SetWish wish = begin(cluster, "cni", cluster.spec.kubernetes.cni.where);
  wish.waits = nodes_ready(cluster.spec);
  return wish;
}

SetWish kube_vip_set(const Cluster& cluster) {
  const spec::Vip& vip = *cluster.spec.kubernetes.endpoint->vip;
  SetWish wish = begin(cluster, "kube-vip", vip.address.where);
  const std::string address = to_string(*vip.address);
  wish.objects = kube::parse_manifests(
      fmt::format(fmt::runtime(kube_vip), addon_version(cluster, "kubeVip"), address,
                  address.find(':') == std::string::npos ? "32" : "128"),
      "kube-vip");
  // Without a link it takes the one with the default route. A tunnel is never `up`, only there.
  if (vip.interface)
    for (Manifest& manifest : wish.objects)
      if (manifest.name.kind == "DaemonSet") {
        Value& env = *manifest.object.find({"spec", "template", "spec", "containers"})
                          ->items()
                          .front()
                          .find("env");
        const auto set = [&](const char* name, const std::string& value) {
          Value one = Value::map();
          one.set("name", Value::string(name));
          one.set("value", Value::string(value));
          env.append(std::move(one));
        };
        set("vip_interface", **vip.interface);
        if ((**vip.interface).starts_with("tailscale")) set("vip_allow_interface_not_up", "true");
      }
  return wish;
}

/// `user@realm!name=uuid`, taken apart for programs that want both halves.
std::pair<std::string, Secret> split_token(const Secret& token, const std::string& where) {
  const std::string_view text = trim(token.reveal());
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || text.find('!') == std::string_view::npos)
    throw Error(Fault::Usage, fmt::format("{} is no API token of Proxmox", where))
        .hint("it reads USER@REALM!NAME=UUID");
  return {std::string{text.substr(0, equals)}, Secret{text.substr(equals + 1)}};
}

// How both know this Proxmox, and what nodes say they are in.
constexpr const char* region = "proxmox";

/// Where a node is, for the scheduler and the CSI plugin: the Proxmox it is in, and the host.
Manifest topology(const spec::Node& node, const std::string& host) {
  Manifest made;
  made.object = text::parse_yaml(
      fmt::format("{{ apiVersion: v1, kind: Node, metadata: {{ name: {}, labels: {{ "
                  "topology.kubernetes.io/region: {}, topology.kubernetes.io/zone: {} }} }} }}",
                  node.host_name, region, host),
      "topology");
  made.name = kube::name_of(made.object);
  made.place = "the topology of " + node.name;
  return made;
}

const HelperRights& get_helper(const std::vector<HelperRights>& all, const std::string& key) {
  return *std::find_if(all.begin(), all.end(),
                       [&](const HelperRights& one) { return one.key == key; });
}

/// A token of its own for who asks Proxmox from inside the cluster, where nobody gave it one and
/// rocca's own may make it.
std::function<void(World&)> mint_if_missing(const OutsidePtr& outside, const std::string& key) {
  return [outside, key](World& world) {
    const auto all = helper_rights(world.cluster.spec, world.proxmox().version().version);
    const HelperRights& helper = get_helper(all, key);
    if (outside->find_secret(helper.token)) return;
    const std::string no_token =
        fmt::format("{} has no token: {} is nowhere, and ", key, helper.token.path);
    const char* lines = "`rocca doctor` prints the pveum lines that make one";
    if (helper.token.from != spec::SecretRef::From::Key || !outside->keep)
      throw Error(Fault::NotFound, no_token + "rocca cannot keep one there").hint(lines);
    std::vector<std::string> gaps;
    for (const proxmox::Need& need : missing_to_mint(world.proxmox(), helper))
      gaps.push_back(fmt::format("{} on {}", need.any_of.front(), need.path));
    if (!gaps.empty())
      throw Error(Fault::Denied,
                  no_token + "rocca's own may not make one: it lacks " + join(gaps, ", "))
          .hint(lines);
    outside->keep(helper.token,
                  mint_token(world.proxmox(), helper, world.cluster.name(), world.cluster.id()));
  };
}

/// What the cloud controller manager and the CSI plugin know their Proxmox by. Before it has a
/// token it is only named.
Manifest proxmox_config(const Outside& outside, const spec::Proxmox& proxmox,
                        const std::string& name, const HelperRights& helper) {
  const std::string& where = helper.key;
  Manifest made;
  made.object = text::parse_yaml(
      fmt::format("{{ apiVersion: v1, kind: Secret, metadata: {{ name: {}, namespace: {} }}, type: "
                  "Opaque, data: {{}} }}",
                  name, name == "proxmox-csi-plugin" ? "csi-proxmox" : "kube-system"),
      name);
  made.name = kube::name_of(made.object);
  made.place = where;
  const auto token = outside.find_secret(helper.token);
  if (!token) return made;
  const auto [id, secret] = split_token(*token, where + ".token");
  Value one = Value::map();
  one.set("url", Value::string(*proxmox.endpoints.front() + "/api2/json"));
  one.set("insecure", Value::boolean(*proxmox.insecure || proxmox.fingerprint.has_value()));
  one.set("token_id", Value::string(id));
  one.set("token_secret", Value::string(std::string{secret.reveal()}));
  one.set("region", Value::string(region));
  Value config = Value::map();
  config.set("clusters", Value::list()).append(std::move(one));
  std::string text = text::emit_yaml(config);
  made.object.find("data")->set("config.yaml", Value::string(to_base64(text)));
  wipe(text);
  config.wipe();
  return made;
}

SetWish proxmox_ccm(const Cluster& cluster, const OutsidePtr& outside) {
  const spec::Addon& addon = cluster.spec.addons.proxmox_ccm;
  SetWish wish = begin(cluster, "proxmox-ccm", addon.on.where);
  wish.objects = read(*outside, "proxmoxCcm");
  // It works when it has seen the nodes: with a token that Proxmox refuses they stay closed.
  for (const spec::Node& node : cluster.spec.nodes)
    if (node.machine)
      wish.waits.push_back({Wait::For::Untainted,
                            {"v1", "Node", "", node.host_name},
                            "node.cloudprovider.kubernetes.io/uninitialized"});
  wish.prepare = mint_if_missing(outside, "addons.proxmoxCcm");
  wish.secret_objects =
      [outside, proxmox = *cluster.spec.proxmox,
       helper = get_helper(helper_rights(cluster.spec, {9, 0, 0}), "addons.proxmoxCcm")] {
        return std::vector{
            proxmox_config(*outside, proxmox, "proxmox-cloud-controller-manager", helper)};
      };
  return wish;
}

SetWish proxmox_csi(const Cluster& cluster, const OutsidePtr& outside) {
  const spec::Addon& addon = cluster.spec.addons.proxmox_csi;
  SetWish wish = begin(cluster, "proxmox-csi", addon.on.where);
  wish.objects = read(*outside, "proxmoxCsi");
  // Its Pods reach into their nodes, and its Secret needs a place.
  const bool has_space =
      std::any_of(wish.objects.begin(), wish.objects.end(), [](const Manifest& one) {
        return one.name.kind == "Namespace" && one.name.name == "csi-proxmox";
      });
  if (!has_space)
    append(wish.objects, kube::parse_manifests(
                             "{ apiVersion: v1, kind: Namespace, metadata: { name: csi-proxmox, "
                             "labels: { pod-security.kubernetes.io/enforce: privileged } } }",
                             "the namespace of Proxmox CSI"));
  const std::string storage = addon.storage ? **addon.storage : *cluster.spec.proxmox->disk_storage;
  append(wish.objects,
         kube::parse_manifests(
             fmt::format("{{ apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{ name: "
                         "proxmox }}, provisioner: csi.proxmox.sinextra.dev, parameters: {{ "
                         "csi.storage.k8s.io/fstype: xfs, storage: {} }}, volumeBindingMode: "
                         "WaitForFirstConsumer, allowVolumeExpansion: true }}",
                         storage),
             "the storage class of Proxmox CSI"));
  // Volumes are made where a node is; the cloud controller manager says that by itself.
  if (!*cluster.spec.addons.proxmox_ccm.on)
    for (const spec::Node& node : cluster.spec.nodes)
      if (const auto chosen = cluster.lock.nodes.find(node.name);
          node.machine && chosen != cluster.lock.nodes.end())
        wish.objects.push_back(topology(node, chosen->second.host));
  wish.prepare = mint_if_missing(outside, "addons.proxmoxCsi");
  wish.secret_objects =
      [outside, proxmox = *cluster.spec.proxmox,
       helper = get_helper(helper_rights(cluster.spec, {9, 0, 0}), "addons.proxmoxCsi")] {
        return std::vector{proxmox_config(*outside, proxmox, "proxmox-csi-plugin", helper)};
      };
  return wish;
}

}  // namespace

void make_addons(const Cluster& cluster, const OutsidePtr& outside,
                 const std::function<void(const Made&)>& add) {
  const spec::Spec& spec = cluster.spec;
  const spec::Addons& addons = spec.addons;
  std::vector<std::string> network;
  const auto give = [&](SetWish wish) {
    // Whatever has Pods of its own needs a network for them.
    for (const std::string& address : network) wish.about.needs.push_back(address);
    add(make_set_thing(std::move(wish)));
  };
  if (spec.kubernetes.endpoint && spec.kubernetes.endpoint->vip &&
      spec.kubernetes.endpoint->vip->by_kube_vip)
    give(kube_vip_set(cluster));
  // The network that Talos brings by itself is waited for where something needs it.
  const bool needed = *addons.cert_approver.on || *addons.metrics_server.on ||
                      *addons.proxmox_ccm.on || *addons.proxmox_csi.on ||
                      !addons.manifests.empty() || (spec.handover && spec.handover->flux);
  if (spec.kubernetes.cni.kind != spec::Cni::Kind::None &&
      (needed || spec.kubernetes.cni.kind != spec::Cni::Kind::Flannel)) {
    SetWish wish = spec.kubernetes.cni.kind == spec::Cni::Kind::Cilium ? cilium(cluster)
                   : spec.kubernetes.cni.kind == spec::Cni::Kind::Manifests
                       ? given_network(cluster, outside)
                       : own_network(cluster);
    for (const spec::Node& node : spec.nodes) wish.about.needs.push_back(member_address(node.name));
    give(std::move(wish));
    network.push_back(addon_address("cni"));
  }
  if (*addons.proxmox_ccm.on) {
    give(proxmox_ccm(cluster, outside));
    // Until it has seen a node, that node takes nothing else.
    network.push_back(addon_address("proxmox-ccm"));
  }
  if (*addons.cert_approver.on) {
    SetWish wish = begin(cluster, "cert-approver", addons.cert_approver.on.where);
    wish.objects = read(*outside, "certApprover");
    give(std::move(wish));
  }
  if (*addons.metrics_server.on) {
    SetWish wish = begin(cluster, "metrics-server", addons.metrics_server.on.where);
    wish.objects = read(*outside, "metricsServer");
    // It trusts kubelets only once their certificates are approved.
    wish.about.needs.push_back(addon_address("cert-approver"));
    give(std::move(wish));
  }
  if (*addons.proxmox_csi.on) give(proxmox_csi(cluster, outside));
  if (!addons.manifests.empty()) {
    SetWish wish = begin(cluster, "manifests", addons.manifests.front().where);
    for (const auto& manifest : addons.manifests)
      append(wish.objects,
             read(*outside,
                  is_inline(*manifest) ? to_string(spec.position(manifest.where)) : *manifest));
    give(std::move(wish));
  }
}

std::vector<std::string> addon_addresses(const Cluster& cluster, const OutsidePtr& outside) {
  std::vector<std::string> all;
  make_addons(cluster, outside, [&](const Made& made) { all.push_back(made->address()); });
  return all;
}

}  // namespace rocca::resources
