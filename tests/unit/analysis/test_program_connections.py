"""What limits a program by its connections: handshakes, turns, messages that are held back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.made_programs import MIB, MS, PATH, chatty, connection, judged_with, run, runs

from emulator.analysis import program_time
from emulator.analysis.program_runs import ProgramJudgement
from emulator.analysis.tcp_path import TcpPath
from emulator.analysis.verdict import Buffers

LARGE = Buffers(64 * MIB, 64 * MIB)


def kept_open(turns: int, held: int, *, quiet_ms: float = 0, up: bool = False, **changes: int) -> ProgramJudgement:
    """Files of 30 kB over one connection at 80 ms, whose sender is busy for so many round trips more than it must."""
    asks, sends = 80 * (turns + 1), 80 * (turns + 2 + held)
    sizes, times = (turns * 75, turns * 30_203), (asks, sends)
    (sent, received), (client_ms, server_ms) = (sizes[::-1], times[::-1]) if up else (sizes, times)
    one = connection(sent, received, client_ms=client_ms, server_ms=server_ms)
    took = run(80 * (turns + 2 + held) + turns / 4 + quiet_ms, one, **changes)
    return judged_with(runs(took, quiet_ms=quiet_ms), path=TcpPath(10**9, 80 * MS, loss=0.01))


@pytest.mark.parametrize(("up", "end"), [(False, "server"), (True, "client")])
def test_the_last_part_of_each_message_that_waits_for_an_acknowledgement_wants_nodelay(up: bool, end: str) -> None:
    """As measured: six files of `http.server -p HTTP/1.1` take 13 round trips, and eight with TCP_NODELAY."""
    found = kept_open(6, 5, up=up)
    assert (found.kind, found.limiter) == (program_time.ROUND_TRIPS, "round trips")
    assert "11.0 round trips in which each end waited" in found.evidence
    assert found.advice == (
        f"TCP_NODELAY at the {end}, or one write for each message: its last part waits for an acknowledgement: "
        "about 643 ms instead of 1.04 s"
    )


@pytest.mark.parametrize(
    "found",
    [
        kept_open(6, 0),  # as measured with TCP_NODELAY
        kept_open(2, 1),  # too few to tell
        kept_open(6, 3),  # not in each turn
        kept_open(6, 9),  # more than that
        kept_open(6, 5, retransmits=3),
    ],
    ids=["none", "few", "some", "many", "lost"],
)
def test_other_waits_are_not_laid_to_nodelay(found: ProgramJudgement) -> None:
    assert "NODELAY" not in found.advice


def test_a_late_acknowledgement_while_the_program_waits_is_no_message_held_back() -> None:
    """Six turns at 40 ms with pauses of 40 ms: the answer of each is acknowledged 40 ms late."""
    one = connection(600, 600, client_ms=280, server_ms=520)
    found = judged_with(runs(run(40 + 6 * 80, one), quiet_ms=240), path=replace(PATH, rtt_ns=40 * MS))
    assert (found.kind, "NODELAY" in found.advice) == (program_time.ROUND_TRIPS, False)


def test_late_acknowledgements_do_not_look_like_connections_at_the_same_time() -> None:
    """As measured at 80 ms: twelve connections in a row, a turn each; FIN and delayed ACK keep the ends busy."""
    one = connection(client_ms=210, server_ms=160)
    found = judged_with(runs(run(1920, *[one] * 12)), path=replace(PATH, rtt_ns=80 * MS))
    assert found.kind == program_time.HANDSHAKES
    assert "12.0 round trips for the handshakes of 12 connections (50%)" in found.evidence


def test_connections_at_the_same_time_share_their_handshakes() -> None:
    """Six connections opened together, ten requests over each: eleven round trips, one of them a handshake."""
    found = judged_with(runs(run(1100, *[connection(client_ms=1100, server_ms=1100)] * 6)))
    assert found.kind == program_time.ROUND_TRIPS
    assert "10.0 round trips in which each end waited" in found.evidence


def files(at_once: int) -> ProgramJudgement:
    """As measured at 30 ms: six files of 30 kB, so many at a time, each over a connection of its own (`curl -Z`)."""
    one = connection(75, 30_203, client_ms=60, server_ms=60)
    return judged_with(runs(run(0.1 + 90 * 6 / at_once, *[one] * 6)), path=replace(PATH, rtt_ns=30 * MS))


def test_connections_that_were_all_opened_at_once_have_no_handshakes_to_save_but_the_first() -> None:
    found = files(at_once=6)
    assert (found.kind, found.limiter) == (program_time.ROUND_TRIPS, "round trips")
    times = {part.kind: part.time_ns / MS for part in found.shares}
    assert times[program_time.HANDSHAKES] == pytest.approx(30, abs=0.2)
    assert found.advice == (
        "connections that stay open from one run to the next save the handshake: about 60.1 ms instead of 90.1 ms"
    )


@pytest.mark.parametrize(
    ("at_once", "kept", "then"),
    [(1, "one connection", "390 ms instead of 540"), (2, "2 connections", "210 ms instead of 270")],
)
def test_so_many_connections_are_kept_as_were_open_at_the_same_time(at_once: int, kept: str, then: str) -> None:
    found = files(at_once)
    assert found.kind == program_time.HANDSHAKES
    assert found.advice == f"keep {kept} open (keep-alive) instead of 6, and resume TLS sessions: about {then} ms"


def test_no_advice_promises_less_than_a_handshake_and_an_answer() -> None:
    found = judged_with(chatty(3))
    assert found.advice.endswith("(pipelining), 8 at once: about 200 ms instead of 400 ms")
    assert judged_with(chatty(1)).advice.endswith("saves the handshake: about 100 ms instead of 200 ms")
