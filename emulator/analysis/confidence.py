"""How certain the mean of repeats is, and whether there are enough repeats. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

LEAST_REPEATS = 3
MOST_REPEATS = 10
WANTED_SHARE = 0.025
"""Repeats suffice when the 99 % confidence half-width is at most this share of the mean."""

_T_99 = (
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
    2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
)  # fmt: skip
"""Student's t, two-sided 99 %, for 1 to 30 degrees of freedom (any table, for instance NIST/SEMATECH 1.3.6.7.2)."""


def half_width(values: Sequence[float]) -> float:
    """The 99 % confidence half-width of the mean by Student's t; infinite for a single value."""
    if len(values) < 2:
        return math.inf
    freedom = len(values) - 1
    t = _T_99[freedom - 1] if freedom <= len(_T_99) else _T_99[-1]
    return t * statistics.stdev(values) / math.sqrt(len(values))


def enough(values: Sequence[float], most: int = MOST_REPEATS) -> bool:
    """Whether to stop: after at least three repeats with enough certainty, or after the most repeats allowed."""
    return len(values) >= most or (len(values) >= LEAST_REPEATS and sure(values))


def sure(values: Sequence[float]) -> bool:
    """Whether the mean is known well enough."""
    return half_width(values) <= WANTED_SHARE * statistics.fmean(values)


def differ(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether two (mean, half-width) differ by more than both uncertainties together; a single value counts as
    uncertain by 2.5 %."""
    widths = [width if math.isfinite(width) else WANTED_SHARE * mean for mean, width in (one, other)]
    return abs(one[0] - other[0]) > math.hypot(*widths)
