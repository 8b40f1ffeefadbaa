"""Real Talos nodes on this machine: machined, apid, trustd and etcd in Talos's container mode, without any image download.

A scenario calls `enter()` first: from then on it lives in a network and a mount namespace of its own, and with it go the
bridge, every mount and, because each process dies with its parent, every node. What namespaces do not hold are control
groups; a run that was killed leaves empty ones, which the next run removes.

As a program it is the first process of a node, which makes the node's root and becomes Talos's init:
  real_nodes.py FOLDER NAME DESCRIPTOR
"""

import ctypes
import errno
import gzip
import hashlib
import http.client
import http.server
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import uuid

NETWORK, HERE = "10.5.0.0/24", "10.5.0.1"
REGISTRY, BEHIND, DISCOVERY = f"{HERE}:5000", f"{HERE}:5001", f"{HERE}:3000"
ENTERED = "ROCCA_NODES_ENTERED"
CGROUPS = "rocca-nodes-"  # and the id of the process that made them
# Each is a mount of its own, as volumes are in a container; what is in them outlives a reboot.
KEPT = ["var", "system/state", "etc/cni", "etc/kubernetes", "usr/libexec/kubernetes", "opt"]
# What Talos sets there would be set for the whole machine.
HOST_WIDE = ["kernel/panic", "kernel/pid_max", "vm/overcommit_memory", "fs/inotify/max_user_instances", "fs/aio-max-nr"]

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 1, 32, 4096, 16384, 1 << 18, 2
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def system(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind=None, flags=0, data=None):
    words = [None if word is None else str(word).encode() for word in (source, target, kind, data)]
    system(libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enter():
    """Puts the scenario that runs into namespaces of its own; says why it cannot."""
    if os.environ.get(ENTERED):
        remove_leftovers()
        return
    if os.geteuid() != 0:
        print("real nodes need root")
        sys.exit(77)
    for program in ("unshare", "nsenter", "ip"):
        if not shutil.which(program):
            print(f"real nodes need {program}")
            sys.exit(77)
    if reason := forbidden():
        print(f"real nodes cannot be run here: {reason}")
        sys.exit(77)
    os.environ[ENTERED] = "yes"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def forbidden():
    """Why this machine cannot run nodes, root or not: what a container is often not allowed."""
    links = "ip link add br0 type bridge && ip link add v0 type veth peer name v1 && mount -t tmpfs none /mnt"
    done = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "sh", "-c", links], capture_output=True, text=True)
    if done.returncode != 0:
        return "namespaces, bridges or mounts: " + (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    if not hierarchies():
        return "there are no control groups"
    for place in hierarchies():
        group = f"{place}/{CGROUPS}{os.getpid()}"
        try:
            os.mkdir(group)
            os.rmdir(group)
        except OSError as error:
            return f"control groups: {error}"
    return ""


def hierarchies():
    """{where it is mounted: its mount options} of the control groups that containers are put into."""
    found = {}
    for line in pathlib.Path("/proc/mounts").read_text().splitlines():
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup2" and place == "/sys/fs/cgroup":
            return {place: None}
        if kind == "cgroup":
            given = [word for word in options.split(",") if word not in ("rw", "ro", "relatime", "nosuid", "nodev", "noexec")]
            found[place] = ",".join(["none", *given] if all("=" in word for word in given) else given)
    return found


def remove_leftovers():
    for place in hierarchies():
        for group in pathlib.Path(place).glob(CGROUPS + "*"):
            if not os.path.exists(f"/proc/{group.name[len(CGROUPS):]}"):
                remove_group(group)


def remove_group(group):
    """An empty group; one whose last process is just ending is given the time for it."""
    for folder, _, _ in os.walk(group, topdown=False):
        for attempt in range(50):
            try:
                os.rmdir(folder)
                break
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                threading.Event().wait(0.1)


class Image:
    """A small OCI image of a few files, as a folder that crane pushes."""

    def __init__(self, folder, files):
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            for name, source in files.items():
                entry = tar.gettarinfo(source, name)
                entry.mode, entry.uid, entry.gid, entry.uname, entry.gname = 0o755, 0, 0, "", ""
                with open(source, "rb") as file:
                    tar.addfile(entry, file)
        self.folder = folder
        os.makedirs(f"{folder}/blobs/sha256")
        layers = [self.blob(gzip.compress(layer.getvalue(), 1), "application/vnd.oci.image.layer.v1.tar+gzip")]
        config = {"architecture": "amd64", "os": "linux", "config": {"Entrypoint": ["/" + next(iter(files))]},
                  "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()]}}
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "config": self.blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
                    "layers": layers}
        index = {"schemaVersion": 2, "manifests": [self.blob(json.dumps(manifest).encode(), manifest["mediaType"])]}
        pathlib.Path(folder, "index.json").write_text(json.dumps(index))
        pathlib.Path(folder, "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, data, kind):
        digest = hashlib.sha256(data).hexdigest()
        pathlib.Path(self.folder, "blobs/sha256", digest).write_bytes(data)
        return {"mediaType": kind, "digest": "sha256:" + digest, "size": len(data)}


class Ranges(http.server.BaseHTTPRequestHandler):
    """In front of crane's registry, which refuses a range without an end (416) for ever.

    `bootstrap` restarts etcd's service; when that cuts the first pull of its image, containerd goes on from where it was, and
    asks for just such a range.
    """

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        upstream = http.client.HTTPConnection(BEHIND, timeout=60)
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted:
            upstream.request("HEAD", self.path)
            head = upstream.getresponse()
            head.read()
            size = int(head.headers["Content-Length"])
            self.headers.replace_header("Range", f"bytes={wanted[1]}-{size - 1}")
        upstream.request(self.command, self.path, headers={name: value for name, value in self.headers.items() if name != "Host"})
        answer = upstream.getresponse()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        shutil.copyfileobj(answer, self.wfile)
        upstream.close()

    do_HEAD = do_GET

    def log_message(self, *words):
        pass


class RangeServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # whoever asked is gone: a pull that was cut
            super().handle_error(request, client)


def make_root(root, init, files, programs):
    """The root file system that the container image of Talos has, as far as container mode looks at it."""
    for folder in ["usr/bin", "usr/lib/modules", "usr/lib/firmware", "usr/etc", "usr/local/bin", "usr/local/share",
                   "usr/local/lib/kubelet/credentialproviders", "usr/libexec/kubernetes", "usr/share", "etc/cri/conf.d/hosts",
                   "etc/containerd", "etc/lvm", "etc/ssl/certs", "etc/selinux/targeted/contexts/files", "etc/iscsi", "etc/nvme",
                   "etc/cni", "etc/kubernetes", "opt", "proc", "sys", "dev", "run", "tmp", "system", "var", "boot", "mnt"]:
        os.makedirs(f"{root}/{folder}")
    for name, target in {"bin": "usr/bin", "sbin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib", "usr/sbin": "bin",
                         "etc/ssl/certs/ca-certificates": "ca-certificates.crt", "etc/pki": "/etc/ssl",
                         "etc/ca-certificates": "/etc/ssl", "usr/share/ca-certificates": "/etc/ssl",
                         "usr/local/share/ca-certificates": "/etc/ssl", "var/run": "/run"}.items():
        os.symlink(target, f"{root}/{name}")
    # Talos binds its own over these.
    for name in ["extensions.yaml", "resolv.conf", "hosts", "hostname", "machine-id", "localtime", "cri/conf.d/cri.toml",
                 "cri/conf.d/01-registries.part", "cri/conf.d/20-customization.part", "cri/conf.d/base-spec.json",
                 "ssl/certs/ca-certificates.crt", "selinux/targeted/contexts/files/file_contexts",
                 "iscsi/initiatorname.iscsi", "nvme/hostid", "nvme/hostnqn"]:
        pathlib.Path(root, "etc", name).touch()
    for name, target in {"containerd.toml": "containerd/config.toml", "cri-containerd.toml": "cri/containerd.toml",
                         "cri-plugin.part": "cri/conf.d/00-base.part", "lvm.conf": "lvm/lvm.conf",
                         "nfsmount.conf": "nfsmount.conf"}.items():
        shutil.copyfile(f"{files}/hack/{name}", f"{root}/etc/{target}")
    pathlib.Path(root, "etc/os-release").write_text('NAME="Talos"\nID=talos\n')
    pathlib.Path(root, "usr/etc/in-container").write_text("true\n")
    for name, source in {"init": init, **programs}.items():
        shutil.copy2(source, f"{root}/usr/bin/{name}")
        os.chmod(f"{root}/usr/bin/{name}", 0o755)
    for name in ("poweroff", "shutdown", "dashboard"):
        os.link(f"{root}/usr/bin/init", f"{root}/usr/bin/{name}")


class Node:
    """One node: started again after a reboot, as a machine is, and not after it was switched off."""

    def __init__(self, site, name, address):
        self.site, self.name, self.address = site, name, address
        self.folder = f"{site.folder}/{name}"
        self.link = "v-" + name
        self.boots, self.process, self.wanted = 0, None, True
        self.make_folders()
        self.groups = [f"{place}/{CGROUPS}{os.getpid()}/{name}" for place in hierarchies()]
        self.start()

    def make_folders(self):
        os.makedirs(f"{self.folder}/root")
        for kept in KEPT:
            os.makedirs(f"{self.folder}/{kept}")
        for inner in ("etc/cni/net.d", "etc/kubernetes/manifests", "opt/containerd/bin", "opt/containerd/lib"):
            os.makedirs(f"{self.folder}/{inner}")
        os.symlink("/run", f"{self.folder}/var/run")

    def wipe(self):
        """Stopped, it comes back as a new machine at the same address."""
        shutil.rmtree(self.folder)
        self.make_folders()
        self.start()

    def start(self):
        self.wanted, self.failure, self.begun = True, None, threading.Event()
        threading.Thread(target=self.live, daemon=True).start()
        self.begun.wait()
        if self.failure:
            raise self.failure

    def live(self):
        # A process that is to die with its parent dies with the thread that made it: this one stays.
        try:
            while self.wanted:
                self.boot()
                self.begun.set()
                # Within a pid namespace reboot(2) ends its first process by SIGHUP, and power-off by SIGINT.
                if self.process.wait() != -signal.SIGHUP:
                    return
        except Exception as failure:
            self.failure = failure
            self.begun.set()

    def boot(self):
        self.boots += 1
        for group in self.groups:
            os.makedirs(group, exist_ok=True)
            inherit_cpus(group)
        go_read, go_write = os.pipe()
        ready_read, ready_write = os.pipe()

        def prepare():
            die_with_parent()
            for group in self.groups:
                pathlib.Path(group, "cgroup.procs").write_text("0")

        with open(f"{self.folder}/console.log", "ab") as log:
            self.process = subprocess.Popen(
                ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup", "--net",
                 sys.executable, os.path.abspath(__file__), self.folder, self.name, f"{go_read},{ready_write}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(go_read, ready_write), preexec_fn=prepare,
                env={"PATH": os.environ["PATH"]})
        os.close(go_read), os.close(ready_write)
        if not os.read(ready_read, 1):
            raise RuntimeError(f"{self.name} did not begin:\n{self.console()}")
        self.plug_in()
        os.write(go_write, b"1")
        os.close(go_write), os.close(ready_read)

    def plug_in(self):
        # Its end in the bridge went with the namespace of an earlier boot, sooner or later.
        subprocess.run(["ip", "link", "delete", self.link], capture_output=True)
        pid = str(self.process.pid)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "address", mac_of(self.address), "netns", pid)
        ip("link", "set", self.link, "master", "br0", "up")
        inside = ["nsenter", "--net", "--target", pid]
        ip("link", "set", "lo", "up", before=inside)
        ip("addr", "add", self.address + "/24", "dev", "eth0", before=inside)
        ip("link", "set", "eth0", "up", before=inside)
        ip("route", "add", "default", "via", HERE, before=inside)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """As if somebody pulled the plug."""
        self.wanted = False
        self.process.kill()
        self.process.wait()

    def console(self):
        return pathlib.Path(self.folder, "console.log").read_text(errors="replace")[-4000:]


def mac_of(address):
    return "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def inherit_cpus(group):
    """A cpuset of version 1 begins empty, and then takes nobody."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        chain = [pathlib.Path(group).parent, pathlib.Path(group)]
        for folder in chain:
            file = folder / name
            if file.exists() and not file.read_text().strip() and not (folder / "cgroup.controllers").exists():
                file.write_text((folder.parent / name).read_text())


def ip(*words, before=()):
    done = subprocess.run([*before, "ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Site:
    """A private network without a way out, with a registry, a discovery service and nodes."""

    def __init__(self, folder, images):
        self.folder, self.nodes, self.servants = os.path.abspath(folder), {}, []
        os.makedirs(self.folder)
        environment = os.environ
        make_root(f"{self.folder}/rootfs", environment["PEER_MACHINED"], environment["PEER_TALOS_HACK"], {
            "containerd": environment["PEER_CONTAINERD"], "runc": environment["PEER_RUNC"],
            "containerd-shim-runc-v2": environment["PEER_CONTAINERD_SHIM_RUNC_V2"]})
        ip("link", "set", "lo", "up")
        ip("link", "add", "br0", "type", "bridge")
        ip("addr", "add", HERE + "/24", "dev", "br0")
        ip("link", "set", "br0", "up")
        self.serve(environment["PEER_CRANE"], "registry", "serve", "--address", BEHIND)
        self.ranges = RangeServer((HERE, int(REGISTRY.split(":")[1])), Ranges)
        threading.Thread(target=self.ranges.serve_forever, daemon=True).start()
        self.serve(environment["PEER_DISCOVERY_SERVICE"], "-addr", DISCOVERY, "-landing-addr", "", "-metrics-addr", "",
                   "-snapshots-enabled=false")
        for number, (name, files) in enumerate(images.items()):
            image = Image(f"{self.folder}/image-{number}", files)
            self.push(environment["PEER_CRANE"], image, name)
            self.need_ranges(image, name)

    def serve(self, *words):
        with open(f"{self.folder}/{os.path.basename(words[0])}.log", "wb") as log:
            self.servants.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                  preexec_fn=die_with_parent))

    def push(self, crane, image, name):
        for attempt in range(50):  # until the registry listens
            done = subprocess.run([crane, "push", "--insecure", image.folder, f"{BEHIND}/{name}"], capture_output=True,
                                  text=True)
            if done.returncode == 0:
                return
            if "connection refused" not in done.stderr:
                break
            threading.Event().wait(0.1)
        raise RuntimeError(f"crane push {name}: {done.stderr.strip()}")

    def need_ranges(self, image, name):
        """A pull that was cut goes on where it was."""
        blob = max(pathlib.Path(image.folder, "blobs/sha256").iterdir(), key=lambda file: file.stat().st_size)
        asked = http.client.HTTPConnection(REGISTRY, timeout=60)
        asked.request("GET", f"/v2/{name.split(':')[0]}/blobs/sha256:{blob.name}", headers={"Range": "bytes=1000-"})
        answer = asked.getresponse()
        if answer.status != 206 or answer.read() != blob.read_bytes()[1000:]:
            raise RuntimeError(f"the registry does not go on with a blob of {name} where a pull was cut")

    def add(self, name, address):
        self.nodes[name] = Node(self, name, address)
        return self.nodes[name]

    def close(self):
        for node in self.nodes.values():
            if node.running():
                node.stop()
        self.ranges.shutdown()
        for servant in self.servants:
            servant.kill()
            servant.wait()
        for place in hierarchies():
            remove_group(f"{place}/{CGROUPS}{os.getpid()}")


def make_devices(dev):
    mount("dev", dev, "tmpfs", 0, "mode=755")
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        pathlib.Path(dev, name).touch()
        mount(f"/dev/{name}", f"{dev}/{name}", None, MS_BIND)
    for name in ("pts", "shm", "mqueue"):
        os.mkdir(f"{dev}/{name}")
    mount("devpts", f"{dev}/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
    os.symlink("pts/ptmx", f"{dev}/ptmx")
    mount("shm", f"{dev}/shm", "tmpfs")
    mount("mqueue", f"{dev}/mqueue", "mqueue")
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        os.symlink(target, f"{dev}/{name}")


def make_groups(place):
    """The node's own control groups, as the roots of all that it sees."""
    found = hierarchies()
    if list(found.values()) == [None]:
        mount("cgroup2", place, "cgroup2")
        return
    mount("cgroup", place, "tmpfs", 0, "mode=755")
    for old, options in found.items():
        new = f"{place}/{os.path.basename(old)}"
        os.mkdir(new)
        mount("cgroup", new, "cgroup", 0, options)


def become_init(folder, name):
    root = f"{folder}/root"
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount(f"{folder}/../rootfs", root, None, MS_BIND)
    for place in ("run", "system", "tmp"):
        mount("tmpfs", f"{root}/{place}", "tmpfs")
    os.mkdir(f"{root}/system/state")
    for kept in KEPT:
        mount(f"{folder}/{kept}", f"{root}/{kept}", None, MS_BIND)
    make_devices(f"{root}/dev")
    mount("proc", f"{root}/proc", "proc")
    mount("sysfs", f"{root}/sys", "sysfs")
    make_groups(f"{root}/sys/fs/cgroup")
    # The machine's own settings are shown and can be written, without an effect; each boot has an id of its own.
    os.mkdir(f"{root}/run/sys")
    files = {key: pathlib.Path("/proc/sys", key).read_text() for key in HOST_WIDE}
    files["kernel/random/boot_id"] = f"{uuid.uuid4()}\n"
    for key, text in files.items():
        file = pathlib.Path(root, "run/sys", key.replace("/", "."))
        file.write_text(text)
        mount(file, f"{root}/proc/sys/{key}", None, MS_BIND)
    pathlib.Path(f"{root}/run/hostname").write_text(name + "\n")
    mount(f"{root}/run/hostname", f"{root}/etc/hostname", None, MS_BIND)
    system(libc.sethostname(name.encode(), len(name)), "sethostname")
    mount(None, root, None, MS_REMOUNT | MS_BIND | MS_RDONLY)
    os.chdir(root)
    system(libc.pivot_root(b".", b"."), "pivot_root")
    system(libc.umount2(b".", MNT_DETACH), "umount the old root")
    os.chdir("/")
    os.execve("/usr/bin/init", ["/sbin/init"], {"PLATFORM": "container", "TALOSSKU": "2CPU-2048RAM", "container": "docker",
                                                "PATH": "/usr/bin"})


if __name__ == "__main__":
    go, ready = map(int, sys.argv[3].split(","))
    os.write(ready, b"1")
    os.close(ready)
    os.read(go, 1)  # the network is there
    os.close(go)
    become_init(sys.argv[1], sys.argv[2])
