"""A cluster of three control planes on real Talos nodes, for the scenarios that raise it: the machines, rocca's spec, questions."""

import os
import re

import real_nodes
from scenario import ROCCA, check, expect, tried, until

TALOSCTL, VERSION, ETCD = os.environ["PEER_TALOSCTL"], os.environ["PEER_MACHINED_VERSION"], os.environ["PEER_ETCD_VERSION"]
KUBERNETES = {"9": "v1.32.3", "13": "v1.35.3"}[VERSION.split(".")[1]]
PLANES = {"cp-1": "10.5.0.11", "cp-2": "10.5.0.12", "cp-3": "10.5.0.13"}
IMAGES = {"etcd": f"registry.nodes/etcd:{ETCD}", "kubelet": f"registry.nodes/kubelet:{KUBERNETES}"}
# In container mode Talos is not installed: the disk is never looked for.
SPEC = f"""apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: real }}
spec:
  talos:
    version: {VERSION}
    mirrors: {{ "*": ["http://{real_nodes.REGISTRY}"] }}
    patches:
      all:
        - cluster: {{ discovery: {{ registries: {{ service: {{ endpoint: "http://{real_nodes.DISCOVERY}" }} }} }} }}
        - machine: {{ kubelet: {{ image: "{IMAGES['kubelet']}" }} }}
      controlplane:
        - cluster: {{ etcd: {{ image: "{IMAGES['etcd']}" }} }}
  kubernetes: {{ version: {KUBERNETES}, cni: none }}
  network: {{ subnet: {real_nodes.NETWORK}, gateway: {real_nodes.HERE}, nameservers: [{real_nodes.HERE}] }}
  nodes:
""" + "".join(f"    {name}: {{ role: controlplane, address: {address}, existing: {{ disk: none }} }}\n"
              for name, address in PLANES.items())


class Cluster:
    """The nodes, and whoever asks them with a talosconfig."""

    def __init__(self, talosconfig):
        self.talosconfig = talosconfig
        self.site = real_nodes.Site("site", {
            f"etcd:{ETCD}": {"usr/local/bin/etcd": os.environ["PEER_ETCD"]},
            f"kubelet:{KUBERNETES}": {"usr/local/bin/kubelet": os.path.join(os.environ["PEER_BUILD"], "peers/standin_kubelet")}})

    def talosctl(self, *words, node=PLANES["cp-1"]):
        return [TALOSCTL, "--talosconfig", self.talosconfig, "--endpoints", PLANES["cp-1"], "--nodes", node, *words]

    def members(self):
        """{host name: is it a learner} of etcd, as a real node tells them."""
        lines = expect("HOSTNAME", *self.talosctl("etcd", "members")).splitlines()[1:]
        return {line.split()[2]: line.split()[-1] == "true" for line in lines}

    def need_three(self):
        check(self.members() == {name: False for name in PLANES}, f"etcd has the members {self.members()}")

    def rocca(self, code, pattern, *words, seconds=400):
        """It ends with that code and says something that matches."""
        ended, output = tried(ROCCA, *words, seconds=seconds)
        check(ended == code, f"rocca {' '.join(words)} ended with {ended}, not {code}", output[-3000:] + self.consoles())
        check(re.search(pattern, output, re.M), f"rocca {' '.join(words)} did not say /{pattern}/", output[-3000:])
        return output

    def consoles(self):
        return "".join(f"\n-- console of {name}\n{node.console()[-1500:]}" for name, node in self.site.nodes.items())

    def boots(self):
        return {name: self.site.nodes[name].boots for name in PLANES}


def maintenance(address):
    until(f"{address} is in maintenance mode", lambda: "stage: maintenance" in tried(
        TALOSCTL, "--nodes", address, "get", "machinestatus", "--insecure", "-o", "yaml")[1], seconds=120)
