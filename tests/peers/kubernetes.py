"""Real parts of Kubernetes and Flux for scenarios: a control plane on loopback, Flux's controllers outside of the cluster
they work on, a Git server."""

import base64
import http.server
import os
import shutil
import subprocess
import threading

import scenario
from scenario import ENVIRONMENT, check, expect, run, tried, until, write

PEER_BUILD = os.environ["PEER_BUILD"]


def peer(name):
    return os.environ["PEER_" + name]


class Program:
    """A server that runs in the background; the runner of scenarios ends it if nobody else does."""

    def __init__(self, name, *words, **environment):
        self.name, self.log = name, f"{name}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([str(word) for word in words], stdout=log, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, env={**ENVIRONMENT, **environment})

    def last_words(self):
        return "".join(open(self.log, errors="replace").readlines()[-8:])

    def alive(self):
        check(self.process.poll() is None, f"{self.name} ended", self.last_words())
        return True

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


class ControlPlane:
    """The real etcd and kube-apiserver; with `controllers` also the controller manager, the scheduler and kwok, which plays
    nodes and pods. Services get loopback addresses: a webhook that is dialled stays on the machine."""

    def __init__(self, controllers=False):
        number = os.getpid()
        at = self.address = f"127.{number % 250 + 2}.{number // 250 % 250 + 2}.9"
        pki = os.path.abspath("pki")
        self.kubeconfig = f"{pki}/kubeconfig"
        run(f"{PEER_BUILD}/peers/peer_store", "pki", pki, at)
        self.programs = [
            Program("etcd", peer("ETCD"), "--name=peer", "--data-dir=etcd", "--unsafe-no-fsync",
                    f"--listen-client-urls=https://{at}:2379", f"--advertise-client-urls=https://{at}:2379",
                    f"--listen-peer-urls=https://{at}:2380", f"--initial-advertise-peer-urls=https://{at}:2380",
                    f"--initial-cluster=peer=https://{at}:2380", "--client-cert-auth", f"--trusted-ca-file={pki}/ca.crt",
                    f"--cert-file={pki}/server.crt", f"--key-file={pki}/server.key", "--peer-client-cert-auth",
                    f"--peer-trusted-ca-file={pki}/ca.crt", f"--peer-cert-file={pki}/server.crt",
                    f"--peer-key-file={pki}/server.key"),
            Program("apiserver", peer("KUBE_APISERVER"), f"--bind-address={at}", "--secure-port=6443",
                    "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none", f"--etcd-servers=https://{at}:2379",
                    f"--etcd-cafile={pki}/ca.crt", f"--etcd-certfile={pki}/etcd-client.crt",
                    f"--etcd-keyfile={pki}/etcd-client.key", f"--client-ca-file={pki}/ca.crt",
                    f"--tls-cert-file={pki}/server.crt", f"--tls-private-key-file={pki}/server.key",
                    "--service-account-issuer=https://peer.invalid", f"--service-account-key-file={pki}/service-account.crt",
                    f"--service-account-signing-key-file={pki}/service-account.key", "--service-cluster-ip-range=127.96.0.0/16",
                    "--authorization-mode=Node,RBAC", "--anonymous-auth=false", "--allow-privileged=true", "--profiling=false")]
        until("kube-apiserver is ready", lambda: all(p.alive() for p in self.programs) and self.tried("get", "namespace", "default")[0] == 0,
              120)
        if controllers:
            self._start_controllers(pki)

    def _start_controllers(self, pki):
        named = [f"--{use}kubeconfig={self.kubeconfig}" for use in ("", "authentication-", "authorization-")]
        self.programs += [
            Program("controller-manager", peer("KUBE_CONTROLLER_MANAGER"), *named, f"--bind-address={self.address}",
                    "--secure-port=10257", "--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16",
                    "--service-cluster-ip-range=127.96.0.0/16", "--configure-cloud-routes=false",
                    f"--cluster-signing-cert-file={pki}/ca.crt", f"--cluster-signing-key-file={pki}/ca.key",
                    f"--root-ca-file={pki}/ca.crt", f"--service-account-private-key-file={pki}/service-account.key",
                    "--controllers=*,tokencleaner", "--use-service-account-credentials=true", "--leader-elect=false"),
            Program("scheduler", peer("KUBE_SCHEDULER"), *named, f"--bind-address={self.address}", "--secure-port=10259",
                    "--leader-elect=false"),
            Program("kwok", peer("KWOK"), f"--kubeconfig={self.kubeconfig}", "--manage-all-nodes=true",
                    "--node-lease-duration-seconds=40", "--cidr=10.244.0.0/16", "--node-ip=10.0.0.21",
                    f"--server-address={self.address}:10247")]

    def kubectl(self, *words):
        return [peer("KUBECTL"), "--kubeconfig", self.kubeconfig, *words]

    def tried(self, *words, **more):
        return tried(*self.kubectl(*words), **more)

    def expect(self, pattern, *words, **more):
        return expect(pattern, *self.kubectl(*words), **more)

    def add_node(self, name):
        self.expect("created", "create", "-f", "-", data=(
            "{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {kubernetes.io/hostname: %s}}}" % (name, name)).encode())

    def stop(self):
        for program in reversed(self.programs):
            program.stop()


FLUX = {"source-controller": "FLUX_SOURCE", "kustomize-controller": "FLUX_KUSTOMIZE", "helm-controller": "FLUX_HELM",
        "notification-controller": "FLUX_NOTIFICATION"}


def flux_manifests():
    """What `flux install --export` would print: its kustomization, with the controllers' own files in place of the releases
    that it downloads."""
    shutil.copytree(os.path.join(peer("FLUX2"), "manifests"), "flux2")
    for name, variable in FLUX.items():
        base = f"flux2/bases/{name}"
        shutil.copytree(os.path.join(peer(variable), "config"), f"{base}/config")
        path = f"{base}/kustomization.yaml"
        lines = [line for line in scenario.read(path).splitlines() if "https://" not in line]
        at = lines.index("resources:") + 1
        write(path, "\n".join([*lines[:at], "- config/crd", "- config/manager", *lines[at:]]) + "\n")
    path = "flux2/install/kustomization.yaml"
    left_out = ("image-reflector", "image-automation", "source-watcher")
    write(path, "\n".join(line for line in scenario.read(path).splitlines()
                          if not ("../bases/" in line and any(name in line for name in left_out))) + "\n")
    return run(peer("KUBECTL"), "kustomize", "flux2/install")


def definitions(folder):
    """All definitions of a folder as one stream."""
    return "---\n".join(scenario.read(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
                         if name.endswith(".yaml") and name != "kustomization.yaml")


def stand_in_definition(group, version, kind, plural, scope="Namespaced"):
    """For a kind whose real definition cannot be had: any object of it is taken."""
    return (f"---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{ name: {plural}.{group} }}\n"
            f"spec:\n  group: {group}\n  scope: {scope}\n  names: {{ kind: {kind}, plural: {plural}, singular: {kind.lower()} }}\n"
            f"  versions:\n    - {{ name: {version}, served: true, storage: true, schema: {{ openAPIV3Schema: {{ type: object, "
            "x-kubernetes-preserve-unknown-fields: true } } }\n")


METALLB = (stand_in_definition("metallb.io", "v1beta1", "IPAddressPool", "ipaddresspools") +
           stand_in_definition("metallb.io", "v1beta1", "L2Advertisement", "l2advertisements"))


class GitServer:
    """`git http-backend` behind a small HTTP server: the bare repositories of a folder, for whoever has the token. And for
    everybody the index of a server of charts, below /charts/NAME."""

    def __init__(self, folder, token):
        wanted = "Basic " + base64.b64encode(f"git:{token}".encode()).decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                if self.path.startswith("/charts/"):
                    name = self.path.split("/")[2]
                    index = (f"apiVersion: v1\nentries:\n  {name}:\n    - {{ apiVersion: v2, name: {name}, version: 1.0.0, "
                             "urls: [ nowhere.tgz ], digest: 0 }\n").encode()
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(index)))
                    self.end_headers()
                    self.wfile.write(index)
                    return
                if self.headers.get("Authorization") != wanted:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="git"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                path, _, query = self.path.partition("?")
                if self.headers.get("Transfer-Encoding") == "chunked":
                    body = b""
                    while size := int(self.rfile.readline(), 16):
                        body += self.rfile.read(size)
                        self.rfile.readline()
                    self.rfile.readline()
                else:
                    body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env={
                    **ENVIRONMENT, "GIT_PROJECT_ROOT": os.path.abspath(folder), "GIT_HTTP_EXPORT_ALL": "1",
                    "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query, "REMOTE_USER": "git",
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")})
                head, _, answer = done.stdout.partition(b"\r\n\r\n")
                fields = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
                status = next((value for key, value in fields if key == "Status"), "200")
                self.send_response(int(status.split()[0]))
                for key, value in fields:
                    if key != "Status":
                        self.send_header(key, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Repository:
    """A working copy and the bare repository that it pushes to."""

    def __init__(self, folder, bare):
        self.folder = folder
        run("git", "init", "-q", "--bare", "-b", "main", bare)
        run("git", "init", "-q", "-b", "main", folder)
        self._git("remote", "add", "origin", os.path.abspath(bare))

    def _git(self, *words):
        return run("git", "-C", self.folder, "-c", "user.name=ann", "-c", "user.email=ann@home", *words).strip()

    def push(self, why):
        """The commit."""
        self._git("add", "-A")
        self._git("commit", "-qm", why)
        self._git("push", "-q", "origin", "main")
        return self._git("rev-parse", "HEAD")


class FluxControllers:
    """source-controller and kustomize-controller, started outside of the cluster that `kubeconfig` names."""

    def __init__(self, kubeconfig, **environment):
        number = os.getpid()
        host = f"127.{number % 250 + 2}.{number // 250 % 250 + 2}.7"
        address = lambda offset: f"{host}:{9090 + offset}"
        around = {"KUBECONFIG": os.path.abspath(kubeconfig), "RUNTIME_NAMESPACE": "flux-system", "TMPDIR": os.getcwd(), **environment}
        common = ["--events-addr=", "--watch-all-namespaces=true", "--enable-leader-election=false"]
        os.makedirs("artifacts")
        self.programs = [
            Program("source-controller", peer("SOURCE_CONTROLLER"), "--storage-path=artifacts", f"--storage-addr={address(0)}",
                    f"--storage-adv-addr={address(0)}", f"--metrics-addr={address(1)}", f"--health-addr={address(2)}", *common,
                    **around),
            Program("kustomize-controller", peer("KUSTOMIZE_CONTROLLER"), f"--metrics-addr={address(3)}",
                    f"--health-addr={address(4)}", "--requeue-dependency=3s", "--no-remote-bases=true", *common, **around)]

    def alive(self):
        return all(program.alive() for program in self.programs)

    def stop(self):
        for program in self.programs:
            program.stop()
