"""Recorded delays as netem plays them: a delay, a jitter and a table of quantiles, and their confidence. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from emulator.analysis.statistics import Estimate, Z
from emulator.model.impairment import MAX_JITTER_NS
from emulator.model.jitter_distribution import SCALE, SIZE, DistributionTable

NOISE_NS = 10_000
"""The noise of clocks and timers: delays that differ by no more count as one delay."""

REACH = 32767
"""The largest deviation in a table, in jitters / 8192."""


class Shape(Struct, frozen=True):
    """A delay, its jitter, and the table of deviations in jitters / 8192; None when there is no jitter."""

    delay_ns: int
    jitter_ns: int
    table: DistributionTable | None


def shaped(delays: Sequence[int], size: int = SIZE) -> Shape:
    """Convert the delays to `size` equally likely ones. Raises ValueError without any delay.

    The delay is the median, or a fifth of the longest delay where that is more: a table reaches at most four jitters
    from the delay, and the jitter must not exceed the delay.
    """
    ordered = sorted(delays)
    if not ordered:
        raise ValueError("there is no delay to take a shape from")
    least, most = ordered[0], ordered[-1]
    if most - least <= NOISE_NS:
        return Shape(round(quantile(ordered, 0.5)), 0, None)
    values = [quantile(ordered, (i + 0.5) / size) for i in range(size)]
    delay = max(round(quantile(ordered, 0.5)), -(-most // 5))
    jitter = min(MAX_JITTER_NS, delay, -(-max(most - delay, delay - least) * SCALE // REACH))
    return Shape(delay, jitter, tuple(_entry(value - delay, jitter) for value in values))


def _entry(deviation_ns: float, jitter_ns: int) -> int:
    return max(-REACH - 1, min(REACH, round(deviation_ns * SCALE / jitter_ns)))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie, interpolated linearly."""
    place = min(len(ordered) - 1.0, max(0.0, share * len(ordered) - 0.5))
    low = math.floor(place)
    if place == low:
        return ordered[low]
    return ordered[low] + (ordered[low + 1] - ordered[low]) * (place - low)


def quantile_estimate(delays: Sequence[float], share: float, correlation: float = 0.0) -> Estimate:
    """A quantile and the order statistics that enclose the true one with 99.9 %.

    `correlation` of each delay with the next reduces the number of independent delays.
    """
    ordered = sorted(delays)
    half = Z * math.sqrt(share * (1 - share) / independent(len(ordered), correlation))
    ends = [ordered[min(len(ordered) - 1, max(0, round((share + side) * len(ordered))))] for side in (-half, half)]
    value = quantile(ordered, share)
    return Estimate(value, min(value, ends[0]), max(value, ends[1]))


def independent(count: int, correlation: float) -> float:
    """How many independent values carry as much information as `count` values with this correlation at lag 1."""
    bound = min(0.999, max(0.0, correlation))
    return max(1.0, count * (1 - bound) / (1 + bound))


def correlation(runs: Sequence[Sequence[int]]) -> float:
    """The autocorrelation of the delays at lag 1 over several uninterrupted series; 0 when all delays are equal."""
    every = [delay for delays in runs for delay in delays]
    if len(every) < 2:
        return 0.0
    mean = sum(every) / len(every)
    variance = sum((delay - mean) ** 2 for delay in every) / len(every)
    pairs = [(one - mean) * (after - mean) for delays in runs for one, after in pairwise(delays)]
    return sum(pairs) / len(pairs) / variance if pairs and variance else 0.0


def variation_ns(runs: Sequence[Sequence[int]]) -> float:
    """The mean difference of a delay and the next one, in ns (RFC 3550's jitter, not smoothed)."""
    steps = [abs(after - one) for delays in runs for one, after in pairwise(delays)]
    return sum(steps) / len(steps) if steps else 0.0
