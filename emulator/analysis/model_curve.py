"""The theoretical curve between the cells of one column: interpolates every law and takes their minimum. Pure.

Between two cells a law is a straight line on log-log axes: the line rate is level, and a constant window falls as
1 / RTT. Each bend of the curve therefore lies where another law begins to bind, not at a cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from emulator.analysis.throughput_models import CUBIC, LINE, MATHIS

STEPS = 24
"""Points from one cell to the next: more than a reader can distinguish."""
LOSS = "loss"


class ModelPoint(Struct, frozen=True):
    """What each law allows at one RTT, in bytes/s; laws without a limit are omitted."""

    rtt_ns: int
    laws: Mapping[str, float]


def theory(points: Iterable[ModelPoint]) -> list[tuple[float, float]]:
    """(RTT in ns, bytes/s) along the curve, by rising RTT, without RTT 0, which has no place on a logarithmic axis."""
    known = sorted((point for point in points if point.rtt_ns and point.laws), key=lambda point: point.rtt_ns)
    curve = [step for one, other in pairwise(known) if one.rtt_ns < other.rtt_ns for step in _between(one, other)]
    return [*curve, *((float(point.rtt_ns), min(point.laws.values())) for point in known[-1:])]


def _between(one: ModelPoint, other: ModelPoint) -> Sequence[tuple[float, float]]:
    """The points from one cell up to, but not including, the next."""
    ratio = other.rtt_ns / one.rtt_ns
    left, right = _grouped(one), _grouped(other)
    ends = []
    for name in left.keys() | right.keys():
        # A law is known at one end only: the line rate stays, and a window carries less over a longer RTT.
        slope = 1.0 if name == LINE else 1 / ratio
        first = left[name] if name in left else right[name] / slope
        ends.append((first, right[name] if name in right else first * slope))
    return [
        (one.rtt_ns * ratio**share, min(_on_line(first, last, share) for first, last in ends))
        for share in (step / STEPS for step in range(STEPS))
    ]


def _grouped(point: ModelPoint) -> dict[str, float]:
    """The laws by the quantity they depend on: Mathis and CUBIC alternate at the same loss."""
    return {LOSS if name in (MATHIS, CUBIC) else name: value for name, value in point.laws.items()}


def _on_line(first: float, last: float, share: float) -> float:
    """Interpolate between two values on log-log axes; 0 when one of them is 0."""
    return math.exp((1 - share) * math.log(first) + share * math.log(last)) if first > 0 and last > 0 else 0.0
