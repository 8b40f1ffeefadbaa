// What Talos applies to a cluster of its own, cut to what anybody looks at.
#include "lab/kube/json.hpp"
#include "lab/machines/clusters.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

namespace rocca::lab {

using text::Value;

namespace {

constexpr const char* flannel = R"(
apiVersion: v1
kind: ServiceAccount
metadata: { name: flannel, namespace: kube-system }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: kube-flannel-cfg, namespace: kube-system, labels: { tier: node, k8s-app: flannel } }
data:
  net-conf.json: '{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","Port":4789}}'
---
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: kube-flannel, namespace: kube-system, labels: { tier: node, k8s-app: flannel } }
spec:
  selector: { matchLabels: { tier: node, k8s-app: flannel } }
  template:
    metadata: { labels: { tier: node, k8s-app: flannel } }
    spec:
      hostNetwork: true
      serviceAccountName: flannel
      priorityClassName: system-node-critical
      tolerations:
        - { operator: Exists, effect: NoSchedule }
        - { operator: Exists, effect: NoExecute }
      containers:
        - { name: kube-flannel, image: 'ghcr.io/siderolabs/flannel:v0.27.4' }
)";

constexpr const char* proxy = R"(
apiVersion: v1
kind: ServiceAccount
metadata: { name: kube-proxy, namespace: kube-system }
---
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: kube-proxy, namespace: kube-system, labels: { tier: node, k8s-app: kube-proxy } }
spec:
  selector: { matchLabels: { tier: node, k8s-app: kube-proxy } }
  template:
    metadata: { labels: { tier: node, k8s-app: kube-proxy } }
    spec:
      hostNetwork: true
      serviceAccountName: kube-proxy
      priorityClassName: system-cluster-critical
      tolerations:
        - { operator: Exists, effect: NoSchedule }
        - { operator: Exists, effect: NoExecute }
      containers:
        - { name: kube-proxy, image: 'registry.k8s.io/kube-proxy:v1.34.1' }
)";

constexpr const char* dns = R"(
apiVersion: v1
kind: ServiceAccount
metadata: { name: coredns, namespace: kube-system }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: coredns, namespace: kube-system, labels: { k8s-app: kube-dns, kubernetes.io/name: CoreDNS } }
spec:
  replicas: 2
  selector: { matchLabels: { k8s-app: kube-dns } }
  template:
    metadata: { labels: { k8s-app: kube-dns } }
    spec:
      serviceAccountName: coredns
      priorityClassName: system-cluster-critical
      tolerations:
        - { key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule }
        - { key: node.cloudprovider.kubernetes.io/uninitialized, operator: Exists, effect: NoSchedule }
      containers:
        - name: coredns
          image: 'registry.k8s.io/coredns/coredns:v1.12.4'
          ports: [ { containerPort: 53, name: dns, protocol: UDP } ]
---
apiVersion: v1
kind: Service
metadata: { name: kube-dns, namespace: kube-system, labels: { k8s-app: kube-dns, kubernetes.io/name: CoreDNS } }
spec:
  selector: { k8s-app: kube-dns }
  ports: [ { name: dns, port: 53, protocol: UDP }, { name: dns-tcp, port: 53, protocol: TCP } ]
)";

void add(std::vector<Value>& all, std::string_view text, std::string_view name) {
  for (Value& document : text::parse_yaml_stream(text, name))
    if (document.is_map() && document.size() != 0) all.push_back(std::move(document));
}

bool disabled(const talos::MachineConfig& config, std::string_view part) {
  const Value* flag = config.main()->find({"cluster", part, "disabled"});
  return flag != nullptr && flag->as_bool() == true;
}

}  // namespace

bool brings_network(const talos::MachineConfig& config) {
  const std::string name = config.get({"cluster", "network", "cni", "name"});
  return name.empty() || name == "flannel";
}

bool has_inline_manifests(const talos::MachineConfig& config) {
  const Value* list = config.main()->find({"cluster", "inlineManifests"});
  return list != nullptr && list->is_list() && list->size() != 0;
}

std::vector<Value> talos_manifests(const talos::MachineConfig& config) {
  std::vector<Value> all;
  if (brings_network(config)) add(all, flannel, "flannel");
  if (!disabled(config, "proxy")) add(all, proxy, "kube-proxy");
  if (!disabled(config, "coreDNS")) add(all, dns, "coredns");
  if (has_inline_manifests(config))
    for (const Value& manifest : config.main()->find({"cluster", "inlineManifests"})->items())
      add(all, kube::text_at(manifest, {"contents"}), kube::text_at(manifest, {"name"}));
  return all;
}

}  // namespace rocca::lab
