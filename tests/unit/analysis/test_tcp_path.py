"""The formulas against the figures that were published or measured, and their general properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.analysis import tcp_path
from emulator.analysis.tcp_path import Interval

MIB, MS = 2**20, 10**6
TEN_GBIT = 10**10


def test_no_round_trip_is_no_limit() -> None:
    assert tcp_path.window_bytes_per_s(1, 0) == math.inf


@pytest.mark.parametrize(
    ("rate_bps", "rtt_ms", "bdp"), [(TEN_GBIT, 346, 432_500_000), (10**9, 71, 8_875_000), (1, 1, 1), (TEN_GBIT, 0, 0)]
)
def test_bdp(rate_bps: int, rtt_ms: int, bdp: int) -> None:
    assert tcp_path.bdp_bytes(rate_bps, rtt_ms * MS) == bdp


def test_a_10_gbit_line_carries_1140_mib_through_netem_and_1122_on_a_wire() -> None:
    assert round(tcp_path.line_bytes_per_s(TEN_GBIT, 1500) / MIB) == 1140
    assert round(tcp_path.line_bytes_per_s(TEN_GBIT, 1500, on_wire=True) / MIB) == 1122
    assert tcp_path.line_bytes_per_s(TEN_GBIT, 9000) == TEN_GBIT / 8 * 8948 / 9014


def test_the_largest_window_of_tcp_carries_24_8_gbit_to_japan() -> None:
    assert tcp_path.window_bytes_per_s(65535 << 14, 346 * MS) * 8 / 1e9 == pytest.approx(24.8, abs=0.05)


def test_slow_start_doubles_each_round_trip() -> None:
    assert tcp_path.slow_start_ns(14480 * 1024, 100 * MS, 1500) == 1000 * MS
    assert tcp_path.slow_start_ns(14480 * 1024, 100 * MS, 1500, initcwnd=40) == 800 * MS
    assert tcp_path.slow_start_ns(1000, 100 * MS, 1500) == 0


def test_loss_laws() -> None:
    assert tcp_path.reno_window_segments(0.01) == pytest.approx(12.2, abs=0.05)
    assert tcp_path.reno_window_segments(0.01, 0.87) == pytest.approx(8.7)
    assert tcp_path.cubic_window_segments(1e-5, 100 * MS) == pytest.approx(1054, abs=1)
    assert tcp_path.cubic_window_segments(0.01, 10 * MS) == tcp_path.reno_window_segments(0.01)
    assert tcp_path.cubic_k_s(900) == pytest.approx(675 ** (1 / 3))


def series(*rates_per_s: float) -> list[Interval]:
    return [Interval(n, n + 1, round(rate)) for n, rate in enumerate(rates_per_s)]


def test_steady_leaves_out_the_slow_start_and_the_short_end() -> None:
    run = [*series(1, 10, 100, 500, 1000, 1000, 1000, 1000, 1000, 1000), Interval(10, 10.05, 900)]
    found = tcp_path.steady(run)
    assert (found.from_s, found.bytes_per_s, found.settled) == (5, 1000, True)


def test_steady_says_when_the_rate_still_rises() -> None:
    assert not tcp_path.steady(series(*range(100, 1100, 100))).settled
    assert tcp_path.steady(series(*range(1000, 1010))).settled


def test_steady_needs_an_interval() -> None:
    with pytest.raises(ValueError, match="without intervals"):
        tcp_path.steady([])


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60))
def test_steady_lies_between_the_slowest_and_the_fastest_interval(sizes: list[int]) -> None:
    found = tcp_path.steady(series(*sizes))
    assert min(sizes) <= found.bytes_per_s * (1 + 1e-9)
    assert found.bytes_per_s <= max(sizes) * (1 + 1e-9)


def test_drift_is_the_change_along_the_fitted_line() -> None:
    assert tcp_path.drift(series(90, 100, 110)) == pytest.approx(0.2)
    assert tcp_path.drift(series(100, 90, 100)) == pytest.approx(0)
    assert tcp_path.drift(series(5)) == 0
    assert tcp_path.drift(series(0, 0)) == 0


def test_the_mean_of_the_first_seconds_counts_whole_intervals() -> None:
    assert tcp_path.mean_until(series(10, 20, 90), 2) == 15
    assert tcp_path.mean_until([Interval(0, 5, 10)], 1) == 2
