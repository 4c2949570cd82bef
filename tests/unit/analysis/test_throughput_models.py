"""The laws against the figures that were published or measured, and their general properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.analysis import throughput_models
from emulator.analysis.tcp_path import NS, TcpPath
from emulator.analysis.throughput_models import (
    CUBIC,
    LINE,
    MATHIS,
    RECEIVE_WINDOW,
    SEND_BUFFER,
    SLOW_START,
    Windows,
    predict,
)

MIB, KIB, MS = 2**20, 2**10, 10**6
TEN_GBIT = 10**10

rates = st.integers(10**6, 10**12)
rtts = st.integers(1, 10**9)
windows = st.integers(1448, 2**30)


@pytest.mark.parametrize(
    ("window_bytes", "streams", "mbit_per_s"), [(256 * KIB, 1, 29.4), (MIB, 1, 118), (MIB, 7, 826)]
)
def test_the_second_founding_result(window_bytes: int, streams: int, mbit_per_s: float) -> None:
    prediction = predict(TcpPath(10**9, 71 * MS, streams=streams), Windows(window_bytes))
    assert prediction.limit == RECEIVE_WINDOW
    assert prediction.bytes_per_s * 8 / 1e6 == pytest.approx(mbit_per_s, rel=0.005)


@pytest.mark.parametrize(
    ("rtt_ms", "measured_mib"), [(8, 1131), (16, 1120), (22, 1112), (32, 1099), (44, 1079), (64, 1050), (128, 899)]
)
def test_ten_second_means_of_large_windows_as_measured(rtt_ms: int, measured_mib: float) -> None:
    prediction = predict(TcpPath(TEN_GBIT, rtt_ms * MS), Windows())
    assert prediction.mean_bytes_per_s / MIB == pytest.approx(measured_mib, rel=0.08)


def test_the_least_law_binds_and_the_next_one_after_it() -> None:
    prediction = predict(TcpPath(TEN_GBIT, 100 * MS), Windows(receive_bytes=8 * MIB, send_bytes=4 * MIB))
    assert [law.name for law in prediction.laws[:3]] == [SEND_BUFFER, RECEIVE_WINDOW, LINE]
    assert prediction.bytes_per_s == pytest.approx(40 * MIB)
    assert prediction.after(SEND_BUFFER).bytes_per_s == pytest.approx(80 * MIB)


def test_queues_lengthen_the_round_trip_that_a_window_sees() -> None:
    path = TcpPath(TEN_GBIT, 100 * MS)
    assert predict(path, Windows(MIB), loaded_rtt_ns=200 * MS).bytes_per_s == pytest.approx(5 * MIB)


def test_mathis_and_cubic() -> None:
    reno = TcpPath(TEN_GBIT, 100 * MS, loss=1e-4, congestion_control="reno")
    prediction = predict(reno, Windows())
    assert (prediction.limit, prediction.bytes_per_s) == (MATHIS, pytest.approx(1448 / 0.1 * 122.47, rel=1e-3))
    # RFC 9438 section 5.2, RTT 0.1 s, C 0.4: 1054 segments at p = 1e-5.
    cubic = predict(TcpPath(TEN_GBIT, 100 * MS, loss=1e-5), Windows())
    assert (cubic.limit, cubic.bytes_per_s) == (CUBIC, pytest.approx(1054 * 14480, rel=1e-3))
    # Where Reno's window is the larger one, CUBIC behaves as Reno does.
    assert predict(TcpPath(TEN_GBIT, 10 * MS, loss=0.01), Windows()).limit == MATHIS


def test_bbr_does_not_heed_loss() -> None:
    path = TcpPath(TEN_GBIT, 100 * MS, loss=0.01, congestion_control="bbr")
    assert predict(path, Windows()).limit == LINE


def test_a_short_run_is_bound_by_its_slow_start() -> None:
    path = TcpPath(TEN_GBIT, 346 * MS)
    assert predict(path, Windows(), 10 * NS).run_limit == SLOW_START
    assert predict(path, Windows(), 1000 * NS).run_limit == LINE


def test_a_run_within_its_slow_start_carries_what_doubling_windows_carry() -> None:
    path = TcpPath(TEN_GBIT, 100 * MS)
    # After four round trips the window is 16 first ones; the integral of 14480 / 0.1 * 2^(t/0.1) from 0 to 0.4.
    mean = throughput_models.whole_run_bytes_per_s(path, path.line_bytes_per_s, 400 * MS)
    assert mean == pytest.approx(14480 * 15 / math.log(2) / 0.4)


def test_a_larger_first_window_shortens_the_slow_start() -> None:
    path = TcpPath(TEN_GBIT, 346 * MS)
    means = [predict(path, Windows(), initcwnd=segments).mean_bytes_per_s for segments in (10, 40)]
    assert means[0] < means[1]


@given(rates, rtts, windows, st.integers(1, 64), st.floats(1e-8, 0.5))
def test_a_prediction_is_the_least_of_its_laws(rate: int, rtt: int, window: int, streams: int, loss: float) -> None:
    path = TcpPath(rate, rtt, loss=loss, streams=streams)
    prediction = predict(path, Windows(window))
    assert prediction.mean_bytes_per_s <= prediction.bytes_per_s <= path.line_bytes_per_s
    assert prediction.bytes_per_s <= streams * window / rtt * NS * (1 + 1e-12)
    assert prediction.bytes_per_s <= predict(TcpPath(rate, rtt, streams=streams), Windows(window)).bytes_per_s


def test_no_round_trip_is_no_limit() -> None:
    path = TcpPath(TEN_GBIT, 0, loss=0.1)
    prediction = predict(path, Windows(1448, 1448))
    assert (prediction.limit, prediction.mean_bytes_per_s) == (LINE, path.line_bytes_per_s)
