#include "lab/kube/schema/schema.hpp"

namespace rocca::lab::kube {

// k8s.io/api v1.34: apps/v1, batch/v1, autoscaling, policy/v1, coordination and discovery.
std::string_view schema_workload_table() {
  return R"(
Deployment = ^ spec:DeploymentSpec status:DeploymentStatus
DeploymentSpec = replicas:*i selector:@*LabelSelector! template:PodTemplateSpec strategy:DeploymentStrategy minReadySeconds:i revisionHistoryLimit:*i
  paused:b progressDeadlineSeconds:*i
DeploymentStrategy = type:s rollingUpdate:*RollingUpdateDeployment
RollingUpdateDeployment = maxUnavailable:*is maxSurge:*is
DeploymentStatus = observedGeneration:i replicas:i updatedReplicas:i readyReplicas:i availableReplicas:i unavailableReplicas:i terminatingReplicas:*i
  conditions:[WorkloadCondition|type] collisionCount:*i
WorkloadCondition = type:s! status:s! lastProbeTime:t lastUpdateTime:t lastTransitionTime:t reason:s message:s
ReplicaSet = ^ spec:ReplicaSetSpec status:ReplicaSetStatus
ReplicaSetSpec = replicas:*i minReadySeconds:i selector:@*LabelSelector! template:PodTemplateSpec
ReplicaSetStatus = replicas:i! fullyLabeledReplicas:i readyReplicas:i availableReplicas:i terminatingReplicas:*i observedGeneration:i conditions:[WorkloadCondition|type]
DaemonSet = ^ spec:DaemonSetSpec status:DaemonSetStatus
DaemonSetSpec = selector:@*LabelSelector! template:PodTemplateSpec updateStrategy:DaemonSetUpdateStrategy minReadySeconds:i revisionHistoryLimit:*i
DaemonSetUpdateStrategy = type:s rollingUpdate:*RollingUpdateDeployment
DaemonSetStatus = currentNumberScheduled:i! numberMisscheduled:i! desiredNumberScheduled:i! numberReady:i! observedGeneration:i updatedNumberScheduled:i
  numberAvailable:i numberUnavailable:i collisionCount:*i conditions:[WorkloadCondition|type]
StatefulSet = ^ spec:StatefulSetSpec status:StatefulSetStatus
StatefulSetSpec = replicas:*i selector:@*LabelSelector! template:PodTemplateSpec volumeClaimTemplates:[PersistentVolumeClaim] serviceName:s! podManagementPolicy:s
  updateStrategy:StatefulSetUpdateStrategy revisionHistoryLimit:*i minReadySeconds:i persistentVolumeClaimRetentionPolicy:*ClaimRetention ordinals:*any
ClaimRetention = whenDeleted:s whenScaled:s
StatefulSetUpdateStrategy = type:s rollingUpdate:*RollingUpdateStatefulSet
RollingUpdateStatefulSet = partition:*i maxUnavailable:*is
StatefulSetStatus = observedGeneration:i replicas:i! readyReplicas:i currentReplicas:i updatedReplicas:i currentRevision:s updateRevision:s collisionCount:*i
  conditions:[WorkloadCondition|type] availableReplicas:i!
ControllerRevision = ^ data:any revision:i!
Scale = ^ spec:ScaleSpec status:ScaleStatus
ScaleSpec = replicas:i
ScaleStatus = replicas:i! selector:s
Job = ^ spec:JobSpec status:JobStatus
JobSpec = parallelism:*i completions:*i activeDeadlineSeconds:*i podFailurePolicy:*any successPolicy:*any backoffLimit:*i backoffLimitPerIndex:*i maxFailedIndexes:*i
  selector:@*LabelSelector manualSelector:*b template:PodTemplateSpec ttlSecondsAfterFinished:*i completionMode:*s suspend:*b podReplacementPolicy:*s managedBy:*s
JobStatus = conditions:[WorkloadCondition] startTime:*t completionTime:*t active:i succeeded:i failed:i terminating:*i completedIndexes:s failedIndexes:*s
  uncountedTerminatedPods:*UncountedPods ready:*i
UncountedPods = succeeded:[s|=] failed:[s|=]
CronJob = ^ spec:CronJobSpec status:CronJobStatus
CronJobSpec = schedule:s! timeZone:*s startingDeadlineSeconds:*i concurrencyPolicy:s suspend:*b jobTemplate:JobTemplateSpec successfulJobsHistoryLimit:*i failedJobsHistoryLimit:*i
JobTemplateSpec = metadata:ObjectMeta spec:JobSpec
CronJobStatus = active:[ObjectReference] lastScheduleTime:*t lastSuccessfulTime:*t
HorizontalPodAutoscaler = ^ spec:any status:any
PodDisruptionBudget = ^ spec:PodDisruptionBudgetSpec status:PodDisruptionBudgetStatus
PodDisruptionBudgetSpec = minAvailable:*is selector:@*LabelSelector maxUnavailable:*is unhealthyPodEvictionPolicy:*s
PodDisruptionBudgetStatus = observedGeneration:i disruptedPods:{t} disruptionsAllowed:i! currentHealthy:i! desiredHealthy:i! expectedPods:i! conditions:[Condition|type]
Eviction = ^ deleteOptions:*DeleteOptions
DeleteOptions = kind:s apiVersion:s gracePeriodSeconds:*i preconditions:*Preconditions orphanDependents:*b propagationPolicy:*s dryRun:[s] ignoreStoreReadErrorWithClusterBreakingPotential:*b
Preconditions = uid:*s resourceVersion:*s
Lease = ^ spec:LeaseSpec
LeaseSpec = holderIdentity:*s leaseDurationSeconds:*i acquireTime:*mt renewTime:*mt leaseTransitions:*i strategy:*s preferredHolder:*s
EndpointSlice = ^ addressType:s! endpoints:[Endpoint]! ports:[EndpointPort]!
Endpoint = addresses:[s]! conditions:EndpointConditions hostname:*s targetRef:*ObjectReference deprecatedTopology:{s} nodeName:*s zone:*s hints:*any
EndpointConditions = ready:*b serving:*b terminating:*b
EndpointPort = name:*s protocol:*s port:*i appProtocol:*s
)";
}

}  // namespace rocca::lab::kube
