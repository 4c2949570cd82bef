"""What the reports of the flow program say: rates, shares, times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_flows import figures, receiver, sender

from emulator.analysis import flow_figures
from emulator.analysis.flow_figures import FlowTimes
from emulator.model.flow_group import Contest

S, MS = 10**9, 10**6
TWO = Contest.parse("cubic:1,bbr:2")


def test_rates_and_shares_are_of_the_last_half() -> None:
    found = figures(TWO, [[[90] * 5 + [30] * 5], [[0] * 5 + [20] * 5, [0] * 5 + [10] * 5]])
    assert (found.from_ns, found.until_ns, found.interval_ns) == (5 * S, 10 * S, S)
    cubic, bbr = found.groups
    assert (found.bytes_per_s, cubic.bytes_per_s, bbr.bytes_per_s) == (60, 30, 30)
    assert (cubic.flow_bytes_per_s, bbr.flow_bytes_per_s) == ((30,), (20, 10))
    assert (cubic.share, bbr.share) == (0.5, 0.5)
    assert (cubic.fair_share, bbr.fair_share) == (1.5, 0.75), "a third of the rate is the fair share of one flow"
    assert found.jain == pytest.approx(3600 / 3 / 1400)
    assert bbr.jain == pytest.approx(900 / 2 / 500)
    assert (cubic.received_bytes, found.received_bytes) == (600, 750)
    assert bbr.series_bytes == (0,) * 5 + (30,) * 5


def test_a_group_that_starts_late_or_stops_early_sets_the_steady_part() -> None:
    late = Contest.parse("cubic:1,bbr:1:start=4s")
    found = figures(late, [[[10] * 10], [[0] * 4 + [5, 5] + [10] * 4]])
    assert (found.from_ns, found.until_ns) == (7 * S, 10 * S)
    assert found.jain == 1
    assert [group.fair_after_ns for group in found.groups] == [2 * S, 2 * S], "since the last group's start"
    early = Contest.parse("cubic:1,bbr:1:stop=6s")
    assert (figures(early, [[[10] * 10], [[10] * 10]]).from_ns, figures(early, [[[1] * 10]] * 2).until_ns) == (
        3 * S,
        6 * S,
    )
    apart = Contest.parse("cubic:1:stop=5s,bbr:1:start=5s")
    found = figures(apart, [[[10] * 5 + [0] * 5], [[0] * 5 + [10] * 5]])
    assert (found.from_ns, found.until_ns, found.jain) == (0, 10 * S, 1), "never together: of the whole time"


def test_what_a_group_has_alone_makes_no_share_fair() -> None:
    """The second group starves the first one, and stops."""
    found = figures(Contest.parse("cubic:1,bbr:1:stop=6s"), [[[10] + [1] * 5 + [100] * 4], [[10] + [19] * 5 + [0] * 4]])
    assert [group.fair_after_ns for group in found.groups] == [None, None]


def test_a_flow_that_never_connected_counts_as_nothing() -> None:
    found = figures(TWO, [[[10] * 10], [[10] * 10]])
    assert found.groups[1].flow_bytes_per_s == (10, 0)
    assert found.jain == pytest.approx(400 / 3 / 200)


def test_transfers_take_no_part_in_what_is_fair() -> None:
    contest = Contest.parse("cubic:1,cubic:8:bytes=1KiB:think=1s")
    found = figures(contest, [[[90] * 10], [[10] * 10]], transfers_ns=[S, 2 * S, 3 * S])
    long, short = found.groups
    assert (long.fair_share, short.fair_share, found.jain) == (1, None, 1)
    assert (long.share, short.share) == (0.9, 0.1)
    assert (short.fair_after_ns, short.times.count) == (None, 3)
    assert short.times.p50_ns == pytest.approx(2 * S, rel=1e-4)


def test_delays_are_those_of_the_steady_part() -> None:
    trips = [None, 500_000, 400_000, 300_000, 200_000, *range(100_000, 105_000, 1000)]
    one = Contest.parse("cubic:1")
    (group,) = figures(one, [[[1] * 10]], trips_us=trips).groups
    assert (group.trip_p50_ns, group.trip_p95_ns) == (102_000_000, 104_000_000)
    assert (group.queueing_ns(80_000_000), group.queueing_ns(200_000_000)) == (22_000_000, 0)
    (group,) = figures(one, [[[1] * 10]], trips_us=[None] * 10).groups
    assert (group.trip_p50_ns, group.queueing_ns(0)) == (None, None)


def test_a_long_rtt_smooths_for_longer() -> None:
    assert FlowTimes(S // 10, 100, 20_000_000).smoothed == 10
    assert FlowTimes(S // 10, 100, 346_000_000).smoothed == 35
    assert FlowTimes(2 * S, 100, 0).smoothed == 1


def test_a_report_of_something_else_is_refused() -> None:
    times = FlowTimes(S, 10, 0)
    for rows in ([[[1] * 10]], [[[1] * 10], [[1] * 9]]):
        with pytest.raises(ValueError, match="the report is of other groups or intervals"):
            flow_figures.of_reports(TWO, times, sender(TWO, 10), receiver(rows))


RATES = st.lists(st.integers(0, 10**9), min_size=10, max_size=10)


@given(st.lists(RATES, min_size=1, max_size=4), st.lists(RATES, min_size=1, max_size=4))
def test_shares_add_up(one: list[list[int]], other: list[list[int]]) -> None:
    contest = Contest.parse(f"cubic:{len(one)},bbr:{len(other)}")
    found = figures(contest, [one, other])
    total = sum(group.bytes_per_s for group in found.groups)
    assert found.bytes_per_s == pytest.approx(total)
    assert sum(group.share for group in found.groups) == pytest.approx(1 if total else 0)
    flows = [group.flows for group in contest.groups]
    weighed = sum((group.fair_share or 0) * count for group, count in zip(found.groups, flows, strict=True))
    assert weighed == pytest.approx(sum(flows) if total else 0)
    assert found.received_bytes == sum(map(sum, (*one, *other)))


@pytest.mark.parametrize(
    ("group", "ideal_ns"),
    [
        ("cubic:1", None),
        ("cubic:1:bytes=1MiB", S + 160 * MS),
        ("cubic:1:bytes=1MiB:keep", S + 80 * MS),
    ],
)
def test_the_least_time_of_a_transfer(group: str, ideal_ns: int | None) -> None:
    (one,) = Contest.parse(group).groups
    assert flow_figures.ideal_transfer_ns(one, 2**20, 80 * MS) == ideal_ns
