#!/usr/bin/python3
"""The shell of a simulated Proxmox host, as far as the bpg provider uses it: `pvesm path`, `qm disk import`, `qm set`.

The way in is SSH: a server of paramiko's that lets one key in and runs what it is told with /bin/sh. The commands are played by this file;
what they do to the host they do through the lab's API, as root@pam. With a volume of `iso` content, which the API does not import from,
there is no other way to make a disk: that is why the provider asks for SSH.

  host_shell.py ADDRESS PORT FOLDER     serves; FOLDER has host_key, client_key.pub, host.json
  pvesm …, qm …                         by these names: one command
"""

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

sys.dont_write_bytecode = True


class Host:
    """The API, with a ticket of root's."""

    def __init__(self, given):
        self.given = given
        self.node = given["node"]
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.door = urllib.request.build_opener(urllib.request.ProxyHandler({"https": given["proxy"]}),
                                                urllib.request.HTTPSHandler(context=context))
        self.headers = {}
        ticket = self.call("POST", "/access/ticket", username="root@pam", password=given["password"])
        self.headers = {"Cookie": "PVEAuthCookie=" + urllib.parse.quote(ticket["ticket"]), "CSRFPreventionToken": ticket["CSRFPreventionToken"]}

    def call(self, method, path, **form):
        request = urllib.request.Request(self.given["endpoint"] + "/api2/json" + path, method=method, headers=self.headers,
                                         data=urllib.parse.urlencode(form).encode() if form else None)
        try:
            with self.door.open(request) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            sys.exit(f"{error.reason} {error.read().decode(errors='replace')}".strip())

    def work(self, method, path, **form):
        """A call whose task is waited for."""
        task = self.call(method, path, **form)
        while True:
            state = self.call("GET", f"/nodes/{self.node}/tasks/{urllib.parse.quote(task)}/status")
            if state["status"] == "stopped":
                return state["exitstatus"] == "OK" or sys.exit(state["exitstatus"])
            time.sleep(0.05)


def pvesm(host, words):
    match words:
        case ["apiinfo"]:
            print("APIVER 11\nAPIAGE 2")
        case ["path", volume]:
            storage = volume.split(":")[0]
            print(host.call("GET", f"/nodes/{host.node}/storage/{storage}/content/{urllib.parse.quote(volume, safe='')}")["path"])
        case _:
            sys.exit(f"pvesm {' '.join(words)}: not played")


def qm(host, words):
    match words:
        case ["disk", "import", number, path, storage, "-format", form]:
            config = f"/nodes/{host.node}/qemu/{number}/config"
            before = set(host.call("GET", config))
            # Onto a slot that nobody uses, and off it again: then it is a disk that the VM has and does not use.
            host.work("POST", config, scsi30=f"{storage}:0,import-from={path},format={form}")
            host.call("PUT", config, delete="scsi30")
            now = host.call("GET", config)
            for key in sorted(set(now) - before):
                if re.fullmatch(r"unused\d+", key):
                    print(f"{key}: successfully imported disk '{now[key]}'")
                    return
            sys.exit(f"nothing was imported: {now}")
        case ["set", number, option, value] if option.startswith("-"):
            host.work("POST", f"/nodes/{host.node}/qemu/{number}/config", **{option.lstrip("-"): value})
            print(f"update VM {number}: {option} {value}")
        case _:
            sys.exit(f"qm {' '.join(words)}: not played")


def serve(address, port, folder):
    import paramiko

    host_key = paramiko.Ed25519Key.from_private_key_file(f"{folder}/host_key")
    with open(f"{folder}/client_key.pub") as file:
        known = file.read().split()[1]
    os.makedirs(f"{folder}/bin")
    for name in ("pvesm", "qm"):
        os.symlink(os.path.abspath(__file__), f"{folder}/bin/{name}")
    environment = {"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": folder, "ROCCA_HOST": f"{folder}/host.json"}

    class Door(paramiko.ServerInterface):
        def get_allowed_auths(self, username):
            return "publickey"

        def check_auth_publickey(self, username, key):
            return paramiko.AUTH_SUCCESSFUL if username == "root" and key.get_base64() == known else paramiko.AUTH_FAILED

        def check_channel_request(self, kind, number):
            return paramiko.OPEN_SUCCEEDED if kind == "session" else paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

        def check_channel_exec_request(self, channel, command):
            threading.Thread(target=execute, args=(channel, command), daemon=True).start()
            return True

    def execute(channel, command):
        done = subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        with open(f"{folder}/commands.log", "ab") as log:
            log.write(command + b"\n-> %d %s%s\n" % (done.returncode, done.stdout, done.stderr))
        channel.sendall(done.stdout)
        channel.sendall_stderr(done.stderr)
        channel.send_exit_status(done.returncode)
        channel.close()

    def talk(connection):
        transport = paramiko.Transport(connection)
        transport.add_server_key(host_key)
        try:
            transport.start_server(server=Door())
            transport.join()
        except (paramiko.SSHException, EOFError):
            pass

    listener = socket.create_server((address, int(port)))
    while True:
        threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    name = os.path.basename(sys.argv[0])
    if name in ("pvesm", "qm"):
        with open(os.environ["ROCCA_HOST"]) as file:
            {"pvesm": pvesm, "qm": qm}[name](Host(json.load(file)), sys.argv[1:])
    else:
        serve(*sys.argv[1:])
