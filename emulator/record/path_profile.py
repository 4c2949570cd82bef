"""A path profile: a recorded path as impairments for both directions of a lane. Pure.

It also holds the 99.9 % interval of each figure and how well the loss model fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from emulator.analysis.statistics import Estimate
from emulator.model.jitter_distribution import DistributionTable
from emulator.model.loss_model import LossModel
from emulator.record import delay, loss, probes
from emulator.record.gap_fit import Goodness
from emulator.record.probes import DirectionSeries, RecordedProbe

ONE_CLOCK, TWO_CLOCKS, ROUND_TRIPS = "measured", "variation", "assumed"
"""How the round trip was split. measured: one clock timed each direction. variation: each direction's changes were
measured, and its least delay is assumed to be half the least round trip. assumed: all variation is attributed to the
outbound direction."""


class RecordingSource(Struct, frozen=True):
    """What was recorded: the host, the tool, the start (ISO 8601), the interval, and how it split round trips."""

    host: str
    tool: str
    at: str
    every_ns: int
    ways: str


class Found(Struct, frozen=True):
    """What was counted in one direction. `delays` is the number of known delays. `correlation` is that of each delay
    with the next, and `variation_ns` their mean difference. `bursts` is how often packets were lost in a row."""

    delays: int
    least_ns: int
    median_ns: Estimate
    p99_ns: Estimate
    correlation: float
    variation_ns: int
    packets: int
    lost: Estimate
    burst: Estimate | None
    bursts: int
    goodness: Goodness | None


class Direction(Struct, frozen=True):
    """One direction as netem plays it. `table` is None without jitter, `rate_bps` is None where it was not measured."""

    delay_ns: int
    jitter_ns: int
    table: DistributionTable | None
    loss: int | LossModel
    rate_bps: int | None
    found: Found

    @property
    def fields(self) -> dict[str, Any]:
        """Delay, jitter and loss, and the rate where one was measured, as fields of Impairment."""
        plain = isinstance(self.loss, int)
        return {
            "delay_ns": self.delay_ns,
            "jitter_ns": self.jitter_ns,
            "distribution": self.table or "uniform",
            "loss_p32": self.loss if plain else 0,
            "loss_model": None if plain else self.loss,
        } | ({"rate_bps": self.rate_bps} if self.rate_bps else {})


class PathProfile(Struct, frozen=True):
    """A path between two hosts."""

    source: RecordingSource
    rtt_ns: tuple[int, Estimate, Estimate]
    """The least, the median and the 99th percentile of the round trip, in ns."""
    outbound: Direction
    inbound: Direction


def ways_of(source: RecordingSource, recorded: Sequence[RecordedProbe]) -> tuple[DirectionSeries, DirectionSeries]:
    """The outbound and the inbound direction. Raises ValueError when no probe was answered."""
    return probes.ways(probes.complete(recorded, source.every_ns), one_clock=source.ways == ONE_CLOCK)


def profiled(
    source: RecordingSource, recorded: Sequence[RecordedProbe], rates_bps: tuple[int | None, int | None] = (None, None)
) -> PathProfile:
    """Build the profile from the recorded probes, with the rates of both directions where they were measured.

    Raises ValueError when no probe was answered.
    """
    there, back = ways_of(source, recorded)
    answered = [p for p in recorded if p.rtt_ns is not None]
    trips = [[p.rtt_ns for p in run if p.rtt_ns is not None] for _, run in groupby(answered, key=lambda p: p.run)]
    every, related = [ns for run in trips for ns in run], delay.correlation(trips)
    median, p99 = (delay.quantile_estimate(every, share, related) for share in (0.5, 0.99))
    return PathProfile(source, (min(every), median, p99), *map(_direction, (there, back), rates_bps))


def _direction(way: DirectionSeries, rate_bps: int | None) -> Direction:
    every, related = [ns for run in way.delays for ns in run], delay.correlation(way.delays)
    shape, fitted = delay.shaped(every), loss.fit(way.lost)
    median, p99 = (delay.quantile_estimate(every, share, related) for share in (0.5, 0.99))
    found = Found(
        delays=len(every),
        least_ns=min(every),
        median_ns=median,
        p99_ns=p99,
        correlation=related,
        variation_ns=round(delay.variation_ns(way.delays)),
        packets=sum(map(len, way.runs)),
        lost=fitted.share,
        burst=fitted.burst,
        bursts=fitted.bursts,
        goodness=fitted.goodness,
    )
    return Direction(shape.delay_ns, shape.jitter_ns, shape.table, fitted.loss, rate_bps, found)
