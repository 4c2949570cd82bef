"""Machines for tests in the lab: namespaces with an sshd each, on a management network, and with a port on the lanes.

The appliance is the lab itself. Each site's machine is behind a port of its own; the hub's has a switch of all hub
ports. Nothing of the product is used to make them.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SSHD = """\
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile {folder}/{name}.pid
StrictModes no
UsePAM no
PasswordAuthentication no
"""
SSH = """\
Host {name}-machine
  HostName {address}
  User root
  IdentityFile {folder}/key
  UserKnownHostsFile {folder}/known_hosts
"""


def sh(command: str) -> str:
    """A shell command's output. Raises CalledProcessError, with what it said among its notes."""
    done = subprocess.run(["sh", "-c", command], text=True, capture_output=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Machines:
    """The hub's machine first; `folder` has the keys."""

    names: tuple[str, ...]
    folder: Path

    def inside(self, name: str, command: str) -> str:
        """Run a shell command in a machine, not by SSH."""
        return subprocess.run(
            ["ip", "netns", "exec", f"m-{name}", "sh", "-c", command], text=True, capture_output=True, check=True
        ).stdout

    def mac(self, name: str) -> str:
        """The MAC address of a machine's port to the lanes."""
        return f"52:54:00:77:01:{self.names.index(name) + 1:02x}"

    def management(self, name: str) -> str:
        """A machine's address on the management network."""
        return f"192.168.99.{self.names.index(name) + 2}"


@contextmanager
def machines(folder: Path, hub: str, sites: tuple[str, ...], *, addressed: bool = True) -> Iterator[Machines]:
    """Make them, with sshd running, and an alias `NAME-machine` for each in ~/.ssh/config; all gone after the block.

    Unless `addressed`, their ports to the lanes are down and have no address; the port's MAC address is `mac(NAME)`.
    """
    made = Machines((hub, *sites), folder)
    config = Path.home() / ".ssh/config"
    _keys(made, config)
    sh("ip link add mgmt type bridge && ip addr add 192.168.99.1/24 dev mgmt && ip link set mgmt up")
    for name in made.names:
        _machine(made, name)
    sh(f"ip -n m-{hub} link add lane0 type veth peer name switch && ip -n m-{hub} link add lanes type bridge")
    sh(f"ip -n m-{hub} link set switch master lanes up && ip -n m-{hub} link set lanes up")
    for number, site in enumerate(sites, 2):
        sh(f"ip link add hub-{number} type veth peer name port-{number} netns m-{hub} && ip link set hub-{number} up")
        sh(f"ip -n m-{hub} link set port-{number} master lanes up")
        sh(f"ip link add site-{number} type veth peer name lane0 netns m-{site} && ip link set site-{number} up")
    for number, name in enumerate(made.names, 1):
        sh(f"ip -n m-{name} link set lane0 address {made.mac(name)}")
        if addressed:
            sh(f"ip -n m-{name} addr add 10.77.0.{number}/24 dev lane0 && ip -n m-{name} link set lane0 up")
    try:
        yield made
    finally:
        config.unlink()
        for name in made.names:
            sh(f"kill $(cat {folder}/{name}.pid); ip netns del m-{name}")
        sh("ip link del mgmt")


def _keys(made: Machines, config: Path) -> None:
    folder = made.folder
    Path("/run/sshd").mkdir(exist_ok=True)
    passwd = Path("/etc/passwd")
    if "sshd:" not in passwd.read_text():
        passwd.write_text(passwd.read_text() + "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n")
    for key in ("host_key", "key"):
        sh(f"ssh-keygen -q -t ed25519 -N '' -f {folder}/{key}")
    public = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text("".join(f"{made.management(name)} {public}\n" for name in made.names))
    config.parent.mkdir(mode=0o700, exist_ok=True)
    entries = (SSH.format(name=name, address=made.management(name), folder=folder) for name in made.names)
    config.write_text("".join(entries))


def _machine(made: Machines, name: str) -> None:
    address = made.management(name)
    sh(f"ip netns add m-{name} && ip -n m-{name} link set lo up")
    sh(f"ip link add mgmt-{name} type veth peer name mgmt0 netns m-{name}")
    sh(f"ip link set mgmt-{name} master mgmt up && ip -n m-{name} link set mgmt0 up")
    sh(f"ip -n m-{name} addr add {address}/24 dev mgmt0")
    config = made.folder / f"{name}.conf"
    config.write_text(SSHD.format(name=name, address=address, folder=made.folder))
    sh(f"ip netns exec m-{name} /usr/sbin/sshd -f {config} -E {made.folder}/{name}.log")
    while not (made.folder / f"{name}.pid").exists():
        time.sleep(0.01)  # of virtual time
