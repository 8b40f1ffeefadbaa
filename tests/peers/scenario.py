"""What scenarios in Python share: running programs with an environment of their own, and saying what went wrong."""

import json
import os
import re
import subprocess
import sys
import threading
import time

SOURCE = os.environ["ROCCA_SOURCE"]
ROCCA = os.path.join(os.environ["PEER_BUILD"], "rocca")
# Nothing of the user's own (keys, proxies, contexts) reaches a scenario.
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.getcwd(), "NO_COLOR": "1"}
# A release of each Talos line that is rendered for, and the Kubernetes that goes with it.
TALOS = {9: ("v1.9.6", "v1.32.4"), 10: ("v1.10.9", "v1.33.6"), 11: ("v1.11.6", "v1.34.1"), 12: ("v1.12.7", "v1.35.0"),
         13: ("v1.13.9", "v1.36.3")}
checks = 0


def tried(*words, data=None, seconds=60, **environment):
    """(exit code, both outputs) of a program."""
    words = [str(word) for word in words]
    try:
        done = subprocess.run(words, input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds,
                              env={**ENVIRONMENT, **environment})
    except subprocess.TimeoutExpired as late:
        fail(f"{' '.join(words)} did not end within {seconds} s", (late.stdout or b"").decode(errors="replace")[-6000:])
    return done.returncode, done.stdout.decode(errors="replace")


def run(*words, data=None, seconds=60, **environment):
    """The standard output of a program that must succeed."""
    words = [str(word) for word in words]
    done = subprocess.run(words, input=data, capture_output=True, timeout=seconds, env={**ENVIRONMENT, **environment})
    if done.returncode != 0:
        fail(f"{' '.join(words)} ended with {done.returncode}", done.stderr.decode() + done.stdout.decode()[:4000])
    return done.stdout.decode()


def expect(pattern, *words, **more):
    """It succeeds and says something that matches."""
    code, output = tried(*words, **more)
    check(code == 0, f"{' '.join(map(str, words))} ended with {code}", output)
    check(re.search(pattern, output, re.M), f"{' '.join(map(str, words))} did not say /{pattern}/", output)
    return output


def refuse(pattern, *words, **more):
    """It fails, and with this reason."""
    code, output = tried(*words, **more)
    check(code != 0, f"{' '.join(map(str, words))} succeeded", output)
    check(re.search(pattern, output, re.M), f"{' '.join(map(str, words))} did not refuse with /{pattern}/", output)
    return output


def expect_line(pattern, *words, seconds=30, **environment):
    """A program that goes on for ever says something that matches; then it is ended."""
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**ENVIRONMENT, **environment})
    alarm = threading.Timer(seconds, process.kill)
    alarm.start()
    said = ""
    for line in process.stdout:
        said += line
        if re.search(pattern, line):
            break
    else:
        fail(f"{' '.join(map(str, words))} did not say /{pattern}/", said)
    alarm.cancel()
    process.kill()
    process.wait()
    check(True, "")
    return said


def check(good, what, detail=""):
    global checks
    checks += 1
    if not good:
        fail(what, detail)


def fail(what, detail=""):
    sys.exit(f"{what}\n{detail}".rstrip())


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()


def until(what, look, seconds=60):
    """What `look` gives, as soon as it is true. A foreign process tells nobody when it is ready, so it is asked again."""
    global checks
    end, begun_with = time.monotonic() + seconds, checks
    while True:
        found = look()
        checks = begun_with + 1  # however often it was asked
        if found:
            return found
        if time.monotonic() >= end:
            fail(f"{what}: not within {seconds} s")
        time.sleep(0.2)


class Lab:
    """`rocca lab` with a repository for the cluster blue in the current folder."""

    def __init__(self, *flags, speed=20, faults="[]"):
        words = [ROCCA, "lab", "--speed", str(speed), "--ca-file", "ca.pem", "--faults", "faults.yaml", "-o", "json", *flags]
        write("faults.yaml", faults + "\n")
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        text = ""
        for line in self.process.stdout:
            text += line
            if line == "}\n":
                break
        check(text, "the lab did not begin")
        self.info = json.loads(text)
        # What a client needs to see the simulated names and addresses.
        self.around = {"HTTPS_PROXY": self.info["proxy"], "SSL_CERT_FILE": os.path.abspath("ca.pem"),
                       "ROCCA_PROXMOX_TOKEN": self.info["token"]}

    def up(self, spec, seconds=200):
        write("clusters/blue/cluster.yaml", spec.replace("FINGERPRINT", self.info["fingerprint"]))
        run(ROCCA, "secrets", "init", "blue")
        expect("", ROCCA, "up", "blue", "--yes", seconds=seconds, **self.around)
        run(ROCCA, "kubeconfig", "blue", "--file", "kubeconfig", **self.around)
        run(ROCCA, "talosconfig", "blue", "--file", "talosconfig", **self.around)

    def proxmox(self, path, method="GET", **form):
        """What the simulated Proxmox answers to a question of root's."""
        fields = [word for key, value in form.items() for word in ("--data-urlencode", f"{key}={value}")]
        said = run("curl", "-sS", "--insecure", "-X", method, "-H", f"Authorization: PVEAPIToken={self.info['rootToken']}", *fields,
                   f"{self.info['endpoint']}/api2/json{path}", **self.around)
        return json.loads(said)["data"]

    def children(self):
        return subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()

    def stop(self):
        self.process.terminate()
        check(self.process.wait(30) == 0, "the lab ended badly")


class Nodes:
    """Talos machines of the lab behind a proxy of their own (serve_nodes)."""

    def __init__(self, version, **addresses):
        words = [f"{name.replace('_', '-')}={address}" for name, address in addresses.items()]
        self.process = subprocess.Popen([os.path.join(os.environ["PEER_BUILD"], "peers/serve_nodes"), version, *words],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.proxy = self.process.stdout.readline().split()[1]
        self.process.stdout.readline()

    def ask(self, verb, name):
        """Its stage, host name and version."""
        self.process.stdin.write(f"{verb} {name}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def stop(self):
        self.process.stdin.close()
        check(self.process.wait(20) == 0, "serve_nodes ended badly")
