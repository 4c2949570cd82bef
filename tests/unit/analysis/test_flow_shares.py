"""Jain's index, harm and the time until a rate is fair."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.analysis import flow_shares

RATES = st.lists(st.floats(0, 1e12), min_size=1, max_size=50)


@given(RATES)
def test_the_index_lies_between_one_and_an_nth(rates: list[float]) -> None:
    found = flow_shares.jain(rates)
    assert 1 / len(rates) - 1e-9 <= found <= 1 + 1e-9


@given(RATES, st.floats(1e-3, 1e3))
def test_the_index_knows_no_unit_and_no_order(rates: list[float], factor: float) -> None:
    found = flow_shares.jain(rates)
    assert math.isclose(found, flow_shares.jain([rate * factor for rate in rates]), rel_tol=1e-6)
    assert math.isclose(found, flow_shares.jain(sorted(rates)), rel_tol=1e-9)


@given(st.integers(1, 50), st.integers(1, 50))
def test_of_n_equal_flows_and_some_with_nothing_the_index_is_the_part_that_has_something(n: int, idle: int) -> None:
    assert flow_shares.jain([7.0] * n + [0.0] * idle) == pytest.approx(n / (n + idle))


def test_the_index_of_examples() -> None:
    assert flow_shares.jain([]) == flow_shares.jain([0, 0]) == 1
    assert flow_shares.jain([3, 1]) == pytest.approx(16 / 20)
    assert flow_shares.jain([1e300, 1e300]) == 1


def test_harm() -> None:
    assert flow_shares.harm(100, 40) == pytest.approx(0.6)
    assert flow_shares.harm(100, 125) == pytest.approx(-0.25)
    assert flow_shares.harm(0, 40) is None
    assert flow_shares.harm(10, 40, less_is_better=True) == pytest.approx(0.75)
    assert flow_shares.harm(10, 0, less_is_better=True) is None


@given(st.floats(1e-3, 1e9), st.floats(0, 1e9))
def test_harm_is_at_most_one_and_none_without_a_change(alone: float, together: float) -> None:
    found = flow_shares.harm(alone, together)
    assert found is not None and found <= 1
    assert flow_shares.harm(alone, alone) == 0
    assert flow_shares.harm(alone, alone, less_is_better=True) == 0


def test_a_rate_is_fair_where_its_mean_is_within_a_tenth() -> None:
    fair = [10.0] * 6
    assert flow_shares.fair_from([0, 2, 9, 10, 10, 10], fair, 1) == 2
    assert flow_shares.fair_from([0, 2, 8.9, 9.1, 9.0, 9.0], fair, 2) == 2
    assert flow_shares.fair_from([0, 20, 0, 20, 0, 20], fair, 2) == 0
    assert flow_shares.fair_from([0, 20, 0, 20, 0, 20], fair, 1) is None
    assert flow_shares.fair_from([20] * 6, fair, 1) is None
    assert flow_shares.fair_from([10, 10], fair[:2], 3) is None
    assert flow_shares.fair_from([10, 10, 1, 1, 1, 1], fair, 2) is None, "it started like the others, and then starved"
    assert flow_shares.fair_from([10, 1, 1, 1, 10, 10], fair, 2) == 4
    assert flow_shares.fair_from([0, 0], [0, 0], 1) is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.integers(1, 10))
def test_what_is_always_fair_is_so_from_the_first_traffic_on(fair: list[float], places: int) -> None:
    found = flow_shares.fair_from(fair, fair, places)
    windows = range(len(fair) - places + 1)
    assert found == next((at for at in windows if sum(fair[at : at + places]) > 0), None)
