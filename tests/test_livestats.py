"""Rates and drops between two readings."""

from __future__ import annotations

from emulator.livestats import Flow, Reading, flow, quantile
from emulator.netem import Netem, Shaper
from emulator.status import DirectionCounters, DirectionStatus

S = 10**9
OLD = DirectionCounters(100, 10_000, 0, 0, 1000, 1, 2, 3)


def direction(counters: DirectionCounters, shaper: Shaper | None = None) -> DirectionStatus:
    """One direction with these counters."""
    return DirectionStatus("port", Netem(), shaper, None, counters)


def test_rates_are_per_second_whatever_the_interval() -> None:
    new = DirectionCounters(150, 60_000, 7, 900, 1000, 4, 5, 6)
    assert flow(direction(new), Reading(S, {"port": OLD}), 3 * S) == Flow(
        rate_bps=200_000, packets_per_s=25, queued_packets=7, limit_packets=1000, queued_bytes=900, buffer_bytes=None,
        drops_limit=3, drops_buffer=3, drops_loss=3,
    )  # fmt: skip


def test_a_queue_made_anew_counts_from_zero() -> None:
    new = DirectionCounters(10, 1000, 0, 0, 1000, 1, 0, 0)
    seen = flow(direction(new), Reading(0, {"port": OLD}), S)
    assert (seen.rate_bps, seen.drops_limit, seen.drops_buffer) == (8000, 1, 0)


def test_the_first_reading_and_a_port_not_seen_before_tell_no_rate() -> None:
    new = DirectionCounters(10, 1000, 0, 0, 1000, 1, 0, 0)
    assert flow(direction(new), Reading(0, {}), S).rate_bps == 0


def test_drops_that_cannot_be_told_apart_stay_unknown() -> None:
    new = DirectionCounters(150, 60_000, 0, 0, 1000, None, 5, None)
    seen = flow(direction(new), Reading(0, {"port": OLD}), S)
    assert (seen.drops_limit, seen.drops_buffer, seen.drops_loss) == (None, 3, None)


def test_the_buffer_is_the_shapers() -> None:
    shaper = Shaper(125, 2, 5000)
    assert flow(direction(OLD, shaper), Reading(0, {}), S).buffer_bytes == shaper.limit_bytes


def test_quantiles() -> None:
    values = [10, 20, 30, 40]
    assert [quantile(values, q) for q in (0.0, 0.5, 0.75, 0.99)] == [10, 20, 30, 40]
    assert quantile([], 0.5) is None
