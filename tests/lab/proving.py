"""What is proved of a topology that is up for nothing else."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from emulator.appliance import Appliance
from emulator.kernel.netlink import NetlinkKernel
from emulator.model import Topology
from emulator.prove import Proof, prove


def proved(topology: Topology, folder: Path, packets: int, slack_ns: int) -> list[Proof]:
    """Every row of every direction."""
    with closing(Appliance(NetlinkKernel(), folder)) as appliance:
        appliance.up(topology)
        try:
            return prove(topology, packets, slack_ns)
        finally:
            appliance.down()
