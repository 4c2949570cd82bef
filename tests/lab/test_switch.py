"""The hub's switch: who was heard once is known for good, so that no lane carries another lane's packets."""

from __future__ import annotations

import socket
import time
from contextlib import closing
from pathlib import Path

from emulator.control.appliance import Appliance
from emulator.hosts.namespace import NamespaceHost
from emulator.kernel import netns
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology

WAY = Impairment(10**6)
STAR = Topology("star", "hub", (Lane("busy", WAY, WAY), Lane("quiet", WAY, WAY)))
LONG_S = 3600
PACKETS = 100


def test_packets_for_a_site_that_was_silent_for_an_hour_stay_on_its_lane(tmp_path: Path) -> None:
    with closing(NetlinkKernel()) as kernel:
        appliance = Appliance(kernel, tmp_path)
        appliance.up(STAR)
        busy = str(STAR.address("busy").ip)
        NamespaceHost("hub").run(["ping", "-c", "1", busy], 10).checked()
        time.sleep(LONG_S)
        before = carried(appliance)
        with netns.inside("lh-hub"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for _ in range(PACKETS):
                sock.sendto(b"x" * 1000, (busy, 9))
        time.sleep(1)
        after = carried(appliance)
        appliance.down()
    assert after["busy"] - before["busy"] >= PACKETS
    assert after["quiet"] == before["quiet"]


def carried(appliance: Appliance) -> dict[str, int]:
    """The packets that went out on each lane so far."""
    return {one.lane.name: one.outbound.counters.packets for one in appliance.status().lanes}
