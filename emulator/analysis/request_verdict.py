"""What limited the requests of a cell, with its evidence, the setting that helps, and what is impossible. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from emulator.analysis import request_figures, tcp_path, validity_checks, verdict
from emulator.analysis.cell_judgement import CellJudgement
from emulator.analysis.observed import LaneEvidence
from emulator.analysis.request_figures import RequestFigures, RequestPaths
from emulator.analysis.tcp_path import NS
from emulator.analysis.transfer import Caveat, reasons
from emulator.analysis.verdict import Verdict
from emulator.model.request_load import RequestLoad

ROUND_TRIPS, OFFERED, TIMES = "round trips", "offered rate", "time of each request"
KINDS = (
    verdict.EMULATOR, verdict.LINE, OFFERED, ROUND_TRIPS, verdict.RECEIVE_WINDOW, verdict.SEND_BUFFER, verdict.LOSS,
    verdict.CPU, verdict.SLOW_START, verdict.UNKNOWN,
)  # fmt: skip
REACHED = 0.9
"""The share of a ceiling from which on it is what limits: the first requests wait for the growth of the window."""
OFFERED_REACHED = 0.99
TOLERANCE = 1.01
OWN_SHARE = 0.05
"""The share of a request's time that the program's own overhead may be, unmentioned."""


class RequestEvidence(LaneEvidence, frozen=True):
    """What was observed of one cell."""

    load: RequestLoad
    figures: RequestFigures
    initcwnd: int = tcp_path.INITCWND_SEGMENTS

    @property
    def per_s(self) -> float:
        """Answered requests a second."""
        return self.figures.per_s(self.load)


class RequestJudgement(CellJudgement, frozen=True, kw_only=True):
    """What limited the requests; `kind` is one of KINDS. The ceilings are in requests a second, infinite where there is
    none."""

    round_trips_per_s: float | None
    line_per_s: float


def judge(paths: RequestPaths, seen: RequestEvidence, caveats: tuple[Caveat, ...] = ()) -> RequestJudgement:
    """The judgement of a cell; `caveats` are how the measuring itself went."""
    limit = verdict.of_emulator(seen) or next(one for look in _LIMITERS if (one := look(paths, seen)))
    found = [*validity_checks.of_lane(paths.lane, seen), *_own(paths, seen), *caveats]
    round_trips = request_figures.round_trip_ceiling(seen.load, paths.rtt_ns)
    return RequestJudgement(
        round_trips_per_s=round_trips if math.isfinite(round_trips) else None,
        line_per_s=request_figures.line_ceiling(seen.load, paths),
        kind=limit.kind,
        limiter=limit.limiter,
        evidence=limit.evidence,
        advice=_advice(paths, seen, limit.kind),
        invalid=reasons(found),
        findings=tuple(map(str, found)),
    )


def _line(paths: RequestPaths, seen: RequestEvidence) -> Verdict | None:
    share = seen.per_s / request_figures.line_ceiling(seen.load, paths)
    return Verdict(verdict.LINE, "line", f"{share:.1%} of what the line carries") if share >= REACHED else None


def _offered(_: RequestPaths, seen: RequestEvidence) -> Verdict | None:
    offered = seen.load.offered_per_s
    if offered is None or seen.figures.overloaded or seen.per_s < OFFERED_REACHED * offered:
        return None
    held = f"{seen.figures.held} of {seen.figures.answered} requests waited for a free place"
    return Verdict(OFFERED, "offered rate", f"every request was answered; {held}")


def _round_trips(paths: RequestPaths, seen: RequestEvidence) -> Verdict | None:
    load, ceiling = seen.load, request_figures.round_trip_ceiling(seen.load, paths.rtt_ns)
    possible = load.places * NS / (request_figures.ideal_ns(load, paths) + load.think_ns)
    if math.isinf(ceiling) or seen.per_s < REACHED * possible:
        return None
    cycle = "round trip" if not load.think_ns else "round trip and think time"
    text = f"{seen.per_s / ceiling:.1%} of {load.connections} x {load.in_flight} requests each {cycle}"
    return Verdict(ROUND_TRIPS, "round trips", text)


def _windows(_: RequestPaths, seen: RequestEvidence) -> Verdict | None:
    sender = max(seen.figures.client, seen.figures.server, key=lambda end: end.rwnd_limited_us + end.sndbuf_limited_us)
    if sender.sndbuf_share > verdict.LIMITED_SHARE and sender.sndbuf_share >= sender.rwnd_share:
        text = f"the sender waited for its own buffer {sender.sndbuf_share:.0%} of the time"
        return Verdict(verdict.SEND_BUFFER, "send buffer", text)
    if sender.rwnd_share > verdict.LIMITED_SHARE:
        text = f"the sender waited for the receiver's window {sender.rwnd_share:.0%} of the time"
        return Verdict(verdict.RECEIVE_WINDOW, "receive window", text)
    return None


def _loss(paths: RequestPaths, seen: RequestEvidence) -> Verdict | None:
    return verdict.of_loss(seen.figures.retransmits, paths.lane.loss, seen.queues.drops_buffer)


def _cpu(_: RequestPaths, seen: RequestEvidence) -> Verdict | None:
    used = max(seen.figures.client_cpu_percent, seen.figures.server_cpu_percent)
    return Verdict(verdict.CPU, "CPU", f"the request program used {used:.0f} % of a core") if _busy(seen) else None


def _busy(seen: RequestEvidence) -> bool:
    return max(seen.figures.client_cpu_percent, seen.figures.server_cpu_percent) >= verdict.CPU_PERCENT


def _slow_start(paths: RequestPaths, seen: RequestEvidence) -> Verdict | None:
    extra_ns = seen.figures.service.mean_ns - request_figures.ideal_ns(seen.load, paths)
    larger = max(seen.load.request_bytes, seen.load.answer_bytes)
    if larger <= seen.initcwnd * tcp_path.mss_bytes(paths.lane.mtu) or extra_ns < paths.rtt_ns / 10:
        return None
    trips = extra_ns / paths.rtt_ns if paths.rtt_ns else 0
    text = f"a request took {trips:.1f} round trips longer than the lane needs"
    if paths.there.congestion_control.startswith("bbr"):
        text = f"{text}: bbr paces it at the rate that it has seen so far"
        return Verdict(verdict.SLOW_START, "slow start (pacing)", text)
    return Verdict(verdict.SLOW_START, "slow start", f"{text}, while its window grew")


def _unknown(paths: RequestPaths, seen: RequestEvidence) -> Verdict | None:
    share = seen.per_s / request_figures.ceiling(seen.load, paths)
    text = f"no ceiling, window, loss or CPU limited it: {share:.1%} of the lowest ceiling"
    return Verdict(verdict.UNKNOWN, "unknown", text)


_LIMITERS: tuple[Callable[[RequestPaths, RequestEvidence], Verdict | None], ...] = (
    _line, _offered, _round_trips, _windows, _loss, _cpu, _slow_start, _unknown,
)  # fmt: skip


def _advice(paths: RequestPaths, seen: RequestEvidence, kind: str) -> str:
    """The setting that would raise the rate or shorten the requests; empty when none would."""
    load = seen.load
    if kind == ROUND_TRIPS and not load.is_open:
        cycle_ns = paths.rtt_ns + load.think_ns
        full = math.ceil(request_figures.line_ceiling(load, paths) * cycle_ns / NS)
        return f"more in flight: the rate grows with connections x in flight until about {full} fill the line"
    if kind == ROUND_TRIPS:
        each_ns = max(request_figures.ideal_ns(load, paths), seen.figures.service.mean_ns)
        needed = max(load.places + 1, math.ceil((load.offered_per_s or 0) * each_ns / NS))
        return f"more in flight: this offered rate needs connections x in flight of at least {needed}"
    if kind == verdict.SLOW_START:
        return "keep connections open and busy, or a larger initial window (initcwnd): each answer pays for its growth"
    if kind == verdict.RECEIVE_WINDOW:
        return "a larger receive buffer at the end that waits for data (tcp_rmem)"
    if kind == verdict.SEND_BUFFER:
        return "a larger send buffer at the end that sends (tcp_wmem)"
    return ""


def _own(paths: RequestPaths, seen: RequestEvidence) -> Iterator[Caveat]:
    for name, fatal, look in REQUEST_DETECTORS:
        if text := look(paths, seen):
            yield Caveat(name, text, fatal)


def _least_rtt_ns(paths: RequestPaths, seen: RequestEvidence) -> int:
    return max(0, paths.rtt_ns - seen.rtt_tolerance_ns)


def _above_ceiling(paths: RequestPaths, seen: RequestEvidence) -> str:
    """Each place answers one request a round trip and thinks between two, so this bound holds for every count, however
    short the run."""
    think_ns, elapsed_ns = seen.load.think_ns, seen.figures.elapsed_ns
    cycle_ns = _least_rtt_ns(paths, seen) + think_ns
    possible = seen.load.places * (elapsed_ns + think_ns) / cycle_ns if cycle_ns else math.inf
    if seen.figures.answered <= possible:
        return ""
    return (
        f"{seen.figures.answered} answers in {elapsed_ns / NS:.3f} s are more than {seen.load.connections} connections "
        f"x {seen.load.in_flight} in flight / RTT allow: {possible:.0f}"
    )


def _below_rtt(paths: RequestPaths, seen: RequestEvidence) -> str:
    least_ns = seen.figures.service.min_ns
    if not seen.figures.answered or least_ns >= _least_rtt_ns(paths, seen):
        return ""
    return f"a request took {least_ns / 1e6:.3f} ms, less than the RTT of {paths.rtt_ns / 1e6:.3f} ms"


def _above_line(paths: RequestPaths, seen: RequestEvidence) -> str:
    ceiling = request_figures.line_ceiling(seen.load, paths, request_figures.LEAST_HEADER_BYTES)
    possible = ceiling * seen.figures.elapsed_ns / NS
    if seen.figures.answered <= TOLERANCE * possible:
        return ""
    return f"{seen.figures.answered} requests exceed the {possible:.0f} that the line carries in that time"


def _unanswered(_: RequestPaths, seen: RequestEvidence) -> str:
    left = seen.figures.unanswered
    if not left:
        return ""
    return f"{left} requests were not answered in time; they count with the time that they had waited"


def _overload(_: RequestPaths, seen: RequestEvidence) -> str:
    if not seen.figures.overloaded:
        return ""
    return (
        f"{seen.figures.held} requests waited for a free place, the last one too: {seen.load.offered_per_s:g} a second "
        f"are more than {seen.per_s:.4g}, and the times grow with the duration"
    )


def _overhead(_: RequestPaths, seen: RequestEvidence) -> str:
    own_ns, median_ns = seen.figures.overhead_ns, seen.figures.service.p50_ns
    if own_ns <= OWN_SHARE * median_ns:
        return ""
    return f"the request program itself takes {own_ns / 1000:.0f} us of the median {median_ns / 1000:.0f} us"


def _late(_: RequestPaths, seen: RequestEvidence) -> str:
    late_ns, median_ns = seen.figures.late.p99_ns, seen.figures.times.p50_ns
    if late_ns <= OWN_SHARE * median_ns:
        return ""
    return f"the client itself began requests up to {late_ns / 1000:.0f} us late (p99)"


def _program_cpu(paths: RequestPaths, seen: RequestEvidence) -> str:
    found = _cpu(paths, seen)
    return f"{found.evidence}: the CPU may be the limit" if found else ""


def _few(_: RequestPaths, seen: RequestEvidence) -> str:
    each = seen.figures.answered / seen.load.places
    if each >= request_figures.FEW:
        return ""
    return f"only {each:.1f} requests at each place: a longer duration would show the steady state"


REQUEST_DETECTORS: tuple[tuple[str, bool, Callable[[RequestPaths, RequestEvidence], str]], ...] = (
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
