#include "kubernetes/addons.hpp"
#include "text/yaml.hpp"

namespace rocca::resources {

namespace {

using text::Value;

// What Cilium needs on Talos (Talos' guide on deploying Cilium): no module loading, its own cgroup
// mount, and the API through KubePrism, because without a kube-proxy no service address works yet.
constexpr const char* talos_values = R"(
ipam: { mode: kubernetes }
kubeProxyReplacement: true
k8sServiceHost: localhost
k8sServicePort: 7445
cgroup:
  autoMount: { enabled: false }
  hostRoot: /sys/fs/cgroup
securityContext:
  capabilities:
    ciliumAgent: [CHOWN, KILL, NET_ADMIN, NET_RAW, IPC_LOCK, SYS_ADMIN, SYS_RESOURCE, DAC_OVERRIDE, FOWNER, SETGID, SETUID]
    cleanCiliumState: [NET_ADMIN, SYS_ADMIN, SYS_RESOURCE]
)";

void merge(Value& into, const Value& over) {
  for (const text::Entry& entry : over.entries()) {
    Value* below = into.find(entry.key);
    if (below != nullptr && below->is_map() && entry.value.is_map())
      merge(*below, entry.value);
    else
      into.set(entry.key, entry.value);
  }
}

}  // namespace

Value cilium_values(const spec::Spec& spec) {
  Value values = text::parse_yaml(talos_values, "Cilium's values for Talos");
  // One node cannot run two operators that avoid each other.
  if (spec.nodes.size() == 1)
    values.set("operator", Value::map()).set("replicas", Value::integer(1));
  if (spec.kubernetes.cni.cilium.values && spec.kubernetes.cni.cilium.values->is_map())
    merge(values, *spec.kubernetes.cni.cilium.values);
  return values;
}

}  // namespace rocca::resources
