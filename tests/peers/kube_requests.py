"""Random requests of the kinds in kube_kinds.py, right and wrong ones, as one case after another. A case has a Namespace of
its own and objects with its own names, so that cases do not see each other on one API server. The same seed and number make
the same case; what depends on answers (versions, UIDs) comes from the answers."""

import copy
import json
import random

import kube_kinds
from kube_kinds import DELETE, KINDS

TYPES = {"json": "application/json-patch+json", "merge": "application/merge-patch+json",
         "strategic": "application/strategic-merge-patch+json", "apply": "application/apply-patch+yaml"}
MANAGERS = ["ann", "bob", "kustomize-controller"]
BAD_NAMES = ["Bad_Name", "-x", "x" * 254, "a..b", "a b", "über"]
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# What a namespace's requests are, by how often.
OPERATIONS = [
    ("create", 16), ("create_wrong", 8), ("get", 6), ("list", 7), ("update", 10), ("update_wrong", 4), ("patch_json", 7), ("patch_merge", 7),
    ("patch_strategic", 7), ("apply", 16), ("apply_again", 5), ("apply_wrong", 3), ("status", 6), ("scale", 3), ("delete", 7),
    ("delete_collection", 1), ("watch", 1), ("pods", 4), ("token", 1), ("review", 1), ("denied", 2), ("misuse", 4)]


def changed(value, path, new):
    """A copy with one field set or removed; None if the path does not exist."""
    out = copy.deepcopy(value)
    at = out
    for part in path[:-1]:
        if isinstance(part, int):
            if not isinstance(at, list) or part >= len(at):
                return None
            at = at[part]
        else:
            if not isinstance(at, dict):
                return None
            if not isinstance(at.get(part), (dict, list)):
                at[part] = {}
            at = at[part]
    last = path[-1]
    if isinstance(last, int) or not isinstance(at, dict):
        return None
    if new is DELETE:
        at.pop(last, None)
    else:
        at[last] = copy.deepcopy(new)
    return out


def nested(path, new):
    """The path as a merge patch; None if it goes through a list."""
    if any(isinstance(part, int) for part in path):
        return None
    value = None if new is DELETE else copy.deepcopy(new)
    for part in reversed(path):
        value = {part: value}
    return value


def merged(a, b):
    for key, value in b.items():
        if isinstance(value, dict) and isinstance(a.get(key), dict):
            merged(a[key], value)
        else:
            a[key] = value
    return a


def pointer(path):
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


class Case:
    """`send(request)` sends one request to the real server, records it and returns (status, body)."""

    def __init__(self, seed, number, send, event):
        self.chance = random.Random(f"{seed}/{number}")
        self.name = f"k{seed}-{number}"
        self.send_step, self.event = send, event
        self.live, self.applied, self.old = {}, {}, []

    # ---------------------------------------------------------------- sending

    def request(self, method, path, body=None, query=(), kind="application/json", accept="application/json", who="admin", setup=False,
                text=None, pair=""):
        headers = {"Accept": accept}
        if body is not None or text is not None:
            headers["Content-Type"] = kind
        request = {"method": method, "path": path, "query": [list(one) for one in query], "headers": headers}
        if text is not None:
            request["bodyText"] = text
        elif body is not None:
            request["body"] = body
        return self.send_step(request, who, setup, pair)

    def learn(self, kind, path, answer):
        status, body = answer
        if status in (200, 201) and isinstance(body, dict) and body.get("kind") == kind.kind and "resourceVersion" in body.get("metadata", {}):
            if path in self.live:
                self.old.append(self.live[path])
            self.live[path] = body
        if status == 404:
            self.live.pop(path, None)
        return answer

    def options(self, manager=0.4):
        query = []
        if self.chance.random() < manager:
            query.append(("fieldManager", self.chance.choice(MANAGERS)))
        if self.chance.random() < 0.06:
            query.append(("dryRun", "All"))
        if self.chance.random() < 0.1:
            query.append(("fieldValidation", self.chance.choice(["Strict", "Ignore", "Warn"])))
        return query

    # ---------------------------------------------------------------- the case

    def run(self, steps):
        chance = self.chance
        self.request("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}, setup=True)
        if chance.random() < 0.8:
            self.request("POST", f"/api/v1/namespaces/{self.name}/serviceaccounts",
                         {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, setup=True)
        pool = KINDS
        self.kinds = []
        if chance.random() < 0.35:
            group = f"{self.name}.example.org"
            status = chance.random() < 0.8
            self.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kube_kinds.definition(group, status=status), setup=True)
            self.event("wait until Established and served")
            self.kinds.append(kube_kinds.widgets(group, status=status))
        while len(self.kinds) < 3:
            one = chance.choices(pool, [kind.weight for kind in pool])[0]
            if one not in self.kinds:
                self.kinds.append(one)
        names, weights = zip(*OPERATIONS)
        for _ in range(steps):
            kind = chance.choice(self.kinds)
            getattr(self, chance.choices(names, weights)[0])(kind)

    def clean(self):
        """Requests that remove what the case left outside of its Namespace."""
        for path in list(self.live):
            if f"/namespaces/{self.name}/" not in path and path.rsplit("/", 1)[1] != self.name:
                yield path
        yield f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{self.name}.example.org"

    def new_name(self, kind):
        name = self.chance.choice("abc")
        return name if kind.namespaced else f"{self.name}-{name}"

    def path(self, kind, name):
        return f"{kind.collection(self.name)}/{name}"

    def some(self, kind):
        """The path and last known body of an object that is there, or None."""
        start = kind.collection(self.name) + "/"
        known = sorted(path for path in self.live if path.startswith(start))
        if not known:
            return None
        path = self.chance.choice(known)
        return path, self.live[path]

    def fresh(self, kind, name):
        if kind.make is None:
            plural = {"a": "apples", "b": "bells", "c": "cars"}.get(name[-1:], "things")
            body = kube_kinds.definition(f"{self.name}.test.org", plural, plural.capitalize(), self.chance.random() < 0.5,
                                         self.chance.choice(["Namespaced", "Cluster"]))
            body["metadata"]["labels"] = {"case": self.name}
            return body
        body = kind.object(self.chance, name, self.name, self.name)
        return json.loads(json.dumps(body).replace("NAMESPACE", self.name))

    def edit(self, kind, wrong=None):
        edits = kube_kinds.METADATA_EDITS if self.chance.random() < 0.3 else kind.edits
        path, values = self.chance.choice(edits)
        return path, self.chance.choice(values)

    def settle(self, kind):
        if kind.make is None:
            self.event("wait about 1 s")

    # ---------------------------------------------------------------- create, read

    def create(self, kind):
        name = self.new_name(kind)
        body = self.fresh(kind, name)
        if self.chance.random() < 0.35:
            body = changed(body, *self.edit(kind)) or body
        if self.chance.random() < 0.05 and kind.make is not None:
            body["metadata"].pop("name")
            body["metadata"]["generateName"] = name + "-"
        # An object that should be ignored on create.
        status, answer = self.request("POST", kind.collection(self.name), body, self.options(), pair=f"create {kind.plural}")
        if status == 201 and isinstance(answer, dict) and "metadata" in answer:
            self.learn(kind, self.path(kind, answer["metadata"].get("name", name)), (status, answer))
        self.settle(kind)

    def create_wrong(self, kind):
        chance = self.chance
        body = self.fresh(kind, self.new_name(kind))
        how = chance.randrange(12)
        query, media, text, collection = [], "application/json", None, kind.collection(self.name)
        if how == 0:
            body["metadata"]["name"] = chance.choice(BAD_NAMES)
        elif how == 1:
            body["kind"] = chance.choice(["Wrong", "Secret", ""])
        elif how == 2:
            body["apiVersion"] = chance.choice(["v9", "apps/v1", "", "wrong/v1"])
        elif how == 3:
            body["metadata"]["namespace"] = "elsewhere"
        elif how == 4:
            body["metadata"]["resourceVersion"] = chance.choice(["1", "x"])
        elif how == 5:
            body.pop("metadata")
        elif how == 6:
            media = chance.choice(["text/plain", "application/xml", "application/json-patch+json"])
        elif how == 7:
            text, body = chance.choice(["", "{", "[]", "null", "\"x\"", "{\"kind\":", "not json"]), None
        elif how == 8:
            query = [chance.choice([("dryRun", "Some"), ("fieldValidation", "Loose"), ("fieldManager", "x" * 130), ("fieldManager", "a\x01b")])]
        elif how == 9:
            collection = kind.collection("not-there") if kind.namespaced else collection
            body["metadata"].pop("namespace", None)
        elif how == 10:
            body["metadata"].pop("name")
        else:
            body = changed(changed(body, *self.edit(kind)) or body, *self.edit(kind)) or body
            query = [("fieldValidation", chance.choice(["Strict", "Warn", "Ignore"]))]
        answer = self.request("POST", collection, body, query, media, text=text, pair=f"create {kind.plural}")
        if answer[0] == 201:
            self.learn(kind, self.path(kind, answer[1]["metadata"]["name"]), answer)
        self.settle(kind)

    def get(self, kind):
        found = self.some(kind)
        path = found[0] if found and self.chance.random() < 0.8 else self.path(kind, self.new_name(kind))
        query, accept = [], "application/json"
        if self.chance.random() < 0.2:
            query.append(("resourceVersion", self.chance.choice(["0", "1", "x", "99999999999"])))
        if self.chance.random() < 0.1:
            accept = METADATA_ONLY
        if query == [["resourceVersion", "99999999999"]]:
            query = []
        answer = self.request("GET", path, query=[q for q in query if q[1] != "99999999999"], accept=accept, pair=f"get {kind.plural}")
        if accept == "application/json":
            self.learn(kind, path, answer)

    def list(self, kind):
        chance = self.chance
        query, accept = [], "application/json"
        if not kind.namespaced or chance.random() < 0.4:
            selector = f"case={self.name}" if not kind.namespaced or chance.random() < 0.5 else chance.choice(
                ["tier=web", "tier!=web", "tier", "!tier", "tier in (web,db)", "tier notin (web)", "only=this,case", "bad key", "a==b", "a in ()", "x>1", "=", ""])
            query.append(("labelSelector", selector))
        if chance.random() < 0.3:
            query.append(("fieldSelector", chance.choice(
                ["metadata.name=a", f"metadata.namespace={self.name}", "metadata.name!=a", "status.phase=Running", "spec.nodeName=worker-1",
                 "type=Opaque", "nonsense=x", "metadata.name", "involvedObject.name=cm", "spec.unschedulable=true", "metadata.name=a,metadata.namespace=x",
                 "spec.size=1", "reason=Synced"])))
        if chance.random() < 0.25:
            query.append(("limit", chance.choice(["1", "2", "500", "-1", "x", "0"])))
        if chance.random() < 0.25:
            revision = chance.choice(["0", "0", "1x", "LAST"])
            if revision == "LAST":
                revision = max((body["metadata"]["resourceVersion"] for body in self.live.values()), key=int, default="0")
            query.append(("resourceVersion", revision))
            if chance.random() < 0.5:
                query.append(("resourceVersionMatch", chance.choice(["NotOlderThan", "Exact", "Wrong"])))
        elif chance.random() < 0.05:
            query.append(("resourceVersionMatch", "Exact"))
        if chance.random() < 0.1:
            accept = METADATA_LIST
        status, body = self.request("GET", kind.collection(self.name), query=query, accept=accept, pair=f"list {kind.plural}")
        token = body.get("metadata", {}).get("continue") if status == 200 and isinstance(body, dict) else None
        if token:
            more = [one for one in query if one[0] not in ("resourceVersion", "resourceVersionMatch")] + [("continue", token)]
            self.request("GET", kind.collection(self.name), query=more, accept=accept, pair=f"list {kind.plural}")

    def watch(self, kind):
        versions = [int(body["metadata"]["resourceVersion"]) for path, body in self.live.items() if path.startswith(kind.collection(self.name) + "/")]
        if not versions:
            return
        query = [("watch", "1"), ("timeoutSeconds", "1"), ("resourceVersion", str(min(versions)))]
        if not kind.namespaced or self.chance.random() < 0.3:
            query.append(("labelSelector", f"case={self.name}"))
        self.request("GET", kind.collection(self.name), query=query, pair=f"watch {kind.plural}")

    # ---------------------------------------------------------------- update, patch

    def update(self, kind, wrong=False):
        found = self.some(kind)
        if not found:
            return self.create(kind)
        path, body = found
        body = copy.deepcopy(body)
        for _ in range(self.chance.choice([1, 1, 2])):
            body = changed(body, *self.edit(kind)) or body
        if self.chance.random() < 0.3:
            body.get("metadata", {}).pop("resourceVersion", None)
        self.learn(kind, path, self.request("PUT", path, body, self.options(), pair=f"update {kind.plural}"))
        self.settle(kind)

    def update_wrong(self, kind):
        chance = self.chance
        found = self.some(kind)
        how = chance.randrange(7)
        if how == 0 or not found:
            name = self.new_name(kind)
            path, body = self.path(kind, name), self.fresh(kind, name)
        else:
            path, body = found[0], copy.deepcopy(found[1])
        if how == 1:
            body["metadata"]["name"] = "another"
        elif how == 2:
            stale = [one for one in self.old if self.path(kind, one["metadata"]["name"]) == path]
            body["metadata"]["resourceVersion"] = stale[0]["metadata"]["resourceVersion"] if stale else "1"
        elif how == 3:
            body["metadata"]["uid"] = "11111111-2222-4333-8444-555555555555"
        elif how == 4:
            body["metadata"]["namespace"] = "elsewhere"
        elif how == 5:
            body["metadata"]["resourceVersion"] = chance.choice(["x", "", "0"])
        elif how == 6:
            body["metadata"].pop("name")
        self.learn(kind, path, self.request("PUT", path, body, self.options(), pair=f"update {kind.plural}"))
        self.settle(kind)

    def target(self, kind):
        found = self.some(kind)
        if found and self.chance.random() < 0.95:
            return found
        name = self.new_name(kind)
        return self.path(kind, name), self.live.get(self.path(kind, name), {})

    def patched(self, kind, path, how, body, query=None, **more):
        media = TYPES[how] if self.chance.random() < 0.98 else self.chance.choice(list(TYPES.values()) + ["application/json"])
        query = self.options() if query is None else query
        answer = self.learn(kind, path, self.request("PATCH", path, body, query, media, pair=f"patch {kind.plural}", **more))
        self.settle(kind)
        return answer

    def patch_json(self, kind):
        path, live = self.target(kind)
        operations = []
        for _ in range(self.chance.choice([1, 1, 2])):
            at, new = self.edit(kind)
            word = "remove" if new is DELETE else self.chance.choice(["add", "replace", "add", "test"])
            operations.append({"op": word, "path": pointer(at), **({} if new is DELETE else {"value": new})})
        if self.chance.random() < 0.1:
            operations.append(self.chance.choice([{"op": "jump", "path": "/data"}, {"op": "add", "path": "data/x", "value": 1}, {"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"},
                                                  {"op": "move", "from": "/nope", "path": "/metadata/annotations"}, {"path": "/data"}, {"op": "add", "path": "/data"}]))
        if self.chance.random() < 0.1 and "metadata" in live:
            operations.insert(0, {"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]})
        self.patched(kind, path, "json", operations if self.chance.random() < 0.97 else {"not": "a list"})

    def merge_body(self, kind, live):
        body = {}
        for _ in range(self.chance.choice([1, 1, 2])):
            one = nested(*self.edit(kind))
            if one:
                body = merged(body, one) if all(isinstance(v, dict) for v in body.values()) else body
        if self.chance.random() < 0.08 and "metadata" in live:
            body.setdefault("metadata", {})
            if isinstance(body["metadata"], dict):
                body["metadata"]["resourceVersion"] = self.chance.choice([live["metadata"]["resourceVersion"], "1"])
        return body

    def patch_merge(self, kind):
        path, live = self.target(kind)
        self.patched(kind, path, "merge", self.merge_body(kind, live) if self.chance.random() < 0.97 else [1])

    def patch_strategic(self, kind):
        path, live = self.target(kind)
        body = self.merge_body(kind, live)
        extra = {
            "Deployment": [{"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.home/app:3.0"}]}}}},
                           {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}},
                           {"spec": {"template": {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}}}},
                           {"spec": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "X", "value": "1"}]}]}}}},
                           {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}],
            "Service": [{"spec": {"ports": [{"port": 80, "name": "web"}]}}, {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}},
                        {"spec": {"selector": {"$patch": "replace", "x": "y"}}}],
            "Node": [{"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}],
            "Pod": [{"spec": {"containers": [{"name": "main", "image": "registry.home/app:3.0"}]}}, {"spec": {"tolerations": [{"operator": "Exists"}]}}],
            "ConfigMap": [{"data": {"$patch": "replace", "z": "1"}}, {"$patch": "delete"}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["lab.rocca.dev/hold"]}},
                          {"metadata": {"finalizers": ["lab.rocca.dev/three"]}}],
            "ServiceAccount": [{"imagePullSecrets": [{"name": "two"}]}, {"secrets": [{"name": "two"}]}],
        }.get(kind.kind)
        if extra and self.chance.random() < 0.4:
            body = copy.deepcopy(self.chance.choice(extra))
        self.patched(kind, path, "strategic", body)

    # ---------------------------------------------------------------- server-side apply

    def apply(self, kind):
        chance = self.chance
        name = self.new_name(kind)
        body = self.fresh(kind, name)
        for _ in range(chance.choice([0, 0, 1, 1, 2])):
            body = changed(body, *self.edit(kind)) or body
        if kind.make is None:
            name = body["metadata"].get("name", "x") if isinstance(body.get("metadata"), dict) else "x"
        self.send_apply(kind, name, body)

    def send_apply(self, kind, name, body):
        chance = self.chance
        manager = chance.choice(MANAGERS)
        query = [("fieldManager", manager)]
        if chance.random() < 0.5:
            query.append(("force", "true"))
        if chance.random() < 0.12:
            query.append(("dryRun", "All"))
        if chance.random() < 0.05:
            query.append(("fieldValidation", "Strict"))
        path = self.path(kind, name)
        self.applied.setdefault(path, {})[manager] = body
        self.learn(kind, path, self.request("PATCH", path, body, query, TYPES["apply"], pair=f"apply {kind.plural}"))
        self.settle(kind)

    def apply_again(self, kind):
        """What a manager applied before, unchanged, reduced or by another manager."""
        start = kind.collection(self.name) + "/"
        known = sorted(path for path in self.applied if path.startswith(start))
        if not known:
            return self.apply(kind)
        path = self.chance.choice(known)
        body = copy.deepcopy(self.chance.choice(sorted(self.applied[path].items(), key=lambda pair: pair[0]))[1])
        if self.chance.random() < 0.6:
            body = changed(body, *self.edit(kind)) or body
        elif self.chance.random() < 0.4:
            body = {key: value for key, value in body.items() if key in ("apiVersion", "kind", "metadata")}
        self.send_apply(kind, path.rsplit("/", 1)[1], body)

    def apply_wrong(self, kind):
        chance = self.chance
        name = self.new_name(kind)
        body = self.fresh(kind, name)
        path, query, text = self.path(kind, body["metadata"]["name"]), [("fieldManager", "ann")], None
        how = chance.randrange(8)
        if how == 0:
            query = []
        elif how == 1:
            body["metadata"]["managedFields"] = [{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]
        elif how == 2:
            body["apiVersion"] = "wrong/v1"
        elif how == 3:
            body["kind"] = chance.choice(["", "Wrong"])
        elif how == 4:
            body["metadata"]["name"] = "another"
        elif how == 5:
            body["metadata"]["resourceVersion"] = "1"
        elif how == 6:
            text, body = chance.choice(["", "{", "a: b: c", "[]"]), None
        else:
            body["metadata"]["uid"] = "11111111-2222-4333-8444-555555555555"
        self.learn(kind, path, self.request("PATCH", path, body, query, TYPES["apply"], text=text, pair=f"apply {kind.plural}"))
        self.settle(kind)

    # ---------------------------------------------------------------- subresources

    def status(self, kind):
        found = self.some(kind)
        if "status" not in kind.subresources or not found or not kind.status:
            return self.get(kind)
        path, live = found
        at, values = self.chance.choice(kind.status)
        new = self.chance.choice(values)
        way = self.chance.choice(["get", "put", "merge", "json", "strategic", "apply", "merge"])
        pair = f"{way if way in ('get', 'apply') else 'update' if way == 'put' else 'patch'} {kind.plural}/status"
        if way == "get":
            answer = self.request("GET", path + "/status", pair=pair)
        elif way == "put":
            answer = self.request("PUT", path + "/status", changed(live, at, new) or live, self.options(), pair=pair)
        elif way == "json":
            answer = self.request("PATCH", path + "/status", [{"op": "add", "path": pointer(at), "value": new}], self.options(), TYPES["json"], pair=pair)
        elif way == "apply":
            body = merged({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": path.rsplit("/", 1)[1]}}, nested(at, new))
            answer = self.request("PATCH", path + "/status", body, [("fieldManager", self.chance.choice(MANAGERS)), ("force", "true")], TYPES["apply"], pair=pair)
        else:
            answer = self.request("PATCH", path + "/status", nested(at, new), self.options(), TYPES[way], pair=pair)
        self.learn(kind, path, answer)

    def scale(self, kind):
        found = self.some(kind)
        if "scale" not in kind.subresources or not found:
            return self.list(kind)
        path = found[0]
        way = self.chance.choice(["get", "put", "merge"])
        pair = f"{dict(get='get', put='update', merge='patch')[way]} {kind.plural}/scale"
        if way == "get":
            self.request("GET", path + "/scale", pair=pair)
        elif way == "put":
            body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": path.rsplit("/", 1)[1], "namespace": self.name},
                    "spec": {"replicas": self.chance.choice([0, 2, -1])}}
            self.request("PUT", path + "/scale", body, pair=pair)
        else:
            self.request("PATCH", path + "/scale", {"spec": {"replicas": self.chance.choice([1, 4, -2, "x"])}}, [], TYPES["merge"], pair=pair)
        self.learn(kind, path, self.request("GET", path, pair=f"get {kind.plural}"))

    def pods(self, kind):
        """Binding and eviction, with and without a budget."""
        chance, pod = self.chance, next(one for one in KINDS if one.kind == "Pod")
        found = self.some(pod)
        if not found:
            return self.create(pod)
        path, live = found
        name = path.rsplit("/", 1)[1]
        if chance.random() < 0.3:
            target = chance.choice([{"kind": "Node", "name": "worker-1"}, {"kind": "Node", "name": ""}, {"kind": "Pod", "name": "x"}, {"apiVersion": "v1", "kind": "Node", "name": "w"}])
            self.request("POST", path + "/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": chance.choice([name, name, "another"])}, "target": target},
                         pair="create pods/binding")
            self.learn(pod, path, self.request("GET", path, pair="get pods"))
            return
        budgets = next(one for one in KINDS if one.kind == "PodDisruptionBudget")
        if chance.random() < 0.5 and live["metadata"].get("labels"):
            label = sorted(live["metadata"]["labels"].items())[0]
            body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": chance.choice("ab")},
                    "spec": {"selector": {"matchLabels": dict([label])}, "minAvailable": chance.choice([0, 1, "50%"])}}
            answer = self.request("POST", f"/apis/policy/v1/namespaces/{self.name}/poddisruptionbudgets", body, pair="create poddisruptionbudgets")
            if answer[0] == 201:
                self.learn(budgets, self.path(budgets, body["metadata"]["name"]), answer)
                if chance.random() < 0.6:
                    status = {"status": {"disruptionsAllowed": chance.choice([0, 1, 2]), "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
                                         "observedGeneration": chance.choice([0, 1])}}
                    at = self.path(budgets, body["metadata"]["name"])
                    self.learn(budgets, at, self.request("PATCH", at + "/status", status, [], TYPES["merge"], pair="patch poddisruptionbudgets/status"))
                # Evictions see budgets through a cache.
                self.event("wait about 1 s")
        options = chance.choice([None, None, {"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 5}, {"preconditions": {"uid": live["metadata"]["uid"]}},
                                 {"preconditions": {"resourceVersion": "1"}}, {"dryRun": ["All"]}])
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": chance.choice([name] * 6 + ["another"]), "namespace": self.name}}
        if options:
            body["deleteOptions"] = options
        self.request("POST", path + "/eviction", body, pair="create pods/eviction")
        self.learn(pod, path, self.request("GET", path, pair="get pods"))

    def token(self, kind):
        accounts = next(one for one in KINDS if one.kind == "ServiceAccount")
        path = self.path(accounts, self.chance.choice(["default", "not-there"]))
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                "spec": self.chance.choice([{}, {"expirationSeconds": 600}, {"expirationSeconds": 5}, {"audiences": ["x"]}, {"expirationSeconds": 1 << 33}])}
        self.request("POST", path + "/token", body, pair="create serviceaccounts/token")

    def review(self, kind):
        chance = self.chance
        attributes = {"verb": chance.choice(["get", "create"]), "resource": kind.plural, "group": kind.api_version.rpartition("/")[0], "namespace": self.name}
        if chance.random() < 0.5:
            self.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                         {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                          "spec": chance.choice([{"resourceAttributes": attributes}, {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}, {}])},
                         who=chance.choice(["admin", "nobody"]), pair="create selfsubjectaccessreviews")
        else:
            self.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                         {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                          "spec": chance.choice([{"resourceAttributes": attributes, "user": "zoe"}, {"resourceAttributes": attributes}, {"user": "zoe"},
                                                 {"resourceAttributes": attributes, "user": "root", "groups": ["system:masters"]}])},
                         pair="create subjectaccessreviews")

    # ---------------------------------------------------------------- delete

    def delete(self, kind):
        chance = self.chance
        path, live = self.target(kind)
        body, query = None, []
        if chance.random() < 0.6:
            uid = live.get("metadata", {}).get("uid", "")
            version = live.get("metadata", {}).get("resourceVersion", "1")
            body = {"apiVersion": "v1", "kind": "DeleteOptions", **chance.choice([
                {"propagationPolicy": "Background"}, {"propagationPolicy": "Foreground"}, {"propagationPolicy": "Orphan"}, {"propagationPolicy": "Sometimes"},
                {"preconditions": {"uid": uid}}, {"preconditions": {"uid": "11111111-2222-4333-8444-555555555555"}}, {"preconditions": {"resourceVersion": version}},
                {"preconditions": {"resourceVersion": "1"}}, {"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 10}, {"gracePeriodSeconds": -1}, {"dryRun": ["All"]},
                {"dryRun": ["Some"]}, {"orphanDependents": True}, {"orphanDependents": True, "propagationPolicy": "Orphan"}, {"unknown": 1}])}
            if chance.random() < 0.05:
                body["kind"] = "Wrong"
        elif chance.random() < 0.4:
            query = [chance.choice([("propagationPolicy", "Foreground"), ("gracePeriodSeconds", "0"), ("dryRun", "All"), ("propagationPolicy", "x"), ("gracePeriodSeconds", "x")])]
        self.request("DELETE", path, body, query, pair=f"delete {kind.plural}")
        self.settle(kind)
        self.learn(kind, path, self.request("GET", path, pair=f"get {kind.plural}"))

    def delete_collection(self, kind):
        if "deletecollection" not in kind.verbs or kind.make is None or not kind.namespaced:
            return self.delete(kind)
        query = [("labelSelector", f"case={self.name}")] if self.chance.random() < 0.5 else []
        self.request("DELETE", kind.collection(self.name), None, query, pair=f"deletecollection {kind.plural}")
        self.list(kind)
        for path in [path for path in self.live if path.startswith(kind.collection(self.name) + "/")]:
            self.learn(kind, path, self.request("GET", path, pair=f"get {kind.plural}"))

    # ---------------------------------------------------------------- refused for other reasons

    def denied(self, kind):
        chance = self.chance
        path, who = self.path(kind, self.new_name(kind)), chance.choice(["nobody", "viewer"])
        method = chance.choice(["GET", "POST", "PUT", "PATCH", "DELETE", "LIST"])
        body = self.fresh(kind, self.new_name(kind))
        if method == "LIST":
            self.request("GET", kind.collection(self.name), who=who, pair=f"list {kind.plural}")
        elif method == "POST":
            self.request("POST", kind.collection(self.name), body, who=who, pair=f"create {kind.plural}")
        elif method == "PATCH":
            self.request("PATCH", path, body, [("fieldManager", "ann")], TYPES["apply"], who=who, pair=f"apply {kind.plural}")
        else:
            self.request(method, path, body if method == "PUT" else None, who=who, pair=f"{dict(GET='get', PUT='update', DELETE='delete')[method]} {kind.plural}")

    def misuse(self, kind):
        chance = self.chance
        path = self.path(kind, self.new_name(kind))
        how = chance.randrange(7)
        pair = f"misuse {kind.plural}"
        if how == 0:
            self.request("GET", path + "/nothing", pair=pair)
        elif how == 1:
            self.request("POST", path, self.fresh(kind, "a"), pair=pair)
        elif how == 2:
            self.request(chance.choice(["PUT", "PATCH"]), kind.collection(self.name), {}, [], TYPES["merge"], pair=pair)
        elif how == 3:
            self.request("GET", path, accept=chance.choice(["application/xml", "text/html", "*/*", "application/json;q=0.5"]), pair=pair)
        elif how == 4:
            self.request("GET", kind.collection(self.name).replace("/v1/", "/v7/", 1), pair=pair)
        elif how == 5:
            self.request("DELETE", path + "/status" if kind.subresources else path + "/x", pair=pair)
        else:
            self.request("GET", path.replace(f"/namespaces/{self.name}", "") if kind.namespaced else kind.prefix + f"/namespaces/{self.name}/{kind.plural}/x", pair=pair)
