"""Fairness as numbers: Jain's index, shares, harm, and the time until a rate is a fair one. Pure.

Sources: Jain, Chiu and Hawe 1984, "A Quantitative Measure of Fairness and Discrimination"; Ware et al. 2019, "Beyond
Jain's Fairness Index: Setting the Bar For The Deployment of Congestion Control Algorithms" (harm).
"""

from __future__ import annotations

from collections.abc import Sequence

NEAR_FAIR = 0.1
"""A share within this of the fair one is fair."""


def jain(rates: Sequence[float]) -> float:
    """Jain's index of these rates: 1 when all are equal, 1 / their number when one has everything; 1 of nothing."""
    most = max(rates, default=0.0)
    if most <= 0:
        return 1.0
    # In shares of the largest: the squares of large rates would lose digits, those of small ones vanish.
    shares = [rate / most for rate in rates]
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


def harm(alone: float, together: float, *, less_is_better: bool = False) -> float | None:
    """What others take from a figure, as a share: 0 is no harm, near 1 is all; negative when it is better than alone.

    Of a time, of which less is better, it is the share of the time together that is due to the others. None without a
    figure to compare with.
    """
    whole, lost = (together, together - alone) if less_is_better else (alone, alone - together)
    return lost / whole if whole > 0 else None


def fair_from(rates: Sequence[float], fair: Sequence[float], places: int) -> int | None:
    """The first place at which the mean of `places` rates is within `NEAR_FAIR` of the fair ones, and the mean of all
    from there on is, too; None if there is none. Both are of the same intervals, in order.

    The second condition is for flows that start together: their slow starts are alike, whatever follows.
    """
    places = max(1, places)

    def is_fair(start: int, end: int) -> bool:
        wanted = sum(fair[start:end])
        return wanted > 0 and abs(sum(rates[start:end]) - wanted) <= NEAR_FAIR * wanted

    starts = range(len(rates) - places + 1)
    return next((start for start in starts if is_fair(start, start + places) and is_fair(start, len(rates))), None)
