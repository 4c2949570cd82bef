"""Figures of requests from what the program counted: quantiles, rates and ceilings."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.made_requests import counted, figures

from emulator.analysis import request_figures
from emulator.analysis.request_figures import RequestPaths, RequestTimes, SocketSums
from emulator.analysis.tcp_path import TcpPath
from emulator.hosts.requests.wire import DurationCounts
from emulator.model.request_load import RequestLoad

MS, NS = 10**6, 10**9


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200))
def test_quantiles_are_those_of_the_sorted_values(values: list[int]) -> None:
    found, order = RequestTimes.of(counted(values)), sorted(values)
    assert (found.count, found.min_ns, found.max_ns) == (len(values), order[0], order[-1])
    assert found.mean_ns == round(sum(values) / len(values))
    for percent, value in ((50, found.p50_ns), (90, found.p90_ns), (99, found.p99_ns), (99.9, found.p99_9_ns)):
        exact = order[math.ceil(len(order) * percent / 100 - 1e-9) - 1]
        assert value == pytest.approx(exact, rel=1e-4), percent
    assert sum(count for _, count in found.histogram) == len(values)


def test_nothing_counted_is_nothing() -> None:
    nothing = RequestTimes.of(DurationCounts().report())
    assert (nothing.count, nothing.p99_9_ns, nothing.histogram) == (0, 0, ())
    assert RequestTimes.joined([nothing, nothing]) == nothing
    assert RequestTimes.joined([nothing, RequestTimes.of(counted([5 * MS]))]).count == 1


def test_several_measurements_are_one_series() -> None:
    one, other = RequestTimes.of(counted([10 * MS] * 99)), RequestTimes.of(counted([20 * MS, 90 * MS]))
    both = RequestTimes.joined([one, other])
    assert (both.count, both.min_ns, both.max_ns) == (101, 10 * MS, 90 * MS)
    assert both.p50_ns == pytest.approx(10 * MS, rel=1e-4)
    assert both.p99_ns == pytest.approx(20 * MS, rel=1e-4)
    assert both.mean_ns == pytest.approx((990 + 110) * MS / 101, rel=1e-6)


def test_the_rate_of_a_closed_loop_holds_whole_cycles() -> None:
    found = figures(answered=250, elapsed_ns=10 * NS)
    assert found.per_s(RequestLoad()) == 25
    thinking = RequestLoad(think_ns=20 * MS)
    # 100 cycles of 80 + 20 ms end 20 ms after the last answer.
    assert figures(answered=100, elapsed_ns=9_980 * MS).per_s(thinking) == 10
    assert figures(answered=0, elapsed_ns=0, times=[]).per_s(RequestLoad()) == 0


def test_the_rate_of_an_open_loop_is_the_offered_one_until_it_is_overloaded() -> None:
    load = RequestLoad(offered_per_s=100)
    found = figures(answered=1000, elapsed_ns=10_346 * MS)
    assert found.per_s(load) == 100
    assert replace(found, overloaded=True).per_s(load) == pytest.approx(1000 / 10.346)
    late = replace(found, answered=900, unanswered=100, elapsed_ns=40 * NS)
    assert late.per_s(load) == pytest.approx(900 / 40)


def test_ceilings() -> None:
    path, load = TcpPath(10**9, 80 * MS), RequestLoad(8, 4, 256, 100_000, think_ns=20 * MS)
    paths = RequestPaths(path, path)
    assert request_figures.round_trip_ceiling(load, path.rtt_ns) == 8 * 4 / 0.1
    assert request_figures.line_ceiling(load, paths) == pytest.approx(path.line_bytes_per_s / 100_000)
    assert request_figures.ceiling(load, paths) == 320
    assert request_figures.ceiling(RequestLoad(8, 4, offered_per_s=7), paths) == 7
    slow_back = RequestPaths(path, TcpPath(10**8, 80 * MS))
    assert request_figures.line_ceiling(load, slow_back) == pytest.approx(path.line_bytes_per_s / 10**6)
    assert request_figures.line_ceiling(RequestLoad(request_bytes=10**7), slow_back) == pytest.approx(
        path.line_bytes_per_s / 10**7, rel=1e-4
    )
    assert math.isinf(request_figures.round_trip_ceiling(RequestLoad(), 0))
    assert request_figures.ideal_ns(RequestLoad(), paths) == pytest.approx(80 * MS + (1280 + 2 * 66) * 8, abs=2)


@pytest.mark.parametrize(
    ("load", "wire_bytes"),
    [
        (RequestLoad(654, 1, 256, 1), 256 + 66),  # as measured: 15 425 a second through 40 Mbit/s
        (RequestLoad(1, 1, 256, 1449), 1449 + 2 * 66),
        (RequestLoad(1, 4, 256, 1), 256 + 66 / 4),  # four requests of a connection may share a frame
        (RequestLoad(1, 8, 724, 1), 724 + 66 / 2),
        (RequestLoad(1, 4, 256, 1449), 1449 + 66 * 1449 / 1448),
    ],
)
def test_a_message_has_frames_of_its_own_unless_others_of_its_connection_are_in_flight(
    load: RequestLoad, wire_bytes: float
) -> None:
    path = TcpPath(40 * 10**6, 35 * MS)
    assert request_figures.line_ceiling(load, RequestPaths(path, path)) == pytest.approx(5 * 10**6 / wire_bytes)


def test_shares_of_the_busy_time() -> None:
    assert (SocketSums(0, 200, 50, 100).rwnd_share, SocketSums(0, 200, 50, 100).sndbuf_share) == (0.25, 0.5)
    assert SocketSums(0, 0, 0, 0).rwnd_share == SocketSums(0, 0, 0, 0).sndbuf_share == 0
