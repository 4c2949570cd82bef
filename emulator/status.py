"""How the lanes stand: asked and present side by side, with what each direction counted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .goal import lane_ports
from .kernel import QueueCounters
from .model import Lane, Topology
from .netem import Netem, Shaper
from .ops import Step
from .state import State


@dataclass(frozen=True)
class DirectionCounters:
    """What one direction counted. Drops by limit are our fault, drops by buffer are physics, by loss as wished.

    Netem has one counter for its limit and its loss: with loss both are None, unknowable; the wire engine tells them
    apart. Packets are skbs.
    """

    packets: int = 0
    bytes: int = 0
    queued_packets: int = 0
    queued_bytes: int = 0
    limit_packets: int = 0
    drops_limit: int | None = 0
    drops_buffer: int = 0
    drops_loss: int | None = 0


@dataclass(frozen=True)
class LaneCounters:
    outbound: DirectionCounters
    inbound: DirectionCounters


@dataclass(frozen=True)
class DirectionStatus:
    """One direction as the kernel has it now."""

    port: str
    netem: Netem | None
    shaper: Shaper | None
    counters: DirectionCounters


@dataclass(frozen=True)
class LaneStatus:
    lane: Lane
    outbound: DirectionStatus
    inbound: DirectionStatus


@dataclass(frozen=True)
class Status:
    """What is asked for, how it stands, the steps between the two, and what impairs the lanes (netem or wire)."""

    topology: Topology | None
    drift: list[Step]
    lanes: tuple[LaneStatus, ...]
    datapath: str = "netem"


def lane_status(lane: Lane, have: State, counted: Mapping[str, QueueCounters]) -> LaneStatus:
    """One lane as the kernel has it now."""
    return LaneStatus(lane, *(_direction(port, have, counted) for port in lane_ports(lane)))


def _direction(port: str, have: State, counted: Mapping[str, QueueCounters]) -> DirectionStatus:
    egress = have.egress(port)
    count = counted.get(port)
    if egress is None or count is None:
        return DirectionStatus(port, None, None, DirectionCounters())
    netem, other = egress.netem, count.drops - count.shaper_drops
    lossless = not netem.loss_p32 and not netem.gemodel
    lost = 0 if lossless else count.lost
    return DirectionStatus(
        port,
        netem,
        egress.shaper,
        DirectionCounters(
            count.packets,
            count.bytes,
            count.queued_packets,
            count.queued_bytes,
            netem.limit,
            other - lost if lost is not None else None,
            count.shaper_drops,
            lost,
        ),
    )
