"""The status of the lanes: the requested and the present state, and the counters of each direction. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from msgspec import Struct, field
from msgspec.structs import replace

from emulator.control.schedule_lateness import Lateness
from emulator.kernel.protocol import QueueCounters
from emulator.model.topology import Lane, Topology
from emulator.plan.aqm import Aqm
from emulator.plan.desired_state import lane_ports, resolved_lane
from emulator.plan.ops import Step
from emulator.plan.qdisc_values import Egress, Netem, Shaper
from emulator.plan.small_frames import NO_DROPS, Bounded, DropRates, drop_rates, told
from emulator.plan.state import State


class DirectionCounters(Struct, frozen=True):
    """The counters of one direction. Drops by limit are the emulator's fault, drops by buffer the bottleneck's, drops
    by loss are configured.

    Netem has one counter for its limit, its loss and its ECN marks. From the first loss on, until the queue is created
    again, drops_limit and drops_loss are therefore None (unknown); the wire engine counts them separately.
    `drops_since_loss` is that counter while there is no loss any more: it grows by drops by limit alone. drops_limit is
    also None where the shaper dropped more packets than netem saw: it then segmented super-frames larger than its
    burst. Drops by buffer include those of an active queue. Packets are skbs.
    """

    packets: int = 0
    bytes: int = 0
    queued_packets: int = 0
    queued_bytes: int = 0
    limit_packets: int = 0
    drops_limit: int | None = 0
    drops_buffer: int = 0
    drops_loss: int | None = 0
    drops_since_loss: int | None = None

    def dropped_since(self, old: DirectionCounters) -> Dropped:
        """What these counters hold more than the earlier ones of the same queue."""
        if self.drops_since_loss is not None and old.drops_since_loss is not None:
            limit, loss = self.drops_since_loss - old.drops_since_loss, 0
            return Dropped(limit, self.drops_buffer - old.drops_buffer, loss)
        return Dropped(
            _grown(old.drops_limit, self.drops_limit),
            self.drops_buffer - old.drops_buffer,
            _grown(old.drops_loss, self.drops_loss),
        )


class Dropped(Struct, frozen=True):
    """How many packets one direction dropped between two readings, by cause; None is unknown."""

    limit: int | None
    buffer: int
    loss: int | None


def _grown(old: int | None, new: int | None) -> int | None:
    return None if old is None or new is None else new - old


class DirectionStatus(Struct, frozen=True):
    """The present kernel state of one direction. `lateness` and `not_permitted` are those of QueueCounters."""

    port: str
    netem: Netem | None
    shaper: Shaper | None
    aqm: Aqm | None
    counters: DirectionCounters
    lateness: tuple[tuple[int, int], ...] = ()
    not_permitted: tuple[str, ...] = ()
    drop_rates: DropRates = NO_DROPS
    flows: tuple[DirectionStatus, ...] = ()
    """The same for each flow, in the lane's order."""


class LaneStatus(Struct, frozen=True):
    lane: Lane
    outbound: DirectionStatus
    inbound: DirectionStatus


class PathStatus(Struct, frozen=True):
    """Two sites and the requested RTT between them: the sum of both lanes in effect, by way of the hub."""

    one: str
    other: str
    rtt_ns: int


class PendingStatus(Struct, frozen=True):
    """Longhaul returns to the topology `back_to` (None: no topology) in `left_ns` (0 or less: at any moment).

    `left_ns` None: a measurement has leased the lanes, and its end returns them.
    """

    left_ns: int | None
    back_to: str | None


class Status(Struct, frozen=True):
    """The intent, the kernel's state, the steps between the two, and the datapath (netem or wire).

    `blocked` gives, for each lane that Longhaul cannot repair at present, the reason: its port is gone, or belongs to
    somebody else. Under a schedule the lanes are those of this instant, and `lateness` is the lateness of its changes
    while a process plays it.
    """

    topology: Topology | None
    drift: list[Step]
    lanes: tuple[LaneStatus, ...]
    blocked: Mapping[str, str] = field(default_factory=dict)
    pending: PendingStatus | None = None
    datapath: str = "netem"
    lateness: Lateness | None = None
    changing: bool = False
    """Whether somebody was changing the lanes while they were observed: `drift` may be what is still to be done."""
    played_ns: int | None = None
    """The schedule's own time at present, below 0 before its start; None without a schedule. Documents leave it out."""

    @property
    def as_asked(self) -> bool:
        """Whether the kernel's state is the intended one."""
        return not self.drift and not self.blocked

    @property
    def leased(self) -> bool:
        """Whether a measurement has leased the lanes: until its end nobody else may change them."""
        return self.pending is not None and self.pending.left_ns is None

    def lane(self, name: str) -> LaneStatus:
        """The lane of that name, which must exist."""
        return next(lane for lane in self.lanes if lane.lane.name == name)

    @property
    def small_frames(self) -> str:
        """Which direction's limit drops small frames first, and from which rate on; empty when none does."""
        found = [
            Bounded(", ".join((one.lane.name, *flow, side)), part.drop_rates)
            for one in self.lanes
            for side, direction in (("outbound", one.outbound), ("inbound", one.inbound))
            for flow, part in (
                ((), direction),
                *(((f"flow {flow.name}",), at) for flow, at in zip(one.lane.flows, direction.flows, strict=False)),
            )
            if any(part.drop_rates)
        ]
        return told(found) if found else ""

    @property
    def paths(self) -> tuple[PathStatus, ...]:
        """Every pair of sites."""
        if self.topology is None:
            return ()
        pairs = combinations([one.lane.in_effect for one in self.lanes], 2)
        return tuple(PathStatus(a.name, b.name, a.rtt_ns + b.rtt_ns) for a, b in pairs)


def lane_status(lane: Lane, have: State, counted: Mapping[str, QueueCounters]) -> LaneStatus:
    """The present kernel state of one lane."""
    ports = lane_ports(resolved_lane(lane, have))
    outbound, inbound = (_direction(port, have, counted) for port in ports)
    if any(port in (wire.hub, wire.site) for wire in have.wires.values() for port in ports):
        return LaneStatus(lane, outbound, inbound)
    return LaneStatus(lane, _with_drops(lane, outbound), _with_drops(lane, inbound))


def _with_drops(lane: Lane, direction: DirectionStatus) -> DirectionStatus:
    flows = tuple(_with_drops(lane, flow) for flow in direction.flows)
    if direction.netem is None:
        return direction
    rates = drop_rates(Egress(direction.netem, direction.shaper), lane.line_rate_bps)
    return replace(direction, drop_rates=rates, flows=flows)


def recounted(status: Status, counted: Mapping[str, QueueCounters]) -> Status:
    """The same lanes with new counters; a deleted queue keeps its last ones."""
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
    """A port's single netem with its children, or that of one band."""
    netem = egress.netem
    return DirectionStatus(
        port, netem, egress.shaper, egress.aqm, _counters(netem, count), count.lateness, count.not_permitted
    )


def _counters(netem: Netem, count: QueueCounters) -> DirectionCounters:
    other = count.drops - count.shaper_drops
    lost = 0 if count.lost is None and not (netem.lossy or netem.lost_before) else count.lost
    return DirectionCounters(
        count.packets,
        count.bytes,
        count.queued_packets,
        count.queued_bytes,
        netem.limit,
        other - lost if lost is not None and other >= lost else None,
        count.shaper_drops,
        lost,
        other if lost is None and netem.lost_before else None,
    )
