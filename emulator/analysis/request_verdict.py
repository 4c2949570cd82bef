"""What limited the requests of a cell, with its evidence, the setting that helps, and what is impossible. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from emulator import units
from emulator.analysis import request_figures, tcp_path, validity_checks, verdict
from emulator.analysis.observed import MachineUse, Queues
from emulator.analysis.request_figures import RequestFigures
from emulator.analysis.tcp_path import NS, TcpPath
from emulator.analysis.transfer import Caveat
from emulator.model.request_load import RequestLoad

ROUND_TRIPS, OFFERED, LOSS, TIMES = "round trips", "offered rate", "loss", "time of each request"
KINDS = (
    verdict.EMULATOR, verdict.LINE, OFFERED, ROUND_TRIPS, verdict.RECEIVE_WINDOW, verdict.SEND_BUFFER, LOSS,
    verdict.CPU, verdict.SLOW_START, verdict.UNKNOWN,
)  # fmt: skip
REACHED = 0.95
"""The share of a ceiling from which on it is what limits."""
OFFERED_REACHED = 0.99
TOLERANCE = 1.01
OWN_SHARE = 0.05
"""The share of a request's time that the program's own overhead may be, unmentioned."""
FEW = 10
"""Requests a place: fewer say little about a steady state."""


@dataclass(frozen=True)
class RequestEvidence:
    """What was observed of one cell; `rtt_before_ns` is the idle lane's, and the fields are those of `LaneEvidence`."""

    load: RequestLoad
    figures: RequestFigures
    queues: Queues
    machine: MachineUse
    memory_short: bool
    rtt_before_ns: int
    rtt_tolerance_ns: int
    cached_metrics: int
    drift: tuple[str, ...]
    initcwnd: int = tcp_path.INITCWND_SEGMENTS

    @property
    def per_s(self) -> float:
        """Answered requests a second."""
        return self.figures.per_s(self.load)


@dataclass(frozen=True)
class RequestJudgement:
    """The ceilings (requests a second, infinite where there is none), what limited, what helps, and the validity.

    `kind` is one of KINDS. `invalid` are the reasons against the figures; `findings` are those of all checks.
    """

    round_trips_per_s: float | None
    line_per_s: float
    kind: str
    limiter: str
    evidence: str
    advice: str
    invalid: tuple[str, ...]
    findings: tuple[str, ...]


def judge(path: TcpPath, seen: RequestEvidence, caveats: tuple[Caveat, ...] = ()) -> RequestJudgement:
    """The judgement of a cell; `caveats` are how the measuring itself went."""
    kind, limiter, evidence = _limiter(path, seen)
    found = [*validity_checks.of_lane(path, seen), *_own(path, seen), *caveats]
    round_trips = request_figures.round_trip_ceiling(seen.load, path.rtt_ns)
    return RequestJudgement(
        round_trips_per_s=round_trips if math.isfinite(round_trips) else None,
        line_per_s=request_figures.line_ceiling(seen.load, path),
        kind=kind,
        limiter=limiter,
        evidence=evidence,
        advice=_advice(path, seen, kind),
        invalid=tuple(finding.text for finding in found if finding.fatal),
        findings=tuple(f"{finding.check}: {finding.text}" for finding in found),
    )


def _limiter(path: TcpPath, seen: RequestEvidence) -> tuple[str, str, str]:
    """The kind, the limiter in a few words, and the evidence."""
    return next(found for found in (look(path, seen) for look in _LIMITERS) if found)


Found = tuple[str, str, str] | None


def _emulator(_: TcpPath, seen: RequestEvidence) -> Found:
    if seen.queues.drops_limit:
        dropped = f"its own queue dropped {seen.queues.drops_limit} packets"
        return verdict.EMULATOR, "emulator (limit)", dropped
    if seen.machine.memory_pressures or seen.memory_short:
        return verdict.EMULATOR, "emulator (memory)", "TCP ran short of tcp_mem"
    return None


def _line(path: TcpPath, seen: RequestEvidence) -> Found:
    share = seen.per_s / request_figures.line_ceiling(seen.load, path)
    return (verdict.LINE, "line", f"{share:.1%} of what the line carries") if share >= REACHED else None


def _offered(_: TcpPath, seen: RequestEvidence) -> Found:
    offered = seen.load.offered_per_s
    if offered is None or seen.figures.overloaded or seen.per_s < OFFERED_REACHED * offered:
        return None
    held = f"{seen.figures.held} of {seen.figures.answered} requests waited for a free place"
    return OFFERED, "offered rate", f"every request was answered; {held}"


def _round_trips(path: TcpPath, seen: RequestEvidence) -> Found:
    ceiling = request_figures.round_trip_ceiling(seen.load, path.rtt_ns)
    if seen.per_s < REACHED * ceiling:
        return None
    load = seen.load
    cycle = "round trip" if not load.think_ns else "round trip and think time"
    text = f"{seen.per_s / ceiling:.1%} of {load.connections} x {load.in_flight} requests each {cycle}"
    return ROUND_TRIPS, "round trips", text


def _windows(_: TcpPath, seen: RequestEvidence) -> Found:
    sender = max(seen.figures.client, seen.figures.server, key=lambda end: end.rwnd_limited_us + end.sndbuf_limited_us)
    if sender.sndbuf_share > verdict.LIMITED_SHARE and sender.sndbuf_share >= sender.rwnd_share:
        text = f"the sender waited for its own buffer {sender.sndbuf_share:.0%} of the time"
        return verdict.SEND_BUFFER, "send buffer", text
    if sender.rwnd_share > verdict.LIMITED_SHARE:
        text = f"the sender waited for the receiver's window {sender.rwnd_share:.0%} of the time"
        return verdict.RECEIVE_WINDOW, "receive window", text
    return None


def _loss(path: TcpPath, seen: RequestEvidence) -> Found:
    again, dropped = seen.figures.retransmits, seen.queues.drops_buffer
    if not again or not (path.loss or dropped):
        return None
    why = f"at a loss of {path.loss:.4%}" if path.loss else f"of {dropped} packets dropped by the full buffer"
    return LOSS, "loss" if path.loss else "loss (buffer drops)", f"{again} segments sent again {why}"


def _cpu(_: TcpPath, seen: RequestEvidence) -> Found:
    used = max(seen.figures.client_cpu_percent, seen.figures.server_cpu_percent)
    return (verdict.CPU, "CPU", f"the request program used {used:.0f} % of a core") if _busy(seen) else None


def _busy(seen: RequestEvidence) -> bool:
    return max(seen.figures.client_cpu_percent, seen.figures.server_cpu_percent) >= verdict.CPU_PERCENT


def _slow_start(path: TcpPath, seen: RequestEvidence) -> Found:
    extra_ns = seen.figures.service.mean_ns - request_figures.ideal_ns(seen.load, path)
    larger = max(seen.load.request_bytes, seen.load.answer_bytes)
    if larger <= seen.initcwnd * tcp_path.mss_bytes(path.mtu) or extra_ns < path.rtt_ns / 10:
        return None
    trips = extra_ns / path.rtt_ns if path.rtt_ns else 0
    text = f"a request took {trips:.1f} round trips longer than the lane needs, while its window grew"
    return verdict.SLOW_START, "slow start", text


def _unknown(path: TcpPath, seen: RequestEvidence) -> Found:
    share = seen.per_s / request_figures.ceiling(seen.load, path)
    return verdict.UNKNOWN, "unknown", f"no ceiling, window, loss or CPU limited it: {share:.1%} of the lowest ceiling"


_LIMITERS: tuple[Callable[[TcpPath, RequestEvidence], Found], ...] = (
    _emulator, _line, _offered, _round_trips, _windows, _loss, _cpu, _slow_start, _unknown,
)  # fmt: skip


def _advice(path: TcpPath, seen: RequestEvidence, kind: str) -> str:
    """The setting that would raise the rate or shorten the requests; empty when none would."""
    load = seen.load
    if kind == ROUND_TRIPS and not load.is_open:
        cycle_ns = path.rtt_ns + load.think_ns
        full = math.ceil(request_figures.line_ceiling(load, path) * cycle_ns / NS)
        return f"more in flight: the rate grows with connections x in flight until about {full} fill the line"
    if kind == ROUND_TRIPS:
        needed = math.ceil((load.offered_per_s or 0) * path.rtt_ns / NS)
        return f"more in flight: this offered rate needs connections x in flight of at least {needed}"
    if kind == verdict.SLOW_START:
        return "keep connections open and busy, or a larger initial window (initcwnd): each answer pays for its growth"
    if kind == verdict.RECEIVE_WINDOW:
        return "a larger receive buffer at the end that waits for data (tcp_rmem)"
    if kind == verdict.SEND_BUFFER:
        return "a larger send buffer at the end that sends (tcp_wmem)"
    return ""


def _own(path: TcpPath, seen: RequestEvidence) -> Iterator[Caveat]:
    for name, fatal, look in REQUEST_DETECTORS:
        if text := look(path, seen):
            yield Caveat(name, text, fatal)


def _least_rtt_ns(path: TcpPath, seen: RequestEvidence) -> int:
    return max(0, path.rtt_ns - seen.rtt_tolerance_ns)


def _above_ceiling(path: TcpPath, seen: RequestEvidence) -> str:
    """Each place answers one request a round trip, so this bound holds for every count, however short the run."""
    least_ns, elapsed_ns = _least_rtt_ns(path, seen), seen.figures.elapsed_ns
    possible = seen.load.places * elapsed_ns / least_ns if least_ns else math.inf
    if seen.figures.answered <= possible:
        return ""
    return (
        f"{seen.figures.answered} answers in {elapsed_ns / NS:.3f} s are more than {seen.load.connections} connections "
        f"x {seen.load.in_flight} in flight / RTT allow: {possible:.0f}"
    )


def _below_rtt(path: TcpPath, seen: RequestEvidence) -> str:
    least_ns = seen.figures.service.min_ns
    if not seen.figures.answered or least_ns >= _least_rtt_ns(path, seen):
        return ""
    return f"a request took {least_ns / 1e6:.3f} ms, less than the RTT of {path.rtt_ns / 1e6:.3f} ms"


def _above_line(path: TcpPath, seen: RequestEvidence) -> str:
    load = seen.load
    carried = seen.figures.answered * max(load.request_bytes, load.answer_bytes) * NS / max(1, seen.figures.elapsed_ns)
    if carried <= TOLERANCE * path.line_bytes_per_s:
        return ""
    found, possible = map(units.throughput_text, (carried, path.line_bytes_per_s))
    return f"{found} of messages exceed the possible {possible}"


def _unanswered(_: TcpPath, seen: RequestEvidence) -> str:
    left = seen.figures.unanswered
    if not left:
        return ""
    return f"{left} requests were not answered in time; they count with the time that they had waited"


def _overload(_: TcpPath, seen: RequestEvidence) -> str:
    if not seen.figures.overloaded:
        return ""
    return (
        f"{seen.figures.held} requests waited for a free place, the last one too: {seen.load.offered_per_s:g} a second "
        f"are more than {seen.per_s:.4g}, and the times grow with the duration"
    )


def _overhead(_: TcpPath, seen: RequestEvidence) -> str:
    own_ns, median_ns = seen.figures.overhead_ns, seen.figures.service.p50_ns
    if own_ns <= OWN_SHARE * median_ns:
        return ""
    return f"the request program itself takes {own_ns / 1000:.0f} us of the median {median_ns / 1000:.0f} us"


def _late(_: TcpPath, seen: RequestEvidence) -> str:
    late_ns, median_ns = seen.figures.late.p99_ns, seen.figures.times.p50_ns
    if late_ns <= OWN_SHARE * median_ns:
        return ""
    return f"the client itself began requests up to {late_ns / 1000:.0f} us late (p99)"


def _program_cpu(path: TcpPath, seen: RequestEvidence) -> str:
    found = _cpu(path, seen)
    return f"{found[2]}: the CPU may be the limit" if found else ""


def _few(_: TcpPath, seen: RequestEvidence) -> str:
    each = seen.figures.answered / seen.load.places
    if each >= FEW:
        return ""
    return f"only {each:.1f} requests at each place: a longer duration would show the steady state"


REQUEST_DETECTORS: tuple[tuple[str, bool, Callable[[TcpPath, RequestEvidence], str]], ...] = (
    ("above-ceiling", True, _above_ceiling),
    ("below-rtt", True, _below_rtt),
    ("above-line", True, _above_line),
    ("unanswered", False, _unanswered),
    ("overload", False, _overload),
    ("program-overhead", False, _overhead),
    ("late-client", False, _late),
    ("program-cpu", False, _program_cpu),
    ("few-requests", False, _few),
)
"""Name, whether fatal, and the check; beside the checks of the lane (`validity_checks.LANE_DETECTORS`)."""
