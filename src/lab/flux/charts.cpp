#include "lab/flux/charts.hpp"

#include "base/strings.hpp"
#include "lab/kube/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <map>

namespace rocca::lab::flux {

using kube::set_at;
using kube::str;
using text::Value;

namespace {

class Chart {
 public:
  Chart(std::string name, std::string space) : name_(std::move(name)), space_(std::move(space)) {}

  Chart& kind(const std::string& group, const std::string& kind_name, const std::string& plural,
              bool namespaced = true, const std::string& version = "v1") {
    objects.push_back(open_definition(group, kind_name, plural, namespaced, version));
    return *this;
  }
  /// A Deployment or DaemonSet of one container. `pod` is more of the pod's spec, as YAML flow.
  Chart& workload(const std::string& what, const std::string& suffix, const std::string& app,
                  const std::string& image, const std::string& pod = "") {
    const std::string name = named(suffix);
    add(fmt::format(R"(apiVersion: v1
kind: ServiceAccount
metadata: {{ name: {0}, namespace: {1} }}
---
apiVersion: apps/v1
kind: {2}
metadata: {{ name: {0}, namespace: {1}, labels: {{ app.kubernetes.io/name: {3}, app.kubernetes.io/instance: {4} }} }}
spec:
  selector: {{ matchLabels: {{ app.kubernetes.io/name: {3}, app.kubernetes.io/instance: {4} }} }}
  template:
    metadata: {{ labels: {{ app.kubernetes.io/name: {3}, app.kubernetes.io/instance: {4} }} }}
    spec:
      serviceAccountName: {0}
{5}      containers: [ {{ name: {6}, image: '{7}' }} ]
)",
                    name, space_, what, app, name_, pod, suffix.empty() ? "main" : suffix, image));
    return *this;
  }
  Chart& service(const std::string& name, const std::string& app, int port, int target,
                 const std::string& type = "ClusterIP") {
    add(fmt::format(R"(apiVersion: v1
kind: Service
metadata: {{ name: {0}, namespace: {1} }}
spec:
  type: {5}
  selector: {{ app.kubernetes.io/name: {2}, app.kubernetes.io/instance: {6} }}
  ports: [ {{ name: main, port: {3}, targetPort: {4}, protocol: TCP }} ]
)",
                    name, space_, app, port, target, type, name_));
    return *this;
  }
  Chart& webhook(const std::string& name, const std::string& hook, const std::string& service,
                 const std::string& group, const std::string& resources,
                 const std::string& path = "/validate") {
    add(fmt::format(R"(apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{ name: {0} }}
webhooks:
  - name: {1}
    admissionReviewVersions: [ v1 ]
    sideEffects: None
    failurePolicy: Fail
    clientConfig: {{ caBundle: LS0tLS1CRUdJTi0tLS0t, service: {{ name: {2}, namespace: {3}, path: {6} }} }}
    rules: [ {{ apiGroups: [ {4} ], apiVersions: [ '*' ], operations: [ CREATE, UPDATE ], resources: [ {5} ] }} ]
)",
                    name, hook, service, space_, group, resources, path));
    return *this;
  }
  /// The agents ask for what the values say, or for what the chart does without them; Talos refuses
  /// the latter.
  Chart& cilium(const Value* values) {
    std::vector<std::string> wanted;
    const Value* given = values == nullptr
                             ? nullptr
                             : values->find({"securityContext", "capabilities", "ciliumAgent"});
    if (given != nullptr && given->is_list())
      for (const Value& one : given->items()) wanted.push_back(one.text());
    else
      wanted = {"CHOWN", "KILL", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "SYS_MODULE", "SYS_ADMIN"};
    const std::int64_t operators =
        values == nullptr ? 2 : kube::int_at(*values, {"operator", "replicas"}, 2);
    add(fmt::format(R"(apiVersion: v1
kind: ServiceAccount
metadata: {{ name: cilium, namespace: {0} }}
---
apiVersion: v1
kind: ConfigMap
metadata: {{ name: cilium-config, namespace: {0} }}
data: {{ kube-proxy-replacement: "true" }}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{ name: cilium, namespace: {0}, labels: {{ k8s-app: cilium }} }}
spec:
  selector: {{ matchLabels: {{ k8s-app: cilium }} }}
  template:
    metadata: {{ labels: {{ k8s-app: cilium }} }}
    spec:
      hostNetwork: true
      serviceAccountName: cilium
      priorityClassName: system-node-critical
      tolerations: [ {{ operator: Exists }} ]
      containers:
        - name: cilium-agent
          image: 'quay.io/cilium/cilium:v1.18.4'
          securityContext: {{ capabilities: {{ add: [ {1} ], drop: [ ALL ] }} }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{ name: cilium-operator, namespace: {0}, labels: {{ name: cilium-operator }} }}
spec:
  replicas: {2}
  selector: {{ matchLabels: {{ name: cilium-operator }} }}
  template:
    metadata: {{ labels: {{ name: cilium-operator }} }}
    spec:
      hostNetwork: true
      serviceAccountName: cilium
      tolerations: [ {{ operator: Exists }} ]
      containers: [ {{ name: cilium-operator, image: 'quay.io/cilium/operator-generic:v1.18.4' }} ]
)",
                    space_, join(wanted, ", "), operators));
    return *this;
  }
  std::string named(const std::string& suffix) const {
    return suffix.empty() ? name_ : name_ + "-" + suffix;
  }

  std::vector<Value> objects;

 private:
  void add(const std::string& text) {
    for (Value& one : text::parse_yaml_stream(text, "chart")) objects.push_back(std::move(one));
  }
  std::string name_, space_;
};

}  // namespace

Value open_definition(const std::string& group, const std::string& kind, const std::string& plural,
                      bool namespaced, const std::string& version) {
  std::string singular = kind;
  for (char& c : singular)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return kube::json(fmt::format(
      R"({{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"{2}.{0}"}},"spec":{{"group":"{0}","names":{{"kind":"{1}","listKind":"{1}List","plural":"{2}","singular":"{3}"}},"scope":"{4}","versions":[{{"name":"{5}","served":true,"storage":true,"subresources":{{"status":{{}}}},"schema":{{"openAPIV3Schema":{{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}]}}}})",
      group, kind, plural, singular, namespaced ? "Namespaced" : "Cluster", version));
}

std::optional<std::vector<Value>> chart_objects(const std::string& chart,
                                                const std::string& release,
                                                const std::string& space, const Value* values) {
  const std::string full =
      release.find(chart) != std::string::npos ? release : fmt::format("{}-{}", release, chart);
  Chart out{full, space};
  if (chart == "cilium") {
    out.cilium(values);
  } else if (chart == "external-secrets") {
    const std::string group = "external-secrets.io";
    out.kind(group, "SecretStore", "secretstores")
        .kind(group, "ClusterSecretStore", "clustersecretstores", false)
        .kind(group, "ExternalSecret", "externalsecrets")
        .kind(group, "ClusterExternalSecret", "clusterexternalsecrets", false)
        .kind(group, "PushSecret", "pushsecrets", true, "v1alpha1")
        .workload("Deployment", "", "external-secrets",
                  "ghcr.io/external-secrets/external-secrets:v2.9.0")
        .workload("Deployment", "webhook", "external-secrets-webhook",
                  "ghcr.io/external-secrets/external-secrets:v2.9.0")
        .workload("Deployment", "cert-controller", "external-secrets-cert-controller",
                  "ghcr.io/external-secrets/external-secrets:v2.9.0")
        .service(out.named("webhook"), "external-secrets-webhook", 443, 10250)
        .webhook("secretstore-validate", "validate.secretstore.external-secrets.io",
                 out.named("webhook"), group, "secretstores, clustersecretstores",
                 "/validate-external-secrets-io-v1-secretstore")
        .webhook("externalsecret-validate", "validate.externalsecret.external-secrets.io",
                 out.named("webhook"), group, "externalsecrets",
                 "/validate-external-secrets-io-v1-externalsecret");
  } else if (chart == "metallb") {
    const std::string group = "metallb.io";
    out.kind(group, "IPAddressPool", "ipaddresspools", true, "v1beta1")
        .kind(group, "L2Advertisement", "l2advertisements", true, "v1beta1")
        .kind(group, "BGPAdvertisement", "bgpadvertisements", true, "v1beta1")
        .kind(group, "BGPPeer", "bgppeers", true, "v1beta2")
        .kind(group, "BFDProfile", "bfdprofiles", true, "v1beta1")
        .kind(group, "Community", "communities", true, "v1beta1")
        .workload("Deployment", "controller", "metallb", "quay.io/metallb/controller:v0.16.1")
        .workload("DaemonSet", "speaker", "metallb-speaker", "quay.io/metallb/speaker:v0.16.1",
                  "      hostNetwork: true\n      tolerations: [ { operator: Exists } ]\n")
        .service("metallb-webhook-service", "metallb", 443, 9443)
        .webhook("metallb-webhook-configuration", "ipaddresspoolvalidationwebhook.metallb.io",
                 "metallb-webhook-service", group,
                 "ipaddresspools, l2advertisements, bgpadvertisements, bgppeers, bfdprofiles, "
                 "communities",
                 "/validate-metallb-io-v1beta1-ipaddresspool");
  } else if (chart == "cert-manager") {
    const std::string group = "cert-manager.io";
    out.kind(group, "Certificate", "certificates")
        .kind(group, "CertificateRequest", "certificaterequests")
        .kind(group, "Issuer", "issuers")
        .kind(group, "ClusterIssuer", "clusterissuers", false)
        .workload("Deployment", "", "cert-manager",
                  "quay.io/jetstack/cert-manager-controller:v1.19.1")
        .workload("Deployment", "cainjector", "cainjector",
                  "quay.io/jetstack/cert-manager-cainjector:v1.19.1")
        .workload("Deployment", "webhook", "webhook",
                  "quay.io/jetstack/cert-manager-webhook:v1.19.1")
        .service(out.named("webhook"), "webhook", 443, 10250)
        .webhook(out.named("webhook"), "webhook.cert-manager.io", out.named("webhook"), group,
                 "'*'");
  } else if (chart == "traefik") {
    const std::string group = "traefik.io";
    out.kind(group, "IngressRoute", "ingressroutes", true, "v1alpha1")
        .kind(group, "Middleware", "middlewares", true, "v1alpha1")
        .kind(group, "TLSStore", "tlsstores", true, "v1alpha1")
        .workload("Deployment", "", "traefik", "docker.io/traefik:v3.6.1")
        .service(out.named(""), "traefik", 443, 8443, "LoadBalancer");
  } else if (chart == "longhorn") {
    const std::string group = "longhorn.io";
    out.kind(group, "Volume", "volumes", true, "v1beta2")
        .kind(group, "Node", "nodes", true, "v1beta2")
        .kind(group, "Setting", "settings", true, "v1beta2")
        .workload("DaemonSet", "manager", "longhorn-manager", "longhornio/longhorn-manager:v1.10.1",
                  "      volumes: [ { name: longhorn, hostPath: { path: /var/lib/longhorn } } ]\n")
        .workload("Deployment", "ui", "longhorn-ui", "longhornio/longhorn-ui:v1.10.1");
  } else {
    return std::nullopt;
  }
  return out.objects;
}

std::optional<Installation> installation_of(const Value& job) {
  const Value* pod = job.find({"spec", "template", "spec"});
  const Value* containers = pod == nullptr ? nullptr : pod->find("containers");
  if (containers == nullptr || containers->size() == 0) return std::nullopt;
  const Value& program = containers->items().front();
  const std::string image = kube::text_at(program, {"image"});
  Installation out;
  if (image.find("cilium-cli") != std::string::npos) {
    out.chart = out.release = "cilium";
    out.space = "kube-system";
    return out;
  }
  if (image.find("helm") == std::string::npos) return std::nullopt;
  std::vector<std::string> words;
  for (const char* list : {"command", "args"})
    if (const Value* some = program.find(list); some != nullptr && some->is_list())
      for (const Value& word : some->items()) words.push_back(word.text());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool more = i + 1 < words.size();
    if (word == "--namespace" || word == "-n")
      out.space = more ? words[++i] : "";
    else if (word == "--version")
      out.version = more ? words[++i] : "";
    else if (word == "--values" || word == "-f")
      out.values = more ? words[++i] : "";
    else if (word == "--repo" || word == "--timeout" || word == "--set")
      ++i;
    else if (!word.starts_with("-"))
      names.push_back(word);
  }
  if (!names.empty() && names.front() == "helm") names.erase(names.begin());
  if (names.size() != 3 || (names[0] != "upgrade" && names[0] != "install")) return std::nullopt;
  out.release = names[1];
  out.chart = names[2].substr(names[2].rfind('/') + 1);
  out.values = out.values.substr(out.values.rfind('/') + 1);
  if (out.space.empty()) out.space = "default";
  if (const Value* volumes = pod->find("volumes"); volumes != nullptr && volumes->is_list())
    for (const Value& volume : volumes->items())
      if (const std::string map = kube::text_at(volume, {"configMap", "name"}); !map.empty())
        out.config_map = map;
  return out;
}

}  // namespace rocca::lab::flux
