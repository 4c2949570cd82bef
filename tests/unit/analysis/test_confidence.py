"""Confidence intervals against a worked example, and when to stop."""

from __future__ import annotations

import math
import statistics

import pytest

from emulator.analysis import confidence


def test_half_width_of_a_known_sample() -> None:
    # t(0.995, 4) = 4.604; mean 10, s = 1.5811: 4.604 * 1.5811 / sqrt(5).
    assert confidence.half_width([8, 9, 10, 11, 12]) == pytest.approx(3.2555, abs=1e-3)


def test_one_value_says_nothing_of_its_uncertainty() -> None:
    assert confidence.half_width([5.0]) == math.inf


def test_the_table_falls_towards_the_normal_distribution() -> None:
    widths = [confidence.half_width([0.0, 1.0] * n) * math.sqrt(2 * n) / statistics.stdev([0.0, 1.0] * n)
              for n in range(1, 20)]  # fmt: skip
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] > statistics.NormalDist().inv_cdf(0.995)


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
    assert confidence.enough(values, most) is enough


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
    assert confidence.differ(one, other) is differ
