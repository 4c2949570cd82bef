"""What limited a program in one cell, what would help, and whether its figures can be right. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from emulator import units
from emulator.analysis import program_runs, program_time, validity_checks
from emulator.analysis.program_law import seconds_text
from emulator.analysis.program_runs import ProgramJudgement, TimeShare
from emulator.analysis.program_time import (
    HANDSHAKES,
    LINE,
    LISTEN_QUEUE,
    LOSS,
    PROGRAM,
    RECEIVE_WINDOW,
    ROUND_TRIPS,
    SEND_BUFFER,
    SLOW_START,
    UNKNOWN,
    ProgramFacts,
)  # fmt: skip
from emulator.analysis.tcp_path import NS
from emulator.analysis.transfer import Caveat, reasons
from emulator.analysis.tuning_advice import IN_FLIGHT_SHARE, WINDOW_SHARE
from emulator.analysis.verdict import Buffers
from emulator.model.tcp_profile import LARGEST_BUFFER_BYTES
from emulator.units import MIB_BYTES

CLEAR_SHARE = 0.5
"""A limiter with less of the time is named together with the next one."""
TOLD_SHARE = 0.1
"""The evidence leaves out what took less of the time."""
BURST_NS = 1_000_000
"""What the bottleneck lets through at once, as a time at its rate (`plan.netem_lowering`)."""
IN_A_ROW = 1.5
"""Connections at the same time cost one handshake together: with more of them in a row, fewer connections help."""
SHORT_LIVED_TURNS = 3.5
"""With so many turns in each connection the connections cost most: TLS takes one or two, the first window another."""
OWN_WINDOW_FACTOR = 16
"""So many first windows in each round trip are no slow start any more, but what the program keeps in flight."""
IN_FLIGHT = 8
"""How many requests at once the advice counts with."""
LEAST_OWN_NS = 10_000_000
"""Shorter waits of the program's own are not worth advice."""
LARGER_INITCWND = 40
"""Above it the first window of the receiver, 64 kB, is the limit."""

_GROUPS = {
    HANDSHAKES: "waits", ROUND_TRIPS: "waits", RECEIVE_WINDOW: "window", SEND_BUFFER: "window",
    SLOW_START: "slow start", LOSS: "loss", LINE: "line", PROGRAM: "program", UNKNOWN: "unknown",
    LISTEN_QUEUE: "listen queue",
}  # fmt: skip
"""Kinds that are compared with others as one."""


class ProgramAdvice(Struct, frozen=True):
    """What would shorten the run, and its completion time then; None where that cannot be predicted."""

    text: str
    before_ns: int
    after_ns: int | None

    def __str__(self) -> str:
        if self.after_ns is None:
            return self.text
        return f"{self.text}: about {seconds_text(self.after_ns / NS)} instead of {seconds_text(self.before_ns / NS)}"


def judge(facts: ProgramFacts) -> ProgramJudgement:
    """The verdict, the advice and the findings of one cell."""
    parts = program_time.shares(facts)
    kind = _kind(facts, parts)
    found = find(facts)
    return ProgramJudgement(
        kind=kind,
        limiter=_limiter(facts, kind, parts),
        evidence=_evidence(facts, kind, parts),
        advice=str(advise(facts, kind, parts) or ""),
        efficiency=efficiency(facts),
        shares=parts,
        invalid=reasons(found),
        findings=tuple(map(str, found)),
    )


def efficiency(facts: ProgramFacts) -> float | None:
    """FCT efficiency: the ideal completion time divided by the mean of the measured ones."""
    mean_s = facts.program.mean_completion_s
    if facts.program.bytes is None or not mean_s:
        return None
    return program_runs.ideal_ns(facts.program.bytes, facts.path.rate_bps, facts.path.rtt_ns) / NS / mean_s


def _time(parts: tuple[TimeShare, ...], *kinds: str) -> int:
    return sum(part.time_ns for part in parts if part.kind in kinds)


def _kind(facts: ProgramFacts, parts: tuple[TimeShare, ...]) -> str:
    """The largest group's largest kind. Handshakes go first where several are in a row, each with few turns."""
    if not parts:
        return PROGRAM
    groups: dict[str, int] = {}
    for part in parts:
        groups[_GROUPS[part.kind]] = groups.get(_GROUPS[part.kind], 0) + part.time_ns
    largest = max(groups, key=groups.__getitem__)
    if largest == "waits":
        turns, handshakes = _time(parts, ROUND_TRIPS), _time(parts, HANDSHAKES)
        short = handshakes >= IN_A_ROW * facts.path.rtt_ns and SHORT_LIVED_TURNS * handshakes >= turns
        return HANDSHAKES if short else ROUND_TRIPS
    return next(part.kind for part in parts if _GROUPS[part.kind] == largest)


def _limiter(facts: ProgramFacts, kind: str, parts: tuple[TimeShare, ...]) -> str:
    total = max(1, facts.run.completion_ns)
    first = sum(part.time_ns for part in parts if _GROUPS[part.kind] == _GROUPS[kind]) / total
    others = [part for part in parts if _GROUPS[part.kind] != _GROUPS[kind]]
    name = _name(facts, kind)
    if first >= CLEAR_SHARE or not others:
        return name
    return f"{name} ({first:.0%}), {_name(facts, others[0].kind)} ({others[0].time_ns / total:.0%})"


def _name(facts: ProgramFacts, kind: str) -> str:
    """The limiter, with the end and the size of its buffer where one limits, and why nothing is known."""
    if kind == UNKNOWN:
        return f"{kind} ({facts.why_unknown})"
    if kind == RECEIVE_WINDOW:
        end = program_time.receiver(facts, kind)
        return f"receive window of the {end}, {units.mib_text(_buffer_bytes(facts, kind))} buffer"
    if kind == SEND_BUFFER:
        end = program_time.sender(facts, kind)
        return f"send buffer of the {end}, {units.mib_text(_buffer_bytes(facts, kind))}"
    return kind


def _evidence(facts: ProgramFacts, kind: str, parts: tuple[TimeShare, ...]) -> str:
    total = max(1, facts.run.completion_ns)
    told = [part for part in parts if part.time_ns >= TOLD_SHARE * total or part.kind == kind]
    told.sort(key=lambda part: _GROUPS[part.kind] != _GROUPS[kind])
    said = "; ".join(f"{part.words} ({part.time_ns / total:.0%})" for part in told)
    unseen = facts.quiet_ns is None and kind in (ROUND_TRIPS, HANDSHAKES, SLOW_START, UNKNOWN)
    return f"{said}; no frames were seen, so the program's own waiting is in it" if unseen else said


def _buffers(facts: ProgramFacts, kind: str) -> Buffers:
    """The largest buffers that autotuning gives at the end that limits."""
    end = program_time.receiver(facts, kind) if kind == RECEIVE_WINDOW else program_time.sender(facts, kind)
    return facts.client if end == program_time.CLIENT else facts.server


def _buffer_bytes(facts: ProgramFacts, kind: str) -> int:
    """The one of them that limits."""
    buffers = _buffers(facts, kind)
    return buffers.receive_bytes if kind == RECEIVE_WINDOW else buffers.send_bytes


def advise(facts: ProgramFacts, kind: str, parts: tuple[TimeShare, ...]) -> ProgramAdvice | None:
    """The one thing that would shorten the run most, by its limiter."""
    before = facts.run.completion_ns

    def saves(text: str, saved_ns: float | None, *, opens: bool = True) -> ProgramAdvice:
        """`opens`: a connection is still opened in each run, and its handshake takes a round trip."""
        if saved_ns is None:
            return ProgramAdvice(text, before, None)
        least = facts.line_ns + (2 if opens else 1) * facts.path.rtt_ns
        return ProgramAdvice(text, before, min(before, max(least, before - round(saved_ns))))

    match _GROUPS[kind]:
        case "waits" if kind == HANDSHAKES:
            return saves(_keep_alive(facts), _time(parts, HANDSHAKES) - facts.path.rtt_ns)
        case "waits":
            return _fewer_turns(facts, saves, _time(parts, ROUND_TRIPS))
        case "window":
            return _larger_buffer(facts, saves, kind, _time(parts, kind))
        case "slow start":
            return _faster_start(facts, saves, _time(parts, SLOW_START))
        case "loss" if facts.path.congestion_control.startswith("bbr"):
            return saves("a path with less loss", None)
        case "loss":
            text = f"congestion control bbr instead of {facts.path.congestion_control}, or a path with less loss"
            return saves(text, None)
        case "unknown":
            return None
        case "listen queue":
            text = "a larger listen queue (the server's backlog, net.core.somaxconn), or fewer connections at once"
            return saves(text, _time(parts, LISTEN_QUEUE))
        case "line":
            return saves("fewer bytes (compression, only what changed) or a faster line", None)
    if _time(parts, PROGRAM) < LEAST_OWN_NS:
        return None
    if not facts.run.connections:
        return saves("shorter waits of its own: timers or polling", None)
    return saves("shorter waits of its own: timers, polling, or answers held back (TCP_NODELAY at both ends)", None)


class _Saves(Protocol):
    def __call__(self, text: str, saved_ns: float | None, *, opens: bool = True) -> ProgramAdvice: ...


def _keep_alive(facts: ProgramFacts) -> str:
    """As many connections as were open at the same time, kept open."""
    at_once, opened = round(program_time.at_once(facts)), len(facts.run.connections)
    kept = "one connection" if at_once == 1 else f"{at_once} connections"
    return f"keep {kept} open (keep-alive) instead of {opened}, and resume TLS sessions"


def _fewer_turns(facts: ProgramFacts, saves: _Saves, turns_ns: int) -> ProgramAdvice:
    if turns_ns < 2 * facts.path.rtt_ns:
        one = len(facts.run.connections) == 1
        opened = "a connection that stays open" if one else "connections that stay open"
        text = f"{opened} from one run to the next {'saves' if one else 'save'} the handshake"
        return saves(text, facts.path.rtt_ns, opens=False)
    if held := program_time.held_back_ns(facts):
        end = program_time.holding_end(facts)
        text = f"TCP_NODELAY at the {end}, or one write for each message: its last part waits for an acknowledgement"
        return saves(text, held)
    each = facts.streamed_bytes * facts.path.rtt_ns // turns_ns
    if len(facts.run.connections) == 1 and each > facts.first_window_bytes:
        # Its answers overlap already, or are large: more requests at once promise nothing.
        carried = f"it carries {units.mib_text(each)} in each round trip"
        if each > OWN_WINDOW_FACTOR * facts.first_window_bytes:
            return saves(f"{carried}: several connections at once, or a program with a larger window of its own", None)
        return saves(f"{carried}: a larger initcwnd, or several connections at once", None)
    text = f"more in flight: send requests before the last one's answer (pipelining), {IN_FLIGHT} at once"
    return saves(text, turns_ns * (1 - 1 / IN_FLIGHT))


def _larger_buffer(facts: ProgramFacts, saves: _Saves, kind: str, window_ns: int) -> ProgramAdvice:
    """The buffer that holds rate x RTT; a program whose host allows that already sets a smaller one itself."""
    end = program_time.receiver(facts, kind) if kind == RECEIVE_WINDOW else program_time.sender(facts, kind)
    share, setting = (WINDOW_SHARE, "tcp_rmem") if kind == RECEIVE_WINDOW else (IN_FLIGHT_SHARE, "tcp_wmem")
    wanted = math.ceil(facts.path.bdp_bytes / share / MIB_BYTES) * MIB_BYTES
    now = _buffer_bytes(facts, kind)
    need = f"rate x RTT is {units.mib_text(facts.path.bdp_bytes)}"
    if kind == RECEIVE_WINDOW and (window := _buffers(facts, kind).window_bytes):
        return saves(f"a window of more than {units.format_size(window)}, {need}", window_ns)
    if now >= wanted or now * share >= facts.streamed_bytes:
        option = "SO_RCVBUF" if kind == RECEIVE_WINDOW else "SO_SNDBUF"
        text = f"let the kernel size the {end}'s buffer: the program sets a smaller one ({option}), {need}"
        return saves(text, window_ns)
    if wanted > LARGEST_BUFFER_BYTES:
        count = math.ceil(wanted / LARGEST_BUFFER_BYTES)
        return saves(f"{count} connections at once with the largest buffers, {need}", window_ns)
    text = f"{setting} max of the {end} from {units.mib_text(now)} to {units.mib_text(wanted)}, {need}"
    return saves(text, window_ns)


def _faster_start(facts: ProgramFacts, saves: _Saves, grown_ns: int) -> ProgramAdvice:
    if facts.initcwnd >= LARGER_INITCWND:
        return saves("a connection that stays open, without tcp_slow_start_after_idle, keeps its window", grown_ns)
    now, then = (program_time.slow_start_wait_ns(facts, initcwnd) for initcwnd in (facts.initcwnd, LARGER_INITCWND))
    text = f"initcwnd {LARGER_INITCWND} instead of {facts.initcwnd}, or a connection that stays open"
    return saves(text, min(grown_ns, now - then))


def find(facts: ProgramFacts) -> list[Caveat]:
    """The findings of the checks of the lane, then of the program's own; empty when nothing is wrong."""
    said = ((name, look(facts), fatal) for name, fatal, look in PROGRAM_CHECKS)
    own = [Caveat(name, text, fatal) for name, text, fatal in said if text]
    return [*validity_checks.of_lane(facts.path, facts), *own]


def _least_ns(facts: ProgramFacts, run: program_runs.ProgramRun) -> int:
    """The least time for what a run carried: a handshake where it opened a connection, and the bytes on the line.

    What it was to carry counts only as far as the lane carried it.
    """
    wire = max(run.sent_bytes, run.received_bytes)
    payload = wire if facts.program.bytes is None else min(facts.program.bytes, wire)
    rtt = facts.path.rtt_ns if run.connections else 0
    burst = max(BURST_NS, 2 * (facts.path.mtu + 14) * 8 * NS // facts.path.rate_bps)
    return max(rtt, program_runs.ideal_ns(payload, facts.path.rate_bps, rtt) - burst)


def _too_fast(facts: ProgramFacts, *, uploads: bool) -> str:
    for number, run in enumerate(facts.program.runs, 1):
        least = _least_ns(facts, run)
        if uploads == (run.sent_bytes > run.received_bytes) and (
            run.completion_ns * validity_checks.CEILING_TOLERANCE < least
        ):
            took, needed = seconds_text(run.completion_ns / NS), seconds_text(least / NS)
            return f"run {number} took {took}; its handshake and its bytes on this line need {needed}"
    return ""


def _impossible(facts: ProgramFacts) -> str:
    said = _too_fast(facts, uploads=False)
    return f"{said}: the data did not pass the lane, or the lane is not as set" if said else ""


def _ended_early(facts: ProgramFacts) -> str:
    """A client may exit while its kernel still sends what it wrote."""
    said = _too_fast(facts, uploads=True)
    return f"{said}: the client ended before its data arrived, let it wait for an answer" if said else ""


def _retransmits(facts: ProgramFacts) -> str:
    run, queues = facts.run, facts.queues
    dropped = queues.drops_buffer or queues.drops_limit or queues.drops_loss
    if facts.path.loss or dropped or not facts.lost_again:
        return ""
    return f"TCP sent {run.retransmits} segments again although no packet was dropped"


def _early(facts: ProgramFacts) -> str:
    """An RTT above TCP's first timeout: RFC 6298 knows no better before the first answer."""
    again = min(facts.early_again, facts.run.retransmits - facts.run.listen_drops)
    if facts.path.loss or again <= 0:
        return ""
    why = f"its first timeout, 1 s, is shorter than {seconds_text(facts.path.rtt_ns / NS)} (RFC 6298)"
    return f"TCP sent {again} segments of handshakes again, because {why}"


def _fewer_bytes(facts: ProgramFacts) -> str:
    carried = max(facts.run.sent_bytes, facts.run.received_bytes)
    if facts.program.bytes is None or carried >= facts.program.bytes:
        return ""
    whole, part = units.mib_text(facts.program.bytes), units.mib_text(carried)
    return f"the lane carried {part} of the stated {whole}: it compresses, or the other end had the rest"


PROGRAM_CHECKS: tuple[tuple[str, bool, Callable[[ProgramFacts], str]], ...] = (
    ("impossible-time", True, _impossible),
    ("ended-early", True, _ended_early),
    ("retransmits-without-loss", True, _retransmits),
    ("fewer-bytes", False, _fewer_bytes),
    ("early-timeout", False, _early),
)
"""Name, whether fatal, and the check."""
