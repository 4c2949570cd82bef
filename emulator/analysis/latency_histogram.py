"""Round-trip and one-way delays of a series of probes as an HdrHistogram, corrected for coordinated omission.

Probes leave at a fixed interval, whether or not earlier ones were answered, so neither a slow answer nor a lost one
delays another probe. Only a late prober leaves gaps. The correction adds the probes that should have left in a gap,
with the delay that they would have seen: the next probe's delay plus the time until it was sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

LOWEST_NS, HIGHEST_NS, DIGITS = 1_000, 100_000_000_000, 4
"""The histogram's range and resolution: 1 us to 100 s, four digits."""


class Probe(Struct, frozen=True):
    """One probe: its send time, its round trip (None: no answer), and each direction where known."""

    sent_ns: int
    rtt_ns: int | None
    there_ns: int | None = None
    back_ns: int | None = None


class Latency(Struct, frozen=True):
    """A series in figures: quantiles of the round trip in ns, the median of each direction, and the histogram.

    `histogram` holds (value in ns, count) in rising order; `corrected` counts the probes that the correction added.
    """

    tool: str
    count: int
    lost: int
    corrected: int
    min_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    there_ns: int | None
    back_ns: int | None
    histogram: tuple[tuple[int, int], ...]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Latency:
        """The inverse of `dataclasses.asdict`. Raises TypeError, ValueError."""
        return cls(**{**value, "histogram": tuple((int(ns), int(count)) for ns, count in value["histogram"])})


def gaps(probes: Sequence[Probe], every_ns: int) -> list[int]:
    """The round trips of the probes that a late prober did not send.

    They follow from the next answered probe's; after the last answer they are unknown.
    """
    missing: list[int] = []
    rtt_ns: int | None = None
    for after, before in pairwise(reversed(probes)):
        rtt_ns = after.rtt_ns if after.rtt_ns is not None else rtt_ns
        late_ns = after.sent_ns - before.sent_ns - every_ns
        if rtt_ns is not None:
            # Up to half an interval is the jitter of a timer, not a gap.
            missing += [rtt_ns + step for step in range(every_ns, late_ns + every_ns // 2 + 1, every_ns)]
    return missing


def summarize(tool: str, probes: Sequence[Probe], every_ns: int) -> Latency:
    """The figures of one series in the order of sending. Raises ValueError without an answer."""
    from hdrh.histogram import HdrHistogram

    values = [probe.rtt_ns for probe in probes if probe.rtt_ns is not None]
    if not values:
        raise ValueError("no probe was answered")
    missing = gaps(probes, every_ns)
    histogram = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    bins: Counter[int] = Counter()
    for rtt_ns in [*values, *missing]:
        value_ns = min(HIGHEST_NS, max(LOWEST_NS, rtt_ns))
        histogram.record_value(value_ns)
        # Count the bins directly: the library's iterator visits every bin from 0 on, which takes seconds.
        bins[int(histogram.get_highest_equivalent_value(value_ns))] += 1
    return Latency(
        tool=tool,
        count=len(values),
        lost=len(probes) - len(values),
        corrected=len(missing),
        min_ns=min(values),
        p50_ns=int(histogram.get_value_at_percentile(50)),
        p99_ns=int(histogram.get_value_at_percentile(99)),
        max_ns=max([*values, *missing]),
        there_ns=_median(probe.there_ns for probe in probes),
        back_ns=_median(probe.back_ns for probe in probes),
        histogram=tuple(sorted(bins.items())),
    )


def _median(values: Iterable[int | None]) -> int | None:
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None
