"""Verdicts and objections: one observation changed at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from emulator.analysis import Path
from emulator.verdict import Evidence, Verdict, invalid_reasons, judge

MIB, MS = 2**20, 10**6
PATH = Path(10**10, 32 * MS)
SEEN = Evidence(
    steady_bytes_per_s=85 * MIB,
    settled=True,
    rwnd_share=0.1,
    sndbuf_share=0.2,
    peer_window_bytes=3 * MIB,
    in_flight_bytes=5 * MIB // 2,
    most_in_flight_bytes=3 * MIB,
    retransmits=0,
    drops_limit=0,
    drops_buffer=0,
    memory_pressures=0,
    rtt_before_ns=32 * MS,
    rtt_tolerance_ns=10_000,
)


@pytest.mark.parametrize(
    ("changes", "limiter", "evidence"),
    [
        ({"steady_bytes_per_s": 1130 * MIB, "rwnd_share": 0.9}, "line", "99.1% of what the line carries"),
        (
            {"rwnd_share": 0.93},
            "receive window 3 MiB",
            "the sender waited for the receiver's window 93% of the time",
        ),
        (
            {"sndbuf_share": 1.0, "rwnd_share": 0.6},
            "send buffer, 2.5 MiB in flight",
            "the sender waited for its own buffer 100% of the time",
        ),
        (
            {"drops_buffer": 7, "retransmits": 9},
            "buffer drops",
            "7 packets dropped by the full bottleneck buffer, 9 sent again",
        ),
        ({"settled": False}, "slow start", "the rate was still rising when the run ended"),
        ({}, "congestion window", "neither window nor buffer nor line: 7.5% of the line"),
    ],
)
def test_the_limiter(changes: dict[str, Any], limiter: str, evidence: str) -> None:
    assert judge(PATH, replace(SEEN, **changes)) == Verdict(limiter, evidence)


def test_loss_limits_where_loss_was_asked_for() -> None:
    seen = replace(SEEN, retransmits=12)
    assert judge(replace(PATH, loss=0.0001), seen) == Verdict("loss", "12 segments sent again at a loss of 0.0100%")


def test_a_sound_cell_has_nothing_against_it() -> None:
    assert invalid_reasons(PATH, SEEN) == []
    assert invalid_reasons(PATH, replace(SEEN, rtt_before_ns=32_010_000)) == []
    assert invalid_reasons(PATH, replace(SEEN, drops_buffer=3, retransmits=3)) == []
    assert invalid_reasons(replace(PATH, loss=0.01), replace(SEEN, retransmits=3, drops_limit=None)) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"drops_limit": 4, "retransmits": 4}, "the emulator's own queue dropped 4 packets (limit)"),
        ({"memory_pressures": 2}, "TCP ran into memory pressure 2 times: raise tcp_mem"),
        ({"steady_bytes_per_s": 95 * MIB}, "95.0 MiB/s is more than the possible 93.8 MiB/s"),
        ({"retransmits": 5}, "5 segments were sent again although nothing was dropped"),
        ({"rtt_before_ns": 32_011_000}, "the RTT was 32.011 ms where 32.000 ms was asked for"),
    ],
)
def test_what_makes_a_cell_invalid(changes: dict[str, Any], reason: str) -> None:
    assert invalid_reasons(PATH, replace(SEEN, **changes)) == [reason]


def test_no_window_makes_more_than_the_line_possible() -> None:
    seen = replace(SEEN, steady_bytes_per_s=1200 * MIB, peer_window_bytes=100 * MIB)
    assert invalid_reasons(PATH, seen) == ["1200.0 MiB/s is more than the possible 1140.1 MiB/s"]
