#include "lab/kube/schema/schema.hpp"

namespace rocca::lab::kube {

// k8s.io/api v1.34: RBAC, extension and registration kinds, storage, networking, reviews.
std::string_view schema_other_table() {
  return R"(
PolicyRule = verbs:[s]! apiGroups:[s] resources:[s] resourceNames:[s] nonResourceURLs:[s]
Role = ^ rules:[PolicyRule]!
ClusterRole = ^ rules:[PolicyRule]! aggregationRule:*AggregationRule
AggregationRule = clusterRoleSelectors:[LabelSelector]
Subject = kind:s! apiGroup:s name:s! namespace:s
RoleRef = apiGroup:s! kind:s! name:s!
RoleBinding = ^ subjects:[Subject] roleRef:@RoleRef
ClusterRoleBinding = ^ subjects:[Subject] roleRef:@RoleRef
CustomResourceDefinition = ^ spec:CrdSpec status:CrdStatus
CrdSpec = group:s! names:CrdNames scope:s! versions:[CrdVersion]! conversion:*CrdConversion preserveUnknownFields:b
CrdNames = plural:s! singular:s shortNames:[s] kind:s! listKind:s categories:[s]
CrdVersion = name:s! served:b! storage:b! deprecated:b deprecationWarning:*s schema:*CrdValidation subresources:*CrdSubresources
  additionalPrinterColumns:[CrdColumn] selectableFields:[CrdSelectable]
CrdSelectable = jsonPath:s!
CrdValidation = openAPIV3Schema:any
CrdSubresources = status:*Empty scale:*CrdScale
Empty =
CrdScale = specReplicasPath:s! statusReplicasPath:s! labelSelectorPath:*s
CrdColumn = name:s! type:s! format:s description:s priority:i jsonPath:s!
CrdConversion = strategy:s! webhook:*WebhookConversion
WebhookConversion = clientConfig:*WebhookClient conversionReviewVersions:[s]!
WebhookClient = url:*s service:*ServiceReference caBundle:by
ServiceReference = namespace:s! name:s! path:*s port:*i
CrdStatus = conditions:[CrdCondition|type]! acceptedNames:CrdNames storedVersions:[s]! observedGeneration:i
CrdCondition = type:s! status:s! lastTransitionTime:t reason:s message:s observedGeneration:i
ValidatingWebhookConfiguration = ^ webhooks:[Webhook|name]
MutatingWebhookConfiguration = ^ webhooks:[Webhook|name]
Webhook = name:s! clientConfig:WebhookClient rules:[WebhookRule] failurePolicy:*s matchPolicy:*s namespaceSelector:*LabelSelector objectSelector:*LabelSelector
  sideEffects:*s! timeoutSeconds:*i admissionReviewVersions:[s]! reinvocationPolicy:*s matchConditions:[MatchCondition|name]
WebhookRule = operations:[s] apiGroups:[s] apiVersions:[s] resources:[s] scope:*s
MatchCondition = name:s! expression:s!
ValidatingAdmissionPolicy = ^ spec:AdmissionPolicySpec status:AdmissionPolicyStatus
AdmissionPolicySpec = paramKind:*any matchConstraints:@*MatchResources validations:[PolicyValidation] failurePolicy:*s auditAnnotations:[any] matchConditions:[MatchCondition|name] variables:[PolicyVariable|name]
PolicyValidation = expression:s! message:s reason:*s messageExpression:s
PolicyVariable = name:s! expression:s!
MatchResources = namespaceSelector:*LabelSelector objectSelector:*LabelSelector resourceRules:[NamedRule] excludeResourceRules:[NamedRule] matchPolicy:*s
NamedRule = resourceNames:[s] operations:[s] apiGroups:[s] apiVersions:[s] resources:[s] scope:*s
AdmissionPolicyStatus = observedGeneration:i typeChecking:*any conditions:[Condition|type]
ValidatingAdmissionPolicyBinding = ^ spec:AdmissionBindingSpec
AdmissionBindingSpec = policyName:s paramRef:*any matchResources:*MatchResources validationActions:[s|=]
APIService = ^ spec:APIServiceSpec status:APIServiceStatus
APIServiceSpec = service:*AggregatedService group:s version:s insecureSkipTLSVerify:b caBundle:by groupPriorityMinimum:i! versionPriority:i!
AggregatedService = namespace:s name:s port:*i
APIServiceStatus = conditions:[CrdCondition|type]
CertificateSigningRequest = ^ spec:CsrSpec status:CsrStatus
CsrSpec = request:by! signerName:s! expirationSeconds:*i usages:[s] username:s uid:s groups:[s] extra:{[s]}
CsrStatus = conditions:[CsrCondition|type] certificate:by
CsrCondition = type:s! status:s! reason:s message:s lastUpdateTime:t lastTransitionTime:t
StorageClass = ^ provisioner:s! parameters:{s} reclaimPolicy:*s mountOptions:[s] allowVolumeExpansion:*b volumeBindingMode:*s allowedTopologies:[any]
CSIDriver = ^ spec:CSIDriverSpec
CSIDriverSpec = attachRequired:*b podInfoOnMount:*b volumeLifecycleModes:[s|=] storageCapacity:*b fsGroupPolicy:*s tokenRequests:[any] requiresRepublish:*b seLinuxMount:*b
  nodeAllocatableUpdatePeriodSeconds:*i
CSINode = ^ spec:CSINodeSpec
CSINodeSpec = drivers:[any]!
CSIStorageCapacity = ^ nodeTopology:any storageClassName:s! capacity:*q maximumVolumeSize:*q
VolumeAttachment = ^ spec:any status:any
VolumeAttributesClass = ^ driverName:s! parameters:{s}
Ingress = ^ spec:IngressSpec status:IngressStatus
IngressSpec = ingressClassName:*s defaultBackend:*IngressBackend tls:[IngressTLS] rules:[IngressRule]
IngressBackend = service:*IngressServiceBackend resource:@*TypedReference
IngressServiceBackend = name:s! port:ServiceBackendPort
ServiceBackendPort @= name:s number:i
IngressTLS = hosts:[s] secretName:s
IngressRule = host:s http:*HTTPIngressRuleValue
HTTPIngressRuleValue = paths:[HTTPIngressPath]!
HTTPIngressPath = path:s pathType:*s! backend:IngressBackend
IngressStatus = loadBalancer:LoadBalancerStatus
IngressClass = ^ spec:IngressClassSpec
IngressClassSpec = controller:s parameters:*IngressClassParameters
IngressClassParameters = apiGroup:*s kind:s! name:s! scope:*s namespace:*s
NetworkPolicy = ^ spec:NetworkPolicySpec
NetworkPolicySpec = podSelector:@LabelSelector ingress:[NetworkPolicyIngressRule] egress:[NetworkPolicyEgressRule] policyTypes:[s]
NetworkPolicyIngressRule = ports:[NetworkPolicyPort] from:[NetworkPolicyPeer]
NetworkPolicyEgressRule = ports:[NetworkPolicyPort] to:[NetworkPolicyPeer]
NetworkPolicyPort = protocol:*s port:*is endPort:*i
NetworkPolicyPeer = podSelector:@*LabelSelector namespaceSelector:@*LabelSelector ipBlock:*IPBlock
IPBlock = cidr:s! except:[s]
ServiceCIDR = ^ spec:any status:any
IPAddress = ^ spec:any
PriorityClass = ^ value:i! globalDefault:b description:s preemptionPolicy:*s
RuntimeClass = ^ handler:s! overhead:*any scheduling:*any
FlowSchema = ^ spec:any status:any
PriorityLevelConfiguration = ^ spec:any status:any
EventV1 = ^ eventTime:mt! series:*any reportingController:s reportingInstance:s action:s reason:s regarding:@ObjectReference related:*ObjectReference note:s type:s
  deprecatedSource:EventSource deprecatedFirstTimestamp:t! deprecatedLastTimestamp:t! deprecatedCount:i
TokenReview = ^ spec:any status:any
TokenRequest = ^ spec:TokenRequestSpec status:TokenRequestStatus
TokenRequestSpec = audiences:[s]! expirationSeconds:*i! boundObjectRef:*any!
TokenRequestStatus = token:s! expirationTimestamp:t!
SelfSubjectReview = ^ status:SelfSubjectStatus
SelfSubjectStatus = userInfo:UserInfo
UserInfo = username:s uid:s groups:[s] extra:{[s]}
SubjectAccessReview = ^ spec:AccessSpec status:AccessStatus
SelfSubjectAccessReview = ^ spec:AccessSpec status:AccessStatus
LocalSubjectAccessReview = ^ spec:AccessSpec status:AccessStatus
AccessSpec = resourceAttributes:*ResourceAttributes nonResourceAttributes:*NonResourceAttributes user:s groups:[s] extra:{[s]} uid:s
ResourceAttributes = namespace:s verb:s group:s version:s resource:s subresource:s name:s fieldSelector:*any labelSelector:*any
NonResourceAttributes = path:s verb:s
AccessStatus = allowed:b! denied:b reason:s evaluationError:s
SelfSubjectRulesReview = ^ spec:RulesSpec status:RulesStatus
RulesSpec = namespace:s
RulesStatus = resourceRules:[PolicyRule]! nonResourceRules:[PolicyRule]! incomplete:b! evaluationError:s
)";
}

}  // namespace rocca::lab::kube
