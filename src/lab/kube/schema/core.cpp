#include "lab/kube/schema/schema.hpp"

namespace rocca::lab::kube {

// Field names, order and list kinds of k8s.io/api v1.34 (core/v1 and meta/v1).
std::string_view schema_core_table() {
  return R"(
ObjectMeta = name:s generateName:s namespace:s selfLink:s uid:s resourceVersion:s generation:i
  creationTimestamp:t deletionTimestamp:*t deletionGracePeriodSeconds:*i labels:{s} annotations:{s}
  ownerReferences:[OwnerReference|uid] finalizers:[s|=] managedFields:[any]
OwnerReference @= apiVersion:s! kind:s! name:s! uid:s! controller:*b blockOwnerDeletion:*b
LabelSelector @= matchLabels:{s} matchExpressions:[SelectorRequirement]
SelectorRequirement = key:s! operator:s! values:[s]
Condition = type:s! status:s! observedGeneration:i lastTransitionTime:t! reason:s! message:s!
OldCondition = type:s! status:s! lastHeartbeatTime:t lastProbeTime:t lastUpdateTime:t lastTransitionTime:t reason:s message:s
LocalObjectReference @= name:s
ObjectReference @= kind:s namespace:s name:s uid:s apiVersion:s resourceVersion:s fieldPath:s
TypedReference @= apiGroup:*s kind:s! name:s! namespace:*s
SecretReference @= name:s namespace:s
ConfigMap = ^ immutable:*b data:{s} binaryData:{by}
Secret = ^ immutable:*b data:{by} stringData:{s} type:s
Namespace = ^ spec:NamespaceSpec status:NamespaceStatus
NamespaceSpec = finalizers:[s]
NamespaceStatus = phase:s conditions:[OldCondition|type]
ServiceAccount = ^ secrets:[ObjectReference|name] imagePullSecrets:[LocalObjectReference] automountServiceAccountToken:*b
Node = ^ spec:NodeSpec status:NodeStatus
NodeSpec = podCIDR:s podCIDRs:[s|=] providerID:s unschedulable:b taints:[Taint] configSource:*any externalID:s
Taint = key:s! value:s effect:s! timeAdded:*t
NodeStatus = capacity:{q} allocatable:{q} phase:s conditions:[OldCondition|type] addresses:[NodeAddress|type]
  daemonEndpoints:DaemonEndpoints nodeInfo:NodeSystemInfo images:[ContainerImage] volumesInUse:[s] volumesAttached:[any] config:*any
  runtimeHandlers:[any] features:*any
NodeAddress = type:s! address:s!
DaemonEndpoints = kubeletEndpoint:DaemonEndpoint
DaemonEndpoint = Port:i!
NodeSystemInfo = machineID:s! systemUUID:s! bootID:s! kernelVersion:s! osImage:s! containerRuntimeVersion:s!
  kubeletVersion:s! kubeProxyVersion:s! operatingSystem:s! architecture:s! swap:*any
ContainerImage = names:[s] sizeBytes:i
Event = ^ involvedObject:@ObjectReference reason:s message:s source:EventSource firstTimestamp:t! lastTimestamp:t! count:i type:s
  eventTime:mt! series:*EventSeries action:s related:*ObjectReference reportingComponent:s! reportingInstance:s!
EventSource = component:s host:s
EventSeries = count:i lastObservedTime:mt
Service = ^ spec:ServiceSpec status:ServiceStatus
ServiceSpec = ports:[ServicePort|port,protocol=TCP] selector:@{s} clusterIP:s clusterIPs:[s] type:s externalIPs:[s] sessionAffinity:s
  loadBalancerIP:s loadBalancerSourceRanges:[s] externalName:s externalTrafficPolicy:s healthCheckNodePort:i publishNotReadyAddresses:b
  sessionAffinityConfig:*any ipFamilies:[s] ipFamilyPolicy:*s allocateLoadBalancerNodePorts:*b loadBalancerClass:*s internalTrafficPolicy:*s trafficDistribution:*s
ServicePort = name:s protocol:s appProtocol:*s port:i! targetPort:is nodePort:i
ServiceStatus = loadBalancer:LoadBalancerStatus conditions:[Condition|type]
LoadBalancerStatus = ingress:[LoadBalancerIngress]
LoadBalancerIngress = ip:s hostname:s ipMode:*s ports:[any]
Endpoints = ^ subsets:[any]
PersistentVolumeClaim = ^ spec:PersistentVolumeClaimSpec status:PersistentVolumeClaimStatus
PersistentVolumeClaimSpec = accessModes:[s] selector:@*LabelSelector resources:VolumeResources volumeName:s storageClassName:*s volumeMode:*s
  dataSource:*TypedReference dataSourceRef:*TypedReference volumeAttributesClassName:*s
VolumeResources = limits:{q} requests:{q}
PersistentVolumeClaimStatus = phase:s accessModes:[s] capacity:{q} conditions:[OldCondition|type]
PersistentVolume = ^ spec:PersistentVolumeSpec status:PersistentVolumeStatus
PersistentVolumeSpec = capacity:{q} accessModes:[s] claimRef:@*ObjectReference persistentVolumeReclaimPolicy:s storageClassName:s mountOptions:[s] volumeMode:*s
  nodeAffinity:*any csi:*any hostPath:*any nfs:*any local:*any iscsi:*any rbd:*any cephfs:*any fc:*any
PersistentVolumeStatus = phase:s message:s reason:s
ResourceQuota = ^ spec:ResourceQuotaSpec status:ResourceQuotaStatus
ResourceQuotaSpec = hard:{q} scopes:[s] scopeSelector:@*any
ResourceQuotaStatus = hard:{q} used:{q}
LimitRange = ^ spec:LimitRangeSpec
LimitRangeSpec = limits:[any]!
PodTemplateObject = ^ template:PodTemplateSpec
ReplicationController = ^ spec:any status:any
ComponentStatus = ^ conditions:[any]
Binding = ^ target:ObjectReference!
Pod = ^ spec:PodSpec status:PodStatus
PodTemplateSpec = metadata:ObjectMeta spec:PodSpec
PodSpec = volumes:[Volume|name] initContainers:[Container|name] containers:[Container|name]! ephemeralContainers:[Container|name] restartPolicy:s
  terminationGracePeriodSeconds:*i activeDeadlineSeconds:*i dnsPolicy:s nodeSelector:@{s} serviceAccountName:s serviceAccount:s
  automountServiceAccountToken:*b nodeName:s hostNetwork:b hostPID:b hostIPC:b shareProcessNamespace:*b securityContext:*PodSecurityContext
  imagePullSecrets:[LocalObjectReference|name] hostname:s subdomain:s affinity:*Affinity schedulerName:s tolerations:[Toleration]
  hostAliases:[HostAlias|ip] priorityClassName:s priority:*i dnsConfig:*PodDNSConfig readinessGates:[any] runtimeClassName:*s
  enableServiceLinks:*b preemptionPolicy:*s overhead:{q} topologySpreadConstraints:[TopologySpreadConstraint|topologyKey,whenUnsatisfiable]
  setHostnameAsFQDN:*b os:*any hostUsers:*b schedulingGates:[any] resourceClaims:[any] resources:*ResourceRequirements hostnameOverride:*s
HostAlias = ip:s! hostnames:[s]
PodDNSConfig = nameservers:[s] searches:[s] options:[any]
TopologySpreadConstraint = maxSkew:i! topologyKey:s! whenUnsatisfiable:s! labelSelector:@*LabelSelector minDomains:*i nodeAffinityPolicy:*s nodeTaintsPolicy:*s matchLabelKeys:[s]
Toleration = key:s operator:s value:s effect:s tolerationSeconds:*i
Affinity = nodeAffinity:*NodeAffinity podAffinity:*PodAffinity podAntiAffinity:*PodAffinity
NodeAffinity = requiredDuringSchedulingIgnoredDuringExecution:@*any preferredDuringSchedulingIgnoredDuringExecution:[any]
PodAffinity = requiredDuringSchedulingIgnoredDuringExecution:[any] preferredDuringSchedulingIgnoredDuringExecution:[any]
PodSecurityContext = seLinuxOptions:*any windowsOptions:*any runAsUser:*i runAsGroup:*i runAsNonRoot:*b supplementalGroups:[i] supplementalGroupsPolicy:*s
  fsGroup:*i sysctls:[any] fsGroupChangePolicy:*s seccompProfile:*SeccompProfile appArmorProfile:*any seLinuxChangePolicy:*s
SeccompProfile = type:s! localhostProfile:*s
Container = name:s! image:s command:[s] args:[s] workingDir:s ports:[ContainerPort|containerPort,protocol=TCP] envFrom:[EnvFromSource] env:[EnvVar|name]
  resources:ResourceRequirements resizePolicy:[any] restartPolicy:*s restartPolicyRules:[any] volumeMounts:[VolumeMount|mountPath] volumeDevices:[VolumeDevice|devicePath]
  livenessProbe:*Probe readinessProbe:*Probe startupProbe:*Probe lifecycle:*Lifecycle terminationMessagePath:s terminationMessagePolicy:s imagePullPolicy:s
  securityContext:*SecurityContext stdin:b stdinOnce:b tty:b targetContainerName:s
ContainerPort = name:s hostPort:i containerPort:i! protocol:s hostIP:s
EnvFromSource = prefix:s configMapRef:*OptionalReference secretRef:*OptionalReference
OptionalReference = name:s optional:*b
EnvVar = name:s! value:s valueFrom:*EnvVarSource
EnvVarSource = fieldRef:@*FieldSelector resourceFieldRef:@*any configMapKeyRef:@*KeySelector secretKeyRef:@*KeySelector fileKeyRef:@*any
FieldSelector = apiVersion:s fieldPath:s!
KeySelector = name:s key:s! optional:*b
ResourceRequirements = limits:{q} requests:{q} claims:[any]
VolumeMount = name:s! readOnly:b recursiveReadOnly:*s mountPath:s! subPath:s mountPropagation:*s subPathExpr:s
VolumeDevice = name:s! devicePath:s!
Probe = exec:*ExecAction httpGet:*HTTPGetAction tcpSocket:*TCPSocketAction grpc:*any initialDelaySeconds:i timeoutSeconds:i periodSeconds:i successThreshold:i
  failureThreshold:i terminationGracePeriodSeconds:*i
ExecAction = command:[s]
HTTPGetAction = path:s port:is! host:s scheme:s httpHeaders:[any]
TCPSocketAction = port:is! host:s
Lifecycle = postStart:*any preStop:*any stopSignal:*s
SecurityContext = capabilities:*Capabilities privileged:*b seLinuxOptions:*any windowsOptions:*any runAsUser:*i runAsGroup:*i runAsNonRoot:*b
  readOnlyRootFilesystem:*b allowPrivilegeEscalation:*b procMount:*s seccompProfile:*SeccompProfile appArmorProfile:*any
Capabilities = add:[s] drop:[s]
Volume = name:s! hostPath:*HostPath emptyDir:*EmptyDir gcePersistentDisk:*any awsElasticBlockStore:*any gitRepo:*any secret:*SecretVolume nfs:*any iscsi:*any
  glusterfs:*any persistentVolumeClaim:*ClaimVolume rbd:*any flexVolume:*any cinder:*any cephfs:*any flocker:*any downwardAPI:*any fc:*any azureFile:*any
  configMap:*ConfigMapVolume vsphereVolume:*any quobyte:*any azureDisk:*any photonPersistentDisk:*any projected:*ProjectedVolume portworxVolume:*any
  scaleIO:*any storageos:*any csi:*any ephemeral:*any image:*any
HostPath = path:s! type:*s
EmptyDir = medium:s sizeLimit:*q
SecretVolume = secretName:s items:[any] defaultMode:*i optional:*b
ClaimVolume = claimName:s! readOnly:b
ConfigMapVolume = name:s items:[any] defaultMode:*i optional:*b
ProjectedVolume = sources:[any]! defaultMode:*i
PodStatus = observedGeneration:i phase:s conditions:[PodCondition|type] message:s reason:s nominatedNodeName:s hostIP:s hostIPs:[IP] podIP:s podIPs:[IP|ip]
  startTime:*t initContainerStatuses:[ContainerStatus] containerStatuses:[ContainerStatus] qosClass:s ephemeralContainerStatuses:[ContainerStatus] resize:s resourceClaimStatuses:[any]
PodCondition = type:s! observedGeneration:i status:s! lastProbeTime:t! lastTransitionTime:t! reason:s message:s
IP = ip:s!
ContainerStatus = name:s! state:ContainerState lastState:ContainerState ready:b! restartCount:i! image:s! imageID:s! containerID:s started:*b
  allocatedResources:{q} resources:*ResourceRequirements volumeMounts:[any] user:*any allocatedResourcesStatus:[any] stopSignal:*s
ContainerState = waiting:*ContainerWaiting running:*ContainerRunning terminated:*ContainerTerminated
ContainerWaiting = reason:s message:s
ContainerRunning = startedAt:t!
ContainerTerminated = exitCode:i! signal:i reason:s message:s startedAt:t finishedAt:t containerID:s
)";
}

}  // namespace rocca::lab::kube
