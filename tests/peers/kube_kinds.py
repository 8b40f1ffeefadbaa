"""The kinds that rocca, Flux and the External Secrets Operator send to the Kubernetes API: for each kind why it is here,
valid objects, and changes of single fields, right and wrong ones. kube_requests.py makes random requests of them."""

import copy

DELETE = object()  # a change that removes a field


class Kind:
    """One kind. `make(chance, name)` returns a valid object without metadata; `edits` is a list of (path, values)."""

    def __init__(self, path, kind, make, edits, why, namespaced=True, subresources=(), status=(), weight=1, verbs=None):
        self.prefix, self.plural = path.rsplit("/", 1)
        self.kind, self.make, self.edits, self.why = kind, make, edits, why
        self.namespaced, self.subresources, self.status, self.weight = namespaced, subresources, status, weight
        self.verbs = verbs or ("create", "get", "list", "update", "patch", "apply", "delete", "deletecollection", "watch")

    @property
    def api_version(self):
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")

    def collection(self, namespace):
        return f"{self.prefix}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{self.prefix}/{self.plural}"

    def object(self, chance, name, namespace, case):
        metadata = {"name": name, "labels": {"case": case}}
        if self.namespaced and chance.random() < 0.5:
            metadata["namespace"] = namespace
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **copy.deepcopy(self.make(chance, name))}


METADATA_EDITS = [
    (("metadata", "labels", "tier"), ["web", "db", "", "not valid!", "x" * 64, 7]),
    (("metadata", "labels", "rocca.dev/x"), ["1", "-bad"]),
    (("metadata", "labels", "bad key"), ["1"]),
    (("metadata", "labels", "/bad"), ["1"]),
    (("metadata", "annotations", "note"), ["text", "other text", 5, "a\nb"]),
    (("metadata", "annotations", "Wrong Key"), ["1"]),
    (("metadata", "annotations", "rocca.dev/hash"), ["abc", "def"]),
    (("metadata", "finalizers"), [["lab.rocca.dev/hold"], ["nope"], ["a b/c"], [], ["lab.rocca.dev/hold", "lab.rocca.dev/two"]]),
    (("metadata", "ownerReferences"), [
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "11111111-2222-4333-8444-555555555555"}],
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": ""}],
        [{"apiVersion": "", "kind": "", "name": "owner", "uid": "11111111-2222-4333-8444-555555555555"}], []]),
    (("metadata", "labels"), [DELETE, {}, {"only": "this"}, "text", None]),
    (("metadata", "annotations"), [DELETE, {}, None, {"only": "this"}]),
    (("metadata", "generateName"), ["gen-"]),
    (("metadata", "uid"), ["11111111-2222-4333-8444-555555555555"]),
    (("metadata", "generation"), [9]),
    (("metadata", "creationTimestamp"), ["2001-01-01T00:00:00Z", "not a time"]),
    (("metadata", "deletionTimestamp"), ["2001-01-01T00:00:00Z"]),
    (("metadata", "unknownField"), ["x"]),
    (("unknownField",), ["x", {"a": 1}]),
]

# ------------------------------------------------------------------------------------------------ pods and templates

CONTAINER = {"name": "main", "image": "registry.home/app:1.0"}


def pod_spec(chance):
    container = dict(CONTAINER)
    if chance.random() < 0.4:
        container["ports"] = [{"containerPort": chance.choice([80, 8080]), "name": "http"}]
    if chance.random() < 0.3:
        container["env"] = [{"name": "MODE", "value": "fast"}, {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    if chance.random() < 0.3:
        container["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
    if chance.random() < 0.3:
        container["readinessProbe"] = {"httpGet": {"path": "/ready", "port": 8080}}
    if chance.random() < 0.2:
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    spec = {"containers": [container]}
    if chance.random() < 0.3:
        spec["volumes"] = [{"name": "tmp", "emptyDir": {}}]
        container["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]
    if chance.random() < 0.2:
        spec["serviceAccountName"] = "default"
    if chance.random() < 0.2:
        spec["tolerations"] = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}]
    if chance.random() < 0.2:
        spec["nodeSelector"] = {"kubernetes.io/os": "linux"}
    return spec


def pod_spec_edits(*at):
    first = (*at, "containers", 0)
    return [
        ((*first, "image"), ["registry.home/app:2.0", "registry.home/app", "", " app", DELETE, "registry.home/app@sha256:" + "0" * 64]),
        ((*first, "name"), ["Bad_Name", "", "other"]),
        ((*first, "imagePullPolicy"), ["Never", "Always", "Sometimes"]),
        ((*first, "ports"), [[{"containerPort": 0}], [{"containerPort": 70000}], [{"containerPort": 80, "protocol": "TCPX"}],
                             [{"containerPort": 80, "name": "UPPER"}], [{"containerPort": 443, "protocol": "UDP", "name": "dns"}], DELETE,
                             [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]]),
        ((*first, "env"), [[{"name": "A", "value": "1"}], [{"name": "", "value": "1"}], [{"name": "A=B", "value": "1"}],
                           [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                           [{"name": "S", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                           [{"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}], DELETE]),
        ((*first, "resources"), [{"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, {"limits": {"cpu": "1", "memory": "1Gi"}},
                                 {"requests": {"cpu": "lots"}}, {"requests": {"memory": "-1"}}, {"requests": {"cpu": "0.5", "memory": "1024Mi"}}, {}]),
        ((*first, "command"), [["sh", "-c", "true"], DELETE, "sh"]),
        ((*first, "volumeMounts"), [[{"name": "nope", "mountPath": "/x"}], DELETE]),
        ((*first, "livenessProbe"), [{"tcpSocket": {"port": 80}}, {"httpGet": {"port": "http"}, "periodSeconds": -1}, {"exec": {"command": ["true"]}},
                                     {}, {"httpGet": {"path": "/", "port": 0}}, DELETE]),
        ((*first, "securityContext"), [{"runAsUser": 1000}, {"privileged": True}, {"runAsUser": -5}, {}]),
        ((*first, "restartPolicy"), ["Always"]),
        ((*first, "nonsense"), ["x"]),
        ((*at, "containers"), [[], DELETE, [CONTAINER, CONTAINER], [CONTAINER, {"name": "side", "image": "side:1"}], {}, [{"image": "no-name"}]]),
        ((*at, "initContainers"), [[{"name": "init", "image": "init:1"}], [{"name": "main", "image": "init:1"}]]),
        ((*at, "restartPolicy"), ["Always", "Never", "OnFailure", "Perhaps"]),
        ((*at, "dnsPolicy"), ["Default", "ClusterFirstWithHostNet", "Wrong", "None"]),
        ((*at, "terminationGracePeriodSeconds"), [0, 5, -1, "5"]),
        ((*at, "serviceAccountName"), ["default", "not-there", "Bad_Name"]),
        ((*at, "nodeName"), ["worker-1", "Bad Node"]),
        ((*at, "hostNetwork"), [True, "yes"]),
        ((*at, "nodeSelector"), [{"disk": "ssd"}, {"bad key": "x"}, DELETE]),
        ((*at, "priorityClassName"), ["system-cluster-critical", "not-there"]),
        ((*at, "tolerations"), [[{"operator": "Exists"}], [{"key": "a", "operator": "Perhaps"}], [{"key": "a", "operator": "Exists", "value": "b"}],
                                [{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 30}], []]),
        ((*at, "volumes"), [[{"name": "c", "configMap": {"name": "cm"}}], [{"name": "s", "secret": {"secretName": "s"}}], [{"name": "BAD", "emptyDir": {}}],
                            [{"name": "d"}], [{"name": "h", "hostPath": {"path": "/data"}}], [{"name": "two", "emptyDir": {}, "hostPath": {"path": "/x"}}],
                            [{"name": "p", "persistentVolumeClaim": {"claimName": "claim"}}], [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]]),
        ((*at, "securityContext"), [{"runAsNonRoot": True, "fsGroup": 2000}, {"seccompProfile": {"type": "RuntimeDefault"}}, {"fsGroup": -1}]),
        ((*at, "activeDeadlineSeconds"), [60, 0]),
        ((*at, "hostname"), ["box", "Bad_Host"]),
        ((*at, "imagePullSecrets"), [[{"name": "pull"}]]),
        ((*at, "affinity"), [{"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}}]}},
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}}]),
        ((*at, "automountServiceAccountToken"), [False]),
    ]


def template(chance, name):
    return {"metadata": {"labels": {"app": name}}, "spec": pod_spec(chance)}


def template_edits():
    return pod_spec_edits("spec", "template", "spec") + [
        (("spec", "template", "metadata", "labels"), [{"app": "another"}, DELETE, {"bad key": "x"}]),
        (("spec", "template", "metadata", "annotations", "restarted"), ["now", "later"]),
        (("spec", "selector"), [DELETE, {}, {"matchLabels": {"other": "x"}}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                                {"matchExpressions": [{"key": "app", "operator": "Is"}]}, {"matchLabels": {"bad key": "x"}}]),
    ]


def pod(chance, name):
    return {"spec": pod_spec(chance)}


def deployment(chance, name):
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template(chance, name)}
    if chance.random() < 0.6:
        spec["replicas"] = chance.choice([0, 1, 2, 3])
    if chance.random() < 0.2:
        spec["strategy"] = {"type": "Recreate"}
    return {"spec": spec}


def daemon_set(chance, name):
    return {"spec": {"selector": {"matchLabels": {"app": name}}, "template": template(chance, name)}}


def stateful_set(chance, name):
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template(chance, name), "serviceName": name}
    if chance.random() < 0.5:
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]
    return {"spec": spec}


def replica_set(chance, name):
    return {"spec": {"replicas": chance.choice([0, 1, 2]), "selector": {"matchLabels": {"app": name}}, "template": template(chance, name)}}


def job(chance, name):
    spec = {"containers": [CONTAINER], "restartPolicy": chance.choice(["Never", "OnFailure"])}
    body = {"template": {"spec": spec}}
    if chance.random() < 0.5:
        body["backoffLimit"] = chance.choice([0, 3])
    if chance.random() < 0.3:
        body["template"]["metadata"] = {"labels": {"app": name}}
    return {"spec": body}


def cron_job(chance, name):
    return {"spec": {"schedule": chance.choice(["*/5 * * * *", "@hourly"]), "jobTemplate": {"spec": {
        "template": {"spec": {"containers": [CONTAINER], "restartPolicy": "OnFailure"}}}}}}


WORKLOAD_EDITS = template_edits() + [
    (("spec", "replicas"), [0, 1, 5, -1, "3", DELETE]),
    (("spec", "minReadySeconds"), [5, -1]),
    (("spec", "revisionHistoryLimit"), [2, -1]),
    (("spec", "nonsense"), [1]),
]
DEPLOYMENT_EDITS = WORKLOAD_EDITS + [
    (("spec", "strategy"), [{"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
                            {"type": "Sideways"}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%"}},
                            {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}, {"rollingUpdate": {"maxUnavailable": "x"}}]),
    (("spec", "paused"), [True, False]),
    (("spec", "progressDeadlineSeconds"), [100, 0, -1]),
]
DAEMON_EDITS = template_edits() + [
    (("spec", "updateStrategy"), [{"type": "OnDelete"}, {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}, {"type": "Never"},
                                  {"rollingUpdate": {"maxUnavailable": 0}}]),
    (("spec", "minReadySeconds"), [5, -1]),
    (("spec", "revisionHistoryLimit"), [2, -1]),
]
STATEFUL_EDITS = WORKLOAD_EDITS + [
    (("spec", "serviceName"), ["other", DELETE]),
    (("spec", "podManagementPolicy"), ["Parallel", "Random"]),
    (("spec", "updateStrategy"), [{"type": "OnDelete"}, {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}, {"type": "Never"}]),
    (("spec", "volumeClaimTemplates"), [DELETE]),
]
JOB_EDITS = pod_spec_edits("spec", "template", "spec") + [
    (("spec", "parallelism"), [2, 0, -1]),
    (("spec", "completions"), [2, -1]),
    (("spec", "backoffLimit"), [1, -1]),
    (("spec", "suspend"), [True, False]),
    (("spec", "ttlSecondsAfterFinished"), [100, -1]),
    (("spec", "activeDeadlineSeconds"), [60, -1]),
    (("spec", "completionMode"), ["Indexed", "Wrong"]),
    (("spec", "selector"), [{"matchLabels": {"a": "b"}}]),
]
CRON_EDITS = [
    (("spec", "schedule"), ["0 * * * *", "whenever", "", "TZ=UTC 0 * * * *"]),
    (("spec", "suspend"), [True]),
    (("spec", "concurrencyPolicy"), ["Forbid", "Maybe"]),
    (("spec", "successfulJobsHistoryLimit"), [0, -1]),
    (("spec", "startingDeadlineSeconds"), [100, -1]),
    (("spec", "timeZone"), ["Etc/UTC", "Nowhere/Land"]),
    (("spec", "jobTemplate", "spec", "template", "spec", "restartPolicy"), ["Always", "Never"]),
    (("spec", "jobTemplate", "spec", "template", "spec", "containers", 0, "image"), ["app:2", ""]),
]

# ------------------------------------------------------------------------------------------------ configuration


def config_map(chance, name):
    return {"data": {"a": "1", "b": "two"}} if chance.random() < 0.8 else {}


def secret(chance, name):
    return chance.choice([
        {"data": {"token": "c2VjcmV0"}}, {"stringData": {"password": "p"}}, {"data": {}, "type": "Opaque"},
        {"type": "kubernetes.io/tls", "data": {"tls.crt": "Y2VydA==", "tls.key": "a2V5"}},
        {"type": "kubernetes.io/basic-auth", "stringData": {"username": "git", "password": "p"}},
        {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": '{"auths":{}}'}},
        {"type": "example.org/own", "stringData": {"a": "b"}}])


CONFIG_EDITS = [
    (("data", "a"), ["1", "2", "", 5, True, DELETE, None]),
    (("data", "c"), ["three"]),
    (("data", "bad key!"), ["x"]),
    (("data", ".."), ["x"]),
    (("data",), [DELETE, {}, None, "text", {"only": "this"}]),
    (("binaryData", "z"), ["aGVsbG8=", "not base64!"]),
    (("binaryData", "a"), ["aGVsbG8="]),
    (("immutable",), [True, False, "yes", DELETE]),
]
SECRET_EDITS = [
    (("data", "token"), ["bmV3", "not base64!", "", DELETE, 4]),
    (("data", "bad key!"), ["eA=="]),
    (("stringData", "token"), ["new", 4]),
    (("stringData", "other"), ["text"]),
    (("data",), [DELETE, {}]),
    (("type",), ["Opaque", "kubernetes.io/tls", "kubernetes.io/basic-auth", "kubernetes.io/ssh-auth", "kubernetes.io/dockerconfigjson",
                 "kubernetes.io/service-account-token", "example.org/own"]),
    (("immutable",), [True, False]),
]


def service_account(chance, name):
    return {"automountServiceAccountToken": False} if chance.random() < 0.3 else {}


ACCOUNT_EDITS = [
    (("automountServiceAccountToken",), [True, False, "no"]),
    (("imagePullSecrets",), [[{"name": "pull"}], [], DELETE]),
    (("secrets",), [[{"name": "token"}], DELETE]),
]


def service(chance, name):
    spec = {"selector": {"app": name}, "ports": [{"port": chance.choice([80, 443]), "targetPort": chance.choice([8080, "http"])}]}
    if chance.random() < 0.2:
        spec["clusterIP"] = "None"
    elif chance.random() < 0.3:
        spec["type"] = chance.choice(["NodePort", "LoadBalancer", "ClusterIP"])
    if chance.random() < 0.1:
        return {"spec": {"type": "ExternalName", "externalName": "host.example.org"}}
    if chance.random() < 0.3:
        spec["ports"] = [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    return {"spec": spec}


SERVICE_EDITS = [
    (("spec", "ports"), [[], [{"port": 0}], [{"port": 70000}], [{"port": 80}, {"port": 81}], [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}],
                         [{"port": 80, "name": "UPPER"}], [{"port": 80, "protocol": "ICMP"}], [{"port": 8443, "name": "https", "targetPort": "https"}],
                         [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}], [{"port": 80, "targetPort": 70000}], [{"port": "80"}], DELETE,
                         [{"port": 80, "nodePort": 12}], [{"port": 80, "appProtocol": "http"}]]),
    (("spec", "selector"), [{"app": "other"}, DELETE, {}, {"bad key": "x"}, {"app": "bad value!"}]),
    (("spec", "type"), ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "Wrong"]),
    (("spec", "clusterIP"), ["None", "8.8.8.8", "not-an-ip", ""]),
    (("spec", "sessionAffinity"), ["ClientIP", "None", "Wrong"]),
    (("spec", "externalName"), ["host.example.org", "Bad_Name"]),
    (("spec", "externalTrafficPolicy"), ["Local", "Cluster", "Wrong"]),
    (("spec", "internalTrafficPolicy"), ["Local", "Wrong"]),
    (("spec", "publishNotReadyAddresses"), [True]),
    (("spec", "loadBalancerIP"), ["10.0.0.50"]),
    (("spec", "loadBalancerSourceRanges"), [["10.0.0.0/8"], ["nonsense"]]),
    (("spec", "externalIPs"), [["10.1.1.1"], ["127.0.0.1"], ["x"]]),
    (("spec", "ipFamilyPolicy"), ["SingleStack", "PreferDualStack", "RequireDualStack"]),
    (("spec", "ipFamilies"), [["IPv4"], ["IPv6"], ["IPv5"]]),
    (("spec", "loadBalancerClass"), ["rocca.dev/lb"]),
    (("spec", "allocateLoadBalancerNodePorts"), [False]),
    (("spec",), [DELETE]),
]

# ------------------------------------------------------------------------------------------------ coordination


def lease(chance, name):
    spec = {"holderIdentity": "ann", "leaseDurationSeconds": 60, "acquireTime": "2001-01-01T00:00:00.000000Z",
            "renewTime": "2001-01-01T00:00:00.000000Z", "leaseTransitions": 1}
    return {"spec": {k: v for k, v in spec.items() if chance.random() < 0.8}}


LEASE_EDITS = [
    (("spec", "holderIdentity"), ["bob", "", DELETE]),
    (("spec", "leaseDurationSeconds"), [15, 0, -1, "60"]),
    (("spec", "renewTime"), ["2001-01-01T00:00:05.000000Z", "2001-01-01T00:00:05Z", "2001-01-01T00:00:05.123Z", "soon"]),
    (("spec", "leaseTransitions"), [2, -1]),
    (("spec", "strategy"), ["OldestEmulationVersion"]),
    (("spec", "preferredHolder"), ["carl"]),
]


def event(chance, name):
    return {"involvedObject": {"kind": "ConfigMap", "apiVersion": "v1", "name": "cm", "namespace": "NAMESPACE"}, "reason": "Synced",
            "message": "it is synced", "type": chance.choice(["Normal", "Warning"]), "source": {"component": "rocca"},
            "firstTimestamp": "2001-01-01T00:00:00Z", "lastTimestamp": "2001-01-01T00:00:00Z", "count": 1}


EVENT_EDITS = [
    (("message",), ["another text", ""]),
    (("reason",), ["Failed", ""]),
    (("type",), ["Warning", "Loud"]),
    (("count",), [2, "2"]),
    (("lastTimestamp",), ["2001-01-01T00:00:09Z", "never"]),
    (("involvedObject", "namespace"), ["elsewhere", ""]),
    (("involvedObject", "name"), ["other"]),
    (("reportingComponent",), ["rocca.dev/engine"]),
    (("eventTime",), ["2001-01-01T00:00:00.000000Z"]),
    (("action",), ["Sync"]),
]


def budget(chance, name):
    return {"spec": {"selector": {"matchLabels": {"app": name}}, **chance.choice([{"minAvailable": 1}, {"maxUnavailable": 0}, {"maxUnavailable": "50%"}, {}])}}


BUDGET_EDITS = [
    (("spec", "minAvailable"), [0, 2, "50%", "x", -1, DELETE, "150%"]),
    (("spec", "maxUnavailable"), [1, "20%", "y%", -1, DELETE]),
    (("spec", "selector"), [{"matchLabels": {"other": "x"}}, DELETE, {}, {"matchExpressions": [{"key": "a", "operator": "In"}]}]),
    (("spec", "unhealthyPodEvictionPolicy"), ["AlwaysAllow", "IfHealthyBudget", "Wrong"]),
]


def endpoint_slice(chance, name):
    return {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": 443, "protocol": "TCP"}]}


SLICE_EDITS = [
    (("addressType",), ["IPv6", "FQDN", "Wrong", DELETE]),
    (("endpoints", 0, "addresses"), [["10.1.2.4"], [], ["nonsense"], ["127.0.0.1"], ["10.1.2.4", "10.1.2.5"], ["169.254.1.1"]]),
    (("endpoints", 0, "conditions"), [{"ready": False}, {}, {"ready": True, "serving": True, "terminating": False}]),
    (("endpoints", 0, "hostname"), ["box", "Bad_Name"]),
    (("endpoints", 0, "nodeName"), ["worker-1", "Bad Node"]),
    (("endpoints",), [[], DELETE]),
    (("ports",), [[], DELETE, [{"port": 0, "name": "x"}], [{"port": 80, "protocol": "XTP"}], [{"port": 80, "name": "UPPER"}],
                  [{"port": 80}, {"port": 81}], [{"name": "no-port"}]]),
]

# ------------------------------------------------------------------------------------------------ cluster-wide kinds


def namespace(chance, name):
    return {}


NAMESPACE_EDITS = [
    (("spec", "finalizers"), [["kubernetes"], ["lab.rocca.dev/x"], []]),
    (("metadata", "labels", "kubernetes.io/metadata.name"), ["other"]),
    (("status", "phase"), ["Terminating", "Active"]),
]


def node(chance, name):
    body = {}
    if chance.random() < 0.5:
        body["spec"] = {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]}
    if chance.random() < 0.5:
        body["status"] = {"capacity": {"cpu": "4", "memory": "8Gi"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.21"}]}
    return body


NODE_EDITS = [
    (("spec", "unschedulable"), [True, False, "yes", DELETE]),
    (("spec", "taints"), [[{"key": "a", "effect": "NoSchedule"}], [{"key": "a", "effect": "Wrong"}], [{"key": "", "effect": "NoSchedule"}],
                          [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}], [], DELETE,
                          [{"key": "bad key", "effect": "NoSchedule"}], [{"key": "a", "value": "bad value!", "effect": "NoExecute"}]]),
    (("spec", "providerID"), ["proxmox://blue/100", "proxmox://blue/101"]),
    (("spec", "podCIDR"), ["10.244.9.0/24", "nonsense"]),
    (("metadata", "labels", "node-role.kubernetes.io/control-plane"), ["", "yes"]),
]


def cluster_role(chance, name):
    return {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}] if chance.random() < 0.8 else []}


RULE_EDITS = [
    (("rules",), [[], DELETE, [{"apiGroups": [""], "resources": ["pods"], "verbs": []}], [{"apiGroups": [""], "resources": [], "verbs": ["get"]}],
                  [{"resources": ["pods"], "verbs": ["get"]}], [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}],
                  [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}], "text",
                  [{"nonResourceURLs": ["/healthz"], "resources": ["pods"], "apiGroups": [""], "verbs": ["get"]}],
                  [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get"]}], None]),
    (("aggregationRule",), [{"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}, {"clusterRoleSelectors": []}]),
]


def cluster_role_binding(chance, name):
    return {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [chance.choice([{"kind": "User", "name": "ann"}, {"kind": "Group", "name": "team"},
                                        {"kind": "ServiceAccount", "name": "default", "namespace": "NAMESPACE"}])]}


BINDING_EDITS = [
    (("subjects",), [[], DELETE, [{"kind": "User", "name": "bob"}], [{"kind": "Robot", "name": "x"}], [{"kind": "ServiceAccount", "name": "x"}],
                     [{"kind": "User", "name": ""}], [{"kind": "Group", "apiGroup": "wrong", "name": "x"}],
                     [{"kind": "ServiceAccount", "name": "Bad Name", "namespace": "default"}]]),
    (("roleRef", "name"), ["edit", "", DELETE]),
    (("roleRef", "kind"), ["Role", "Wrong"]),
    (("roleRef", "apiGroup"), ["wrong", DELETE]),
    (("roleRef",), [DELETE]),
]


def network_policy(chance, name):
    return {"spec": chance.choice([{"podSelector": {}, "policyTypes": ["Ingress"]},
                                   {"podSelector": {"matchLabels": {"app": name}}, "ingress": [{"from": [{"namespaceSelector": {}}]}]},
                                   {"podSelector": {}, "egress": [{}], "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 9090, "protocol": "TCP"}]}],
                                    "policyTypes": ["Ingress", "Egress"]}])}


POLICY_EDITS = [
    (("spec", "podSelector"), [{"matchLabels": {"a": "b"}}, DELETE, {"matchLabels": {"bad key": "x"}}]),
    (("spec", "policyTypes"), [["Egress"], ["Sideways"], DELETE, []]),
    (("spec", "ingress"), [[], DELETE, [{"ports": [{"port": 80}]}], [{"ports": [{"port": 70000}]}], [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
                           [{"from": [{"ipBlock": {"cidr": "x"}}]}], [{"from": [{}]}]]),
    (("spec", "egress"), [[{}], DELETE]),
]


def ingress(chance, name):
    return {"spec": {"ingressClassName": "nginx", "rules": [{"host": "a.example.org", "http": {"paths": [
        {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": name, "port": {"number": 80}}}}]}}]}}


INGRESS_EDITS = [
    (("spec", "ingressClassName"), ["other", "Bad_Class", DELETE]),
    (("spec", "rules", 0, "host"), ["b.example.org", "*.example.org", "Bad_Host", "10.0.0.1"]),
    (("spec", "rules", 0, "http", "paths", 0, "pathType"), ["Exact", "Wrong", DELETE]),
    (("spec", "rules", 0, "http", "paths", 0, "path"), ["/x", "no-slash"]),
    (("spec", "rules", 0, "http", "paths", 0, "backend", "service", "port"), [{"name": "http"}, {}, {"number": 0}, {"name": "http", "number": 80}]),
    (("spec", "tls"), [[{"hosts": ["a.example.org"], "secretName": "cert"}], [{"hosts": ["Bad_Host"]}]]),
    (("spec", "rules"), [[], DELETE]),
    (("spec", "defaultBackend"), [{"service": {"name": "web", "port": {"number": 80}}}]),
]


def ingress_class(chance, name):
    return {"spec": {"controller": "rocca.dev/ingress"}}


CLASS_EDITS = [
    (("spec", "controller"), ["rocca.dev/other", "", "no-slash", "x" * 260]),
    (("spec", "parameters"), [{"kind": "P", "name": "p", "apiGroup": "rocca.dev", "scope": "Cluster"}, {"kind": "P", "name": "p"}]),
]


def storage_class(chance, name):
    return {"provisioner": "csi.proxmox.sinextra.dev", "parameters": {"storage": "local-lvm"}}


STORAGE_EDITS = [
    (("provisioner",), ["other.example.org", ""]),
    (("parameters", "storage"), ["ceph"]),
    (("reclaimPolicy",), ["Retain", "Burn"]),
    (("volumeBindingMode",), ["WaitForFirstConsumer", "Whenever"]),
    (("allowVolumeExpansion",), [True]),
]


def claim(chance, name):
    return {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": chance.choice(["1Gi", "512Mi"])}},
                     **({"storageClassName": "fast"} if chance.random() < 0.5 else {})}}


CLAIM_EDITS = [
    (("spec", "accessModes"), [["ReadWriteMany"], [], ["Wrong"], DELETE]),
    (("spec", "resources", "requests", "storage"), ["2Gi", "0", "-1Gi", "much", DELETE]),
    (("spec", "storageClassName"), ["slow", "", "Bad_Class"]),
    (("spec", "volumeMode"), ["Block", "Wrong"]),
    (("spec", "volumeName"), ["pv-1"]),
]


def quota(chance, name):
    return {"spec": {"hard": {"pods": "1000"}, "scopeSelector": {"matchExpressions": [
        {"operator": "In", "scopeName": "PriorityClass", "values": ["system-node-critical", "system-cluster-critical"]}]}}}


QUOTA_EDITS = [
    (("spec", "hard"), [{"pods": "10", "cpu": "2"}, {"pods": "-1"}, {"pods": "x"}, {}, {"bogus": "1"}, {"pods": "1.5"}]),
    (("spec", "scopeSelector"), [DELETE]),
]


def priority_class(chance, name):
    return {"value": chance.choice([1000, 0, -5]), "description": "for tests"}


PRIORITY_EDITS = [
    (("value",), [1000, 2000, 2000000001, "x"]),
    (("description",), ["other"]),
    (("preemptionPolicy",), ["Never", "Wrong"]),
    (("globalDefault",), [False]),
]


def webhook(chance, name):
    return {"webhooks": [{"name": "check.example.org", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                          "clientConfig": {"service": {"name": "hook", "namespace": "default", "path": "/v"}},
                          "rules": [{"apiGroups": ["none.example.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}]}]}


WEBHOOK_EDITS = [
    (("webhooks", 0, "name"), ["other.example.org", "short", ""]),
    (("webhooks", 0, "sideEffects"), ["NoneOnDryRun", "Some", DELETE]),
    (("webhooks", 0, "admissionReviewVersions"), [["v1", "v1beta1"], [], ["v7"], DELETE]),
    (("webhooks", 0, "failurePolicy"), ["Ignore", "Wrong"]),
    (("webhooks", 0, "timeoutSeconds"), [5, 0, 31]),
    (("webhooks", 0, "clientConfig"), [{"url": "https://127.0.0.1:1/x"}, {"url": "http://x"}, {}, {"service": {"name": "hook", "namespace": "default", "port": 8443}},
                                       {"service": {"name": "", "namespace": "default"}}]),
    (("webhooks", 0, "clientConfig", "caBundle"), ["bm90IGEgY2VydA=="]),
    (("webhooks", 0, "rules"), [[], [{"apiGroups": ["none.example.org"], "apiVersions": ["v1"], "operations": ["EAT"], "resources": ["x"]}], DELETE,
                                [{"apiGroups": ["none.example.org"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["x/*"], "scope": "Namespaced"}]]),
    (("webhooks", 0, "namespaceSelector"), [{"matchLabels": {"a": "b"}}]),
    (("webhooks", 0, "matchPolicy"), ["Exact", "Wrong"]),
    (("webhooks",), [[], DELETE]),
]


def csi_driver(chance, name):
    return {"spec": {"attachRequired": True, "podInfoOnMount": True}}


CSI_EDITS = [
    (("spec", "podInfoOnMount"), [False]),
    (("spec", "fsGroupPolicy"), ["File", "Wrong"]),
    (("spec", "volumeLifecycleModes"), [["Persistent"], ["Wrong"]]),
]

# ------------------------------------------------------------------------------------------------ definitions and their objects

WIDGET_SCHEMA = {"type": "object", "properties": {
    "spec": {"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "name": {"type": "string", "maxLength": 8, "pattern": "^[a-z]+$"},
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
        "interval": {"type": "string", "default": "10m"},
        "replicas": {"type": "integer", "default": 1},
        "ratio": {"type": "number"},
        "enabled": {"type": "boolean"},
        "port": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3, "x-kubernetes-list-type": "set"},
        "hosts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["host"], "items": {
            "type": "object", "required": ["host"], "properties": {"host": {"type": "string"}, "weight": {"type": "integer", "default": 1}}}},
        "values": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "limits": {"type": "object", "default": {}, "properties": {"cpu": {"type": "string", "default": "1"}, "soft": {"type": "boolean", "nullable": True}}},
        "low": {"type": "integer"}, "high": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "!has(self.low) || !has(self.high) || self.low <= self.high", "message": "low must not exceed high"},
                                     {"rule": "self.size == oldSelf.size || self.size > oldSelf.size", "message": "size only grows"}]},
    "status": {"type": "object", "properties": {
        "ready": {"type": "boolean"}, "replicas": {"type": "integer"}, "observedGeneration": {"type": "integer"},
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": {
            "type": "object", "required": ["type", "status"], "properties": {
                "type": {"type": "string"}, "status": {"type": "string", "enum": ["True", "False", "Unknown"]}, "reason": {"type": "string"},
                "message": {"type": "string"}, "lastTransitionTime": {"type": "string", "format": "date-time"}}}}}}}}


def definition(group, plural="widgets", kind="Widget", status=True, scope="Namespaced"):
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": WIDGET_SCHEMA}}
    if status:
        version["subresources"] = {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
        version["additionalPrinterColumns"] = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": plural, "singular": kind.lower()}, "versions": [version]}}


def widget(chance, name):
    spec = {"size": chance.choice([1, 2, 5])}
    extra = {"name": "abc", "tags": ["a", "b"], "hosts": [{"host": "h1"}, {"host": "h2", "weight": 3}], "values": {"deep": {"x": [1, 2]}}, "mode": "slow",
             "labels": {"k": "v"}, "ratio": 0.5, "enabled": True, "port": "http", "low": 1, "high": 5}
    for key, value in extra.items():
        if chance.random() < 0.3:
            spec[key] = value
    return {"spec": spec}


WIDGET_EDITS = [
    (("spec", "size"), [3, 7, 0, 11, "5", DELETE, None, 2.5]),
    (("spec", "name"), ["xyz", "toolongname", "UPPER", 5]),
    (("spec", "mode"), ["fast", "slow", "warp", DELETE, None]),
    (("spec", "interval"), ["5m", DELETE]),
    (("spec", "replicas"), [0, 3, "x", DELETE]),
    (("spec", "ratio"), [1.5, 2, "half"]),
    (("spec", "enabled"), [True, False, "yes"]),
    (("spec", "port"), [80, "http", True, 1.5]),
    (("spec", "when"), ["2001-01-01T00:00:00Z", "tomorrow"]),
    (("spec", "tags"), [["a"], ["a", "a"], ["a", "b", "c", "d"], "a", [], [1]]),
    (("spec", "hosts"), [[{"host": "h1"}], [{"host": "h1"}, {"host": "h1"}], [{"weight": 1}], [{"host": "h3", "weight": 9}], []]),
    (("spec", "values", "deep"), [{"y": True}, 5, DELETE]),
    (("spec", "labels", "k"), ["w", 5]),
    (("spec", "limits"), [{}, {"cpu": "2"}, {"soft": None}, None, {"unknown": 1}]),
    (("spec", "low"), [1, 9]),
    (("spec", "high"), [5, 10]),
    (("spec", "unknown"), ["x", {"y": 1}]),
    (("spec",), [DELETE, {}, "text"]),
    (("status", "ready"), [True]),
]
WIDGET_STATUS = [
    (("status", "ready"), [True, False, "yes"]),
    (("status", "replicas"), [2]),
    (("status", "observedGeneration"), [1, 2]),
    (("status", "conditions"), [[{"type": "Ready", "status": "True", "reason": "Ok", "message": "", "lastTransitionTime": "2001-01-01T00:00:00Z"}],
                                [{"type": "Ready", "status": "Perhaps"}], [{"status": "True"}], []]),
    (("status", "unknown"), [1]),
]
DEFINITION_EDITS = [
    (("spec", "names", "kind"), ["Other", "bad kind", ""]),
    (("spec", "names", "plural"), ["others", "Bad"]),
    (("spec", "names", "shortNames"), [["wd"], ["UPPER"]]),
    (("spec", "scope"), ["Cluster", "Everywhere"]),
    (("spec", "group"), ["other.example.org", "nodots"]),
    (("spec", "versions"), [[], DELETE]),
    (("spec", "versions", 0, "name"), ["v2", "Bad"]),
    (("spec", "versions", 0, "served"), [False]),
    (("spec", "versions", 0, "storage"), [False]),
    (("spec", "versions", 0, "schema"), [DELETE, {}, {"openAPIV3Schema": {"type": "string"}},
                                         {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {}}}}}},
                                         {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                                         {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "array"}}}},
                                         {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "thing"}}}},
                                         {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "string", "default": 5}}}}]),
    (("spec", "versions", 0, "additionalPrinterColumns"), [[{"name": "A", "type": "string", "jsonPath": ".spec.a"}], [{"name": "A", "type": "wrong", "jsonPath": "x"}]]),
    (("spec", "preserveUnknownFields"), [True]),
    (("spec", "conversion"), [{"strategy": "Webhook"}, {"strategy": "Wrong"}, {"strategy": "None"}]),
]
POD_STATUS = [
    (("status", "phase"), ["Running", "Succeeded", "Failed", "Wrong"]),
    (("status", "conditions"), [[{"type": "Ready", "status": "True"}], [{"type": "Ready", "status": "False", "reason": "X", "message": "y"}]]),
    (("status", "podIP"), ["10.244.0.5"]),
    (("status", "containerStatuses"), [[{"name": "main", "ready": True, "restartCount": 0, "image": "a", "imageID": "b", "state": {"running": {}}}]]),
    (("spec", "nodeName"), ["worker-9"]),
    (("metadata", "labels", "via-status"), ["1"]),
]
WORKLOAD_STATUS = [
    (("status", "replicas"), [2, -1]),
    (("status", "readyReplicas"), [1, 5]),
    (("status", "observedGeneration"), [1]),
    (("status", "conditions"), [[{"type": "Available", "status": "True", "reason": "R", "message": "m"}], []]),
    (("spec", "replicas"), [7]),
    (("metadata", "annotations", "via-status"), ["1"]),
]
NODE_STATUS = [
    (("status", "conditions"), [[{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}]]),
    (("status", "addresses"), [[{"type": "InternalIP", "address": "10.0.0.22"}, {"type": "Hostname", "address": "n"}]]),
    (("status", "capacity"), [{"cpu": "4", "memory": "8Gi", "pods": "110"}, {"cpu": "x"}]),
    (("status", "nodeInfo", "kubeletVersion"), ["v1.34.4"]),
    (("spec", "unschedulable"), [True]),
]
BUDGET_STATUS = [
    (("status",), [{"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1},
                   {"disruptionsAllowed": -1, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}]),
]
NAMESPACE_STATUS = [(("status", "phase"), ["Terminating", "Wrong"]), (("metadata", "annotations", "via-status"), ["1"])]
SERVICE_STATUS = [
    (("status", "loadBalancer"), [{"ingress": [{"ip": "10.0.0.50"}]}, {"ingress": [{"ip": "x"}]}, {"ingress": [{"hostname": "lb.example.org"}]}, {}]),
    (("spec", "sessionAffinity"), ["ClientIP"]),
]
INGRESS_STATUS = [(("status", "loadBalancer"), [{"ingress": [{"ip": "10.0.0.50"}]}, {"ingress": [{"hostname": "h.example.org"}]}])]
JOB_STATUS = [(("status", "active"), [1]), (("status", "startTime"), ["2001-01-01T00:00:00Z"])]

READ = ("get", "list", "watch")
FLUX = "Flux applies manifests of it (install, add-ons)"
KINDS = [
    Kind("/api/v1/configmaps", "ConfigMap", config_map, CONFIG_EDITS, "rocca's add-ons and publishing, Flux's inventories", weight=6),
    Kind("/api/v1/secrets", "Secret", secret, SECRET_EDITS, "rocca's state store and handover, what External Secrets writes", weight=6),
    Kind("/api/v1/serviceaccounts", "ServiceAccount", service_account, ACCOUNT_EDITS, FLUX + "; tokens of External Secrets", weight=2, subresources=("token",)),
    Kind("/api/v1/services", "Service", service, SERVICE_EDITS, FLUX, weight=4, subresources=("status",), status=SERVICE_STATUS),
    Kind("/api/v1/pods", "Pod", pod, pod_spec_edits("spec"), "rocca drains nodes and reads logs; health checks", weight=5,
         subresources=("status", "eviction", "binding"), status=POD_STATUS),
    Kind("/api/v1/events", "Event", event, EVENT_EDITS, "Flux and External Secrets record events", weight=2),
    Kind("/apis/coordination.k8s.io/v1/leases", "Lease", lease, LEASE_EDITS, "rocca's lock, leader election of Flux and External Secrets", weight=4),
    Kind("/apis/apps/v1/deployments", "Deployment", deployment, DEPLOYMENT_EDITS, FLUX + "; rocca waits for them", weight=6,
         subresources=("status", "scale"), status=WORKLOAD_STATUS),
    Kind("/apis/apps/v1/daemonsets", "DaemonSet", daemon_set, DAEMON_EDITS, FLUX + "; Cilium", weight=2, subresources=("status",),
         status=[(("status", "numberReady"), [1]), (("status", "desiredNumberScheduled"), [2])]),
    Kind("/apis/apps/v1/statefulsets", "StatefulSet", stateful_set, STATEFUL_EDITS, FLUX, weight=2, subresources=("status", "scale"), status=WORKLOAD_STATUS),
    Kind("/apis/apps/v1/replicasets", "ReplicaSet", replica_set, WORKLOAD_EDITS, "rocca reads them in diagnoses", weight=1,
         subresources=("status", "scale"), status=WORKLOAD_STATUS),
    Kind("/apis/batch/v1/jobs", "Job", job, JOB_EDITS, FLUX + " (certificates of ingress-nginx)", weight=2, subresources=("status",), status=JOB_STATUS),
    Kind("/apis/batch/v1/cronjobs", "CronJob", cron_job, CRON_EDITS, FLUX, weight=1, subresources=("status",), status=[]),
    Kind("/apis/policy/v1/poddisruptionbudgets", "PodDisruptionBudget", budget, BUDGET_EDITS, FLUX + "; evictions", weight=2,
         subresources=("status",), status=BUDGET_STATUS),
    Kind("/apis/discovery.k8s.io/v1/endpointslices", "EndpointSlice", endpoint_slice, SLICE_EDITS, "rocca asks whether a webhook's Service is served", weight=2),
    Kind("/apis/networking.k8s.io/v1/networkpolicies", "NetworkPolicy", network_policy, POLICY_EDITS, "part of the Flux install", weight=2),
    Kind("/apis/networking.k8s.io/v1/ingresses", "Ingress", ingress, INGRESS_EDITS, FLUX, weight=1, subresources=("status",), status=INGRESS_STATUS),
    Kind("/api/v1/persistentvolumeclaims", "PersistentVolumeClaim", claim, CLAIM_EDITS, FLUX, weight=1, subresources=("status",), status=[]),
    Kind("/api/v1/resourcequotas", "ResourceQuota", quota, QUOTA_EDITS, "part of the Flux install", weight=1, subresources=("status",), status=[]),
    Kind("/apis/rbac.authorization.k8s.io/v1/roles", "Role", cluster_role, RULE_EDITS[:1], FLUX, weight=2),
    Kind("/apis/rbac.authorization.k8s.io/v1/rolebindings", "RoleBinding", cluster_role_binding, BINDING_EDITS, FLUX, weight=2),
    Kind("/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRole", cluster_role, RULE_EDITS, "part of the Flux install", namespaced=False, weight=2),
    Kind("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "ClusterRoleBinding", cluster_role_binding, BINDING_EDITS, "part of the Flux install",
         namespaced=False, weight=2),
    Kind("/api/v1/namespaces", "Namespace", namespace, NAMESPACE_EDITS, "rocca's handover and Flux create them", namespaced=False, weight=3,
         subresources=("status", "finalize"), status=NAMESPACE_STATUS,
         verbs=("create", "get", "list", "update", "patch", "apply", "delete", "watch")),
    Kind("/api/v1/nodes", "Node", node, NODE_EDITS, "rocca cordons, labels and removes nodes", namespaced=False, weight=3, subresources=("status",),
         status=NODE_STATUS),
    Kind("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "CustomResourceDefinition", None, DEFINITION_EDITS, "Flux and External Secrets bring theirs",
         namespaced=False, weight=2),
    Kind("/apis/networking.k8s.io/v1/ingressclasses", "IngressClass", ingress_class, CLASS_EDITS, FLUX, namespaced=False),
    Kind("/apis/storage.k8s.io/v1/storageclasses", "StorageClass", storage_class, STORAGE_EDITS, FLUX + " (Proxmox CSI)", namespaced=False),
    Kind("/apis/storage.k8s.io/v1/csidrivers", "CSIDriver", csi_driver, CSI_EDITS, FLUX + " (Proxmox CSI)", namespaced=False),
    Kind("/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", priority_class, PRIORITY_EDITS, FLUX, namespaced=False),
    Kind("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "ValidatingWebhookConfiguration", webhook, WEBHOOK_EDITS,
         FLUX + " (MetalLB, External Secrets, ingress-nginx)", namespaced=False, weight=2),
    Kind("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", "MutatingWebhookConfiguration", webhook, WEBHOOK_EDITS, FLUX,
         namespaced=False),
]


def widgets(group, namespaced=True, status=True):
    return Kind(f"/apis/{group}/v1/widgets", "Widget", widget, WIDGET_EDITS, "custom resources: Flux's, External Secrets', MetalLB's",
                namespaced=namespaced, subresources=("status", "scale") if status else (), status=WIDGET_STATUS, weight=8)
