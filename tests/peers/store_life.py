"""A cluster's whole life while its state is at a real server. The place it is at tells what is there by means of its own, not by rocca's."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess

from scenario import ENVIRONMENT, ROCCA, TALOS, Lab, check, read, refuse, run, tried, until, write

FILE = "clusters/blue/cluster.yaml"
WORKER = "    worker-1: { role: worker, address: 10.0.0.21 }\n"


def spec(lab, state, encrypt=None):
    version, kubernetes = TALOS[13]
    sealed = f", encrypt: [{encrypt}]" if encrypt else ""
    return f"""apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos: {{ version: {version} }}
  kubernetes: {{ version: {kubernetes} }}
  network: {{ subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }}
  proxmox: {{ endpoints: [https://pve.home:8006], fingerprint: "{lab.info['fingerprint']}", token: {{ secret: proxmox.token }}, hosts: [pve1] }}
  state: {{ {state}{sealed} }}
  nodes:
    cp-1: {{ role: controlplane, address: 10.0.0.11 }}
"""


def texts(value):
    if isinstance(value, dict):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)
    else:
        yield str(value)


def secrets_of(lab, around):
    """Everything that nobody but the owner may read: the cluster's bundle, the keys of the access files, the tokens."""
    bundle = run(ROCCA, "secrets", "decrypt", "clusters/blue/secrets.sops.yaml")
    code = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))"
    bundle = json.loads(run("/usr/bin/python3", "-c", code, data=bundle.encode()))
    # Its id is none: discovery services are told of it, and the state has it to know the cluster again.
    del bundle["talos"]["cluster"]["id"]
    found = set(texts(bundle))
    for name in ("kubeconfig", "talosconfig"):
        file = os.path.join("clusters/blue/configs", name)
        found |= set(re.findall(r"key(?:-data)?: (\S+)", read(file)))
    found |= {lab.info["token"], *around.get("secrets", [])}
    # Names, versions and ports are in the bundle, too; a secret is long.
    found = {text.encode() for text in found if len(text) >= 16}
    for text in list(found):
        try:
            clear = base64.b64decode(text, validate=True)
        except ValueError:
            continue
        # The inside of a PEM, line by line: however it may be indented somewhere.
        lines = [line for line in clear.splitlines() if len(line) >= 40 and not line.startswith(b"-----")]
        found |= {*lines} if lines else {clear} if len(clear) >= 16 else set()
    return found


def guests(lab):
    """{id: SMBIOS fields}: what a VM is, whoever asks."""
    found = {}
    for row in lab.proxmox("/cluster/resources?type=vm"):
        config = lab.proxmox(f"/nodes/{row['node']}/qemu/{row['vmid']}/config")
        if "smbios1" in config:  # else it is being made at this moment
            found[row["vmid"]] = config["smbios1"]
    return found


def no_secret(lab, place, when):
    stored = place.stored()
    secrets = secrets_of(lab, place.around)
    check(len(secrets) > 20, "the cluster has secrets", str(len(secrets)))
    check(stored and sum(map(len, stored.values())) > 500, f"{when}: the server stores something", str(list(stored)))
    for name, data in stored.items():
        leaked = [secret for secret in secrets if secret in data]
        check(not leaked, f"{when}: {name} has {len(leaked)} secrets in clear", str([secret[:6] for secret in leaked]))


def rocca(code, pattern, *words, seconds=200, **around):
    ended, said = tried(ROCCA, *words, seconds=seconds, **around)
    check(ended == code, f"rocca {' '.join(words)} ended with {ended}, not {code}", said[-4000:])
    check(re.search(pattern, said, re.M), f"rocca {' '.join(words)} did not say /{pattern}/", said[-4000:])
    return said


def live(place):
    """Once in clear, with a second run beside it and a kill in the middle; once sealed."""
    ENVIRONMENT["SOPS_AGE_KEY_FILE"] = os.path.abspath("key.txt")
    lab = Lab()
    around = {**lab.around, **place.environment}
    try:
        in_clear(lab, place, around)
        sealed(lab, place, around)
    finally:
        lab.stop()


def in_clear(lab, place, around):
    write(FILE, spec(lab, place.state))
    run(ROCCA, "secrets", "init", "blue")
    rocca(2, r"^Plan: \d+ to create", "plan", "blue", "--steps", **around)
    check(place.document() is None, "a plan leaves no state", str(place.document()))

    # A run that works holds the lock, and a second one is refused by its name.
    working = subprocess.Popen([ROCCA, "up", "blue", "--yes"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**ENVIRONMENT, **around})
    until("a VM is there, and the state knows of it", lambda: place.document() and place.journal() and guests(lab), seconds=100)
    working.send_signal(signal.SIGSTOP)
    begun, holder = guests(lab), place.holder()
    check(working.poll() is None and holder and holder["doing"] == "up", "the run holds the lock", str(holder))
    for _ in range(2):
        said = rocca(5, "is locked by ", "up", "blue", "--yes", **around)
        check(holder["who"] in said and "--take-over" in said, "it says who holds it, and the way on", said)
    check(place.holder()["id"] == holder["id"], "the lock is still the first one's", str(place.holder()))
    rocca(5, "is locked by ", "down", "blue", "--confirm", "blue", **around)
    check(guests(lab) == begun, "nobody touched a VM", str(guests(lab)))

    # Killed: its lock outlives it, until its time is over or somebody takes it.
    working.kill()
    working.wait()
    rocca(5, "its lock expires at ", "up", "blue", "--yes", **around)
    rocca(0, "", "up", "blue", "--yes", "--take-over", **around)
    check(begun.items() <= guests(lab).items(), "it went on with the VMs that were there", f"{begun} {guests(lab)}")
    check(len(guests(lab)) == 1, "and made no second one", str(guests(lab)))
    check(place.holder() is None, "nobody holds the lock", str(place.holder()))
    rocca(0, "No changes", "plan", "blue", **around)
    rocca(0, "is healthy", "status", "blue", "--exit-code", **around)
    no_secret(lab, place, "after up")

    # Another machine has the repository, and everything else from the server.
    check(not os.path.exists("clusters/blue/.rocca/state.json"), "no state is beside the spec")
    os.makedirs("elsewhere")
    for name in ("clusters", ".sops.yaml"):
        (shutil.copytree if os.path.isdir(name) else shutil.copy)(name, os.path.join("elsewhere", name))
    shutil.rmtree("elsewhere/clusters/blue/.rocca", ignore_errors=True)
    os.chdir("elsewhere")
    rocca(0, "No changes", "plan", "blue", **around)
    before = place.document()
    write(FILE, read(FILE) + WORKER)
    rocca(2, "worker-1", "plan", "blue", **around)
    rocca(0, "", "up", "blue", "--yes", **around)
    os.chdir("..")
    after = place.document()
    check(after["lineage"] == before["lineage"], "it is the same state", f"{before} {after}")
    check(after["serial"] + place.journal() > before["serial"], "it has been written since", f"{before['serial']} {after['serial']}")
    rocca(2, "worker-1", "plan", "blue", **around)  # here nobody asks for it
    write(FILE, read(FILE) + WORKER)
    rocca(0, "No changes", "plan", "blue", **around)
    no_secret(lab, place, "after a second up")

    rocca(0, "", "down", "blue", "--confirm", "blue", **around)
    check(not guests(lab), "no VM is left", str(guests(lab)))
    check(place.document() is None and not place.journal(), "no state is left", str(place.stored().keys()))
    check(place.holder() is None, "no lock is left", str(place.holder()))


def sealed(lab, place, around):
    """Only who has the key reads what the server keeps: the real age does, and nobody without it."""
    recipient = run(os.environ["PEER_AGE_KEYGEN"], "-y", "key.txt").strip()
    write(FILE, spec(lab, place.state, recipient))
    rocca(0, "", "up", "blue", "--yes", **around)
    rocca(0, "No changes", "plan", "blue", **around)
    no_secret(lab, place, "sealed")
    document = place.document()
    check(set(document) == {"format", "serial", "lineage", "age"}, "only an envelope can be read", str(document)[:300])
    for name, data in place.stored().items():
        for word in (b"cp-1", b"10.0.0.11", b"vm/"):
            check(place.names_cluster(name) or word not in data, f"{name} says {word.decode()} in clear", "")
    with open("sealed.age", "wb") as file:
        file.write(base64.b64decode(document["age"]))
    opened = json.loads(run(os.environ["PEER_AGE"], "--decrypt", "-i", "key.txt", "sealed.age"))
    check(opened["serial"] == document["serial"] and opened["lineage"] == document["lineage"], "age opens it: the same state", str(opened)[:300])
    run(os.environ["PEER_AGE_KEYGEN"], "-o", "other.txt")
    refuse("no identity", os.environ["PEER_AGE"], "--decrypt", "-i", "other.txt", "sealed.age")
    rocca(0, "is healthy", "status", "blue", "--exit-code", **around)
    rocca(0, "", "down", "blue", "--confirm", "blue", **around)
    check(place.document() is None and not guests(lab), "nothing is left", str(place.stored().keys()))
