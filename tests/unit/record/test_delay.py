"""Delays as tables for netem: what the kernel would play is what was recorded."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.analysis.statistics import distance
from emulator.model.impairment import Impairment
from emulator.model.jitter_distribution import SCALE, deviation_ns, named
from emulator.record import delay

MS = 10**6


@settings(max_examples=60)
@given(st.lists(st.integers(0, 5 * 10**9), min_size=1, max_size=50))
def test_the_kernel_plays_the_quantiles_that_were_recorded(delays: list[int]) -> None:
    found = delay.shaped(delays, size=64)
    if found.table is None:
        assert max(delays) - min(delays) <= delay.NOISE_NS
        assert min(delays) <= found.delay_ns <= max(delays)
        return
    Impairment(found.delay_ns, found.jitter_ns, distribution=found.table)
    played = [found.delay_ns + deviation_ns(found.jitter_ns, entry) for entry in found.table]
    ordered = sorted(delays)
    for place, value in enumerate(played):
        asked = delay.quantile(ordered, (place + 0.5) / 64)
        assert value == pytest.approx(asked, abs=found.jitter_ns / SCALE + 1)
    assert all(one <= after for one, after in pairwise(played))


def test_a_long_tail_still_is_a_jitter_within_its_delay() -> None:
    found = delay.shaped([MS] * 999 + [100 * MS])
    assert found.delay_ns == 20 * MS
    assert found.jitter_ns <= found.delay_ns
    assert found.table
    assert deviation_ns(found.jitter_ns, found.table[0]) == pytest.approx(-19 * MS, abs=3000)


@pytest.mark.parametrize("name", ["uniform", "normal", "pareto"])
def test_a_shape_comes_back(name: str) -> None:
    rng, table = random.Random(2), named(name)
    delays = [100 * MS + deviation_ns(5 * MS, rng.choice(table)) for _ in range(5_000)]
    found = delay.shaped(delays)
    assert found.table
    played = [found.delay_ns + deviation_ns(found.jitter_ns, entry) for entry in found.table]
    asked = [100 * MS + deviation_ns(5 * MS, entry) for entry in table]
    assert distance(played, asked) < 0.03


def test_the_true_median_is_in_its_interval() -> None:
    rng, missed = random.Random(4), 0
    for _ in range(300):
        delays = [rng.expovariate(1) for _ in range(200)]
        missed += not delay.quantile_estimate(delays, 0.5).holds(0.6931471805599453)
    assert missed <= 3


def test_correlation_widens_the_interval() -> None:
    rng, level, walk = random.Random(6), 0.0, []
    for _ in range(4_000):
        level = 0.9 * level + rng.gauss(0, MS)
        walk.append(50 * MS + round(level))
    found = delay.correlation([walk[:2_000], walk[2_000:]])
    assert found == pytest.approx(0.9, abs=0.03)
    assert delay.correlation([[5, 5, 5]]) == delay.correlation([[5]]) == 0
    alone, together = delay.quantile_estimate(walk, 0.5), delay.quantile_estimate(walk, 0.5, found)
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_variation_is_the_mean_step() -> None:
    assert delay.variation_ns([[10, 14, 12], [50]]) == 3
    assert delay.variation_ns([[7]]) == 0
