"""Theory over the time of a run: the ceiling of a verdict, the doubling before it, RTT 0 and a full queue."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.made_results import cell_result

from emulator.analysis import verdict
from emulator.analysis.tcp_path import NS, Interval, TcpPath
from emulator.analysis.theory_over_time import Ceiling, Theory, ceiling_of

MIB = 2**20
PATH = TcpPath(10**9, 80 * 10**6)
CEILING = Ceiling("send buffer", 40.0 * MIB, named=True)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (verdict.SEND_BUFFER, Ceiling("send buffer", 88.375 * MIB, named=True)),
        (verdict.LINE, Ceiling("line", 1140.0 * MIB, named=True)),
        # There was no loss, so no law of a congestion window applies: theory expected the send buffer.
        (verdict.CONGESTION_WINDOW, Ceiling("send buffer", 88.375 * MIB, named=False)),
        (verdict.CPU, Ceiling("send buffer", 88.375 * MIB, named=False)),
    ],
)
def test_the_ceiling_is_the_law_that_the_verdict_names(kind: str, expected: Ceiling) -> None:
    assert ceiling_of(replace(cell_result().judgement, kind=kind)) == expected


def test_of_two_laws_of_a_congestion_window_the_smaller_binds() -> None:
    judgement = replace(cell_result().judgement, kind=verdict.CONGESTION_WINDOW, laws={"CUBIC": 5.0, "Mathis": 4.0})
    assert ceiling_of(judgement) == Ceiling("Mathis", 4.0, named=True)


def test_windows_double_each_round_trip_until_they_carry_the_ceiling() -> None:
    theory = Theory(PATH, CEILING)
    first = 10 * 1448
    assert theory.window_at(0.0) == first
    assert theory.window_at(0.08) == pytest.approx(2 * first)
    assert theory.window_at(0.24) == pytest.approx(8 * first)
    assert theory.window_bytes == pytest.approx(40 * MIB * 0.08)
    assert theory.window_at(5.0) == theory.window_bytes
    assert theory.window_at(theory.slow_start_s) == pytest.approx(theory.window_bytes)
    assert theory.slow_start_s == pytest.approx(0.6285, abs=1e-3)


def test_a_larger_initial_window_doubles_for_a_shorter_time() -> None:
    assert Theory(PATH, CEILING, initcwnd=40).slow_start_s == pytest.approx(Theory(PATH, CEILING).slow_start_s - 0.16)


def test_a_window_of_the_hosts_is_filled_once_in_each_round_trip_under_load() -> None:
    assert Theory(PATH, CEILING, loaded_rtt_ns=100 * 10**6).window_bytes == pytest.approx(4 * MIB)
    line = replace(CEILING, law="line")
    assert Theory(PATH, line, loaded_rtt_ns=100 * 10**6).window_bytes == pytest.approx(3.2 * MIB)


def test_the_rates_of_intervals_rise_to_the_ceiling_and_their_sum_is_that_of_the_run() -> None:
    theory = Theory(PATH, CEILING)
    rates = theory.rates([Interval(n / 10, (n + 1) / 10, 0) for n in range(50)])
    assert [round(rate) for rate in rates] == sorted(round(rate) for rate in rates)
    assert rates[0] < MIB
    assert rates[-1] == pytest.approx(CEILING.bytes_per_s)
    one = theory.rates([Interval(0.0, 5.0, 0)])[0]
    assert sum(rates) / 50 == pytest.approx(one)


def test_at_rtt_0_there_is_no_slow_start_and_no_window() -> None:
    theory = Theory(replace(PATH, rtt_ns=0), CEILING)
    assert (theory.window_bytes, theory.window_at(1.0), theory.slow_start_s) == (None, None, 0.0)
    assert theory.rates([Interval(0.0, 0.1, 0)]) == [CEILING.bytes_per_s]


def test_a_full_queue_adds_its_time_to_the_round_trip() -> None:
    assert Theory(PATH, CEILING).full_queue_rtt_ns is None
    assert Theory(replace(PATH, buffer_bytes=1_250_000), CEILING).full_queue_rtt_ns == 80 * 10**6 + NS // 100
