#include "lab/kube/schema/kinds.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace rocca::lab::kube {

namespace {

// group version plural singular Kind scope flags short categories schema subresources…
// scope: N in a namespace, C in the cluster
// flags: g generation, u no update without resourceVersion, c an update may create,
//        o only what the verbs column says: =create, =get+list; x cannot be deleted as a collection
// subresources: name or name:group/version/Kind:verbs; status and scale know themselves
constexpr std::string_view table = R"(
- v1 bindings binding Binding N o=create - - Binding
- v1 componentstatuses componentstatus ComponentStatus C o=get+list cs - ComponentStatus
- v1 configmaps configmap ConfigMap N - cm - ConfigMap
- v1 endpoints endpoints Endpoints N c ep - Endpoints
- v1 events event Event N c ev - Event
- v1 limitranges limitrange LimitRange N c limits - LimitRange
- v1 namespaces namespace Namespace C x ns - Namespace finalize:-/-/Namespace:update status
- v1 nodes node Node C - no - Node proxy:-/-/NodeProxyOptions:create+delete+get+patch+update status
- v1 persistentvolumeclaims persistentvolumeclaim PersistentVolumeClaim N - pvc - PersistentVolumeClaim status
- v1 persistentvolumes persistentvolume PersistentVolume C - pv - PersistentVolume status
- v1 pods pod Pod N g po all Pod attach:-/-/PodAttachOptions:create+get binding:-/-/Binding:create ephemeralcontainers:-/-/Pod:get+patch+update eviction:policy/v1/Eviction:create exec:-/-/PodExecOptions:create+get log:-/-/Pod:get portforward:-/-/PodPortForwardOptions:create+get proxy:-/-/PodProxyOptions:create+delete+get+patch+update resize:-/-/Pod:get+patch+update status
- v1 podtemplates podtemplate PodTemplate N g - - PodTemplateObject
- v1 replicationcontrollers replicationcontroller ReplicationController N g rc all ReplicationController scale status
- v1 resourcequotas resourcequota ResourceQuota N - quota - ResourceQuota status
- v1 secrets secret Secret N - - - Secret
- v1 serviceaccounts serviceaccount ServiceAccount N - sa - ServiceAccount token:authentication.k8s.io/v1/TokenRequest:create
- v1 services service Service N c svc all Service proxy:-/-/ServiceProxyOptions:create+delete+get+patch+update status
apiregistration.k8s.io v1 apiservices apiservice APIService C u - api-extensions APIService status
apps v1 controllerrevisions controllerrevision ControllerRevision N - - - ControllerRevision
apps v1 daemonsets daemonset DaemonSet N g ds all DaemonSet status
apps v1 deployments deployment Deployment N g deploy all Deployment scale status
apps v1 replicasets replicaset ReplicaSet N g rs all ReplicaSet scale status
apps v1 statefulsets statefulset StatefulSet N g sts all StatefulSet scale status
events.k8s.io v1 events event Event N c ev - EventV1
authentication.k8s.io v1 selfsubjectreviews selfsubjectreview SelfSubjectReview C o=create - - SelfSubjectReview
authentication.k8s.io v1 tokenreviews tokenreview TokenReview C o=create - - TokenReview
authorization.k8s.io v1 localsubjectaccessreviews localsubjectaccessreview LocalSubjectAccessReview N o=create - - LocalSubjectAccessReview
authorization.k8s.io v1 selfsubjectaccessreviews selfsubjectaccessreview SelfSubjectAccessReview C o=create - - SelfSubjectAccessReview
authorization.k8s.io v1 selfsubjectrulesreviews selfsubjectrulesreview SelfSubjectRulesReview C o=create - - SelfSubjectRulesReview
authorization.k8s.io v1 subjectaccessreviews subjectaccessreview SubjectAccessReview C o=create - - SubjectAccessReview
autoscaling v2 horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler N - hpa all HorizontalPodAutoscaler status
autoscaling v1 horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler N - hpa all HorizontalPodAutoscaler status
batch v1 cronjobs cronjob CronJob N g cj all CronJob status
batch v1 jobs job Job N g - all Job status
certificates.k8s.io v1 certificatesigningrequests certificatesigningrequest CertificateSigningRequest C - csr - CertificateSigningRequest approval:-/-/CertificateSigningRequest:get+patch+update status
networking.k8s.io v1 ingressclasses ingressclass IngressClass C g - - IngressClass
networking.k8s.io v1 ingresses ingress Ingress N g ing - Ingress status
networking.k8s.io v1 ipaddresses ipaddress IPAddress C - ip - IPAddress
networking.k8s.io v1 networkpolicies networkpolicy NetworkPolicy N g netpol - NetworkPolicy
networking.k8s.io v1 servicecidrs servicecidr ServiceCIDR C - - - ServiceCIDR status
policy v1 poddisruptionbudgets poddisruptionbudget PodDisruptionBudget N gu pdb - PodDisruptionBudget status
rbac.authorization.k8s.io v1 clusterrolebindings clusterrolebinding ClusterRoleBinding C c - - ClusterRoleBinding
rbac.authorization.k8s.io v1 clusterroles clusterrole ClusterRole C c - - ClusterRole
rbac.authorization.k8s.io v1 rolebindings rolebinding RoleBinding N c - - RoleBinding
rbac.authorization.k8s.io v1 roles role Role N c - - Role
storage.k8s.io v1 csidrivers csidriver CSIDriver C u - - CSIDriver
storage.k8s.io v1 csinodes csinode CSINode C - - - CSINode
storage.k8s.io v1 csistoragecapacities csistoragecapacity CSIStorageCapacity N - - - CSIStorageCapacity
storage.k8s.io v1 storageclasses storageclass StorageClass C - sc - StorageClass
storage.k8s.io v1 volumeattachments volumeattachment VolumeAttachment C - - - VolumeAttachment status
storage.k8s.io v1 volumeattributesclasses volumeattributesclass VolumeAttributesClass C - vac - VolumeAttributesClass
admissionregistration.k8s.io v1 mutatingwebhookconfigurations mutatingwebhookconfiguration MutatingWebhookConfiguration C gu - api-extensions MutatingWebhookConfiguration
admissionregistration.k8s.io v1 validatingadmissionpolicies validatingadmissionpolicy ValidatingAdmissionPolicy C gu - api-extensions ValidatingAdmissionPolicy status
admissionregistration.k8s.io v1 validatingadmissionpolicybindings validatingadmissionpolicybinding ValidatingAdmissionPolicyBinding C gu - api-extensions ValidatingAdmissionPolicyBinding
admissionregistration.k8s.io v1 validatingwebhookconfigurations validatingwebhookconfiguration ValidatingWebhookConfiguration C gu - api-extensions ValidatingWebhookConfiguration
apiextensions.k8s.io v1 customresourcedefinitions customresourcedefinition CustomResourceDefinition C gu crd,crds api-extensions CustomResourceDefinition status
scheduling.k8s.io v1 priorityclasses priorityclass PriorityClass C g pc - PriorityClass
coordination.k8s.io v1 leases lease Lease N uc - - Lease
node.k8s.io v1 runtimeclasses runtimeclass RuntimeClass C - - - RuntimeClass
discovery.k8s.io v1 endpointslices endpointslice EndpointSlice N g - - EndpointSlice
resource.k8s.io v1 deviceclasses deviceclass DeviceClass C - - - any
resource.k8s.io v1 resourceclaims resourceclaim ResourceClaim N - - - any status
resource.k8s.io v1 resourceclaimtemplates resourceclaimtemplate ResourceClaimTemplate N - - - any
resource.k8s.io v1 resourceslices resourceslice ResourceSlice C - - - any
flowcontrol.apiserver.k8s.io v1 flowschemas flowschema FlowSchema C g - - FlowSchema status
flowcontrol.apiserver.k8s.io v1 prioritylevelconfigurations prioritylevelconfiguration PriorityLevelConfiguration C g - - PriorityLevelConfiguration status
)";

std::string unless_dash(const std::string& word) {
  return word == "-" ? "" : word;
}

std::vector<std::string> words_of(const std::string& list, char separator) {
  return list == "-" ? std::vector<std::string>{} : split(list, separator);
}

Subresource read_subresource(const std::string& text, const Resource& resource) {
  if (text == "status") return {"status", "", "", resource.kind, {"get", "patch", "update"}};
  if (text == "scale") return {"scale", "autoscaling", "v1", "Scale", {"get", "patch", "update"}};
  const std::vector<std::string> parts = split(text, ':');
  const std::vector<std::string> kind = split(parts[1], '/');
  return {parts[0], unless_dash(kind[0]), unless_dash(kind[1]), kind[2], split(parts[2], '+')};
}

}  // namespace

const Subresource* Resource::find(std::string_view subresource) const {
  for (const Subresource& one : subresources)
    if (one.name == subresource) return &one;
  return nullptr;
}

bool Resource::can(std::string_view verb) const {
  return std::find(verbs.begin(), verbs.end(), verb) != verbs.end();
}

Kinds::Kinds(const Schemas& schemas) {
  auto open = std::make_shared<Type>(*schemas.get("ConfigMap"));
  open->fields.resize(3);
  open->open = true;
  open->custom = true;
  std::istringstream in{std::string(table)};
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    std::istringstream words(line);
    std::string group, flags, short_names, categories, scope, schema, word;
    Resource one;
    words >> group >> one.version >> one.plural >> one.singular >> one.kind >> scope >> flags >>
        short_names >> categories >> schema;
    one.group = unless_dash(group);
    one.stored = one.version;
    one.list_kind = one.kind + "List";
    one.namespaced = scope == "N";
    one.short_names = words_of(short_names, ',');
    one.categories = words_of(categories, ',');
    one.type = schema == "any" ? TypeRef(open) : schemas.get(schema);
    one.verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};
    if (flags.starts_with("o=")) {
      one.verbs = split(flags.substr(2), '+');
    } else {
      one.generation = flags.find('g') != std::string::npos;
      one.conditional = flags.find('u') != std::string::npos;
      one.create_on_update = flags.find('c') != std::string::npos;
      if (flags.find('x') != std::string::npos) std::erase(one.verbs, "deletecollection");
    }
    while (words >> word) one.subresources.push_back(read_subresource(word, one));
    resources_.push_back(std::make_unique<Resource>(std::move(one)));
  }
}

const Resource* Kinds::find(std::string_view group, std::string_view version,
                            std::string_view plural) const {
  for (const auto& one : resources_)
    if (one->plural == plural && one->group == group && one->version == version) return one.get();
  return nullptr;
}

const Resource* Kinds::find_kind(std::string_view api_version, std::string_view kind) const {
  for (const auto& one : resources_)
    if (one->kind == kind && one->api_version() == api_version) return one.get();
  return nullptr;
}

const Resource* Kinds::find_any(std::string_view group, std::string_view plural) const {
  for (const auto& one : resources_)
    if (one->plural == plural && one->group == group) return one.get();
  return nullptr;
}

bool Kinds::has_group(std::string_view group) const {
  return std::any_of(resources_.begin(), resources_.end(),
                     [&](const auto& one) { return one->group == group; });
}

bool Kinds::has_version(std::string_view group, std::string_view version) const {
  return std::any_of(resources_.begin(), resources_.end(), [&](const auto& one) {
    return one->group == group && one->version == version;
  });
}

bool Kinds::is_custom(std::string_view group) const {
  return std::any_of(resources_.begin(), resources_.end(),
                     [&](const auto& one) { return one->group == group && one->custom(); });
}

std::vector<Group> Kinds::groups() const {
  std::vector<Group> out;
  std::vector<Group> custom;
  for (const auto& one : resources_) {
    if (one->group.empty()) continue;
    std::vector<Group>& list = one->custom() ? custom : out;
    auto found = std::find_if(list.begin(), list.end(),
                              [&](const Group& group) { return group.name == one->group; });
    if (found == list.end()) found = list.insert(list.end(), {one->group, {}});
    if (std::find(found->versions.begin(), found->versions.end(), one->version) ==
        found->versions.end())
      found->versions.push_back(one->version);
  }
  std::sort(custom.begin(), custom.end(),
            [](const Group& a, const Group& b) { return a.name < b.name; });
  for (Group& group : custom) {
    std::sort(group.versions.begin(), group.versions.end(),
              [](const std::string& a, const std::string& b) { return newer_version(a, b); });
    out.push_back(std::move(group));
  }
  return out;
}

std::vector<const Resource*> Kinds::of(std::string_view group, std::string_view version) const {
  std::vector<const Resource*> out;
  for (const auto& one : resources_)
    if (one->group == group && one->version == version) out.push_back(one.get());
  return out;
}

std::vector<const Resource*> Kinds::all() const {
  std::vector<const Resource*> out;
  for (const auto& one : resources_) out.push_back(one.get());
  return out;
}

void Kinds::add(Resource resource) {
  resources_.push_back(std::make_unique<Resource>(std::move(resource)));
}

void Kinds::remove_crd(std::string_view crd) {
  std::erase_if(resources_, [&](const auto& one) { return one->crd == crd; });
}

bool newer_version(std::string_view a, std::string_view b) {
  struct Parts {
    int rank = 0;  // 3 stable, 2 beta, 1 alpha, 0 something else
    std::int64_t major = 0, minor = 0;
  };
  const auto read = [](std::string_view text) {
    Parts parts;
    if (!text.starts_with("v")) return parts;
    const std::size_t end = text.find_first_not_of("0123456789", 1);
    const auto major = parse_int(text.substr(1, end == std::string_view::npos ? end : end - 1));
    if (!major) return parts;
    const std::string_view rest = end == std::string_view::npos ? "" : text.substr(end);
    for (const auto& [word, rank] : {std::pair{"alpha", 1}, {"beta", 2}})
      if (rest.starts_with(word))
        if (const auto minor = parse_int(rest.substr(std::string_view(word).size())))
          return Parts{rank, *major, *minor};
    if (rest.empty()) parts = {3, *major, 0};
    return parts;
  };
  const Parts left = read(a);
  const Parts right = read(b);
  if (left.rank != right.rank) return left.rank > right.rank;
  if (left.rank == 0) return a < b;
  if (left.major != right.major) return left.major > right.major;
  return left.minor > right.minor;
}

}  // namespace rocca::lab::kube
