"""Verdicts: one observation changed at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from samples import PATH, SEEN

from emulator import verdict
from emulator.verdict import Verdict, judge

MIB, MS = 2**20, 10**6


@pytest.mark.parametrize(
    ("changes", "kind", "limiter", "evidence"),
    [
        ({"steady_bytes_per_s": 1130 * MIB, "rwnd_share": 0.9}, verdict.LINE, "line", "99.1% of what the line carries"),
        (
            {"rwnd_share": 0.93},
            verdict.RECEIVE_WINDOW,
            "receive window 3 MiB",
            "the sender waited for the receiver's window 93% of the time",
        ),
        (
            {"sndbuf_share": 1.0, "rwnd_share": 0.6},
            verdict.SEND_BUFFER,
            "send buffer, 2.5 MiB in flight",
            "the sender waited for its own buffer 100% of the time",
        ),
        (
            {"drops_buffer": 7, "retransmits": 9},
            verdict.CONGESTION_WINDOW,
            "congestion window (buffer drops)",
            "7 packets dropped by the full bottleneck buffer, 9 sent again",
        ),
        ({"settled": False}, verdict.SLOW_START, "slow start", "the rate was still rising when the run ended"),
        (
            {"drops_limit": 4, "sndbuf_share": 1.0},
            verdict.EMULATOR,
            "emulator (limit)",
            "its own queue dropped 4 packets",
        ),
        ({"memory_pressures": 2}, verdict.EMULATOR, "emulator (memory)", "TCP ran short of tcp_mem 2 times"),
        ({"receiver_cpu_percent": 99.0}, verdict.CPU, "CPU", "iperf3 used 99 % of a core for 1 streams"),
        ({}, verdict.UNKNOWN, "unknown", "neither window nor buffer nor line: 7.5% of the line"),
    ],
)
def test_the_limiter(changes: dict[str, Any], kind: str, limiter: str, evidence: str) -> None:
    assert judge(PATH, replace(SEEN, **changes)) == Verdict(kind, limiter, evidence)


def test_loss_limits_where_loss_was_asked_for() -> None:
    seen = replace(SEEN, retransmits=12)
    assert judge(replace(PATH, loss=0.0001), seen) == Verdict(
        verdict.CONGESTION_WINDOW, "congestion window (loss)", "12 segments sent again at a loss of 0.0100%"
    )
