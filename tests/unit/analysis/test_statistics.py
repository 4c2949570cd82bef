"""Intervals hold what they promise; distances and run lengths tell distributions apart; and when to stop repeating."""

from __future__ import annotations

import math
import random
from statistics import NormalDist, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.analysis import statistics


@given(st.integers(1, 10_000), st.data())
def test_a_share_lies_in_its_interval(trials: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, trials))
    found = statistics.share(hits, trials)
    assert 0 <= found.low <= found.value <= found.high <= 1 + 1e-12
    assert found.holds(hits / trials)


def test_nothing_seen_rules_out_what_is_likely() -> None:
    assert statistics.share(0, 10_000).low == 0
    assert not statistics.share(0, 10_000).holds(0.01)
    assert not statistics.share(1, 4_000).holds(0)
    assert statistics.share(0, 0) == statistics.Estimate(0, 0, 1)


def test_intervals_cover_as_often_as_they_say() -> None:
    rng = random.Random(5)
    missed = 0
    for _ in range(2_000):
        missed += not statistics.share(sum(rng.random() < 0.1 for _ in range(200)), 200).holds(0.1)
    assert missed <= 12


def bursts(rng: random.Random, enter: float, leave: float, count: int) -> list[bool]:
    bad, events = False, []
    for _ in range(count):
        events.append(bad)
        bad = rng.random() >= leave if bad else rng.random() < enter
    return events


def test_bursts_make_the_interval_wider() -> None:
    events = bursts(random.Random(1), 0.005, 0.1, 20_000)
    plain, correlated = statistics.share(sum(events), len(events)), statistics.share_of_run(events)
    assert correlated.value == plain.value
    assert correlated.high - correlated.low > 3 * (plain.high - plain.low)
    assert correlated.holds(0.005 / 0.105)


def test_runs() -> None:
    assert statistics.runs([True, False, True, True, False]) == [1, 2]
    assert statistics.runs([]) == []


def test_a_mean() -> None:
    found = statistics.mean([1, 2, 3, 4])
    assert (found.value, found.holds(2.5), found.holds(30)) == (2.5, True, False)
    assert not statistics.mean([7.0]).holds(float("nan"))


def test_the_distance_is_kolmogorovs() -> None:
    assert statistics.distance([1, 2, 3, 4], [1, 2, 3, 4]) == 0
    assert statistics.distance([1, 1, 1, 1], [1, 2, 3, 4]) == 0.75
    assert statistics.distance([5], [1]) == 1
    assert statistics.distance([1.4, 2.4], [1, 2], slack=0.5) == 0
    rng = random.Random(2)
    table = [i / 1000 for i in range(1000)]
    same, other = [rng.random() for _ in range(5_000)], [rng.random() ** 1.2 for _ in range(5_000)]
    assert statistics.distance(same, table) < statistics.distance_allowed(5_000) < statistics.distance(other, table)


def test_run_lengths_against_the_geometric_distribution() -> None:
    rng = random.Random(3)
    lengths = statistics.runs(bursts(rng, 0.02, 0.25, 50_000))
    chi, limit = statistics.chi_square_geometric(lengths, 4)
    assert chi < limit
    # Half ones, half sevens: the same mean, another shape.
    chi, limit = statistics.chi_square_geometric([1, 7] * 400, 4)
    assert chi > limit


@pytest.mark.parametrize("lengths", [[], [1]])
def test_too_few_runs_say_nothing(lengths: list[int]) -> None:
    assert statistics.chi_square_geometric([*lengths, 1, 2], 1.5)[1] == 0


def test_half_width_of_a_known_sample() -> None:
    # t(0.995, 4) = 4.604; mean 10, s = 1.5811: 4.604 * 1.5811 / sqrt(5).
    assert statistics.half_width([8, 9, 10, 11, 12]) == pytest.approx(3.2555, abs=1e-3)


def test_one_value_says_nothing_of_its_uncertainty() -> None:
    assert statistics.half_width([5.0]) == math.inf


def test_the_table_falls_towards_the_normal_distribution() -> None:
    widths = [statistics.half_width([0.0, 1.0] * n) * math.sqrt(2 * n) / stdev([0.0, 1.0] * n)
              for n in range(1, 20)]  # fmt: skip
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] > NormalDist().inv_cdf(0.995)


@pytest.mark.parametrize(
    ("values", "most", "enough"),
    [
        ([100.0, 100.0], 10, False),
        ([100.0, 100.0, 100.0], 10, True),
        ([100.0, 110.0, 90.0], 10, False),
        ([100.0, 110.0, 90.0], 3, True),
        ([100.0], 1, True),
        ([0.0, 0.0, 0.0], 10, True),
    ],
)
def test_when_to_stop(values: list[float], most: int, enough: bool) -> None:
    assert statistics.enough(values, most) is enough


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ((100.0, 1.0), (103.0, 1.0), True),
        ((100.0, 3.0), (103.0, 1.0), False),
        ((100.0, math.inf), (103.0, math.inf), False),
        ((100.0, math.inf), (104.0, math.inf), True),
    ],
)
def test_a_difference_counts_beyond_both_uncertainties(
    one: tuple[float, float], other: tuple[float, float], differ: bool
) -> None:
    assert statistics.differ(one, other) is differ


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 63.657), (30, 2.750), (31, 2.744), (40, 2.704), (60, 2.660), (120, 2.617)]
)
def test_students_t_is_that_of_the_tables(freedom: int, t: float) -> None:
    assert statistics.t_99(freedom) == pytest.approx(t, abs=0.0006)
