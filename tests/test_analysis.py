"""The formulas against the figures that were published or measured, and their general properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator import analysis
from emulator.analysis import Interval, Path, Prediction

MIB, KIB, MS = 2**20, 2**10, 10**6
TEN_GBIT = 10**10

rates = st.integers(10**6, 10**12)
rtts = st.integers(1, 10**9)
windows = st.integers(1448, 2**30)


@pytest.mark.parametrize(
    ("rate_bps", "rtt_ms", "bdp"), [(TEN_GBIT, 346, 432_500_000), (10**9, 71, 8_875_000), (1, 1, 1), (TEN_GBIT, 0, 0)]
)
def test_bdp(rate_bps: int, rtt_ms: int, bdp: int) -> None:
    assert analysis.bdp_bytes(rate_bps, rtt_ms * MS) == bdp


def test_a_10_gbit_line_carries_1140_mib_through_netem_and_1122_on_a_wire() -> None:
    assert round(analysis.line_bytes_per_s(TEN_GBIT, 1500) / MIB) == 1140
    assert round(analysis.line_bytes_per_s(TEN_GBIT, 1500, on_wire=True) / MIB) == 1122
    assert analysis.line_bytes_per_s(TEN_GBIT, 9000) == TEN_GBIT / 8 * 8948 / 9014


@pytest.mark.parametrize(
    ("window_bytes", "streams", "mbit_per_s"), [(256 * KIB, 1, 29.4), (MIB, 1, 118), (MIB, 7, 826)]
)
def test_the_second_founding_result(window_bytes: int, streams: int, mbit_per_s: float) -> None:
    path = Path(10**9, 71 * MS, streams=streams)
    prediction = analysis.predict(path, window_bytes)
    assert prediction.limit == "window"
    assert prediction.bytes_per_s * 8 / 1e6 == pytest.approx(mbit_per_s, rel=0.005)


def test_the_largest_window_of_tcp_carries_24_8_gbit_to_japan() -> None:
    assert analysis.window_bytes_per_s(65535 << 14, 346 * MS) * 8 / 1e9 == pytest.approx(24.8, abs=0.05)


@pytest.mark.parametrize(
    ("rtt_ms", "measured_mib"), [(8, 1131), (16, 1120), (22, 1112), (32, 1099), (44, 1079), (64, 1050), (128, 899)]
)
def test_ten_second_means_of_large_windows_as_measured(rtt_ms: int, measured_mib: float) -> None:
    path = Path(TEN_GBIT, rtt_ms * MS)
    slow_start_ns = analysis.slow_start_ns(path.bdp_bytes, path.rtt_ns, path.mtu)
    mean = analysis.mean_with_slow_start(path.line_bytes_per_s, slow_start_ns, path.rtt_ns, 10 * analysis.NS)
    assert mean / MIB == pytest.approx(measured_mib, rel=0.07)


def test_slow_start_doubles_each_round_trip() -> None:
    assert analysis.slow_start_ns(14480 * 1024, 100 * MS, 1500) == 1000 * MS
    assert analysis.slow_start_ns(14480 * 1024, 100 * MS, 1500, initcwnd=40) == 800 * MS
    assert analysis.slow_start_ns(1000, 100 * MS, 1500) == 0


def test_loss_laws() -> None:
    assert analysis.reno_window_segments(0.01) == pytest.approx(12.2, abs=0.05)
    assert analysis.reno_window_segments(0.01, 0.87) == pytest.approx(8.7)
    assert analysis.cubic_window_segments(1e-5, 100 * MS) == pytest.approx(1054, abs=1)
    assert analysis.cubic_window_segments(0.01, 10 * MS) == analysis.reno_window_segments(0.01)
    assert analysis.cubic_k_s(900) == pytest.approx(675 ** (1 / 3))
    reno = Path(TEN_GBIT, 100 * MS, loss=1e-4, congestion_control="reno")
    assert analysis.predict(reno, MIB * 100).bytes_per_s == pytest.approx(1448 / 0.1 * 122.47, rel=1e-3)


def test_bbr_does_not_heed_loss() -> None:
    path = Path(TEN_GBIT, 100 * MS, loss=0.01, congestion_control="bbr")
    assert analysis.predict(path, None) == Prediction(path.line_bytes_per_s, "line")


@given(rates, rtts, windows, st.integers(1, 64), st.floats(1e-8, 0.5))
def test_a_prediction_is_the_least_of_its_laws(rate: int, rtt: int, window: int, streams: int, loss: float) -> None:
    path = Path(rate, rtt, loss=loss, streams=streams)
    prediction = analysis.predict(path, window)
    assert prediction.bytes_per_s <= path.line_bytes_per_s
    assert prediction.bytes_per_s <= streams * window / rtt * analysis.NS * (1 + 1e-12)
    assert prediction.bytes_per_s <= analysis.predict(Path(rate, rtt, streams=streams), window).bytes_per_s
    if prediction.limit == "line":
        assert prediction.bytes_per_s == path.line_bytes_per_s


def test_no_round_trip_is_no_limit() -> None:
    path = Path(TEN_GBIT, 0, loss=0.1)
    assert analysis.predict(path, 1448) == Prediction(path.line_bytes_per_s, "line")
    assert analysis.window_bytes_per_s(1, 0) == math.inf


def series(*rates_per_s: float) -> list[Interval]:
    return [Interval(n, n + 1, round(rate)) for n, rate in enumerate(rates_per_s)]


def test_steady_leaves_out_the_slow_start_and_the_short_end() -> None:
    run = [*series(1, 10, 100, 500, 1000, 1000, 1000, 1000, 1000, 1000), Interval(10, 10.05, 900)]
    found = analysis.steady(run)
    assert (found.from_s, found.bytes_per_s, found.settled) == (5, 1000, True)


def test_steady_says_when_the_rate_still_rises() -> None:
    assert not analysis.steady(series(*range(100, 1100, 100))).settled
    assert analysis.steady(series(*range(1000, 1010))).settled


def test_steady_needs_an_interval() -> None:
    with pytest.raises(ValueError, match="without intervals"):
        analysis.steady([])


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60))
def test_steady_lies_between_the_slowest_and_the_fastest_interval(sizes: list[int]) -> None:
    found = analysis.steady(series(*sizes))
    assert min(sizes) <= found.bytes_per_s * (1 + 1e-9)
    assert found.bytes_per_s <= max(sizes) * (1 + 1e-9)


def test_drift_is_the_change_along_the_fitted_line() -> None:
    assert analysis.drift(series(90, 100, 110)) == pytest.approx(0.2)
    assert analysis.drift(series(100, 90, 100)) == pytest.approx(0)
    assert analysis.drift(series(5)) == 0
    assert analysis.drift(series(0, 0)) == 0


def test_the_mean_of_the_first_seconds_counts_whole_intervals() -> None:
    assert analysis.mean_until(series(10, 20, 90), 2) == 15
    assert analysis.mean_until([Interval(0, 5, 10)], 1) == 2


def test_rfc_6349_metrics() -> None:
    assert analysis.transfer_time_ratio(100, 80) == 1.25
    assert analysis.efficiency(1000, 20) == 0.98
    assert analysis.buffer_delay(32, 25) == pytest.approx(0.28)
