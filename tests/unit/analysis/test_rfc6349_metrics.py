"""RFC 6349: every worked example of sections 3.3.1 and 4."""

from __future__ import annotations

import pytest

from emulator.analysis import rfc6349_metrics

MS, US = 10**6, 10**3
T3_BPS = 44_210_000

TABLE = [
    (1_536_000, 20 * MS, 30_720, 3.84),
    (1_536_000, 50 * MS, 76_800, 9.60),
    (1_536_000, 100 * MS, 153_600, 19.20),
    (T3_BPS, 10 * MS, 442_100, 55.26),
    (T3_BPS, 15 * MS, 663_150, 82.89),
    (T3_BPS, 25 * MS, 1_105_250, 138.16),
    (100_000_000, 1 * MS, 100_000, 12.50),
    (100_000_000, 2 * MS, 200_000, 25.00),
    (100_000_000, 5 * MS, 500_000, 62.50),
    (10**9, 100 * US, 100_000, 12.50),
    (10**9, 500 * US, 500_000, 62.50),
    (10**9, 1 * MS, 1_000_000, 125.00),
    (10**10, 50 * US, 500_000, 62.50),
    (10**10, 300 * US, 3_000_000, 375.00),
]
"""Section 3.3.1: link speed, RTT, BDP in bits, minimum RWND in kB."""


@pytest.mark.parametrize(("rate_bps", "rtt_ns", "bits", "rwnd_kb"), TABLE)
def test_bdp_and_minimum_rwnd(rate_bps: int, rtt_ns: int, bits: int, rwnd_kb: float) -> None:
    assert rfc6349_metrics.bdp_bits(rate_bps, rtt_ns) == bits
    assert rfc6349_metrics.minimum_rwnd_bytes(rate_bps, rtt_ns) / 1000 == pytest.approx(rwnd_kb, abs=0.005)


@pytest.mark.parametrize(("rtt_ms", "mbps"), [(5, 25.6), (10, 12.8)])
def test_a_window_of_16_kb(rtt_ms: int, mbps: float) -> None:
    assert rfc6349_metrics.window_bps(16_000, rtt_ms * MS) / 1e6 == pytest.approx(mbps)


@pytest.mark.parametrize(
    ("rate_bps", "overhead_bytes", "frames"),
    [(T3_BPS, rfc6349_metrics.T3_BYTES, 3664), (10**8, 38, 8127), (10**9, 38, 81274), (10**10, 38, 812743)],
)
def test_the_most_frames_a_second(rate_bps: int, overhead_bytes: int, frames: int) -> None:
    assert rfc6349_metrics.frames_per_s(rate_bps, 1500, overhead_bytes) == frames


def test_maximum_achievable_throughput() -> None:
    assert rfc6349_metrics.maximum_bps(T3_BPS, 1500, rfc6349_metrics.T3_BYTES) / 1e6 == pytest.approx(42.8, abs=0.05)
    assert rfc6349_metrics.maximum_bps(10**8, 1500) / 1e6 == pytest.approx(94.9, abs=0.05)


def test_transfer_time_ratio() -> None:
    # 100 MB over each of 5 connections of a 500 Mbit/s service: about 8 s ideally, 12 s in fact.
    ideal_s = rfc6349_metrics.ideal_transfer_s(5 * 100 * 10**6, 500e6)
    assert ideal_s == 8
    assert rfc6349_metrics.transfer_time_ratio(12, ideal_s) == 1.5


def test_efficiency() -> None:
    # The RFC cuts 98.039 % off to 98.03 %.
    assert rfc6349_metrics.efficiency(102_000, 2_000) == pytest.approx(0.98039, abs=1e-5)


def test_buffer_delay() -> None:
    assert rfc6349_metrics.buffer_delay(32, 25) == pytest.approx(0.28)


def test_a_survey_puts_the_three_together() -> None:
    transfer = rfc6349_metrics.TcpTest(
        "inbound, 1 connection", "inbound", 45 * 10**6, 12.0, 46_000_000, 1_000_000, (25 * MS, 39 * MS)
    )
    survey = rfc6349_metrics.Survey(
        "far",
        1500,
        25 * MS,
        {
            "outbound": rfc6349_metrics.PathDirection(5_000_000, 4_000_000),
            "inbound": rfc6349_metrics.PathDirection(50_000_000, 40_000_000),
        },
        (transfer,),
    )
    ratio, efficiency, delay = survey.metrics(transfer)
    assert (transfer.bps, ratio) == (30e6, pytest.approx(12 / 9))
    assert efficiency == pytest.approx(45 / 46)
    assert delay == pytest.approx(0.28)
