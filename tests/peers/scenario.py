"""What scenarios in Python share: running programs with an environment of their own, and saying what went wrong."""

import os
import re
import subprocess
import sys

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
    done = subprocess.run(words, input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds,
                          env={**ENVIRONMENT, **environment})
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
