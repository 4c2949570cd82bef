"""How certain measured figures are: intervals, the distance of distributions, and how often to repeat. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import fmean, stdev

from msgspec import Struct

Z = 3.2905267314919255
"""The normal quantile of two-sided 99.9 %."""

KOLMOGOROV = 1.9494746035204
"""The 99.9 % quantile of the Kolmogorov distribution; divide it by the square root of the sample's size."""

LEAST_REPEATS = 3
MOST_REPEATS = 10
WANTED_SHARE = 0.025
"""Repeats suffice when the 99 % confidence half-width is at most this share of the mean."""

_T_99 = (
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
    2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
)  # fmt: skip
"""Student's t, two-sided 99 %, for 1 to 30 degrees of freedom (any table, for instance NIST/SEMATECH 1.3.6.7.2)."""
_Z_99 = 2.5758293035489004
"""The normal quantile of two-sided 99 %."""


class Estimate(Struct, frozen=True):
    """A measured figure and the interval that holds the true one with 99.9 %."""

    value: float
    low: float
    high: float

    def holds(self, asked: float) -> bool:
        """Whether the requested value lies within the interval."""
        return self.low <= asked <= self.high


def share(hits: int, trials: float, of: int | None = None) -> Estimate:
    """A probability from `hits` of `of` trials (Wilson's interval); `trials` is the number of independent trials."""
    count = trials if of is None else of
    if not count or not trials:
        return Estimate(0.0, 0.0, 1.0)
    value, square = hits / count, Z * Z / trials
    middle = (value + square / 2) / (1 + square)
    half = Z / (1 + square) * math.sqrt(value * (1 - value) / trials + square / (4 * trials))
    # At the ends the formula misses 0 and 1 by a rounding error.
    return Estimate(value, 0.0 if not hits else max(0.0, middle - half), 1.0 if hits == count else middle + half)


def share_of_run(events: Sequence[bool]) -> Estimate:
    """A probability from a sequence with possible bursts: its autocorrelation reduces the number of trials."""
    count, hits = len(events), sum(events)
    if not 0 < hits < count:
        return share(hits, count)
    mean = hits / count
    both = sum(a and b for a, b in pairwise(events)) / (count - 1)
    correlation = min(0.999, max(0.0, (both - mean * mean) / (mean * (1 - mean))))
    return share(hits, count * (1 - correlation) / (1 + correlation), count)


def runs(events: Sequence[bool]) -> list[int]:
    """The lengths of the runs of events, in order."""
    return [sum(1 for _ in group) for happened, group in groupby(events) if happened]


def mean(values: Sequence[float]) -> Estimate:
    """A mean of independent values; with fewer than two values its interval is infinite."""
    if len(values) < 2:
        return Estimate(values[0] if values else 0.0, -math.inf, math.inf)
    middle = sum(values) / len(values)
    variance = sum((v - middle) ** 2 for v in values) / (len(values) - 1)
    half = Z * math.sqrt(variance / len(values))
    return Estimate(middle, middle - half, middle + half)


def distance(measured: Sequence[float], asked: Sequence[float], slack: float = 0.0) -> float:
    """The Kolmogorov distance of a sample from the distribution in which each value of `asked` is equally likely.

    `slack` is the measurement error of every value, to either side.
    """
    sample, table = sorted(measured), sorted(asked)
    worst = 0.0
    for at in sorted(set(sample) | set(table)):
        above = bisect_right(sample, at) / len(sample) - bisect_right(table, at + slack) / len(table)
        below = bisect_left(table, at - slack) / len(table) - bisect_left(sample, at) / len(sample)
        worst = max(worst, above, below)
    return worst


def distance_allowed(count: int) -> float:
    """The distance that 99.9 % of samples of this size stay below."""
    return KOLMOGOROV / math.sqrt(count)


def chi_square_geometric(lengths: Sequence[int], mean_length: float) -> tuple[float, float]:
    """Chi-square of run lengths against the geometric distribution of this mean, and its 99.9 % bound.

    The classes are the lengths 1, 2, ... while five runs are expected in each, and one class for all longer runs.
    """
    leave, total, counted = 1 / mean_length, len(lengths), Counter(lengths)
    chi, seen, expected_so_far, length = 0.0, 0, 0.0, 1
    while (expected := total * leave * (1 - leave) ** (length - 1)) >= 5 and total - expected_so_far - expected >= 5:
        chi += (counted[length] - expected) ** 2 / expected
        seen, expected_so_far, length = seen + counted[length], expected_so_far + expected, length + 1
    rest = total - expected_so_far
    chi += (total - seen - rest) ** 2 / rest
    freedom = length - 1
    # The Wilson-Hilferty cube root.
    z_one_sided = 3.090232306167813
    limit = freedom * (1 - 2 / (9 * freedom) + z_one_sided * math.sqrt(2 / (9 * freedom))) ** 3 if freedom else 0.0
    return chi, limit


def half_width(values: Sequence[float]) -> float:
    """The 99 % confidence half-width of the mean by Student's t; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    return t_99(len(values) - 1) * stdev(values) / math.sqrt(len(values))


def t_99(freedom: int) -> float:
    """Student's t, two-sided 99 %, for this many degrees of freedom, at least 1.

    Above 30 it is the expansion about the normal quantile (Abramowitz and Stegun 26.7.5), right to 0.0001.
    """
    if freedom <= len(_T_99):
        return _T_99[freedom - 1]
    z = _Z_99
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def enough(values: Sequence[float], most: int = MOST_REPEATS) -> bool:
    """Whether to stop: after at least three repeats with enough certainty, or after the most repeats allowed."""
    return len(values) >= most or (len(values) >= LEAST_REPEATS and sure(values))


def sure(values: Sequence[float]) -> bool:
    """Whether the mean is known well enough."""
    return half_width(values) <= WANTED_SHARE * fmean(values)


def differ(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two (mean, half-width) differ by more than both uncertainties together; a single value counts as
    uncertain by 2.5 %."""
    widths = [width if math.isfinite(width) else WANTED_SHARE * mean for mean, width in (one, other)]
    return abs(one[0] - other[0]) > math.hypot(*widths)
