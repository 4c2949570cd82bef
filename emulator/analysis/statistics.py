"""Confidence in what was counted: intervals at 99.9 % and the distance of distributions. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

Z = 3.2905267314919255
"""The normal quantile of a two-sided 99.9 %."""

KOLMOGOROV = 1.9494746035204
"""The Kolmogorov distribution's quantile of 99.9 %, to be divided by the root of the sample's size."""


@dataclass(frozen=True)
class Estimate:
    """A measured figure and the interval in which the true one lies with 99.9 %."""

    value: float
    low: float
    high: float

    def holds(self, asked: float) -> bool:
        """Whether what was asked lies within."""
        return self.low <= asked <= self.high


def share(hits: int, trials: float, of: int | None = None) -> Estimate:
    """A probability from `hits` of `of` trials (Wilson's interval); `trials` is the number that is independent."""
    count = trials if of is None else of
    if not count or not trials:
        return Estimate(0.0, 0.0, 1.0)
    value, square = hits / count, Z * Z / trials
    middle = (value + square / 2) / (1 + square)
    half = Z / (1 + square) * math.sqrt(value * (1 - value) / trials + square / (4 * trials))
    # At the ends the formula misses 0 and 1 by a rounding error.
    return Estimate(value, 0.0 if not hits else max(0.0, middle - half), 1.0 if hits == count else middle + half)


def share_of_run(events: Sequence[bool]) -> Estimate:
    """A probability from a sequence that may come in bursts: fewer trials count, after its own correlation."""
    count, hits = len(events), sum(events)
    if not 0 < hits < count:
        return share(hits, count)
    mean = hits / count
    both = sum(a and b for a, b in pairwise(events)) / (count - 1)
    correlation = min(0.999, max(0.0, (both - mean * mean) / (mean * (1 - mean))))
    return share(hits, count * (1 - correlation) / (1 + correlation), count)


def runs(events: Sequence[bool]) -> list[int]:
    """The lengths of the runs of events, one after the other."""
    return [sum(1 for _ in group) for happened, group in groupby(events) if happened]


def mean(values: Sequence[float]) -> Estimate:
    """A mean from independent values; of less than two nothing is known."""
    if len(values) < 2:
        return Estimate(values[0] if values else 0.0, -math.inf, math.inf)
    middle = sum(values) / len(values)
    variance = sum((v - middle) ** 2 for v in values) / (len(values) - 1)
    half = Z * math.sqrt(variance / len(values))
    return Estimate(middle, middle - half, middle + half)


def distance(measured: Sequence[float], asked: Sequence[float], slack: float = 0.0) -> float:
    """Kolmogorov's distance of a sample from the distribution that gives each of `asked` with the same chance.

    `slack` is by how much every measured value may be off to either side.
    """
    sample, table = sorted(measured), sorted(asked)
    worst = 0.0
    for at in sorted(set(sample) | set(table)):
        above = bisect_right(sample, at) / len(sample) - bisect_right(table, at + slack) / len(table)
        below = bisect_left(table, at - slack) / len(table) - bisect_left(sample, at) / len(sample)
        worst = max(worst, above, below)
    return worst


def distance_allowed(count: int) -> float:
    """The distance that 99.9 % of the samples of that size stay below."""
    return KOLMOGOROV / math.sqrt(count)


def chi_square_geometric(lengths: Sequence[int], mean_length: float) -> tuple[float, float]:
    """Chi-square of run lengths against the geometric distribution of that mean, and what 99.9 % stay below.

    The classes are the lengths 1, 2, ... as long as five runs are expected in each, and all that are longer.
    """
    leave, total, counted = 1 / mean_length, len(lengths), Counter(lengths)
    chi, seen, expected_so_far, length = 0.0, 0, 0.0, 1
    while (expected := total * leave * (1 - leave) ** (length - 1)) >= 5 and total - expected_so_far - expected >= 5:
        chi += (counted[length] - expected) ** 2 / expected
        seen, expected_so_far, length = seen + counted[length], expected_so_far + expected, length + 1
    rest = total - expected_so_far
    chi += (total - seen - rest) ** 2 / rest
    freedom = length - 1
    # Wilson and Hilferty's cube.
    z_one_sided = 3.090232306167813
    limit = freedom * (1 - 2 / (9 * freedom) + z_one_sided * math.sqrt(2 / (9 * freedom))) ** 3 if freedom else 0.0
    return chi, limit
