"""Verdicts on programs: one cause planted at a time, and one cell between two causes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.made_programs import BUFFERS, MIB, MS, PATH, RTT_NS, chatty, connection, judged_with, run, runs

from emulator.analysis import program_law, program_time
from emulator.analysis.observed import Queues
from emulator.analysis.program_law import LawPoint, ProgramLaw
from emulator.analysis.program_runs import ProgramJudgement, ProgramRuns
from emulator.analysis.tcp_path import TcpPath
from emulator.analysis.verdict import Buffers

LARGE = Buffers(64 * MIB, 64 * MIB)


def test_a_chatty_program() -> None:
    found = judged_with(chatty(17))
    assert (found.kind, found.limiter) == (program_time.ROUND_TRIPS, "round trips")
    assert found.evidence == "17.0 round trips in which each end waited for the other's answer (94%)"
    assert found.advice == (
        "more in flight: send requests before the last one's answer (pipelining), 8 at once: "
        "about 313 ms instead of 1.8 s"
    )
    assert (found.invalid, found.findings) == ((), ())
    assert found.efficiency == pytest.approx(1 / 18, rel=0.01)


def test_a_single_request_leaves_a_handshake_to_save() -> None:
    found = judged_with(chatty(1))
    assert found.kind == program_time.ROUND_TRIPS
    assert found.advice.startswith(
        "a connection that stays open from one run to the next saves the handshake: about 100 ms"
    )


def test_a_connection_for_each_request() -> None:
    """Ten requests in a row, each over a connection of its own: two round trips each."""
    found = judged_with(runs(run(2000, *[connection(client_ms=200, server_ms=200)] * 10)))
    assert (found.kind, found.limiter) == (program_time.HANDSHAKES, "handshakes")
    assert "10.0 round trips for the handshakes of 10 connections (50%)" in found.evidence
    assert found.advice == (
        "keep one connection open (keep-alive) instead of 10, and resume TLS sessions: about 1.1 s instead of 2 s"
    )


def test_connections_of_tls_are_the_limit_by_their_handshakes() -> None:
    """As measured at 346 ms: 20 files of 10 KiB over as many connections of HTTP/2 and TLS, four round trips each."""
    one = connection(1889, 12_857, client_ms=1380, server_ms=1390)
    found = judged_with(runs(run(27_681, *[one] * 20)), path=replace(PATH, rtt_ns=346 * MS))
    assert (found.kind, found.limiter) == (program_time.HANDSHAKES, "handshakes")
    assert found.advice.startswith("keep one connection open (keep-alive) instead of 20, and resume TLS sessions")


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        (  # scp of 64 MiB, whose own window is 2 MiB
            runs(run(21_159, connection(38_165, 67_208_045, client_ms=20_170, server_ms=20_460)), quiet_ms=57),
            "it carries 1.12 MiB in each round trip: several connections at once, or a program with a larger window of",
        ),
        (  # 20 files at once over one connection of HTTP/2
            runs(run(2076, connection(2882, 210_414, client_ms=1420, server_ms=2080))),
            "it carries 0.0646 MiB in each round trip: a larger initcwnd, or several connections at once",
        ),
    ],
)
def test_what_has_much_in_flight_already_is_not_told_to_pipeline(program: ProgramRuns, advice: str) -> None:
    """As measured at 346 ms."""
    far = replace(PATH, rtt_ns=346 * MS, rate_bps=10**10)
    found = judged_with(program, path=far, client=LARGE, server=LARGE)
    assert found.advice.startswith(advice)
    assert "instead of" not in found.advice


@pytest.mark.parametrize(
    ("side", "kind", "limiter", "evidence", "advice"),
    [
        (
            "server_rwnd_ms",
            program_time.RECEIVE_WINDOW,
            "receive window of the client, 6 MiB buffer",
            "the server waited 1.66 s for the client's receive window",
            "tcp_rmem max of the client from 6 MiB to 16 MiB, rate x RTT is 11.9 MiB: about ",
        ),
        (
            "client_rwnd_ms",
            program_time.RECEIVE_WINDOW,
            "receive window of the server, 6 MiB buffer",
            "the client waited 1.66 s for the server's receive window",
            "tcp_rmem max of the server from 6 MiB to 16 MiB",
        ),
        (
            "server_sndbuf_ms",
            program_time.SEND_BUFFER,
            "send buffer of the server, 4 MiB",
            "the server waited 1.66 s for its own send buffer",
            "tcp_wmem max of the server from 4 MiB to 18 MiB",
        ),
        (
            "client_sndbuf_ms",
            program_time.SEND_BUFFER,
            "send buffer of the client, 4 MiB",
            "the client waited 1.66 s for its own send buffer",
            "tcp_wmem max of the client from 4 MiB to 18 MiB",
        ),
    ],
)
def test_a_window(side: str, kind: str, limiter: str, evidence: str, advice: str) -> None:
    """64 MiB, 561 ms of line, of 3 s; the sender was limited for 2.22 s of them."""
    up = side.startswith("client")
    times = {"client_ms": 2900 if up else 200, "server_ms": 200 if up else 2900, side: 2222}
    one = connection(*((64 * MIB, 100) if up else (100, 64 * MIB)), **times)  # type: ignore[arg-type]
    found = judged_with(runs(run(3000, one)))
    assert (found.kind, found.limiter, found.invalid) == (kind, limiter, ())
    assert found.evidence.startswith(evidence)
    assert found.advice.startswith(advice)


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize(
    ("source", "took_ms", "limiter"),
    [
        (BUFFERS, 6237, "send buffer of the {source}, 4 MiB"),
        (LARGE, 4450, "receive window of the {sink}, 6 MiB buffer"),
    ],
)
def test_a_window_that_the_kernel_does_not_count_is_known_by_its_size(
    up: bool, source: Buffers, took_ms: int, limiter: str
) -> None:
    """As measured: 64 MiB at 200 ms through 4 MiB of send buffer, and no time counted as limited by it."""
    far = {"path": replace(PATH, rtt_ns=200 * MS), "rtt_before_ns": 200 * MS}
    times = {"client_ms": took_ms - 200, "server_ms": 400} if up else {"client_ms": 400, "server_ms": took_ms - 200}
    one = connection(*((64 * MIB, 122) if up else (122, 64 * MIB)), **times)
    names = ("client", "server") if up else ("server", "client")
    program = runs(run(took_ms, one))
    found = judged_with(program, **far, **{names[0]: source})
    assert found.limiter.startswith(limiter.format(source=names[0], sink=names[1]))
    assert found.invalid == ()
    assert found.kind != program_time.SLOW_START
    held = judged_with(program, **far, client=LARGE, server=LARGE)
    assert held.kind == program_time.SLOW_START, "buffers that hold rate x RTT do not limit"


def test_a_window_below_what_the_host_allows_is_the_programs_own() -> None:
    one = connection(100, 64 * MIB, client_ms=200, server_ms=2900, server_rwnd_ms=2700)
    found = judged_with(runs(run(3000, one)), client=Buffers(64 * MIB, 64 * MIB))
    assert found.advice.startswith(
        "let the kernel size the client's buffer: the program sets a smaller one (SO_RCVBUF), rate x RTT is 11.9 MiB"
    )


@pytest.mark.parametrize("waited_ms", [331, 1400, 1700])
def test_a_receive_window_that_grows_with_the_connection_is_slow_start(waited_ms: int) -> None:
    """As measured: 1 MiB at 346 ms in eight round trips, whichever of the two windows was the smaller meanwhile."""
    far = replace(PATH, rtt_ns=346 * MS)
    one = connection(122, MIB, client_ms=692, server_ms=2422, server_rwnd_ms=waited_ms)
    found = judged_with(runs(run(2769, one)), path=far)
    assert (found.kind, found.limiter) == (program_time.SLOW_START, "slow start")
    assert found.advice.startswith("initcwnd 40 instead of 10")


def test_a_small_receive_window_limits_a_short_stream_too() -> None:
    """1 MiB through 64 KiB, which the program sets itself: what comes on top of the slow start is the window's."""
    far = replace(PATH, rtt_ns=346 * MS)
    one = connection(122, MIB, client_ms=692, server_ms=7000, server_rwnd_ms=5500)
    found = judged_with(runs(run(7300, one)), path=far)
    assert (found.kind, found.limiter) == (program_time.RECEIVE_WINDOW, "receive window of the client, 6 MiB buffer")
    assert "SO_RCVBUF" in found.advice


def test_a_path_that_no_buffer_fills_needs_connections() -> None:
    one = connection(100, 64 * 2**30, client_ms=200, server_ms=90_000, server_rwnd_ms=80_000)
    found = judged_with(runs(run(90_000, one)), path=replace(PATH, rate_bps=10**11, rtt_ns=346 * MS))
    assert found.advice.startswith("6 connections at once with the largest buffers")


def test_loss() -> None:
    one = connection(100, 16 * MIB, client_ms=200, server_ms=4800)
    lossy = replace(PATH, loss=0.001)
    found = judged_with(runs(run(5000, one, retransmits=12), quiet_ms=600), path=lossy)
    assert (found.kind, found.limiter, found.invalid) == (program_time.LOSS, "loss", ())
    assert "to send 12 segments again" in found.evidence
    assert found.advice == "congestion control bbr instead of cubic, or a path with less loss"
    assert (
        judged_with(runs(run(5000, one, retransmits=12)), path=replace(lossy, congestion_control="bbr")).advice
        == "a path with less loss"
    )


def test_a_timeout_is_the_losss_and_not_the_programs() -> None:
    """A request was lost: nothing was on the lane until the timeout. Without a loss the program waited."""
    lossy = chatty(2, quiet_ms=900)
    again = replace(lossy, runs=(replace(lossy.runs[0], retransmits=3, timeouts=3),))
    assert judged_with(again, path=replace(PATH, loss=0.01)).kind == program_time.LOSS
    assert judged_with(lossy).kind == program_time.PROGRAM


@pytest.mark.parametrize(("timeouts", "lost_ms"), [(0, None), (1, 220), (24, 4969)])
def test_a_program_that_waits_is_not_called_loss_because_segments_were_sent_again(
    timeouts: int, lost_ms: int | None
) -> None:
    """As measured at 20 ms: two uploads at once to a server that sleeps for 5 s; the buffer dropped 24 frames."""
    one = connection(300_020, 10, client_ms=170, server_ms=20)
    program = runs(run(5181, one, one, retransmits=24, timeouts=timeouts), quiet_ms=4969)
    found = judged_with(program, path=TcpPath(50 * 10**6, 20 * MS), queues=Queues(0, 24, 0))
    assert found.kind == (program_time.PROGRAM if timeouts < 24 else program_time.LOSS)
    lost = {part.kind: part.time_ns / MS for part in found.shares}.get(program_time.LOSS)
    assert lost == (lost_ms and pytest.approx(lost_ms, abs=60))


def test_the_line() -> None:
    one = connection(100, 512 * MIB, client_ms=200, server_ms=4900, server_rwnd_ms=3000)
    found = judged_with(runs(run(5200, one)))
    assert (found.kind, found.limiter) == (program_time.LINE, "line")
    assert found.evidence == "the line carried 535 MiB in 4.49 s (86%)"
    assert found.advice == "fewer bytes (compression, only what changed) or a faster line"


def test_the_program_itself() -> None:
    found = judged_with(chatty(2, quiet_ms=2000))
    assert (found.kind, found.limiter) == (program_time.PROGRAM, "the program itself")
    assert found.evidence == "no frame was on the lane for 2 s (87%)"
    assert found.advice.startswith("shorter waits of its own: timers, polling, or answers held back (TCP_NODELAY")


def test_the_own_time_of_the_law_stands_in_where_no_frames_were_seen() -> None:
    unseen = chatty(2, quiet_ms=None)
    slow = replace(unseen, runs=(replace(unseen.runs[0], completion_ns=2300 * MS),))
    assert judged_with(slow).kind == program_time.ROUND_TRIPS
    assert judged_with(slow).evidence.endswith("; no frames were seen, so the program's own waiting is in it")
    law = program_law.fit([LawPoint(rtt * MS, 10**9, None, (2 + 3 * rtt / 1000,)) for rtt in (0, 10, 100)])
    assert isinstance(law, ProgramLaw)
    found = judged_with(slow, law=law)
    assert (found.kind, found.evidence) == (program_time.PROGRAM, "2 s at any RTT, by the law (87%)")


def test_slow_start() -> None:
    """4 MiB at 100 ms: a handshake, a request, and eight more round trips until all has arrived."""
    one = connection(100, 4 * MIB, client_ms=200, server_ms=900)
    found = judged_with(runs(run(1040, one)))
    assert (found.kind, found.limiter) == (program_time.SLOW_START, "slow start")
    assert "round trips until the congestion window had grown" in found.evidence
    assert found.advice == (
        "initcwnd 40 instead of 10, or a connection that stays open: about 840 ms instead of 1.04 s"
    )
    kept = judged_with(runs(run(1040, one)), initcwnd=40).advice
    assert kept.startswith("a connection that stays open, without tcp_slow_start_after_idle, keeps its window")


def test_a_window_that_grows_more_slowly_than_slow_start_is_part_of_it() -> None:
    """The same in 30 round trips: after an early end of slow start the window grows by a segment each round trip."""
    one = connection(100, 4 * MIB, client_ms=200, server_ms=2900)
    found = judged_with(runs(run(3000, one)))
    grown = next(part.time_ns for part in found.shares if part.kind == program_time.SLOW_START)
    assert grown / RTT_NS == pytest.approx(27.65, abs=0.01), "all but handshake, request and line"


def test_in_between_both_are_named() -> None:
    """48 MiB of line beside five turns."""
    one = connection(500, 48 * MIB, client_ms=500, server_ms=900)
    found = judged_with(runs(run(1100, one), quiet_ms=100))
    assert (found.kind, found.limiter) == (program_time.ROUND_TRIPS, "round trips (45%), line (38%)")
    assert found.evidence == (
        "4.0 round trips in which each end waited for the other's answer (36%); "
        "the line carried 50.2 MiB in 421 ms (38%)"
    )


def test_without_tcp_what_is_left_is_unknown() -> None:
    plain = replace(run(1000), sent_bytes=9000, received_bytes=9000)
    found = judged_with(ProgramRuns((plain,), None, None))
    assert (found.kind, found.limiter) == (program_time.UNKNOWN, "unknown (it opened no TCP connection)")
    assert (found.efficiency, found.invalid, found.advice) == (None, (), "")
    assert found.evidence.startswith(
        "10.0 round trips of which the kernels count nothing, because it opened no TCP connection (100%)"
    )


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("again", [0, 1])
def test_what_a_program_waits_for_beside_its_tcp_connection_is_unknown(back: bool, again: int) -> None:
    """As measured at 80 ms: `iperf3 -u` for 3 s, whose control connection waits for the end, too."""
    control = connection(436, 278, client_ms=400, server_ms=480)
    one = run(3481, control, retransmits=again)
    one = replace(one, received_bytes=406_892) if back else replace(one, sent_bytes=406_892)
    found = judged_with(runs(one), path=TcpPath(10**8, 80 * MS, loss=0.01))
    assert (found.kind, found.limiter) == (program_time.UNKNOWN, "unknown (most of its bytes were not TCP's)")
    assert "because most of its bytes were not TCP's (" in found.evidence
    assert found.advice == ""


def test_a_frame_for_each_byte_is_tcp_still() -> None:
    """A program that sends 1000 bytes one by one, and gets each back."""
    one = connection(1000, 1000, client_ms=100_100, server_ms=100_100)
    small = replace(run(100_100, one), sent_bytes=133_000, received_bytes=133_000)
    assert judged_with(runs(small)).kind == program_time.ROUND_TRIPS


@pytest.mark.parametrize(
    ("quiet_ms", "received", "kind"), [(900, 9000, program_time.PROGRAM), (0, 115_000_000, program_time.LINE)]
)
def test_without_tcp_the_line_and_the_frames_are_known(quiet_ms: int, received: int, kind: str) -> None:
    plain = replace(run(1000), sent_bytes=9000, received_bytes=received)
    found = judged_with(runs(plain, quiet_ms=quiet_ms))
    assert (found.kind, found.limiter) == (kind, kind)
    assert {part.kind for part in found.shares} <= {*program_time.OF_ANY_PROTOCOL}
    assert "TCP" not in found.advice


def test_at_no_rtt_nothing_is_a_round_trip() -> None:
    found = judged_with(chatty(3, rtt_ms=0.1), path=replace(PATH, rtt_ns=0))
    assert (found.kind, found.limiter) == (program_time.PROGRAM, "the program itself")
    assert "that neither the line nor a round trip explains" in found.evidence


@given(
    completion_ms=st.integers(1, 100_000),
    many=st.lists(st.tuples(st.integers(0, 2**30), st.integers(0, 2**30), *[st.integers(0, 100_000)] * 6), max_size=5),
    quiet_ms=st.none() | st.integers(0, 100_000),
    rtt_ms=st.sampled_from([0, 10, 346]),
    again=st.integers(0, 50),
)
def test_the_shares_add_up(
    completion_ms: int, many: list[tuple[int, ...]], quiet_ms: int | None, rtt_ms: int, again: int
) -> None:
    names = ("client_ms", "client_rwnd_ms", "client_sndbuf_ms", "server_ms", "server_rwnd_ms", "server_sndbuf_ms")
    all = [connection(one[0], one[1], **dict(zip(names, one[2:], strict=True))) for one in many]
    quiet = None if quiet_ms is None else min(quiet_ms, completion_ms)
    found = judged_with(
        runs(run(completion_ms, *all, retransmits=again), quiet_ms=quiet), path=replace(PATH, rtt_ns=rtt_ms * MS)
    )
    assert sum(part.time_ns for part in found.shares) == completion_ms * MS
    assert all_positive(found)
    assert found.kind in program_time.KINDS
    assert found.limiter
    assert found.evidence


def all_positive(found: ProgramJudgement) -> bool:
    times = [part.time_ns for part in found.shares]
    return min(times) > 0 and times == sorted(times, reverse=True)
