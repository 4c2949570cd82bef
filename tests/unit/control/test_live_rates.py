"""Rates and drops between two readings."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.config import loader
from emulator.control.live_rates import Reading, Traffic, flows, quantile, reading, together, traffic
from emulator.control.status import DirectionCounters, DirectionStatus, LaneStatus, Status
from emulator.plan.qdisc_values import Netem, Shaper

S = 10**9
OLD = DirectionCounters(100, 10_000, 0, 0, 1000, 1, 2, 3)


def direction(counters: DirectionCounters, shaper: Shaper | None = None) -> DirectionStatus:
    """One direction with these counters."""
    return DirectionStatus("port", Netem(), shaper, None, counters)


def test_rates_are_per_second_whatever_the_interval() -> None:
    new = DirectionCounters(150, 60_000, 7, 900, 1000, 4, 5, 6)
    assert traffic(direction(new), Reading(S, {("port", ""): OLD}), 3 * S) == Traffic(
        rate_bps=200_000, packets_per_s=25, queued_packets=7, limit_packets=1000, queued_bytes=900, buffer_bytes=None,
        drops_limit_per_s=1.5, drops_buffer_per_s=1.5, drops_loss_per_s=1.5,
    )  # fmt: skip


def test_a_queue_made_anew_counts_from_zero() -> None:
    new = DirectionCounters(10, 1000, 0, 0, 1000, 1, 0, 0)
    seen = traffic(direction(new), Reading(0, {("port", ""): OLD}), S)
    assert (seen.rate_bps, seen.drops_limit_per_s, seen.drops_buffer_per_s) == (8000, 1, 0)


def test_the_first_reading_and_a_port_not_seen_before_tell_no_rate() -> None:
    new = DirectionCounters(10, 1000, 0, 0, 1000, 1, 0, 0)
    assert traffic(direction(new), Reading(0, {}), S).rate_bps == 0


def test_drops_that_cannot_be_told_apart_stay_unknown() -> None:
    new = DirectionCounters(150, 60_000, 0, 0, 1000, None, 5, None)
    seen = traffic(direction(new), Reading(0, {("port", ""): OLD}), S)
    assert (seen.drops_limit_per_s, seen.drops_buffer_per_s, seen.drops_loss_per_s) == (None, 3, None)


def test_the_buffer_is_the_shapers() -> None:
    shaper = Shaper(125, 2, 5000)
    assert traffic(direction(OLD, shaper), Reading(0, {}), S).buffer_bytes == shaper.limit_bytes


def test_flows_are_told_by_name_and_together_they_are_the_lane() -> None:
    topology = loader.loads(
        "{name: x, hub: h, lanes: {far: {rtt: 8ms, flows: {voice: {match: {dscp: ef}}, bulk: {match: {port: 873}}}}}}"
    )

    def seen(*packets: int) -> Status:
        def way(port: str) -> DirectionStatus:
            rest, *parts = (
                replace(direction(DirectionCounters(n, 100 * n, n, n, 1000, 0, n, 0)), port=port) for n in packets
            )
            return replace(rest, flows=tuple(parts))

        return Status(topology, [], (LaneStatus(topology.lanes[0], way("out"), way("back")),))

    found = flows(seen(15, 24, 31).lanes[0], reading(0, seen(10, 20, 30)), S)
    assert {name: (now.outbound.packets_per_s, now.inbound.drops_buffer_per_s) for name, now in found.items()} == {
        "voice": (4, 4), "bulk": (1, 1), "": (5, 5),
    }  # fmt: skip
    assert together([now.outbound for now in found.values()]) == Traffic(
        rate_bps=8000, packets_per_s=10, queued_packets=70, limit_packets=3000, queued_bytes=70, buffer_bytes=None,
        drops_limit_per_s=0, drops_buffer_per_s=10, drops_loss_per_s=0,
    )  # fmt: skip


def test_a_lane_without_flows_tells_of_none() -> None:
    lane = loader.loads("{name: x, hub: h, lanes: {far: {rtt: 8ms}}}").lanes[0]
    assert flows(LaneStatus(lane, direction(OLD), direction(OLD)), Reading(0, {}), S) == {}


def test_quantiles() -> None:
    values = [10, 20, 30, 40]
    assert [quantile(values, q) for q in (0.0, 0.5, 0.75, 0.99)] == [10, 20, 30, 40]
    assert quantile([], 0.5) is None
