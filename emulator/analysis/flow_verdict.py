"""Who got what of a shared bottleneck, with its evidence, the setting that helps, and what is impossible. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emulator.analysis import flow_shares, validity_checks, verdict
from emulator.analysis.cell_judgement import CellJudgement
from emulator.analysis.flow_figures import FlowFigures, GroupFigures
from emulator.analysis.observed import LaneEvidence
from emulator.analysis.tcp_path import NS, TcpPath
from emulator.analysis.transfer import Caveat, reasons
from emulator.analysis.verdict import Verdict
from emulator.model.flow_group import Contest
from emulator.model.impairment import IN_TURN

FAIR, UNEQUAL = "fair shares", "unequal shares"
KINDS = (
    verdict.EMULATOR, FAIR, UNEQUAL, verdict.LINE, verdict.RECEIVE_WINDOW, verdict.SEND_BUFFER, verdict.LOSS,
    verdict.CPU, verdict.UNKNOWN,
)  # fmt: skip
FULL = 0.9
"""The share of the line from which on the flows fill it."""
TOLERANCE = 1.01
SHORT_ROUND_TRIPS = 50
"""Of the steady part: fewer say little about how flows share."""


class FlowEvidence(LaneEvidence, frozen=True):
    """What was observed of one cell; `rtts_ns` are the RTTs of the groups' senders."""

    contest: Contest
    figures: FlowFigures
    duration_s: int
    aqm: str
    rtts_ns: tuple[int, ...]

    @property
    def endless(self) -> list[GroupFigures]:
        """The groups that send as much as they can."""
        both = zip(self.contest.groups, self.figures.groups, strict=True)
        return [figures for group, figures in both if group.is_endless]


class FlowJudgement(CellJudgement, frozen=True, kw_only=True):
    """What decided the shares; `kind` is one of KINDS. The line's rate is in bytes a second of payload."""

    line_bytes_per_s: float


def judge(path: TcpPath, seen: FlowEvidence, caveats: tuple[Caveat, ...] = ()) -> FlowJudgement:
    """The judgement of a cell; `caveats` are how the measuring itself went."""
    limit = verdict.of_emulator(seen) or next(one for look in _LIMITERS if (one := look(path, seen)))
    own = (Caveat(name, text, fatal) for name, fatal, look in FLOW_DETECTORS for text in look(path, seen))
    found = [*validity_checks.of_lane(path, seen), *own, *caveats]
    return FlowJudgement(
        line_bytes_per_s=path.line_bytes_per_s,
        kind=limit.kind,
        limiter=limit.limiter,
        evidence=limit.evidence,
        advice=_advice(seen, limit.kind),
        invalid=reasons(found),
        findings=tuple(map(str, found)),
    )


def _shares(path: TcpPath, seen: FlowEvidence) -> Verdict | None:
    """The flows fill the line: what each group has of its fair share."""
    full = seen.figures.bytes_per_s / path.line_bytes_per_s
    if full < FULL or not seen.endless:
        return None
    if len(seen.endless) < 2:
        return Verdict(verdict.LINE, "line", f"{full:.1%} of what the line carries")
    told = ", ".join(f"{one.congestion_control} {one.fair_share or 0:.2f}" for one in seen.endless)
    text = f"of its fair share each group has: {told}; Jain's index {seen.figures.jain:.3f}"
    worst = max(abs((one.fair_share or 0) - 1) for one in seen.endless)
    if worst <= flow_shares.NEAR_FAIR:
        return Verdict(FAIR, FAIR, text)
    most = max(seen.endless, key=lambda one: one.fair_share or 0)
    return Verdict(UNEQUAL, f"{UNEQUAL} ({most.congestion_control} has more)", text)


def _windows(_: TcpPath, seen: FlowEvidence) -> Verdict | None:
    for group in sorted(seen.endless, key=lambda one: -one.sockets.busy_us):
        if group.sockets.sndbuf_share > verdict.LIMITED_SHARE:
            text = f"{group.congestion_control} waited for its send buffer {group.sockets.sndbuf_share:.0%} of the time"
            return Verdict(verdict.SEND_BUFFER, "send buffer", text)
        if group.sockets.rwnd_share > verdict.LIMITED_SHARE:
            share = f"{group.sockets.rwnd_share:.0%}"
            text = f"{group.congestion_control} waited for the receiver's window {share} of the time"
            return Verdict(verdict.RECEIVE_WINDOW, "receive window", text)
    return None


def _loss(path: TcpPath, seen: FlowEvidence) -> Verdict | None:
    again, dropped, marked = seen.figures.retransmits, seen.queues.drops_buffer, seen.machine.marked
    if marked > again:
        text = f"{marked} segments acknowledged as marked by ECN, {again} sent again"
        return Verdict(verdict.LOSS, "loss (ECN marks)", text)
    return verdict.of_loss(again, path.loss, dropped)


def _cpu(_: TcpPath, seen: FlowEvidence) -> Verdict | None:
    used = max(seen.figures.sender_cpu_percent, seen.figures.receiver_cpu_percent)
    if used < verdict.CPU_PERCENT:
        return None
    return Verdict(verdict.CPU, "CPU", f"the flow program used {used:.0f} % of a core")


def _unknown(path: TcpPath, seen: FlowEvidence) -> Verdict | None:
    share = seen.figures.bytes_per_s / path.line_bytes_per_s
    text = f"{share:.1%} of what the line carries, and no window, loss or CPU limited it"
    return Verdict(verdict.UNKNOWN, "unknown", text)


_LIMITERS: tuple[Callable[[TcpPath, FlowEvidence], Verdict | None], ...] = (
    _shares, _windows, _loss, _cpu, _unknown,
)  # fmt: skip


def _advice(seen: FlowEvidence, kind: str) -> str:
    """The setting that would make the shares fairer or the flows faster; empty when none is known."""
    if kind == UNEQUAL and seen.aqm not in IN_TURN:
        return f"a queue that serves each flow in turn (aqm: {IN_TURN[0]}) shares by flow, whatever controls them"
    if kind == verdict.RECEIVE_WINDOW:
        return "a larger receive buffer at the receiver (tcp_rmem)"
    if kind == verdict.SEND_BUFFER:
        return "a larger send buffer at the sender (tcp_wmem)"
    return ""


def _above_line(path: TcpPath, seen: FlowEvidence) -> Iterator[str]:
    possible = path.line_bytes_per_s * seen.duration_s
    if seen.figures.received_bytes > TOLERANCE * possible:
        yield f"{seen.figures.received_bytes} bytes exceed the {possible:.0f} that the line carries in that time"


def _other_control(_: TcpPath, seen: FlowEvidence) -> Iterator[str]:
    for group, figures in zip(seen.contest.groups, seen.figures.groups, strict=True):
        if figures.congestion_control not in ("", group.congestion_control):
            yield f"the kernel used {figures.congestion_control} instead of {group.congestion_control}"


def _lost(_: TcpPath, seen: FlowEvidence) -> Iterator[str]:
    for group in seen.figures.groups:
        if group.lost:
            number = "a flow" if len(group.lost) == 1 else f"{len(group.lost)} flows"
            yield f"{number} of {group.congestion_control} ended too early: {group.lost[0]}"


def _missing(_: TcpPath, seen: FlowEvidence) -> Iterator[str]:
    for group, figures in zip(seen.contest.groups, seen.figures.groups, strict=True):
        if not figures.received_bytes:
            yield f"nothing of {group.title} arrived"


def _unfinished(_: TcpPath, seen: FlowEvidence) -> Iterator[str]:
    for group in seen.figures.groups:
        if group.unfinished:
            yield f"{group.unfinished} flows of {group.congestion_control} had not ended long after the measurement"


def _below_rtt(path: TcpPath, seen: FlowEvidence) -> Iterator[str]:
    for group, figures in zip(seen.contest.groups, seen.figures.groups, strict=True):
        asked_ns, trip_ns = group.rtt_ns or path.rtt_ns, figures.least_trip_ns
        if 0 < trip_ns < asked_ns - seen.rtt_tolerance_ns:
            trip, asked = trip_ns / 1e6, asked_ns / 1e6
            yield f"a packet of {group.congestion_control} took {trip:.3f} ms, less than the RTT of {asked:.3f} ms"


def _group_rtt(_: TcpPath, seen: FlowEvidence) -> Iterator[str]:
    for group, rtt_ns in zip(seen.contest.groups, seen.rtts_ns, strict=True):
        if group.rtt_ns and (text := validity_checks.not_as_set(rtt_ns, group.rtt_ns, seen.rtt_tolerance_ns)):
            yield f"{group.title}: {text}"


def _program_cpu(path: TcpPath, seen: FlowEvidence) -> Iterator[str]:
    if found := _cpu(path, seen):
        yield f"{found.evidence}: the CPU may be the limit"


def _short(path: TcpPath, seen: FlowEvidence) -> Iterator[str]:
    steady_ns = seen.figures.until_ns - seen.figures.from_ns
    rtt_ns = seen.contest.longest_rtt_ns(path.rtt_ns)
    if steady_ns < SHORT_ROUND_TRIPS * rtt_ns:
        trips = steady_ns / rtt_ns
        yield f"the steady part has {trips:.0f} round trips ({steady_ns / NS:g} s): a longer duration would be surer"


FLOW_DETECTORS: tuple[tuple[str, bool, Callable[[TcpPath, FlowEvidence], Iterator[str]]], ...] = (
    ("above-line", True, _above_line),
    ("other-congestion-control", True, _other_control),
    ("flow-lost", True, _lost),
    ("nothing-arrived", True, _missing),
    ("below-rtt", True, _below_rtt),
    ("group-rtt", True, _group_rtt),
    ("unfinished", False, _unfinished),
    ("program-cpu", False, _program_cpu),
    ("short-steady-part", False, _short),
)
"""Name, whether fatal, and the check; beside the checks of the lane (`validity_checks.LANE_DETECTORS`)."""
