"""What is said of groups of flows: who got what, what helps, and what is impossible."""

from __future__ import annotations

from typing import Any

import pytest
from support.made_flows import LINE, NOTHING_SENT_AGAIN, evidence, figures, result, rows_of

from emulator.analysis import flow_verdict
from emulator.analysis.flow_verdict import FlowJudgement
from emulator.analysis.tcp_path import TcpPath
from emulator.model.flow_group import Contest
from emulator.model.impairment import IN_TURN

PATH = TcpPath(10**10, 80_000_000, streams=2)
PAIR = "cubic:1,bbr:1"


def judged(text: str, shares: list[list[float]], seen: dict[str, Any] | None = None, **changes: Any) -> FlowJudgement:
    contest = Contest.parse(text)
    return flow_verdict.judge(PATH, evidence(contest, figures(contest, rows_of(shares), **changes), **seen or {}))


def test_fair_and_unequal_shares() -> None:
    fair = judged(PAIR, [[0.5], [0.48]])
    assert (fair.kind, fair.advice, fair.invalid) == ("fair shares", "", ())
    unequal = judged(PAIR, [[0.1], [0.88]])
    assert (unequal.kind, unequal.limiter) == ("unequal shares", "unequal shares (bbr has more)")
    assert unequal.evidence == "of its fair share each group has: cubic 0.20, bbr 1.80; Jain's index 0.612"
    assert unequal.advice.startswith("a queue that serves each flow in turn (aqm: fq-codel)")
    assert [judged(PAIR, [[0.1], [0.88]], {"aqm": name}).advice for name in IN_TURN] == [""] * len(IN_TURN)


def test_one_group_alone_and_transfers_beside_it() -> None:
    assert judged("cubic:2", [[0.5, 0.48]]).kind == "line"
    assert judged("cubic:1,bbr:8:bytes=1KiB", [[0.9], [0.05]]).kind == "line"
    assert judged("cubic:8:bytes=1KiB", [[0.05]]).kind == "unknown"


def test_flows_that_do_not_fill_the_line() -> None:
    waits = {**NOTHING_SENT_AGAIN, "rwnd_limited_us": 900}
    assert judged(PAIR, [[0.1], [0.1]], sockets=waits).kind == "receive window"
    waits = {**NOTHING_SENT_AGAIN, "sndbuf_limited_us": 900}
    assert judged(PAIR, [[0.1], [0.1]], sockets=waits).advice == "a larger send buffer at the sender (tcp_wmem)"
    again = {**NOTHING_SENT_AGAIN, "retransmits": 5}
    assert judged(PAIR, [[0.1], [0.1]], {"drops_buffer": 10}, sockets=again).limiter == "loss (buffer drops)"
    assert judged(PAIR, [[0.1], [0.1]], {"marked": 11}, sockets=again).limiter == "loss (ECN marks)"
    assert judged(PAIR, [[0.1], [0.1]]).kind == "unknown"
    assert judged(PAIR, [[0.5], [0.5]], {"drops_limit": 3}).kind == "emulator"


@pytest.mark.parametrize(
    ("shares", "seen", "changes", "told"),
    [
        ([[0.6], [0.6]], {}, {}, "bytes exceed the"),
        ([[0.5], [0.5]], {}, {"congestion_control": "cubic"}, "the kernel used cubic instead of bbr"),
        ([[0.5], [0.5]], {}, {"lost": ["Broken pipe"]}, "a flow of cubic ended too early: Broken pipe"),
        ([[1.0], [0.0]], {}, {}, "nothing of 1 bbr arrived"),
        ([[0.5], [0.5]], {}, {"least_trip_us": 79_000}, "a packet of cubic took 79.000 ms, less than the RTT"),
        ([[0.5], [0.5]], {"rtts_ns": (80_000_000, 80_000_000)}, {}, "1 bbr rtt 90 ms: the RTT was 80.000 ms instead"),
        ([[0.5], [0.5]], {"drops_limit": 3}, {}, "the emulator's own queue dropped 3 packets"),
        ([[0.5], [0.5]], {"rtt_before_ns": 40_000_000}, {}, "the RTT was 40.000 ms instead"),
        ([[0.5], [0.5]], {"drift": ("delay",)}, {}, "something outside Longhaul changed the lane"),
    ],
)
def test_what_voids_a_cell(shares: list[list[float]], seen: dict[str, Any], changes: dict[str, Any], told: str) -> None:
    found = judged("cubic:1,bbr:1:rtt=90ms" if "rtts_ns" in seen else PAIR, shares, seen, **changes)
    assert any(told in reason for reason in found.invalid), found.invalid


def test_what_is_only_noted() -> None:
    found = judged(PAIR, [[0.5], [0.5]], unfinished=2)
    assert found.invalid == ()
    assert [said.partition(": ")[0] for said in found.findings] == ["unfinished", "unfinished"]
    assert result(PAIR, [[0.5], [0.5]], rtt_ns=2 * 10**9).judgement.findings == (
        "short-steady-part: the steady part has 2 round trips (5 s): a longer duration would be surer",
    )
    contest = Contest.parse(PAIR)
    most = figures(contest, rows_of([[0.5], [0.5]]))
    assert most.received_bytes == pytest.approx(10 * LINE)
