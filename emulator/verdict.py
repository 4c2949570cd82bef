"""What limited a cell, with the evidence, and whether its number may be believed at all. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.analysis import Path, window_bytes_per_s

MIB = 2**20
LINE_SHARE = 0.95
LIMITED_SHARE = 0.5
CEILING_TOLERANCE = 1.01


@dataclass(frozen=True)
class Evidence:
    """What the sender's kernel, the lane's queues and ping saw during one cell.

    Shares are of the streams' busy time over the steady part; windows are of one stream: what the peer offers, and
    what was unacknowledged in the mean and at most. `drops_limit` None means the kernel cannot tell.
    """

    steady_bytes_per_s: float
    settled: bool
    rwnd_share: float
    sndbuf_share: float
    peer_window_bytes: int
    in_flight_bytes: int
    most_in_flight_bytes: int
    retransmits: int
    drops_limit: int | None
    drops_buffer: int
    memory_pressures: int
    rtt_before_ns: int
    rtt_tolerance_ns: int


@dataclass(frozen=True)
class Verdict:
    """The limiter in a word or two, and the evidence as one sentence."""

    limiter: str
    evidence: str


def judge(path: Path, seen: Evidence) -> Verdict:
    """Which of line, receive window, send buffer, loss or congestion control held the streams back."""
    of_line = seen.steady_bytes_per_s / path.line_bytes_per_s
    if of_line >= LINE_SHARE:
        return Verdict("line", f"{of_line:.1%} of what the line carries")
    if seen.sndbuf_share > LIMITED_SHARE and seen.sndbuf_share >= seen.rwnd_share:
        text = f"the sender waited for its own buffer {seen.sndbuf_share:.0%} of the time"
        return Verdict(f"send buffer, {_mib(seen.in_flight_bytes)} in flight", text)
    if seen.rwnd_share > LIMITED_SHARE:
        text = f"the sender waited for the receiver's window {seen.rwnd_share:.0%} of the time"
        return Verdict(f"receive window {_mib(seen.peer_window_bytes)}", text)
    if path.loss:
        return Verdict("loss", f"{seen.retransmits} segments sent again at a loss of {path.loss:.4%}")
    if seen.drops_buffer:
        text = f"{seen.drops_buffer} packets dropped by the full bottleneck buffer, {seen.retransmits} sent again"
        return Verdict("buffer drops", text)
    if not seen.settled:
        return Verdict("slow start", "the rate was still rising when the run ended")
    return Verdict("congestion window", f"neither window nor buffer nor line: {of_line:.1%} of the line")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.3g} MiB"


def invalid_reasons(path: Path, seen: Evidence) -> list[str]:
    """Why the number must not be believed; empty when nothing speaks against it."""
    reasons = []
    if seen.drops_limit:
        reasons.append(f"the emulator's own queue dropped {seen.drops_limit} packets (limit)")
    if seen.memory_pressures:
        reasons.append(f"TCP ran into memory pressure {seen.memory_pressures} times: raise tcp_mem")
    ceiling = min(path.line_bytes_per_s, _window_ceiling(path, seen))
    if seen.steady_bytes_per_s > CEILING_TOLERANCE * ceiling:
        reasons.append(f"{seen.steady_bytes_per_s / MIB:.1f} MiB/s is more than the possible {ceiling / MIB:.1f} MiB/s")
    if abs(seen.rtt_before_ns - path.rtt_ns) > seen.rtt_tolerance_ns:
        reasons.append(f"the RTT was {seen.rtt_before_ns / 1e6:.3f} ms where {path.rtt_ns / 1e6:.3f} ms was asked for")
    lossless = not path.loss and not seen.drops_buffer and not seen.drops_limit
    if seen.retransmits and lossless:
        reasons.append(f"{seen.retransmits} segments were sent again although nothing was dropped")
    return reasons


def _window_ceiling(path: Path, seen: Evidence) -> float:
    most = max(seen.peer_window_bytes, seen.most_in_flight_bytes)
    return path.streams * window_bytes_per_s(most, path.rtt_ns)
