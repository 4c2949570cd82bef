"""Measures every impairment of every virtual lane and its flows in both directions and compares it with its setting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from emulator.analysis import impairment_statistics
from emulator.analysis.impairment_statistics import ImpairmentCheck
from emulator.errors import InputError
from emulator.hosts.tools.frame_stream import Arrival, FrameFlow, Stream
from emulator.hosts.tools.probe_frame import smallest_bytes
from emulator.hosts.tools.sample_packet import Packet, specimen
from emulator.model.bottleneck import frame_bytes
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, LaneEnds, Topology
from emulator.plan.netem_lowering import jitter_reach_ns, lower

SETTLE_NS = 2_000_000_000
"""The most that the last frame may take beyond all delays and queues."""


class Proof(Struct, frozen=True):
    """One row about one direction of a lane, for packets of `flow`, or of no flow when it is empty."""

    lane: str
    direction: str
    row: ImpairmentCheck
    flow: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as JSON."""
        said = {"lane": self.lane, "flow": self.flow, "direction": self.direction}
        return said | {**asdict(self.row), "passed": self.row.passed}


class _Way(Struct, frozen=True):
    """One direction for the packets of a flow, or of none: `lane` holds their impairments and no flows."""

    lane: Lane
    name: str
    ends: tuple[str, str]
    packet: Packet
    flow: str | None

    @property
    def impairment(self) -> Impairment:
        """The packets' impairments."""
        return self.lane.outbound if self.outbound else self.lane.inbound

    @property
    def outbound(self) -> bool:
        """Whether the direction goes from the hub to the site."""
        return self.name == "outbound"

    @property
    def smallest_bytes(self) -> int:
        """The size of a single frame."""
        return smallest_bytes(self.packet)

    def stream(self, count: int, every_ns: int, frame_bytes: int, *, ect: bool = False) -> FrameFlow:
        """Frames through this direction."""
        return FrameFlow(*self.ends, count, every_ns, frame_bytes, ect, self.packet, self.outbound)

    def proof(self, row: ImpairmentCheck) -> Proof:
        """One row about this direction."""
        return Proof(self.lane.name, self.name, row, self.flow)


def _ways(topology: Topology, lanes: Collection[str]) -> list[_Way]:
    """Both directions of every lane with hosts, for the packets of no flow and then of each flow.

    Raises InputError when earlier flows match all packets of a flow.
    """
    return [
        _Way(way, name, ends, packet, flow)
        for lane in topology.virtual_lanes
        if not lanes or lane.name in lanes
        for way, packet, flow in _seen(lane)
        for name, ends in zip(("outbound", "inbound"), _both_ways(topology.ends(lane.name)), strict=True)
    ]


def _both_ways(ends: LaneEnds) -> tuple[tuple[str, str], tuple[str, str]]:
    """The sender and the receiver, outbound and inbound."""
    return (ends.hub.host, ends.site.host), (ends.site.host, ends.hub.host)


def _seen(lane: Lane) -> Iterator[tuple[Lane, Packet, str | None]]:
    """For packets of no flow and of each flow: the lane, such a packet, and the flow's name."""
    matches = [flow.match for flow in lane.flows]
    for index, (way, flow) in enumerate(zip(lane.ways, (None, *lane.flows), strict=True)):
        packet = specimen(matches, index - 1 if flow else None)
        if packet is None:
            where = f"lanes.{lane.name}.flows.{flow.name if flow else ''}"
            raise InputError.single("no packet reaches this flow: earlier flows match all of them", path=where)
        yield way, packet, flow.name if flow else None


def prove(topology: Topology, packets: int, slack_ns: int, lanes: Collection[str] = ()) -> list[Proof]:
    """Send `packets` frames over each direction, all at once, then a train over each bottleneck, one by one.

    A lane with flows gets as many for each flow and for no flow. `slack_ns` is the measurement error of a delay.
    A direction with a failed row is measured again: chance fails a row once in a thousand, a wrong setting each time.
    `lanes` are the lanes to measure, by default all. Raises MissingError without the hosts, InputError.
    """
    every = _ways(topology, lanes)
    rows = _measure(topology, every, packets, slack_ns)
    doubtful = [w for w in every if not all(row.passed for row in rows[w])]
    if doubtful:
        again = _measure(topology, doubtful, packets, slack_ns)
        rows |= {w: impairment_statistics.repeated(rows[w], again[w]) for w in doubtful}
    return [w.proof(row) for w in every for row in rows[w]]


def _measure(
    topology: Topology, every: Sequence[_Way], packets: int, slack_ns: int
) -> dict[_Way, list[ImpairmentCheck]]:
    """The rows of each way: single frames over all ways at once, then the trains."""
    singles = [
        w.stream(
            packets,
            impairment_statistics.spacing_ns(w.impairment),
            w.smallest_bytes,
            ect=w.impairment.ecn and bool(w.impairment.mean_loss),
        )
        for w in every
    ]
    found = _run(topology, singles)
    rows = {
        w: impairment_statistics.stream_rows(w.lane, w.impairment, packets, seen, slack_ns, _switched(w))
        for w, seen in zip(every, found, strict=True)
    }
    return {w: [*of_way, *_train(topology, w)] for w, of_way in rows.items()}


def _switched(w: _Way) -> int:
    """The frames' size when the hub's switch is behind the lane; None otherwise."""
    return 0 if w.outbound else w.smallest_bytes


def _train(topology: Topology, w: _Way) -> list[ImpairmentCheck]:
    frames = impairment_statistics.train_frames(w.lane, w.impairment)
    if not frames:
        return []
    seen = _run(topology, [w.stream(frames, 0, frame_bytes(w.lane.mtu))])[0]
    outbound, inbound = lower(w.lane, seed=topology.seed, has_seed=True).both
    shaper = (outbound if w.outbound else inbound).shaper
    assert shaper is not None
    return impairment_statistics.train_rows(w.lane, w.impairment, shaper, frames, seen)


def _run(topology: Topology, flows: Sequence[FrameFlow]) -> list[list[Arrival]]:
    slowest = max(
        (x.delay_ns + jitter_reach_ns(x) + _drain_ns(way, x))
        for lane in topology.virtual_lanes
        for way in lane.ways
        for x in (way.outbound, way.inbound)
    )
    with Stream(topology, flows) as stream:
        return stream.run(slowest + SETTLE_NS)


def _drain_ns(lane: Lane, impairment: Impairment) -> int:
    """How long a train takes through the bottleneck."""
    frames = impairment_statistics.train_frames(lane, impairment)
    return 2 * frames * frame_bytes(lane.mtu) * 8_000_000_000 // impairment.rate_bps if impairment.rate_bps else 0
