"""The smallest frames that the delay lines hold at full rate, and the packet rate from which on they drop. Pure.

Netem's limit counts packets. What is in flight has the same bytes whatever the size of the frames, but small frames are
many, and each takes at least 768 bytes of memory (`skb_bytes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from emulator.model.bottleneck import BETWEEN_FRAMES_BYTES, SMALLEST_FRAME_BYTES, wire_bytes
from emulator.model.impairment import Impairment
from emulator.model.loss_model import P32
from emulator.model.topology import Lane, Topology
from emulator.plan.netem_lowering import limit_packets, lower, queue_bytes
from emulator.plan.qdisc_values import Egress, Netem
from emulator.plan.state import Machine
from emulator.units import format_packet_rate

MEMORY_SHARE = 0.8
"""The share of the machine's memory that the lanes' queues may need together in the worst case."""

MOST_PACKETS = 2**32 - 1
"""The most packets of netem's limit, which has 32 bits."""

FULL = 2**16
"""Larger than every frame: the queues are sized for full-size frames only."""

STEPS = (SMALLEST_FRAME_BYTES, *(2**power for power in range(7, 16)))
"""The sizes tried, in bytes. They are few, so that a change to one lane rarely changes the limits of all others."""


class DropRates(NamedTuple):
    """The packets per second above which netem's limit drops: while the bottleneck's buffer is empty, and while it is
    full. None where the rate does not allow so many packets."""

    empty: int | None = None
    full: int | None = None

    def __str__(self) -> str:
        """For people; at least one is known."""
        rates = ("", self.empty), (" while the buffer is full", self.full)
        return ", or ".join(f"above {format_packet_rate(pps)}{when}" for when, pps in rates if pps is not None)

    @property
    def least(self) -> int | None:
        """The lower of the two."""
        return min((pps for pps in self if pps is not None), default=None)


NO_DROPS = DropRates()
"""The limit holds whatever the rate allows."""


class Bounded(NamedTuple):
    """One direction whose limit drops small frames; `where` names lane, flow and direction."""

    where: str
    rates: DropRates


def datapath(topology: Topology, machine: Machine) -> str:
    """The datapath of the lanes on this machine: "netem" or "wire"."""
    if topology.datapath == "auto":
        return "netem" if machine.has_netem else "wire"
    return topology.datapath


def directions(lane: Lane) -> Iterator[tuple[Lane, Impairment]]:
    """Both directions of a lane and of each of its flows, with the lane for those packets."""
    for way in lane.ways:
        yield way, way.outbound
        yield way, way.inbound


def smallest_frame(topology: Topology, machine: Machine) -> int:
    """The smallest frame of STEPS for which the memory has room, when all queues are full of such frames; else FULL.

    Under a schedule, the topology must be the one with the longest queues (`Timeline.envelope`). The wire engine takes
    its memory in bytes, so its limit may be for the smallest frames.
    """
    return SMALLEST_FRAME_BYTES if datapath(topology, machine) == "wire" else _in(topology, machine.memory_bytes)


@lru_cache(maxsize=4)
def _in(topology: Topology, memory_bytes: int) -> int:
    """A change asks several times for the topologies before and after it, of up to hundreds of lanes."""
    return next((step for step in STEPS if _fits(topology, memory_bytes, step)), FULL)


def _fits(topology: Topology, memory_bytes: int, smallest: int) -> bool:
    left = int(memory_bytes * MEMORY_SHARE)
    for lane in topology.lanes:
        left -= lane_queues_bytes(lane, smallest)
        if left < 0 or most_packets(lane, smallest) > MOST_PACKETS:
            return False
    return True


@lru_cache(maxsize=4096)
def lane_queues_bytes(lane: Lane, smallest: int) -> int:
    """The memory that a lane's queues may need together (`queue_bytes`)."""
    return sum(queue_bytes(way, impairment, smallest) for way, impairment in directions(lane))


@lru_cache(maxsize=4096)
def most_packets(lane: Lane, smallest: int) -> int:
    """The largest limit of a lane's queues (`limit_packets`)."""
    return max(limit_packets(way, impairment, smallest) for way, impairment in directions(lane))


def drop_rates(egress: Egress, line_rate_bps: int) -> DropRates:
    """The packet rates above which one netem drops by its limit.

    A packet stays for the delay, and then for as long as what is before it in the bottleneck's buffer takes to leave.
    """
    netem, shaper = egress.netem, egress.shaper
    stay_ns = netem.delay_ns + netem.jitter_ns
    if shaper is None:
        most = line_rate_bps // (8 * (SMALLEST_FRAME_BYTES + BETWEEN_FRAMES_BYTES))
        return DropRates(_drops_above(netem, stay_ns, most))
    counted = wire_bytes(SMALLEST_FRAME_BYTES, shaper.overhead_bytes, atm=shaper.atm)
    most = shaper.rate_bytes_per_s // counted
    # The buffer counts frames without their overhead.
    drain_ns = shaper.limit_bytes * counted * 10**9 // (SMALLEST_FRAME_BYTES * shaper.rate_bytes_per_s)
    return DropRates(_drops_above(netem, stay_ns, most), _drops_above(netem, stay_ns + drain_ns, most))


def _drops_above(netem: Netem, stay_ns: int, most_pps: int) -> int | None:
    pps = netem.limit * 10**9 * P32 // (stay_ns * (P32 + netem.duplicate_p32)) if stay_ns else most_pps
    return pps if pps < most_pps else None


def bounded(topology: Topology, machine: Machine, before: Topology | None = None) -> list[Bounded]:
    """The directions that drop small frames on this machine, and did not in the topology `before`.

    Under a schedule, both must have the longest queues (`Timeline.envelope`).
    """
    smallest = smallest_frame(topology, machine)
    if smallest == SMALLEST_FRAME_BYTES:
        return []
    lanes, known = topology.lanes, set[str]()
    if before:
        was, old = smallest_frame(before, machine), {lane.name: lane for lane in before.lanes}
        # Of hundreds of lanes a change is about few.
        lanes = tuple(lane for lane in lanes if smallest != was or lane != old.get(lane.name))
        known = {one.where for lane in lanes if lane.name in old for one in _bounded(old[lane.name].in_effect, was)}
    return [one for lane in lanes for one in _bounded(lane.in_effect, smallest) if one.where not in known]


def told(found: Sequence[Bounded]) -> str:
    """The direction that drops first, and how many others do."""
    first = min(found, key=lambda one: one.rates.least or 0)
    others = f", and {count} more direction{'s'[: count - 1]}" if (count := len(found) - 1) else ""
    return f"{first.where}: netem drops by its limit {first.rates}{others}"


def _bounded(lane: Lane, smallest: int) -> Iterator[Bounded]:
    names = [lane.name, *(f"{lane.name}, flow {flow.name}" for flow in lane.flows)]
    egresses = lower(lane, seed=0, has_seed=False, smallest=smallest).both
    for side, egress in zip(("outbound", "inbound"), egresses, strict=True):
        for name, (_, part) in zip(names, egress.places, strict=True):
            if any(rates := drop_rates(part, lane.line_rate_bps)):
                yield Bounded(f"{name}, {side}", rates)
