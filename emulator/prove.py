"""Measure every impairment of every virtual lane, both directions: asked, measured, interval, verdict."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from emulator import proof
from emulator.measure.stream import SMALLEST, Arrival, Flow, Stream
from emulator.model import Impairment, Lane, Topology
from emulator.netem import frame_bytes, jitter_reach_ns, lower
from emulator.proof import Row

SETTLE_NS = 2_000_000_000
"""What the last frame may take beyond all delays and queues."""


@dataclass(frozen=True)
class Proof:
    """One row of one lane's direction."""

    lane: str
    direction: str
    row: Row

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {"lane": self.lane, "direction": self.direction, **asdict(self.row), "passed": self.row.passed}


@dataclass(frozen=True)
class _Direction:
    lane: Lane
    name: str
    wish: Impairment
    ends: tuple[str, str]


def directions(topology: Topology) -> list[_Direction]:
    """Both directions of every lane that has a host at its end."""
    return [
        _Direction(lane, name, getattr(lane, name), (topology.hub, lane.name)[:: 1 if name == "outbound" else -1])  # type: ignore[arg-type]
        for lane in topology.virtual_lanes
        for name in ("outbound", "inbound")
    ]


def prove(topology: Topology, packets: int, slack_ns: int, lanes: Collection[str] = ()) -> list[Proof]:
    """Send `packets` frames over each direction, all at once, then a train over each bottleneck, one by one.

    `slack_ns`: by how much a delay may be measured wrong. `lanes` are those to measure, all unless said. Raises
    MissingError without the hosts.
    """
    every = [d for d in directions(topology) if not lanes or d.lane.name in lanes]
    singles = [
        Flow(*d.ends, packets, proof.spacing_ns(d.wish), SMALLEST, d.wish.ecn and bool(d.wish.mean_loss)) for d in every
    ]
    found = _run(topology, singles)
    rows = [
        [
            Proof(d.lane.name, d.name, row)
            for row in proof.stream_rows(d.lane, d.wish, packets, seen, slack_ns, _switched(d))
        ]
        for d, seen in zip(every, found, strict=True)
    ]
    for d, of_direction in zip(every, rows, strict=True):
        of_direction += [Proof(d.lane.name, d.name, row) for row in _train(topology, d)]
    return [one for of_direction in rows for one in of_direction]


def _switched(d: _Direction) -> int:
    """The size of the single frames where the hub's switch stands behind the lane."""
    return SMALLEST if d.name == "inbound" else 0


def _train(topology: Topology, d: _Direction) -> list[Row]:
    frames = proof.train_frames(d.lane, d.wish)
    if not frames:
        return []
    seen = _run(topology, [Flow(*d.ends, frames, 0, frame_bytes(d.lane.mtu))])[0]
    outbound, inbound = lower(d.lane, seed=topology.seed, has_seed=True)
    shaper = (outbound if d.name == "outbound" else inbound).shaper
    assert shaper is not None
    return proof.train_rows(d.lane, d.wish, shaper, frames, seen)


def _run(topology: Topology, flows: Sequence[Flow]) -> list[list[Arrival]]:
    slowest = max(
        (x.delay_ns + jitter_reach_ns(x) + _drain_ns(lane, x))
        for lane in topology.virtual_lanes
        for x in (lane.outbound, lane.inbound)
    )
    with Stream(topology, flows) as stream:
        return stream.run(slowest + SETTLE_NS)


def _drain_ns(lane: Lane, wish: Impairment) -> int:
    """How long a train takes through the bottleneck."""
    frames = proof.train_frames(lane, wish)
    return 2 * frames * frame_bytes(lane.mtu) * 8_000_000_000 // wish.rate_bps if wish.rate_bps else 0
