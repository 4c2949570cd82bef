"""A Mininet network from any topology file: sites as hosts around a LinuxBridge, Longhaul's lanes in the middle.

Mininet creates the hosts and the cables, Longhaul creates the delay: each lane is a pair of Mininet's ports that the
appliance bridges and impairs, planned and verified as on real NICs. Needs Debian's package `mininet`, and root.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.config.loader import load
from emulator.control.local import local
from emulator.control.watchdog_thread import Watchdog
from emulator.errors import MissingError, RefusedError
from emulator.model.topology import Ports, Topology
from emulator.plan.desired_state import segments_of
from emulator.system import event_log

try:
    from mininet.net import Mininet
    from mininet.node import Switch
    from mininet.nodelib import LinuxBridge
    from mininet.topo import Topo
except ImportError as error:
    raise MissingError("Mininet is not installed for this Python: apt-get install mininet") from error

SWITCH, LANE = "S1", "Lane"
"""The hub's switch, and what a lane's node is called before its number: no site has a capital letter."""


class LanePorts(Switch):  # type: ignore[misc, unused-ignore]
    """A lane as Mininet sees it: a node with two ports in the root namespace. Longhaul connects them."""

    def start(self, _controllers: object) -> None:
        """Does nothing: the appliance starts all lanes at once."""


class Star(Topo):  # type: ignore[misc, unused-ignore]
    """A topology for Mininet. Any Mininet accepts it, but only `StarNet` brings the lanes up."""

    def build(self, topology: Topology) -> None:
        """Add the hub, its switch, and the ports and the site of each lane."""
        self.addSwitch(SWITCH, cls=LinuxBridge)
        self.addHost(topology.hub, ip=str(topology.address(topology.hub)))
        self.addLink(topology.hub, SWITCH, intfName1="eth0")
        plugged = between_ports(topology)
        for number, name in enumerate(plugged.sites, 1):
            node, (hub, site) = f"{LANE}{number}", plugged.ends(name)
            self.addSwitch(node, cls=LanePorts)
            self.addHost(site.host, ip=str(site.address))
            self.addLink(SWITCH, node, intfName2=hub.port)
            self.addLink(node, site.host, intfName1=site.port, intfName2="eth0")


def between_ports(topology: Topology) -> Topology:
    """The topology with each lane between two ports of Mininet's, and without hosts elsewhere."""
    ports = (Ports(f"lane{number}-hub", f"lane{number}-site") for number, _ in enumerate(topology.lanes, 1))
    lanes = (replace(lane, ports=pair, host=None) for lane, pair in zip(topology.lanes, ports, strict=True))
    return replace(topology, lanes=tuple(lanes), hub_host=None)


class StarNet(Mininet):  # type: ignore[misc, unused-ignore]
    """A Mininet of a topology or its file, with the lanes' RTTs. Hosts have the names of the topology.

    While it runs, a thread plays the topology's schedule, as the daemon does.
    """

    def __init__(self, topology: Topology | str | Path, **options: Any) -> None:
        asked = topology if isinstance(topology, Topology) else load(topology)
        self.topology = between_ports(asked)
        self._appliance = local()
        self._player: _SchedulePlaying | None = None
        if present := self._appliance.topology():
            self._appliance.close()
            raise RefusedError(f"{present.name} is up here: take it down first (longhaul down)")
        super().__init__(topo=Star(asked), controller=None, **options)

    def start(self) -> None:
        """Start Mininet's part, then the lanes. Raises what `Appliance.up` raises, and leaves nothing behind then."""
        super().start()
        try:
            self._fit_links()
            self._appliance.up(self.topology)
            if self.topology.schedule:
                self._player = _SchedulePlaying()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the lanes, then Mininet's part."""
        try:
            if self._player:
                self._player.stop()
            self._appliance.down()
            self._appliance.close()
        finally:
            super().stop()

    def _fit_links(self) -> None:
        """Set every cable's MTU to its lane's; disable GSO where packets must pass one by one."""
        for number, lane in enumerate(self.topology.lanes, 1):
            segments = segments_of(lane)
            ends = [end for link in self.linksBetween(*self.get(SWITCH, f"{LANE}{number}")) for end in _ends(link)]
            ends += [end for link in self.linksBetween(*self.get(f"{LANE}{number}", lane.name)) for end in _ends(link)]
            for end in ends:
                end.cmd("ip", "link", "set", "dev", end.name, "mtu", lane.mtu, "gso_max_segs", segments)
        mtu = max((lane.mtu for lane in self.topology.lanes), default=1500)
        for link in self.linksBetween(*self.get(self.topology.hub, SWITCH)):
            for end in _ends(link):
                end.cmd("ip", "link", "set", "dev", end.name, "mtu", mtu)


class _SchedulePlaying:
    """Plays the schedule of what is up, with a connection to the kernel of its own."""

    def __init__(self) -> None:
        self._appliance = local()
        self._watchdog = Watchdog(self._appliance, _warnings)
        self._watchdog.start()

    def stop(self) -> None:
        """Stop playing. The lanes stay up."""
        self._watchdog.stop()
        self._appliance.close()


def _warnings(priority: int, event: str, **fields: object) -> None:
    """Write what is wrong to stderr, and nothing else."""
    if priority <= event_log.WARNING:
        event_log.logger(sys.stderr, os.environ)(priority, event, **fields)


def _ends(link: Any) -> tuple[Any, Any]:
    return link.intf1, link.intf2


@contextmanager
def running(topology: Topology | str | Path, **options: Any) -> Iterator[StarNet]:
    """The network for the time of a block; nothing remains afterwards."""
    net = StarNet(topology, **options)
    net.start()
    try:
        yield net
    finally:
        net.stop()
