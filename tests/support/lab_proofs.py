"""What is proved of a topology that is up for nothing else."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from emulator.control.appliance import Appliance
from emulator.experiment.impairment_test import Proof, prove
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.topology import Topology


def proved(topology: Topology, folder: Path, packets: int, slack_ns: int) -> list[Proof]:
    """Every row of every direction."""
    with closing(Appliance(NetlinkKernel(), folder)) as appliance:
        appliance.up(topology)
        try:
            return prove(topology, packets, slack_ns)
        finally:
            appliance.down()
