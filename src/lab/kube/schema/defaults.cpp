// What the API server writes into fields that were left out (pkg/apis/*/v1/defaults.go).
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/server.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace rocca::lab::kube {

using text::Value;

namespace {

void otherwise(Value& map, std::string_view key, Value value) {
  const Value* found = map.find(key);
  if (found == nullptr || found->is_null() || (found->is_string() && found->text().empty()))
    map.set(key, std::move(value));
}

void otherwise_zero(Value& map, std::string_view key, std::int64_t value) {
  const Value* found = map.find(key);
  if (found == nullptr || found->is_null() || found->as_int() == 0) map.set(key, num(value));
}

void probe_defaults(Value* probe) {
  if (probe == nullptr || !probe->is_map()) return;
  otherwise_zero(*probe, "timeoutSeconds", 1);
  otherwise_zero(*probe, "periodSeconds", 10);
  otherwise_zero(*probe, "successThreshold", 1);
  otherwise_zero(*probe, "failureThreshold", 3);
  if (Value* get = probe->find("httpGet")) {
    otherwise(*get, "path", str("/"));
    otherwise(*get, "scheme", str("HTTP"));
  }
}

void container_defaults(Value& container) {
  const std::string image = text_at(container, {"image"});
  const std::string name = image.substr(image.rfind('/') + 1);
  const bool digest = image.find('@') != std::string::npos;
  const bool latest = !digest && (name.find(':') == std::string::npos || name.ends_with(":latest"));
  otherwise(container, "imagePullPolicy", str(latest ? "Always" : "IfNotPresent"));
  otherwise(container, "terminationMessagePath", str("/dev/termination-log"));
  otherwise(container, "terminationMessagePolicy", str("File"));
  if (container.find("resources") == nullptr) container.set("resources", Value::map());
  if (Value* ports = container.find("ports"))
    for (Value& port : ports->items()) otherwise(port, "protocol", str("TCP"));
  if (Value* env = container.find("env"))
    for (Value& one : env->items())
      if (Value* field = one.find({"valueFrom", "fieldRef"}))
        otherwise(*field, "apiVersion", str("v1"));
  for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"})
    probe_defaults(container.find(probe));
}

void volume_defaults(Value& volume) {
  if (volume.is_map() && volume.size() == 1 && volume.find("name") != nullptr)
    volume.set("emptyDir", Value::map());
  for (const char* kind : {"secret", "configMap", "projected", "downwardAPI"})
    if (Value* source = volume.find(kind)) {
      if (source->find("defaultMode") == nullptr) source->set("defaultMode", num(420));
      if (Value* sources = source->find("sources"))
        for (Value& one : sources->items())
          if (Value* token = one.find("serviceAccountToken"))
            if (token->find("expirationSeconds") == nullptr)
              token->set("expirationSeconds", num(3600));
    }
  if (Value* host = volume.find("hostPath"))
    if (host->find("type") == nullptr) host->set("type", str(""));
}

void pod_spec_defaults(Value& spec) {
  for (const char* list : {"containers", "initContainers"})
    if (Value* containers = spec.find(list); containers != nullptr && containers->is_list())
      for (Value& container : containers->items())
        if (container.is_map()) container_defaults(container);
  if (Value* volumes = spec.find("volumes"))
    for (Value& volume : volumes->items()) volume_defaults(volume);
  otherwise(spec, "restartPolicy", str("Always"));
  otherwise(spec, "dnsPolicy", str("ClusterFirst"));
  otherwise(spec, "schedulerName", str("default-scheduler"));
  if (spec.find("terminationGracePeriodSeconds") == nullptr)
    spec.set("terminationGracePeriodSeconds", num(30));
  if (spec.find("securityContext") == nullptr) spec.set("securityContext", Value::map());
  const std::string account = text_at(spec, {"serviceAccountName"});
  const std::string old = text_at(spec, {"serviceAccount"});
  if (!account.empty()) spec.set("serviceAccount", str(account));
  if (account.empty() && !old.empty()) spec.set("serviceAccountName", str(old));
  if (bool_at(spec, {"hostNetwork"}))
    if (Value* containers = spec.find("containers"))
      for (Value& container : containers->items())
        if (Value* ports = container.find("ports"))
          for (Value& port : ports->items())
            otherwise_zero(port, "hostPort", int_at(port, {"containerPort"}));
}

/// What a pod gets and a template does not.
void pod_only_defaults(Value& spec) {
  if (int_at(spec, {"terminationGracePeriodSeconds"}) < 0)
    spec.set("terminationGracePeriodSeconds", num(1));
  for (const char* list : {"containers", "initContainers"}) {
    Value* containers = spec.find(list);
    if (containers == nullptr || !containers->is_list()) continue;
    for (Value& container : containers->items()) {
      Value* resources = container.find("resources");
      const Value* limits = resources == nullptr ? nullptr : resources->find("limits");
      if (limits == nullptr || !limits->is_map()) continue;
      const Value wanted = *limits;
      for (const text::Entry& limit : wanted.entries()) {
        Value& requests = map_at(*resources, {"requests"});
        if (requests.find(limit.key) == nullptr) requests.set(limit.key, limit.value);
      }
    }
  }
}

/// A single address and the list of all: the single one leads.
void addresses_agree(Value& status, const char* single, const char* all) {
  const std::string address = text_at(status, {single});
  const Value* list = status.find(all);
  const std::string first = is_empty(list) ? "" : text_at(list->items().front(), {"ip"});
  if (!address.empty() && address != first) {
    Value one = Value::map();
    one.set("ip", str(address));
    status.set(all, Value::list({one}));
  } else if (address.empty() && !first.empty()) {
    status.set(single, str(first));
  }
}

void template_defaults(Value& spec) {
  pod_spec_defaults(map_at(spec, {"template", "spec"}));
}

void service_defaults(Value& spec) {
  otherwise(spec, "sessionAffinity", str("None"));
  otherwise(spec, "type", str("ClusterIP"));
  const std::string type = text_at(spec, {"type"});
  if (Value* ports = spec.find("ports"))
    for (Value& port : ports->items()) {
      otherwise(port, "protocol", str("TCP"));
      const Value* target = port.find("targetPort");
      if (target == nullptr || target->is_null() || target->as_int() == 0 ||
          (target->is_string() && target->text().empty()))
        port.set("targetPort", num(int_at(port, {"port"})));
    }
  if (type != "ExternalName")
    otherwise(spec, "internalTrafficPolicy", str("Cluster"));
  else
    spec.erase("internalTrafficPolicy");
  if (type == "NodePort" || type == "LoadBalancer" ||
      (type == "ClusterIP" && !is_empty(spec.find("externalIPs"))))
    otherwise(spec, "externalTrafficPolicy", str("Cluster"));
  if (type == "LoadBalancer" && spec.find("allocateLoadBalancerNodePorts") == nullptr)
    spec.set("allocateLoadBalancerNodePorts", Value::boolean(true));
}

void webhook_defaults(Value& object, bool mutating) {
  Value* hooks = object.find("webhooks");
  if (hooks == nullptr || !hooks->is_list()) return;
  for (Value& hook : hooks->items()) {
    otherwise(hook, "failurePolicy", str("Fail"));
    otherwise(hook, "matchPolicy", str("Equivalent"));
    for (const char* selector : {"namespaceSelector", "objectSelector"})
      if (hook.find(selector) == nullptr) hook.set(selector, Value::map());
    if (hook.find("timeoutSeconds") == nullptr) hook.set("timeoutSeconds", num(10));
    if (mutating) otherwise(hook, "reinvocationPolicy", str("Never"));
    if (Value* service = hook.find({"clientConfig", "service"}))
      if (service->find("port") == nullptr) service->set("port", num(443));
    if (Value* rules = hook.find("rules"))
      for (Value& rule : rules->items()) otherwise(rule, "scope", str("*"));
  }
}

void crd_defaults(Value& object) {
  Value& spec = map_at(object, {"spec"});
  Value& names = map_at(spec, {"names"});
  otherwise(names, "singular", str(to_lower(text_at(names, {"kind"}))));
  if (const std::string kind = text_at(names, {"kind"}); !kind.empty())
    otherwise(names, "listKind", str(kind + "List"));
  if (spec.find("conversion") == nullptr) set_at(spec, {"conversion", "strategy"}, str("None"));
  if (Value* service = spec.find({"conversion", "webhook", "clientConfig", "service"}))
    if (service->find("port") == nullptr) service->set("port", num(443));
}

void rbac_defaults(const Resource& resource, Value& object) {
  if (Value* subjects = object.find("subjects"); subjects != nullptr && subjects->is_list())
    for (Value& subject : subjects->items()) {
      const std::string kind = text_at(subject, {"kind"});
      if (kind == "User" || kind == "Group")
        otherwise(subject, "apiGroup", str("rbac.authorization.k8s.io"));
    }
  if (resource.kind.ends_with("Binding"))
    otherwise(map_at(object, {"roleRef"}), "apiGroup", str("rbac.authorization.k8s.io"));
}

void policy_defaults(Value& spec) {
  otherwise(spec, "failurePolicy", str("Fail"));
  for (const char* place : {"matchConstraints", "matchResources"})
    if (Value* match = spec.find(place); match != nullptr && match->is_map()) {
      otherwise(*match, "matchPolicy", str("Equivalent"));
      for (const char* selector : {"namespaceSelector", "objectSelector"})
        if (match->find(selector) == nullptr) match->set(selector, Value::map());
      if (Value* rules = match->find("resourceRules"))
        for (Value& rule : rules->items()) otherwise(rule, "scope", str("*"));
    }
}

}  // namespace

Value zero_value(const Type& type) {
  std::vector<std::string> unknown;
  return decode(type, Value::map(), unknown);
}

std::string timestamp_of(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

Value Server::ordered(const Resource& resource, Value object) const {
  if (resource.custom()) return object;
  std::vector<std::string> unknown;
  return decode(*resource.type, object, unknown);
}

void Server::set_defaults(const Resource& resource, Value& object) const {
  const std::string& kind = resource.kind;
  if (resource.custom()) return default_custom(resource, object);
  if (kind == "Namespace") {
    const std::string name = text_at(object, {"metadata", "name"});
    if (!name.empty())
      set_at(object, {"metadata", "labels", "kubernetes.io/metadata.name"}, str(name));
  } else if (kind == "Secret") {
    if (const Value* plain = object.find("stringData"); plain != nullptr && plain->is_map()) {
      const Value copy = *plain;
      for (const text::Entry& entry : copy.entries())
        map_at(object, {"data"}).set(entry.key, str(to_base64(entry.value.text())));
      object.erase("stringData");
    }
    otherwise(object, "type", str("Opaque"));
  } else if (kind == "Pod") {
    pod_spec_defaults(map_at(object, {"spec"}));
    Value& spec = map_at(object, {"spec"});
    pod_only_defaults(spec);
    if (spec.find("enableServiceLinks") == nullptr)
      spec.set("enableServiceLinks", Value::boolean(true));
    if (Value* status = object.find("status"); status != nullptr && status->is_map()) {
      addresses_agree(*status, "podIP", "podIPs");
      addresses_agree(*status, "hostIP", "hostIPs");
    }
  } else if (kind == "Deployment") {
    Value& spec = map_at(object, {"spec"});
    if (spec.find("replicas") == nullptr) spec.set("replicas", num(1));
    template_defaults(spec);
    Value& strategy = map_at(spec, {"strategy"});
    otherwise(strategy, "type", str("RollingUpdate"));
    if (text_at(strategy, {"type"}) == "RollingUpdate") {
      Value& rolling = map_at(strategy, {"rollingUpdate"});
      otherwise(rolling, "maxUnavailable", str("25%"));
      otherwise(rolling, "maxSurge", str("25%"));
    }
    if (spec.find("revisionHistoryLimit") == nullptr) spec.set("revisionHistoryLimit", num(10));
    if (spec.find("progressDeadlineSeconds") == nullptr)
      spec.set("progressDeadlineSeconds", num(600));
  } else if (kind == "ReplicaSet") {
    Value& spec = map_at(object, {"spec"});
    if (spec.find("replicas") == nullptr) spec.set("replicas", num(1));
    template_defaults(spec);
  } else if (kind == "DaemonSet") {
    Value& spec = map_at(object, {"spec"});
    template_defaults(spec);
    Value& strategy = map_at(spec, {"updateStrategy"});
    otherwise(strategy, "type", str("RollingUpdate"));
    if (text_at(strategy, {"type"}) == "RollingUpdate") {
      Value& rolling = map_at(strategy, {"rollingUpdate"});
      otherwise(rolling, "maxUnavailable", num(1));
      otherwise(rolling, "maxSurge", num(0));
    }
    if (spec.find("revisionHistoryLimit") == nullptr) spec.set("revisionHistoryLimit", num(10));
  } else if (kind == "StatefulSet") {
    Value& spec = map_at(object, {"spec"});
    template_defaults(spec);
    if (spec.find("replicas") == nullptr) spec.set("replicas", num(1));
    otherwise(spec, "podManagementPolicy", str("OrderedReady"));
    Value& strategy = map_at(spec, {"updateStrategy"});
    otherwise(strategy, "type", str("RollingUpdate"));
    if (text_at(strategy, {"type"}) == "RollingUpdate") {
      Value& rolling = map_at(strategy, {"rollingUpdate"});
      if (rolling.find("partition") == nullptr) rolling.set("partition", num(0));
    }
    if (spec.find("revisionHistoryLimit") == nullptr) spec.set("revisionHistoryLimit", num(10));
    if (Value* templates = spec.find("volumeClaimTemplates");
        templates != nullptr && templates->is_list())
      for (Value& claim : templates->items()) {
        claim.set("kind", str("PersistentVolumeClaim"));
        claim.set("apiVersion", str("v1"));
        otherwise(map_at(claim, {"spec"}), "volumeMode", str("Filesystem"));
        otherwise(map_at(claim, {"status"}), "phase", str("Pending"));
      }
    Value& claims = map_at(spec, {"persistentVolumeClaimRetentionPolicy"});
    otherwise(claims, "whenDeleted", str("Retain"));
    otherwise(claims, "whenScaled", str("Retain"));
  } else if (kind == "Job") {
    Value& spec = map_at(object, {"spec"});
    template_defaults(spec);
    if (spec.find("completions") == nullptr && spec.find("parallelism") == nullptr) {
      spec.set("completions", num(1));
      spec.set("parallelism", num(1));
    }
    if (spec.find("parallelism") == nullptr) spec.set("parallelism", num(1));
    if (spec.find("backoffLimit") == nullptr) spec.set("backoffLimit", num(6));
    if (spec.find("manualSelector") == nullptr) spec.set("manualSelector", Value::boolean(false));
    otherwise(spec, "completionMode", str("NonIndexed"));
    if (spec.find("suspend") == nullptr) spec.set("suspend", Value::boolean(false));
    otherwise(spec, "podReplacementPolicy", str("TerminatingOrFailed"));
  } else if (kind == "CronJob") {
    Value& spec = map_at(object, {"spec"});
    otherwise(spec, "concurrencyPolicy", str("Allow"));
    if (spec.find("suspend") == nullptr) spec.set("suspend", Value::boolean(false));
    if (spec.find("successfulJobsHistoryLimit") == nullptr)
      spec.set("successfulJobsHistoryLimit", num(3));
    if (spec.find("failedJobsHistoryLimit") == nullptr) spec.set("failedJobsHistoryLimit", num(1));
    template_defaults(map_at(spec, {"jobTemplate", "spec"}));
  } else if (kind == "Service") {
    service_defaults(map_at(object, {"spec"}));
  } else if (kind == "EndpointSlice") {
    if (Value* ports = object.find("ports"); ports != nullptr && ports->is_list())
      for (Value& port : ports->items()) {
        if (port.find("name") == nullptr) port.set("name", str(""));
        otherwise(port, "protocol", str("TCP"));
      }
  } else if (kind.ends_with("WebhookConfiguration")) {
    webhook_defaults(object, kind.starts_with("Mutating"));
  } else if (kind.starts_with("ValidatingAdmissionPolicy")) {
    if (kind == "ValidatingAdmissionPolicy") policy_defaults(map_at(object, {"spec"}));
  } else if (kind == "CustomResourceDefinition") {
    crd_defaults(object);
  } else if (kind == "APIService") {
    if (Value* service = object.find({"spec", "service"}); service != nullptr && service->is_map())
      if (service->find("port") == nullptr) service->set("port", num(443));
  } else if (resource.group == "rbac.authorization.k8s.io") {
    rbac_defaults(resource, object);
  } else if (kind == "StorageClass") {
    otherwise(object, "reclaimPolicy", str("Delete"));
    otherwise(object, "volumeBindingMode", str("Immediate"));
  } else if (kind == "PersistentVolumeClaim") {
    otherwise(map_at(object, {"spec"}), "volumeMode", str("Filesystem"));
  } else if (kind == "PersistentVolume") {
    otherwise(map_at(object, {"spec"}), "persistentVolumeReclaimPolicy", str("Retain"));
    otherwise(map_at(object, {"spec"}), "volumeMode", str("Filesystem"));
  } else if (kind == "CSIDriver") {
    Value& spec = map_at(object, {"spec"});
    for (const auto& [field, value] : {std::pair{"attachRequired", true},
                                       {"podInfoOnMount", false},
                                       {"storageCapacity", false},
                                       {"requiresRepublish", false},
                                       {"seLinuxMount", false}})
      if (spec.find(field) == nullptr) spec.set(field, Value::boolean(value));
    otherwise(spec, "fsGroupPolicy", str("ReadWriteOnceWithFSType"));
    if (is_empty(spec.find("volumeLifecycleModes")))
      spec.set("volumeLifecycleModes", Value::list({str("Persistent")}));
  } else if (kind == "IngressClass") {
    if (Value* parameters = object.find({"spec", "parameters"}); parameters != nullptr)
      otherwise(*parameters, "scope", str("Cluster"));
  } else if (kind == "PriorityClass") {
    otherwise(object, "preemptionPolicy", str("PreemptLowerPriority"));
  } else if (kind == "NetworkPolicy") {
    Value& spec = map_at(object, {"spec"});
    for (const char* list : {"ingress", "egress"})
      if (Value* rules = spec.find(list); rules != nullptr && rules->is_list())
        for (Value& rule : rules->items())
          if (Value* ports = rule.find("ports"); ports != nullptr && ports->is_list())
            for (Value& port : ports->items()) otherwise(port, "protocol", str("TCP"));
    if (is_empty(spec.find("policyTypes"))) {
      Value types = Value::list();
      types.append(str("Ingress"));
      if (!is_empty(spec.find("egress"))) types.append(str("Egress"));
      spec.set("policyTypes", std::move(types));
    }
  } else if (kind == "Node") {
    if (Value* spec = object.find("spec"); spec != nullptr && spec->is_map()) {
      const std::string range = text_at(*spec, {"podCIDR"});
      const Value* ranges = spec->find("podCIDRs");
      const std::string first = is_empty(ranges) ? "" : ranges->items().front().text();
      if (!range.empty() && range != first)
        spec->set("podCIDRs", Value::list({str(range)}));
      else if (range.empty() && !first.empty())
        spec->set("podCIDR", str(first));
    }
    if (Value* status = object.find("status"); status != nullptr && status->is_map())
      if (const Value* capacity = status->find("capacity"); capacity != nullptr)
        if (status->find("allocatable") == nullptr) status->set("allocatable", *capacity);
  } else if (kind == "ServiceAccount" || kind == "ConfigMap") {
    return;
  }
}

}  // namespace rocca::lab::kube
