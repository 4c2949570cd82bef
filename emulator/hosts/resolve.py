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
    hub = {topology.hub: topology.hub_host} if topology.hub_host else {}
    return hub | {lane.name: lane.host for lane in topology.lanes if lane.host}


def groups(topology: Topology) -> list[list[str]]:
    """The groups of hosts that reach one another: namespaces, and SSH hosts. Raises InputError when there are none."""
    virtual = [lane.name for lane in topology.virtual_lanes]
    found = [group for group in ([topology.hub, *virtual], list(destinations(topology))) if len(group) > 1]
    if not found:
        raise InputError.single(
            f"{topology.name} has no two hosts to measure between: give its lanes a host, and the topology a hub_host"
        )
    return found


@contextlib.contextmanager
def reached(topology: Topology) -> Iterator[Mapping[str, Host]]:
    """Connect to every host and yield the hosts by name; close the connections after the block. Raises MissingError."""
    found: dict[str, Host] = {}
    if topology.virtual_lanes:
        found = {name: NamespaceHost(name) for name in (topology.hub, *(lane.name for lane in topology.virtual_lanes))}
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
