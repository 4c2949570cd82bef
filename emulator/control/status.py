"""How the lanes stand: asked and present side by side, with what each direction counted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from emulator.control.schedule_lateness import Lateness
from emulator.kernel.protocol import QueueCounters
from emulator.model.topology import Lane, Topology
from emulator.plan.aqm import Aqm
from emulator.plan.desired_state import lane_ports, resolved_lane
from emulator.plan.ops import Step
from emulator.plan.qdisc_values import Egress, Netem, Shaper
from emulator.plan.state import State


@dataclass(frozen=True)
class DirectionCounters:
    """What one direction counted. Drops by limit are the emulator's fault, drops by buffer the bottleneck's, drops by
    loss are configured.

    Netem has one counter for its limit, its loss and its ECN marks. With any loss drops_limit and drops_loss are
    therefore None (unknown); the wire engine counts them separately. drops_limit is also None where the shaper dropped
    more than netem saw: something admits super-frames larger than its burst, and it segments them. Drops by buffer
    include those of an active queue. Packets are skbs.
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
class DirectionStatus:
    """One direction as the kernel has it now. `lateness` and `not_permitted` are QueueCounters'."""

    port: str
    netem: Netem | None
    shaper: Shaper | None
    aqm: Aqm | None
    counters: DirectionCounters
    lateness: tuple[tuple[int, int], ...] = ()
    not_permitted: tuple[str, ...] = ()
    flows: tuple[DirectionStatus, ...] = ()
    """The flows', in the lane's order."""


@dataclass(frozen=True)
class LaneStatus:
    lane: Lane
    outbound: DirectionStatus
    inbound: DirectionStatus


@dataclass(frozen=True)
class PathStatus:
    """Two sites and the RTT asked for between them: by way of the hub, so that both lanes add up."""

    one: str
    other: str
    rtt_ns: int


@dataclass(frozen=True)
class PendingStatus:
    """What goes back to the topology of the name `back_to` (None: nothing up) in `left_ns` (0 or less: any moment).

    Without `left_ns` the lanes are leased by a test run, and go back at its end.
    """

    left_ns: int | None
    back_to: str | None


@dataclass(frozen=True)
class Status:
    """The intent, the kernel's state, the steps between the two, and what impairs the lanes (netem or wire).

    `blocked` says for each lane why it cannot be repaired at present: its port is gone, or belongs to somebody else.
    Under a schedule the lanes are in their present scheduled state, and `lateness` says how late its changes were, if
    somebody plays it.
    """

    topology: Topology | None
    drift: list[Step]
    lanes: tuple[LaneStatus, ...]
    blocked: Mapping[str, str] = field(default_factory=dict)
    pending: PendingStatus | None = None
    datapath: str = "netem"
    lateness: Lateness | None = None

    @property
    def as_asked(self) -> bool:
        """Whether the machine is as it was asked to be."""
        return not self.drift and not self.blocked

    @property
    def leased(self) -> bool:
        """Whether a test run has the lanes: until its end nobody else may change them."""
        return self.pending is not None and self.pending.left_ns is None

    def lane(self, name: str) -> LaneStatus:
        """The lane of that name, which is there."""
        return next(lane for lane in self.lanes if lane.lane.name == name)

    @property
    def paths(self) -> tuple[PathStatus, ...]:
        """Every pair of sites."""
        if self.topology is None:
            return ()
        pairs = combinations(self.lanes, 2)
        return tuple(PathStatus(a.lane.name, b.lane.name, a.lane.rtt_ns + b.lane.rtt_ns) for a, b in pairs)


def lane_status(lane: Lane, have: State, counted: Mapping[str, QueueCounters]) -> LaneStatus:
    """One lane as the kernel has it now."""
    ports = lane_ports(resolved_lane(lane, have))
    return LaneStatus(lane, *(_direction(port, have, counted) for port in ports))


def recounted(status: Status, counted: Mapping[str, QueueCounters]) -> Status:
    """The same lanes with what is counted now; a queue that is gone has what it counted last."""
    lanes = (
        replace(one, outbound=_recounted(one.outbound, counted), inbound=_recounted(one.inbound, counted))
        for one in status.lanes
    )
    return replace(status, lanes=tuple(lanes))


def _recounted(direction: DirectionStatus, counted: Mapping[str, QueueCounters]) -> DirectionStatus:
    if (count := counted.get(direction.port)) is None:
        return direction
    first, *flows = (
        replace(one, counters=_counters(one.netem, counts), lateness=counts.lateness) if one.netem else one
        for one, counts in zip((direction, *direction.flows), (count, *count.flows), strict=False)
    )
    return replace(first, flows=tuple(flows))


def _direction(port: str, have: State, counted: Mapping[str, QueueCounters]) -> DirectionStatus:
    egress, count = have.egress(port), counted.get(port)
    if egress is None or count is None:
        return DirectionStatus(port, None, None, None, DirectionCounters())
    parts = zip((part for _, part in egress.places), (count, *count.flows), strict=False)
    first, *rest = (_part(port, part, counts) for part, counts in parts)
    return replace(first, flows=tuple(rest))


def _part(port: str, egress: Egress, count: QueueCounters) -> DirectionStatus:
    """A port's only netem with what hangs on it, or one of its bands'."""
    netem = egress.netem
    return DirectionStatus(
        port, netem, egress.shaper, egress.aqm, _counters(netem, count), count.lateness, count.not_permitted
    )


def _counters(netem: Netem, count: QueueCounters) -> DirectionCounters:
    other, lossless = count.drops - count.shaper_drops, not netem.lossy
    lost = 0 if lossless else count.lost
    return DirectionCounters(
        count.packets,
        count.bytes,
        count.queued_packets,
        count.queued_bytes,
        netem.limit,
        other - lost if lost is not None and other >= lost else None,
        count.shaper_drops,
        lost,
    )
