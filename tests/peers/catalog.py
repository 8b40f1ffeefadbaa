"""Reads tests/peers/versions and knows where a built tool lies."""

import os
import pathlib
import re
import subprocess
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
KEYS = {"peer", "version", "debian", "program", "module", "package", "sum", "local", "replace", "ldflags", "tags", "cgo",
        "without", "edit", "from", "to", "minutes", "files", "wheel"}


class Problem(Exception):
    """Something the reader of the message can mend."""


def cache_folder():
    named = os.environ.get("ROCCA_PEERS_CACHE")
    return pathlib.Path(named) if named else pathlib.Path.home() / ".cache/rocca/peers"


class Edit(NamedTuple):
    """One line of a tool's source that this machine needs otherwise, because it lacks a capability."""

    without: str
    path: str
    old: str
    new: str

    def needed(self):
        bits = {"CAP_SYS_RESOURCE": 24}
        if self.without not in bits:
            raise Problem(f"`without: {self.without}`: known are {', '.join(bits)}")
        status = pathlib.Path("/proc/self/status").read_text()
        return not int(re.search(r"^CapEff:\s*(\w+)", status, re.M)[1], 16) >> bits[self.without] & 1


class Wheel(NamedTuple):
    """One Python package, as its author built it."""

    name: str
    version: str
    sha256: str

    @staticmethod
    def parse(line, place):
        words = line.split()
        if len(words) != 3 or not re.fullmatch("[0-9a-f]{64}", words[2]):
            raise Problem(f"{place}: `wheel` is NAME VERSION SHA256")
        return Wheel(*words)


class Peer:
    """One tool at one version."""

    def __init__(self, fields, place):
        unknown = set(fields) - KEYS
        if unknown:
            raise Problem(f"{place}: unknown key {sorted(unknown)[0]!r}")
        if "peer" not in fields or len({"debian", "module", "wheel"} & set(fields)) != 1:
            raise Problem(f"{place}: a paragraph needs `peer` and one of `debian`, `module` or `wheel`")
        if "module" in fields and not ({"version", "package", "minutes"} <= set(fields) or
                                       {"version", "files", "sum"} <= set(fields)):
            raise Problem(f"{place}: a Go tool needs `version`, `package` and `minutes`, a module's files `version`, "
                          "`files` and `sum`")
        self.name = fields["peer"][0]
        self.debian = fields.get("debian", [None])[0]
        self.program = fields.get("program", [None])[0]
        self.module = fields.get("module", [None])[0]
        self.package = fields.get("package", [None])[0]
        self.files = " ".join(fields.get("files", [])).split()
        self.wheels = [Wheel.parse(line, place) for line in fields.get("wheel", [])]
        if self.wheels and fields.get("version", [None])[0] != self.wheels[0].version:
            raise Problem(f"{place}: `version` is that of the first wheel")
        self.sum = fields.get("sum", [None])[0]
        self.local = fields.get("local", [None])[0]
        self.replaces = [tuple(line.split()) for line in fields.get("replace", [])]
        self.ldflags = fields.get("ldflags", [""])[0]
        self.tags = fields.get("tags", [""])[0]
        self.cgo = fields.get("cgo", [None])[0]
        if self.cgo not in (None, "static"):
            raise Problem(f"{place}: `cgo` can only be `static`")
        self.edit = None
        if {"without", "edit", "from", "to"} & set(fields):
            if not {"without", "edit", "from", "to"} <= set(fields):
                raise Problem(f"{place}: `without`, `edit`, `from` and `to` go together")
            self.edit = Edit(*(fields[key][0] for key in ("without", "edit", "from", "to")))
        self.seconds = 60 * float(fields.get("minutes", ["0"])[0])
        self.version = fields["version"][0] if "version" in fields else self._debian_version()

    def _debian_version(self):
        found = subprocess.run(["dpkg-query", "-W", "-f=${db:Status-Status} ${Version}", self.debian],
                               capture_output=True, text=True)
        status, _, version = found.stdout.partition(" ")
        return version if status == "installed" else None

    def binary(self):
        """Where the built program of a Go tool lies, or the folder with a module's files or Python packages."""
        kind = "files" if self.files else "python" if self.wheels else "bin"
        return cache_folder() / kind / f"{self.name}-{self.version}"

    def __str__(self):
        return f"{self.name} {self.version or '(not installed)'}"


def read(path=HERE / "versions"):
    peers, fields, first = [], {}, 0
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        line = line.strip()
        if line.startswith("#"):
            continue
        if not line:
            if fields:
                peers.append(Peer(fields, f"{path}:{first}"))
            fields = {}
            continue
        key, colon, value = line.partition(":")
        if not colon or not value.strip():
            raise Problem(f"{path}:{number}: expected `key: value`")
        if not fields:
            first = number
        fields.setdefault(key, []).append(value.strip())
    seen = set()
    for peer in peers:
        if (peer.name, peer.version) in seen:
            raise Problem(f"{path}: {peer} stands there twice")
        seen.add((peer.name, peer.version))
    return peers
