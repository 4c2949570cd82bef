"""How late the wire engine sent frames during a measurement: the delay that the machine added to the lanes. Pure.

netem uses the kernel's timers and reports no lateness: this module knows nothing of lanes that netem serves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from emulator.control.status import DirectionStatus, LaneStatus


@dataclass(frozen=True)  # not a Struct: pydantic makes an answer of the web from it
class Late:
    """One direction: half of the frames left at most `p50_ns` after they were due, 99 of 100 at most `p99_ns`.

    Both values are at most a quarter above the true ones, never below. The 99th percentile may be up to `allowed_ns`.
    """

    lane: str
    direction: str
    frames: int
    p50_ns: int
    p99_ns: int
    allowed_ns: int

    @property
    def passed(self) -> bool:
        """Whether the machine was fast enough for the measurement to be valid."""
        return self.p99_ns <= self.allowed_ns

    def __str__(self) -> str:
        return f"{self.lane} {self.direction}: the engine was {self.p99_ns / 1e3:.1f} us late (99th percentile)"

    def to_json(self) -> dict[str, Any]:
        """Everything, and the verdict."""
        return {**asdict(self), "passed": self.passed}


def between(before: Sequence[LaneStatus], after: Sequence[LaneStatus], allowed_ns: int) -> tuple[Late, ...]:
    """Both directions of every lane that an engine served meanwhile, if they passed a frame."""
    earlier = {lane.lane.name: lane for lane in before}
    return tuple(
        late
        for lane in after
        if lane.lane.name in earlier
        for late in _directions(earlier[lane.lane.name], lane, allowed_ns)
    )


def _directions(before: LaneStatus, after: LaneStatus, allowed_ns: int) -> Iterator[Late]:
    for name, old, new in (
        ("outbound", before.outbound, after.outbound),
        ("inbound", before.inbound, after.inbound),
    ):
        counts = _increase(old, new)
        if frames := sum(counts.values()):
            yield Late(after.lane.name, name, frames, quantile(counts, 50), quantile(counts, 99), allowed_ns)


def _increase(before: DirectionStatus, after: DirectionStatus) -> dict[int, int]:
    """By bucket, flows included. An engine that restarted meanwhile counted from zero."""
    old, new = _with_flows(before), _with_flows(after)
    if sum(old.values()) > sum(new.values()):
        return dict(new)
    return {above: count - old[above] for above, count in new.items()}


def _with_flows(direction: DirectionStatus) -> Counter[int]:
    counts = Counter[int]()
    for part in (direction, *direction.flows):
        counts.update(dict(part.lateness))
    return counts


def quantile(counts: dict[int, int], percent: int) -> int:
    """The upper end of the bucket that holds this percentile."""
    left = -(-sum(counts.values()) * percent // 100)
    for above in sorted(counts):
        left -= counts[above]
        if left <= 0:
            return above
    return 0
