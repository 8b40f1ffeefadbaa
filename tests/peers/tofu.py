"""OpenTofu with the bpg/proxmox and siderolabs/talos providers on the lab, for scenarios and for bench/peers."""

import json
import os
import re
import shutil

from scenario import ENVIRONMENT, SOURCE, check, fail, read, tried, write


class Tofu:
    """One configuration in a folder of its own, with its state. What it prints is kept for the message of a failure."""

    def __init__(self, shape, lab, folder="tofu", **variables):
        self.folder, self.lab, self.variables = os.path.abspath(folder), lab, variables
        os.makedirs(self.folder, exist_ok=True)
        shutil.copy(os.path.join(SOURCE, "tests/peers/tofu", shape, "main.tf"), self.folder)
        providers = os.path.join(self.folder, "providers")
        os.makedirs(providers, exist_ok=True)
        # The providers are found by their plain names in one folder; no registry is asked.
        for name in ("proxmox", "talos"):
            program = f"terraform-provider-{name}"
            if built := os.environ.get(f"PEER_TERRAFORM_PROVIDER_{name.upper()}"):
                os.symlink(built, os.path.join(providers, program))
        write(os.path.join(self.folder, "tofu.rc"), f"""provider_installation {{
  dev_overrides {{
    "bpg/proxmox"      = "{providers}"
    "siderolabs/talos" = "{providers}"
  }}
  direct {{}}
}}
""")
        self.around = {**lab.around, "TF_CLI_CONFIG_FILE": os.path.join(self.folder, "tofu.rc"), "CHECKPOINT_DISABLE": "1",
                       "TF_IN_AUTOMATION": "1", "TF_INPUT": "0"}

    def command(self, verb, *flags):
        return [os.environ["PEER_TOFU"], f"-chdir={self.folder}", verb, "-no-color", *flags]

    def set(self, **variables):
        self.variables.update(variables)

    def configure(self):
        write(os.path.join(self.folder, "terraform.tfvars.json"), json.dumps(self.variables))

    def _run(self, verb, *flags, seconds=300):
        self.configure()
        return tried(*self.command(verb, *flags), seconds=seconds, **self.around)

    def apply(self, added, changed, destroyed, seconds=300):
        """Applies, and it must have done exactly this."""
        code, said = self._run("apply", "-auto-approve", seconds=seconds)
        check(code == 0, f"tofu apply ended with {code}", said[-6000:])
        self.counts(said, f"Apply complete! Resources: {added} added, {changed} changed, {destroyed} destroyed.")
        return said

    def destroy(self, count, seconds=300):
        code, said = self._run("destroy", "-auto-approve", seconds=seconds)
        check(code == 0, f"tofu destroy ended with {code}", said[-6000:])
        self.counts(said, f"Destroy complete! Resources: {count} destroyed.")
        return said

    def cannot_destroy(self, pattern, seconds=120):
        code, said = self._run("destroy", "-auto-approve", seconds=seconds)
        plain = " ".join(said.replace("│", " ").split())  # it wraps its lines
        check(code != 0 and re.search(pattern, plain), f"tofu destroy did not fail with /{pattern}/ (exit code {code})", said[-6000:])

    def no_change(self):
        """The plan is empty (exit code 0 of -detailed-exitcode)."""
        code, said = self._run("plan", "-detailed-exitcode")
        check(code == 0, f"tofu plan is not empty (exit code {code})", said[-6000:])
        return said

    def counts(self, said, wanted):
        found = re.search(r"^(Apply|Destroy) complete!.*$", said, re.M)
        check(found and found[0] == wanted, f"expected: {wanted}", (found or [said[-3000:]])[0])

    def output(self, name):
        code, said = tried(*self.command("output", "-raw", name), **self.around)
        return said if code == 0 else fail(f"tofu output {name} ended with {code}", said)

    def state(self):
        return read(os.path.join(self.folder, "terraform.tfstate"))
