"""The hosts of a topology: namespaces for virtual lanes, SSH for lanes with a `host`."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from emulator.errors import InputError
from emulator.hosts.host import Host
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.ssh import SshHost
from emulator.hosts.ssh_connection import Connection
from emulator.model.topology import Topology


def destinations(topology: Topology) -> dict[str, str]:
    """The SSH destination of every host that has one, by the host's name in the topology."""
    return {end.host: end.destination for end in topology.all_ends if end.destination}


def namespaces(topology: Topology) -> list[str]:
    """The hosts that are namespaces on this machine, the hub first."""
    return list(dict.fromkeys(end.host for end in topology.all_ends if end.is_namespace))


def groups(topology: Topology) -> list[list[str]]:
    """The groups of hosts that reach one another: namespaces, and SSH hosts. Raises InputError when there are none."""
    found = [group for group in (namespaces(topology), list(destinations(topology))) if len(group) > 1]
    if not found:
        raise InputError.single(
            f"{topology.name} has no two hosts to measure between: give its lanes a host, and the topology a hub_host"
        )
    return found


@contextlib.contextmanager
def reached(topology: Topology) -> Iterator[Mapping[str, Host]]:
    """Connect to every host and yield the hosts by name; close the connections after the block. Raises MissingError."""
    found: dict[str, Host] = {name: NamespaceHost(name) for name in namespaces(topology)}
    with contextlib.ExitStack() as stack:
        # Short names: a socket's path holds at most 107 bytes, and ssh appends 17 while it connects.
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="longhaul-ssh-", ignore_cleanup_errors=True))
        )
        for number, (name, destination) in enumerate(destinations(topology).items()):
            connection = Connection(destination, folder / f"{number}")
            stack.callback(connection.close)
            connection.open()
            found[name] = SshHost(name, str(topology.address(name).ip), connection)
        yield found
