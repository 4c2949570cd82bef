"""How well a distribution fits the gaps between losses: chi-square over classes of gap lengths. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from statistics import NormalDist

from msgspec import Struct

MOST_CLASSES = 20
FEWEST_EXPECTED = 5
"""The least expected count of a class; below it chi-square does not hold (Cochran's rule)."""


class Goodness(Struct, frozen=True):
    """Chi-square, its degrees of freedom, and the chance of a fit this bad or worse if the model is right."""

    chi_square: float
    freedom: int
    p_value: float


def against_gaps(gaps: Counter[int], survival: Callable[[int], float], parameters: int) -> Goodness | None:
    """Test the gaps against the distribution that gives P(gap >= g). `parameters` counts what was fitted to them.

    A gap of 0 means two losses in a row. Returns None when there are too few gaps for one degree of freedom.
    """
    total = gaps.total()
    classes = list(_classes(total, survival))
    freedom = len(classes) - 1 - parameters
    if freedom < 1:
        return None
    chi = 0.0
    for first, after in classes:
        expected = total * (survival(first) - (survival(after) if after else 0.0))
        seen = sum(times for gap, times in gaps.items() if first <= gap and (after is None or gap < after))
        chi += (seen - expected) ** 2 / expected
    return Goodness(chi, freedom, p_value(chi, freedom))


def _classes(total: int, survival: Callable[[int], float]) -> Iterator[tuple[int, int | None]]:
    """Classes of gap lengths as (from, to before): each is expected often enough, and apart from the gap of 0 they are
    about equally likely. The last class has no upper end."""
    share = max(FEWEST_EXPECTED / total, survival(1) / MOST_CLASSES) if total else 1.0
    first = 0
    while survival(first) >= 2 * share:
        after = _first_below(survival, survival(first) - share, first)
        if survival(after) < share:
            break
        yield first, after
        first = after
    yield first, None


def _first_below(survival: Callable[[int], float], level: float, start: int) -> int:
    """The first length above `start` at which the survival function is at or below the level."""
    step = 1
    while survival(start + step) > level:
        step *= 2
    low, high = start, start + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if survival(middle) > level else (low, middle)
    return high


def p_value(chi_square: float, freedom: int) -> float:
    """The chance of a chi-square this large or larger, by the Wilson-Hilferty cube root."""
    part = 2 / (9 * freedom)
    return 1 - NormalDist().cdf((math.cbrt(chi_square / freedom) - (1 - part)) / math.sqrt(part))
