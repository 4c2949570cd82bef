"""Whether two path profiles describe the same path, as far as both recordings can tell. Pure.

Two figures agree when their difference lies within both 99.9 % intervals together (the root of the sum of squares). Two
distributions agree when the Kolmogorov distance of their tables is below the 99.9 % bound for two such samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from emulator.analysis.statistics import KOLMOGOROV, Estimate, distance
from emulator.model.jitter_distribution import deviation_ns
from emulator.record.delay import independent
from emulator.record.path_profile import Direction, PathProfile


class Likeness(Struct, frozen=True):
    """One figure of both profiles and the difference allowed between them. `unit` is "ms", "%", "packets" or ""."""

    direction: str
    what: str
    unit: str
    one: float
    other: float
    allowed: float

    @property
    def alike(self) -> bool:
        """Whether the difference is allowed."""
        return abs(self.one - self.other) <= self.allowed


def compared(one: PathProfile, other: PathProfile, slack_ns: int) -> list[Likeness]:
    """Compare every figure of both directions. `slack_ns` is the measurement error of a delay in one recording."""
    return [
        row
        for name in ("outbound", "inbound")
        for row in _direction(name, getattr(one, name), getattr(other, name), slack_ns)
    ]


def _direction(name: str, one: Direction, other: Direction, slack_ns: int) -> Iterator[Likeness]:
    here, there = one.found, other.found
    yield _row(name, "median delay", "ms", here.median_ns, there.median_ns, 1e-6, 2 * slack_ns)
    if one.table or other.table:
        counts = [independent(found.delays, found.correlation) for found in (here, there)]
        apart = distance(played(one), played(other), 2 * slack_ns)
        yield Likeness(name, "shape (KS)", "", apart, 0.0, KOLMOGOROV * math.sqrt(sum(1 / count for count in counts)))
    yield _row(name, "loss", "%", here.lost, there.lost, 100)
    if here.burst and there.burst:
        yield _row(name, "loss in a row", "packets", here.burst, there.burst, 1)


def _row(name: str, what: str, unit: str, one: Estimate, other: Estimate, scale: float, slack: float = 0) -> Likeness:
    low, high = (one, other) if one.value <= other.value else (other, one)
    allowed = math.hypot(low.high - low.value, high.value - high.low) + slack
    return Likeness(name, what, unit, one.value * scale, other.value * scale, allowed * scale)


def played(one: Direction) -> list[float]:
    """The equally likely delays that netem plays."""
    return [one.delay_ns + deviation_ns(one.jitter_ns, entry) for entry in one.table or (0,)]
