"""Sends requests to a real kube-apiserver and writes them down in the format of tests/reference/kube."""

import http.client
import json
import re
import ssl
import time
import urllib.parse

UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GIVEN_UID = "11111111-2222-4333-8444-555555555555"  # input of kube_requests, not an answer
TIME = re.compile(r"(?!2001)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
CLUSTER_IP = re.compile(r"127\.96\.\d+\.\d+")
JWT = re.compile(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
HEADERS = ("content-type", "warning", "retry-after", "allow")
# Who asks: the certificate is the administrator's, who may act as anybody.
PRINCIPALS = {"admin": {}, "viewer": {"Impersonate-User": "vera", "Impersonate-Group": "lab:viewers"}, "nobody": {"Impersonate-User": "nobody"}}


class Overloaded(Exception):
    """The machine was too busy for the real server: what it answered says nothing."""


class Connection:
    def __init__(self, address, pki):
        self.address = address
        self.context = ssl.create_default_context(cafile=f"{pki}/ca.crt")
        self.context.check_hostname = False
        self.context.load_cert_chain(f"{pki}/admin.crt", f"{pki}/admin.key")
        self.http = None

    def exchange(self, method, target, headers, body):
        for attempt in range(3):
            try:
                if self.http is None:
                    self.http = http.client.HTTPSConnection(self.address, 6443, context=self.context, timeout=60)
                self.http.request(method, target, body, headers)
                answer = self.http.getresponse()
                return answer.status, answer.reason, [(key.lower(), value) for key, value in answer.getheaders()], answer.read()
            except (http.client.HTTPException, ConnectionError):
                self.http = None
                if attempt == 2 or method != "GET":
                    raise


class Recorder:
    """One case: its steps as they happened, and as a recording."""

    def __init__(self, connection, identity, version):
        self.connection, self.identity, self.version = connection, identity, version
        self.steps, self.pairs = [], []

    def send(self, request, who="admin", setup=False, pair=""):
        target = urllib.parse.quote(request["path"], safe="/")
        if request.get("query"):
            target += "?" + "&".join(f"{urllib.parse.quote(key, safe='')}={urllib.parse.quote(value, safe='')}" for key, value in request["query"])
        body = None
        if "bodyText" in request:
            body = request["bodyText"].encode()
        elif "body" in request:
            body = json.dumps(request["body"]).encode()
        for _ in range(5):
            status, reason, headers, raw = self.connection.exchange(
                request["method"], target, {"User-Agent": "rocca/1.0", **request["headers"], **PRINCIPALS[who]}, body)
            if status != 429 or b"disruption budget" in raw:
                break
            time.sleep(1)  # its own storage is not ready yet
        if status == 504:
            raise Overloaded(f"{request['method']} {request['path']}: {raw[:200]}")
        response = {"status": status, "reason": reason, "headers": {}}
        for name in HEADERS:
            values = [value for key, value in headers if key == name]
            if values:
                response["headers"][name] = values if name == "warning" else values[0]
        text = raw.decode(errors="replace")
        answer = None
        watching = any(key == "watch" for key, _ in request.get("query", ()))
        try:
            if watching and status == 200:
                response["stream"] = answer = [json.loads(line) for line in text.splitlines() if line]
            else:
                answer = json.loads(text)
                response["body"] = self.without_chance(request, answer)
        except ValueError:
            response["bodyText"] = answer = text
        self.steps.append({"as": who, "request": request, "response": response, **({"setup": True} if setup else {})})
        self.pairs.append(pair)
        return status, answer

    @staticmethod
    def without_chance(request, answer):
        """An answer from the cache has the version of the cache, which is any version up to now."""
        query = dict(request.get("query", ()))
        if query.get("resourceVersion") and query.get("resourceVersionMatch") != "Exact" and isinstance(answer, dict) and "items" in answer:
            return {**answer, "metadata": {**answer["metadata"], "resourceVersion": "<rv>"}}
        return answer

    def event(self, text):
        time.sleep(0.8 if "Established" in text or "1 s" in text else 0.4)
        self.steps.append({"event": text})
        self.pairs.append("")

    def recording(self):
        title = "requests made by a program, answers of a real API server"
        return {"id": self.identity, "title": title, "server": f"kube-apiserver {self.version}",
                "note": f"made by scripts/peers from kube-apiserver {self.version}", "steps": Marks(self.steps).marked(self.steps)}


class Marks:
    """Volatile values of one case, replaced by the placeholders of tests/reference/kube/README.md."""

    def __init__(self, steps):
        self.uids, self.addresses, self.tokens, self.versions, self.generated = {}, {}, {}, set(), {}
        self._collect(steps)
        self.order = {value: f"<rv:{place + 1}>" for place, value in enumerate(sorted(self.versions, key=int))}

    def _collect(self, value, key=""):
        if isinstance(value, dict):
            name, begin = value.get("name"), value.get("generateName")
            self._collect_refused(value)
            if isinstance(name, str) and isinstance(begin, str) and begin and name.startswith(begin) and len(name) == len(begin) + 5 and "uid" in value:
                self.generated.setdefault(name, f"{begin}<rand5:{len(self.generated) + 1}>")
            for inner, part in value.items():
                self._collect(part, inner)
        elif isinstance(value, list):
            for part in value:
                self._collect(part, key)
        elif isinstance(value, str):
            if key == "resourceVersion" and value.isdigit() and int(value) > 1:
                self.versions.add(value)
            if key == "continue" and value:
                self.tokens.setdefault(value, f"<continue:{len(self.tokens) + 1}>")

    def _collect_refused(self, step):
        """The name that was generated for an object that was refused then."""
        sent = (step.get("request") or {}).get("body") if isinstance(step.get("request"), dict) else None
        answer = (step.get("response") or {}).get("body") if isinstance(step.get("response"), dict) else None
        if not isinstance(sent, dict) or not isinstance(answer, dict) or not isinstance(sent.get("metadata"), dict):
            return
        begin, name = sent["metadata"].get("generateName"), (answer.get("details") or {}).get("name")
        if isinstance(begin, str) and begin and isinstance(name, str) and name.startswith(begin) and len(name) == len(begin) + 5:
            self.generated.setdefault(name, f"{begin}<rand5:{len(self.generated) + 1}>")

    def text(self, value, key=""):
        # The name of the program and its issuer are this run's, the recordings have these.
        value = re.sub(r"kube-apiserver-v[0-9.]+", "kube-apiserver", value).replace("https://peer.invalid", "https://127.0.40.1:6443")
        if key in ("resourceVersion", "query resourceVersion") or (key == "value" and value in self.order):
            return self.order.get(value, value)
        if value in self.tokens:
            return self.tokens[value]
        for name, mark in self.generated.items():
            value = value.replace(name, mark)
        if "esource" in value and "ersion" in value:
            value = re.sub(r"\b\d{2,}\b", lambda match: self.order.get(match[0], match[0]), value)
        value = UID.sub(lambda match: match[0] if match[0] == GIVEN_UID else self.uids.setdefault(match[0], f"<uid:{len(self.uids) + 1}>"), value)
        value = CLUSTER_IP.sub(lambda match: self.addresses.setdefault(match[0], f"<clusterIP:{len(self.addresses) + 1}>"), value)
        value = JWT.sub("<jwt>", value)
        return TIME.sub(lambda match: "<time>" if not match[1] else "<microtime>" if len(match[1]) == 7 else "<nanotime>", value)

    def marked(self, value, key=""):
        if isinstance(value, dict):
            return {self.text(inner): self.query(part) if inner == "query" else self.marked(part, inner) for inner, part in value.items()}
        if isinstance(value, list):
            return [self.marked(part, key) for part in value]
        return self.text(value, key) if isinstance(value, str) else value

    def query(self, pairs):
        if not isinstance(pairs, list):
            return self.marked(pairs)
        return [[key, self.text(value, f"query {key}")] for key, value in pairs]
