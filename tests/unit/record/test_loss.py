"""Loss models fitted to series whose model is known: the parameters come back, and a wrong model is told."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.model.loss_model import P32, GilbertElliott
from emulator.record import gap_fit, loss
from emulator.record.loss import Gaps, fit


def series(seed: int, count: int, p: float, r: float, bad: float = 1.0) -> list[bool]:
    """What sch_netem's gemodel loses of so many packets: loss first, then the step to the next state."""
    rng, in_bad, events = random.Random(seed), False, []
    for _ in range(count):
        events.append(in_bad and rng.random() < bad)
        in_bad = rng.random() >= r if in_bad else rng.random() < p
    return events


def chain(found: loss.Fit) -> tuple[float, float, float]:
    """p, r and 1-h."""
    model = found.loss
    assert isinstance(model, GilbertElliott)
    assert model.good_p32 == 0
    return model.p_p32 / P32, model.r_p32 / P32, model.bad_p32 / P32


def test_nothing_lost_and_all_lost() -> None:
    assert (fit([[False] * 50]).loss, fit([[True] * 50]).loss, fit([[]]).loss) == (0, P32, 0)
    assert fit([[False] * 50]).burst is None
    assert fit([[False] * 5_000]).share.high < 0.003


def test_losses_by_chance_are_taken_for_no_bursts() -> None:
    rng = random.Random(3)
    found = fit([[rng.random() < 0.02 for _ in range(10_000)] for _ in range(3)])
    assert isinstance(found.loss, int)
    assert found.loss / P32 == pytest.approx(0.02, rel=0.1)
    assert found.share.holds(0.02)
    assert found.goodness and found.goodness.p_value > 0.001


@pytest.mark.parametrize(("p", "r"), [(0.01, 0.25), (0.003, 0.1), (0.05, 0.6)])
def test_bursts_come_back(p: float, r: float) -> None:
    found = fit([series(7, 30_000, p, r)])
    assert chain(found) == (pytest.approx(p, rel=0.25), pytest.approx(r, rel=0.25), 1)
    assert found.share.holds(p / (p + r))
    assert found.burst and found.burst.holds(1 / r)
    assert found.goodness and found.goodness.p_value > 0.001


def test_a_bad_state_that_loses_half_comes_back() -> None:
    found = fit([series(5, 60_000, 0.005, 0.04, 0.5)])
    assert chain(found) == (pytest.approx(0.005, rel=0.2), pytest.approx(0.04, rel=0.2), pytest.approx(0.5, rel=0.1))
    assert found.goodness and found.goodness.p_value > 0.001


def test_a_series_in_parts_is_as_good_as_one() -> None:
    whole = series(11, 40_000, 0.01, 0.2)
    parts = [whole[start : start + 500] for start in range(0, len(whole), 500)]
    one, other = fit([whole]), fit(parts)
    assert chain(other) == pytest.approx(chain(one), rel=0.05)
    assert other.share == one.share


def test_a_wrong_model_fits_badly() -> None:
    """Gaps of exactly nine are of no chain of two states."""
    found = fit([[number % 10 == 0 for number in range(5_000)]])
    assert found.goodness and found.goodness.p_value < 1e-6


def test_a_fit_is_bad_as_seldom_as_its_p_value_says() -> None:
    values = [fit([series(seed, 4_000, 0.02, 0.3)]).goodness for seed in range(60)]
    assert 0.35 < sum(one.p_value for one in values if one) / len(values) < 0.65
    assert sum(one.p_value < 0.05 for one in values if one) <= 9


def test_what_chi_square_means() -> None:
    """Quantiles of chi-square from any table (NIST/SEMATECH 1.3.6.7.4)."""
    for freedom, at_95, at_999 in ((1, 3.841, 10.828), (5, 11.070, 20.515), (20, 31.410, 45.315)):
        assert gap_fit.p_value(at_95, freedom) == pytest.approx(0.05, rel=0.06)
        assert gap_fit.p_value(at_999, freedom) == pytest.approx(0.001, rel=0.3)


def test_the_gaps_of_a_series() -> None:
    lost = [False, True, True, False, False, True, False]
    gaps = Gaps.of([lost, [False] * 9, [True]])
    assert gaps == Gaps(Counter([0, 2]), Counter([1, 0]), 1, 8)


@settings(max_examples=60)
@given(st.lists(st.lists(st.booleans(), max_size=60), max_size=4))
def test_any_series_has_a_fit_that_an_impairment_can_hold(runs: Sequence[Sequence[bool]]) -> None:
    found = fit(runs)
    flat = [lost for events in runs for lost in events]
    assert found.share.value == pytest.approx(sum(flat) / len(flat) if flat else 0)
    assert (found.loss == 0) == (not any(flat))
    if isinstance(found.loss, GilbertElliott):
        assert found.loss.mean_loss > 0
        GilbertElliott(*found.loss.kernel()[:2], found.loss.bad_p32)
