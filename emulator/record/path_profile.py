"""A path profile: what was recorded of a path, as impairments for both directions of a lane. Pure.

What it is made of stands beside it: how sure each figure is (99.9 %), and how well the loss model fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from emulator.analysis.statistics import Estimate
from emulator.model.impairment import Impairment
from emulator.model.jitter_distribution import Table
from emulator.model.loss_model import LossModel
from emulator.record import delay, loss, probes
from emulator.record.gap_fit import Goodness
from emulator.record.probes import Probe, Way

ONE_CLOCK, TWO_CLOCKS, ROUND_TRIPS = "measured", "variation", "assumed"
"""How the round trip was split: each way measured on one clock; its changes measured, its least assumed to be half;
or all that changes taken for the way there."""


@dataclass(frozen=True)
class Source:
    """What was recorded: from which host, by which tool, when (ISO 8601), how the ways were told apart."""

    host: str
    tool: str
    at: str
    every_ns: int
    ways: str


@dataclass(frozen=True)
class Found:
    """What was counted in one direction. `delays` are those that are known, `correlation` is of each with the next,
    `variation_ns` the mean difference of the two; `bursts` the times that packets were lost in a row."""

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


@dataclass(frozen=True)
class Direction:
    """One direction as netem plays it: `table` None without jitter, `rate_bps` None where it was not measured."""

    delay_ns: int
    jitter_ns: int
    table: Table | None
    loss: int | LossModel
    rate_bps: int | None
    found: Found

    def onto(self, now: Impairment) -> Impairment:
        """A direction of a lane with this delay, jitter and loss, and the rate if there is one; the rest stays."""
        return replace(
            now,
            delay_ns=self.delay_ns,
            jitter_ns=self.jitter_ns,
            distribution=self.table or "uniform",
            loss_p32=self.loss if isinstance(self.loss, int) else 0,
            loss_model=None if isinstance(self.loss, int) else self.loss,
            rate_bps=self.rate_bps or now.rate_bps,
        )


@dataclass(frozen=True)
class PathProfile:
    """A path between two hosts."""

    source: Source
    rtt_ns: tuple[int, Estimate, Estimate]
    """The least, the median, and the 99th percentile."""
    outbound: Direction
    inbound: Direction


def ways_of(source: Source, recorded: Sequence[Probe]) -> tuple[Way, Way]:
    """There and back. Raises ValueError when nothing was answered."""
    return probes.ways(probes.complete(recorded, source.every_ns), one_clock=source.ways == ONE_CLOCK)


def profiled(
    source: Source, recorded: Sequence[Probe], rates_bps: tuple[int | None, int | None] = (None, None)
) -> PathProfile:
    """The profile of what was recorded, with the rates there and back where they were measured.

    Raises ValueError when nothing was answered.
    """
    there, back = ways_of(source, recorded)
    answered = [p for p in recorded if p.rtt_ns is not None]
    trips = [[p.rtt_ns for p in run if p.rtt_ns is not None] for _, run in groupby(answered, key=lambda p: p.run)]
    every, related = [ns for run in trips for ns in run], delay.correlation(trips)
    median, p99 = (delay.quantile_estimate(every, share, related) for share in (0.5, 0.99))
    return PathProfile(source, (min(every), median, p99), *map(_direction, (there, back), rates_bps))


def _direction(way: Way, rate_bps: int | None) -> Direction:
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
