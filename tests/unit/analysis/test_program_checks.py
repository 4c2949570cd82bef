"""What voids the cell of a program, or is noted at it: times that cannot be, segments sent again without a reason."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.made_programs import MIB, MS, PATH, RTT_NS, chatty, connection, facts, judged_with, run, runs
from support.made_results import SEEN, changed

from emulator.analysis import program_law, program_time, program_verdict
from emulator.analysis.observed import Queues
from emulator.analysis.program_runs import ProgramRuns
from emulator.analysis.program_time import ProgramFacts


def checks(one: ProgramFacts) -> list[str]:
    return [caveat.check for caveat in program_verdict.find(one) if caveat.fatal]


@pytest.mark.parametrize(
    ("completion_ms", "wrong"),
    [(99.5, False), (98, True), (50, True)],
)
def test_less_than_a_handshake_is_impossible(completion_ms: float, wrong: bool) -> None:
    program = runs(run(completion_ms, connection(100, 300)))
    assert checks(facts(program)) == (["impossible-time"] if wrong else [])


def test_less_than_the_bytes_at_the_lines_rate_is_impossible() -> None:
    """64 MiB at 1 Gbit/s take 537 ms, and the handshake 100."""
    down = runs(run(600, connection(100, 64 * MIB)))
    assert judged_with(down).invalid == (
        "run 1 took 600 ms; its handshake and its bytes on this line need 636 ms: the data did not pass the lane, or "
        "the lane is not as set",
    )
    assert judged_with(down).findings[0].startswith("impossible-time: ")
    assert checks(facts(runs(run(636, connection(100, 64 * MIB))))) == []
    late = runs(
        run(700, connection(100, 64 * MIB)), run(700, connection(100, 64 * MIB)), run(500, connection(100, 64 * MIB))
    )
    assert judged_with(late).invalid[0].startswith("run 3 took 500 ms"), "every run is checked, not the median alone"


def test_a_client_that_ends_while_its_kernel_sends_is_told_to_wait() -> None:
    up = runs(run(150, connection(64 * MIB, 100)))
    assert checks(facts(up)) == ["ended-early"]
    assert judged_with(up).invalid[0].endswith("the client ended before its data arrived, let it wait for an answer")


def test_without_a_connection_of_its_own_no_handshake_is_counted() -> None:
    plain = replace(run(5), sent_bytes=9000, received_bytes=9000)
    assert checks(facts(ProgramRuns((plain,), None, 9000))) == []


def test_stated_bytes_that_the_lane_never_carried_are_a_note() -> None:
    """rsync of files that the other end has, or a compressed stream: no time is impossible then."""
    found = judged_with(runs(run(300, connection(100, MIB)), bytes=256 * MIB))
    assert found.invalid == ()
    assert found.findings == (
        "fewer-bytes: the lane carried 1.05 MiB of the stated 256 MiB: it compresses, or the other end had the rest",
    )


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"queues": Queues(4, 0, 0)}, "drops-by-limit"),
        ({"rtt_before_ns": 101 * MS, "rtt_tolerance_ns": 10_000}, "rtt-not-as-set"),
        ({"drift": ("the delay is 90 ms",)}, "changed"),
        ({"memory_short": True}, "tcp-mem"),
        ({"cached_metrics": 2}, "cached-metrics"),
        ({"machine": changed(SEEN.machine, counters={"TcpExtTCPMemoryPressures": 3})}, "tcp-mem"),
    ],
)
def test_what_voids_a_cell(changes: dict[str, object], check: str) -> None:
    assert checks(facts(chatty(3))) == []
    assert checks(replace(facts(chatty(3)), **changes)) == [check]  # type: ignore[arg-type]
    assert checks(replace(facts(chatty(3)), rtt_before_ns=RTT_NS + 9_000, rtt_tolerance_ns=10_000)) == []


def test_segments_sent_again_need_a_reason() -> None:
    program = runs(run(1800, connection(client_ms=1800, server_ms=1800), retransmits=2))
    assert checks(facts(program)) == ["retransmits-without-loss"]
    assert checks(facts(program, replace(PATH, loss=0.01))) == []
    assert checks(facts(program, queues=Queues(0, 2, 0))) == []
    far = replace(PATH, rtt_ns=1200 * MS)
    once = replace(program, runs=(replace(program.runs[0], retransmits=1),))
    assert checks(facts(once, far)) == [], "the first segment, whose answer comes after the first timeout"


@pytest.mark.parametrize(("rtt_ms", "again"), [(1200, 9), (2000, 9), (2500, 9), (3000, 9)])
def test_handshakes_longer_than_the_first_timeout_are_sent_again(rtt_ms: int, again: int) -> None:
    """As measured with three connections at once: each sends its SYN or SYN-ACK again three times; two turns."""
    one = replace(connection(client_ms=3 * rtt_ms, server_ms=3 * rtt_ms), retransmits=again // 3)
    program = runs(run(3 * rtt_ms, one, one, one, retransmits=again))
    far = replace(PATH, rtt_ns=rtt_ms * MS)
    found = program_verdict.judge(facts(program, far))
    assert (found.invalid, found.kind in (program_time.HANDSHAKES, program_time.ROUND_TRIPS)) == ((), True)
    assert found.findings == (
        f"early-timeout: TCP sent 9 segments of handshakes again, because its first timeout, 1 s, is shorter than "
        f"{program_law.seconds_text(rtt_ms / 1000)} (RFC 6298)",
    )
    more = replace(program, runs=(replace(program.runs[0], retransmits=40),))
    assert checks(facts(more, far)) == ["retransmits-without-loss"]
    assert checks(facts(program)) == ["retransmits-without-loss"], "no handshake takes longer at 100 ms"


def refused(completion_ms: float, quiet_ms: float, *again: int) -> ProgramRuns:
    """Connections that a full listen queue dropped so often each."""
    all = [replace(connection(client_ms=300, server_ms=300), retransmits=times) for times in again]
    one = replace(run(completion_ms, *all, retransmits=sum(again)), listen_drops=sum(again))
    return runs(one, quiet_ms=quiet_ms)


@pytest.mark.parametrize(
    ("program", "waited_ms"),
    [
        (refused(4500, 2900, 0, 0, 1, 1, 2, 2, 3, 3, 4), 4000),  # at the same time
        (refused(3300, 2900, 0, 1, 1, 1), 2900),  # one after another
    ],
)
def test_a_full_listen_queue_is_the_limit_and_no_loss(program: ProgramRuns, waited_ms: int) -> None:
    found = judged_with(program, machine=changed(SEEN.machine, counters={"TcpExtListenDrops": 19}))
    assert (found.kind, found.limiter, found.invalid) == (program_time.LISTEN_QUEUE, "listen queue", ())
    assert next(part.time_ns for part in found.shares if part.kind == found.kind) == waited_ms * MS
    assert found.advice.startswith("a larger listen queue (the server's backlog, net.core.somaxconn), or fewer")
    assert found.findings[0].startswith("listen-queue-full: a full listen queue dropped 19 attempts to connect")
    unexplained = replace(program, runs=(replace(program.runs[0], listen_drops=1),))
    assert checks(facts(unexplained)) == ["retransmits-without-loss"]
