"""What every kind of cell observes beside its workload: addresses, counters, buffers and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.analysis.observed import Queues
from emulator.analysis.verdict import Buffers
from emulator.experiment.cell_result import CellSpec
from emulator.hosts.host import Host
from emulator.hosts.tools import nstat
from emulator.model.sweep_axes import OUTBOUND

if TYPE_CHECKING:
    from emulator.control.status import DirectionCounters, Status


def address(spec: CellSpec, host: Host) -> str:
    """The host's address on the lane."""
    return str(spec.topology.address(host.name).ip)


def queues(spec: CellSpec, status: Status) -> list[DirectionCounters]:
    """For each measured direction."""
    lane = status.lane(spec.lane.name)
    return [(lane.outbound if way.direction == OUTBOUND else lane.inbound).counters for way in spec.ways]


def buffers(host: Host) -> Buffers:
    """The largest socket buffers that the host's kernel gives now."""
    receive, send = (int(host.read_sysctl(f"net.ipv4.{name}").split()[2]) for name in ("tcp_rmem", "tcp_wmem"))
    return Buffers(receive, send)


def counters(hub: Host, site: Host) -> dict[str, int]:
    """The TCP counters of both hosts together."""
    ends = [host.counters() for host in (hub, site)]
    return {name: sum(end[name] for end in ends) for name in nstat.WATCHED}


def increase(before: DirectionCounters, after: DirectionCounters, datapath: str) -> Queues:
    """The queues' drops in between."""

    def grown(one: int | None, other: int | None) -> int | None:
        return None if one is None or other is None else other - one

    buffer = after.drops_buffer - before.drops_buffer
    limit, loss = grown(before.drops_limit, after.drops_limit), grown(before.drops_loss, after.drops_loss)
    return Queues(limit, buffer, loss, datapath)
