"""What limited requests, and what is impossible: each check speaks when it must and is silent otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.made_requests import MS, NOTHING_SENT_AGAIN, counted, evidence, figures

from emulator.analysis import request_verdict
from emulator.analysis.request_figures import RequestPaths
from emulator.analysis.request_verdict import RequestEvidence, judge
from emulator.analysis.tcp_path import TcpPath
from emulator.model.request_load import RequestLoad

PATH = TcpPath(10**9, 80 * MS)
PATHS = RequestPaths(PATH, PATH)
SERVED = counted([80 * MS] * 125)
LARGE, TIGHT = RequestLoad(answer_bytes=2**20, offered_per_s=50), RequestLoad(offered_per_s=12.4)
BIG = RequestLoad(answer_bytes=2**20)


def of(times: list[int], load: RequestLoad | None = None, **changes: Any) -> RequestEvidence:
    lane = {name: changes.pop(name) for name in ("drops_limit", "drops_buffer", "memory_short") if name in changes}
    return evidence(load, figures(times, **changes), **lane)


LIMITS: list[tuple[str, RequestEvidence, str]] = [
    ("round trips", evidence(), "100.0% of 1 x 1 requests each round trip"),
    (
        "round trips",
        of([80 * MS] * 100, RequestLoad(think_ns=20 * MS), elapsed_ns=9_980 * MS),
        "100.0% of 1 x 1 requests each round trip and think time",
    ),
    (
        "line",
        of([1200 * MS] * 1000, RequestLoad(1000, answer_bytes=1), elapsed_ns=2_600_000),
        "99.1% of what the line carries",
    ),
    ("line", of([90 * MS] * 1100, replace(BIG, connections=64), elapsed_ns=10**10), "96.5% of what the line carries"),
    (
        "offered rate",
        of([81 * MS] * 50, RequestLoad(offered_per_s=5), held=3, elapsed_ns=10**10),
        "every request was answered; 3 of 50 requests waited for a free place",
    ),
    ("emulator", of([80 * MS] * 125, drops_limit=7), "its own queue dropped 7 packets"),
    ("emulator", of([80 * MS] * 125, memory_short=True), "TCP ran short of tcp_mem"),
    (
        "receive window",
        of([900 * MS] * 20, BIG, server={**NOTHING_SENT_AGAIN, "rwnd_limited_us": 800}),
        "the sender waited for the receiver's window 80% of the time",
    ),
    (
        "send buffer",
        of([900 * MS] * 20, BIG, sockets={**NOTHING_SENT_AGAIN, "sndbuf_limited_us": 700}),
        "the sender waited for its own buffer 70% of the time",
    ),
    ("CPU", of([100 * MS] * 20, cpu_s=9.9), "the request program used 99 % of a core"),
    ("slow start", of([500 * MS] * 20, BIG), "a request took 5.1 round trips longer than the lane needs"),
    ("unknown", of([100 * MS] * 20), "no ceiling, window, loss or CPU limited it: 80.0% of the lowest ceiling"),
]


@pytest.mark.parametrize(("kind", "seen", "text"), LIMITS, ids=[f"{one[0]}-{n}" for n, one in enumerate(LIMITS)])
def test_what_limited(kind: str, seen: RequestEvidence, text: str) -> None:
    found = judge(PATHS, seen)
    assert (found.kind, text in found.evidence) == (kind, True), found
    assert kind in request_verdict.KINDS


def test_loss() -> None:
    again = {**NOTHING_SENT_AGAIN, "retransmits": 9}
    found = judge(RequestPaths(PATH, replace(PATH, loss=0.01)), of([100 * MS] * 20, sockets=again))
    assert (found.kind, found.evidence) == ("loss", "9 segments sent again at a loss of 1.0000%")
    found = judge(PATHS, of([100 * MS] * 20, sockets=again, drops_buffer=9))
    assert (found.kind, found.limiter) == ("loss", "loss (buffer drops)")


def test_bbr_paces_what_it_has_seen_little_of() -> None:
    path = replace(PATH, congestion_control="bbr")
    found = judge(RequestPaths(path, path), of([120 * MS] * 20, BIG))
    assert (found.kind, found.limiter) == ("slow start", "slow start (pacing)")


@pytest.mark.parametrize(
    ("seen", "advice"),
    [
        (evidence(), "more in flight: the rate grows with connections x in flight until about 9175 fill the line"),
        (
            of([9000 * MS] * 125, RequestLoad(offered_per_s=30), service=SERVED, overloaded=True, elapsed_ns=10**10),
            "more in flight: this offered rate needs connections x in flight of at least 3",
        ),
        (  # a request takes longer than the round trip: 1 MiB takes 8.8 ms of the line
            of([9000 * MS] * 112, LARGE, service=counted([88 * MS] * 112), overloaded=True, elapsed_ns=10**10),
            "more in flight: this offered rate needs connections x in flight of at least 5",
        ),
        (  # and as long as it was measured, whatever the lane needs
            of([9000 * MS] * 116, LARGE, service=counted([101 * MS] * 116), overloaded=True, elapsed_ns=10**10),
            "more in flight: this offered rate needs connections x in flight of at least 6",
        ),
        (  # what is in flight at present is too little, whatever the product
            of([9000 * MS] * 125, TIGHT, service=SERVED, overloaded=True, elapsed_ns=10**10),
            "more in flight: this offered rate needs connections x in flight of at least 2",
        ),
        (of([500 * MS] * 20, BIG), "keep connections open and busy, or a larger initial window (initcwnd)"),
    ],
)
def test_what_would_help(seen: RequestEvidence, advice: str) -> None:
    assert judge(PATHS, seen).advice.startswith(advice)


CHECKS: list[tuple[str, RequestEvidence, str]] = [
    (
        "above-ceiling",
        of([80 * MS] * 130, elapsed_ns=10**10),
        "130 answers in 10.000 s are more than 1 connections x 1 in flight / RTT allow: 125",
    ),
    (
        "above-ceiling",
        of([80 * MS] * 101, RequestLoad(think_ns=20 * MS), elapsed_ns=9_980 * MS),
        "are more than 1 connections x 1 in flight / RTT allow: 100",
    ),
    ("below-rtt", of([79 * MS, *[80 * MS] * 100], elapsed_ns=9 * 10**9), "took 79.000 ms, less than the RTT of 80.000"),
    (
        "above-line",
        of([90 * MS] * 2000, replace(BIG, connections=64), elapsed_ns=10**10),
        "2000 requests exceed the 1150 that the line carries",
    ),
    ("unanswered", of([80 * MS] * 125, unanswered=3), "3 requests were not answered in time"),
    (
        "overload",
        of([9000 * MS] * 125, RequestLoad(offered_per_s=30), overloaded=True, held=124, elapsed_ns=10**10),
        "124 requests waited for a free place, the last one too: 30 a second are more than 12.5",
    ),
    ("program-overhead", of([80 * MS] * 125, overhead_ns=5 * MS), "the request program itself takes 5000 us"),
    ("late-client", of([80 * MS] * 125, late=[5 * MS]), "began requests up to 5000 us late"),
    (
        "program-cpu",
        of([80 * MS] * 125, cpu_s=9.9),
        "the request program used 99 % of a core: the CPU may be the limit",
    ),
    ("few-requests", of([80 * MS] * 9), "only 9.0 requests at each place"),
]
FATAL = {name for name, fatal, _ in request_verdict.REQUEST_DETECTORS if fatal}


@pytest.mark.parametrize(
    ("check", "seen", "text"), CHECKS, ids=[f"{case[0]}-{number}" for number, case in enumerate(CHECKS)]
)
def test_each_check_speaks_alone(check: str, seen: RequestEvidence, text: str) -> None:
    found = judge(PATHS, seen)
    assert [one.partition(": ")[0] for one in found.findings] == [check]
    assert text in found.findings[0]
    assert bool(found.invalid) == (check in FATAL)


def test_every_check_has_a_case_and_a_sound_cell_has_no_finding() -> None:
    assert {name for name, _, _ in request_verdict.REQUEST_DETECTORS} == {case[0] for case in CHECKS}
    found = judge(PATHS, evidence())
    assert (found.invalid, found.findings) == ((), ())
    assert (found.round_trips_per_s, found.line_per_s) == (12.5, pytest.approx(114_679, rel=1e-4))


def test_the_checks_of_the_lane_hold_for_requests_too() -> None:
    found = judge(PATHS, evidence(drift=("port x: limit 1",), cached_metrics=2, rtt_before_ns=81 * MS))
    assert [one.partition(": ")[0] for one in found.findings] == ["rtt-not-as-set", "changed", "cached-metrics"]
    assert len(found.invalid) == 3


def test_without_delay_there_is_no_ceiling_of_round_trips() -> None:
    found = judge(
        RequestPaths(TcpPath(10**9, 0), TcpPath(10**9, 0)), evidence(found=figures([50_000] * 1000), rtt_before_ns=0)
    )
    assert (found.round_trips_per_s, found.invalid) == (None, ())
