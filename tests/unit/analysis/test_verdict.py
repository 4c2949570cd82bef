"""Verdicts: one observation changed at a time."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.made_results import PATH, seen

from emulator.analysis import validity_checks, verdict
from emulator.analysis.verdict import Verdict, judge

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
            {"rwnd_share": 0.36, "in_flight_bytes": 2_980_000, "settled": False},
            verdict.RECEIVE_WINDOW,
            "receive window 3 MiB",
            "the sender waited for the receiver's window 36% of the time and had 95% of it in flight",
        ),
        (
            {"rwnd_share": 0.36, "settled": False},
            verdict.SLOW_START,
            "slow start",
            "the rate was still rising when the run ended",
        ),
        (
            {"rwnd_share": 0.93, "peer_window_bytes": MIB, "settled": False},
            verdict.SLOW_START,
            "slow start",
            "the rate was still rising when the run ended",
        ),
        (
            {"rwnd_share": 0.93, "peer_window_bytes": MIB},
            verdict.RECEIVE_WINDOW,
            "receive window 1 MiB",
            "the sender waited for the receiver's window 93% of the time",
        ),
        (
            {"sndbuf_share": 0.5, "most_in_flight_bytes": 2_670_000},
            verdict.SEND_BUFFER,
            "send buffer, 2.5 MiB in flight",
            "the sender waited for its own buffer 50% of the time and never had more than 2.55 MiB in flight",
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
            "7 packets dropped by the full bottleneck buffer, 9 retransmitted",
        ),
        (
            {"counters": {"TcpExtTCPDeliveredCE": 8}, "drops_buffer": 7, "retransmits": 7},
            verdict.CONGESTION_WINDOW,
            "congestion window (ECN marks)",
            "8 segments acknowledged as marked by ECN, 7 retransmitted",
        ),
        (
            {"counters": {"TcpExtTCPDeliveredCE": 7}, "drops_buffer": 7, "retransmits": 7},
            verdict.CONGESTION_WINDOW,
            "congestion window (buffer drops)",
            "7 packets dropped by the full bottleneck buffer, 7 retransmitted",
        ),
        ({"settled": False}, verdict.SLOW_START, "slow start", "the rate was still rising when the run ended"),
        (
            {"drops_limit": 4, "sndbuf_share": 1.0},
            verdict.EMULATOR,
            "emulator (limit)",
            "its own queue dropped 4 packets",
        ),
        ({"memory_pressures": 2}, verdict.EMULATOR, "emulator (memory)", "TCP ran short of tcp_mem 2 times"),
        ({"receiver_cpu_percent": 99.0}, verdict.CPU, "CPU", "iperf3 used 99 % of a core"),
        ({"core_percent": 99.6}, verdict.CPU, "CPU", "a core was busy for 100 % of the time"),
        (
            {"core_percent": 99.6, "rwnd_share": 0.9, "rtt_before_ns": MS},
            verdict.CPU,
            "CPU",
            "a core was busy for 100 % of the time, which filled the window; the window could carry 3000 MiB/s "
            "(25.166 Gbit/s)",
        ),
        (
            {"core_percent": 99.6, "rwnd_share": 0.9, "rtt_before_ns": 0},
            verdict.CPU,
            "CPU",
            "a core was busy for 100 % of the time, which filled the window; at an RTT of 0 no window is too small",
        ),
        (
            {"sender_cpu_percent": 96.0, "sndbuf_share": 0.9, "rtt_before_ns": MS},
            verdict.CPU,
            "CPU",
            "iperf3 used 96 % of a core, which filled the window; the window could carry 2500 MiB/s (20.972 Gbit/s)",
        ),
        (
            {"core_percent": 99.6, "rwnd_share": 0.9},
            verdict.RECEIVE_WINDOW,
            "receive window 3 MiB",
            "the sender waited for the receiver's window 90% of the time",
        ),
        ({}, verdict.UNKNOWN, "unknown", "no window, buffer or line limited it: 7.5% of the line"),
    ],
)
def test_the_limiter(changes: dict[str, Any], kind: str, limiter: str, evidence: str) -> None:
    assert judge(PATH, seen(**changes)) == Verdict(kind, limiter, evidence)


def test_streams_have_threads_of_their_own() -> None:
    of_two, many = seen(sender_cpu_percent=180.0, threads=2), replace(PATH, streams=2)
    assert judge(many, of_two).kind == verdict.UNKNOWN
    assert validity_checks.find(many, of_two) == []
    assert judge(many, seen(sender_cpu_percent=191.0, threads=2)).kind == verdict.CPU


def test_loss_limits_where_loss_was_asked_for() -> None:
    assert judge(replace(PATH, loss=0.0001), seen(retransmits=12)) == Verdict(
        verdict.CONGESTION_WINDOW, "congestion window (loss)", "12 segments retransmitted at a loss of 0.0100%"
    )
