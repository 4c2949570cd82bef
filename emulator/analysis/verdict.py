"""What limited a cell, with its evidence. Pure."""

from __future__ import annotations

import math

from msgspec import Struct

from emulator import units
from emulator.analysis import tcp_path
from emulator.analysis.cell_judgement import CellJudgement
from emulator.analysis.observed import LaneEvidence, Sockets
from emulator.analysis.tcp_path import TcpPath, window_bytes_per_s
from emulator.analysis.transfer import Transfer

LINE_SHARE = 0.95
LIMITED_SHARE = 0.5
PACED_SHARE, FILLED_SHARE = 0.2, 0.85
"""A sender that paces itself (bbr) waits for a full window less often: for so much of its time, with so much of the
window in flight on average."""
GROWING_SHARE = 0.25
"""A window below this share of the receive buffer is one that autotuning still raises, while the rate rises."""
CPU_PERCENT = 95.0

LINE = "line"
RECEIVE_WINDOW = "receive window"
SEND_BUFFER = "send buffer"
CONGESTION_WINDOW = "congestion window"
SLOW_START = "slow start"
CPU = "CPU"
EMULATOR = "emulator"
LOSS = "loss"
UNKNOWN = "unknown"
KINDS = (LINE, RECEIVE_WINDOW, SEND_BUFFER, CONGESTION_WINDOW, SLOW_START, CPU, EMULATOR, UNKNOWN)


class Buffers(Struct, frozen=True):
    """The largest buffers that autotuning gives a socket at one host, in bytes (third value of tcp_rmem, tcp_wmem).

    `window_bytes` is the most that it offers, where its routes limit that.
    """

    receive_bytes: int
    send_bytes: int
    window_bytes: int | None = None


class Throughput(Struct, frozen=True):
    """Payload rates at the receiver: of the steady part, from `steady_from_s` on, of the run, and of its first 10 s.

    `settled` is false while the last half still drifts.
    """

    steady_bytes_per_s: float
    steady_from_s: float
    settled: bool
    mean_bytes_per_s: float
    first_10s_bytes_per_s: float

    @classmethod
    def of(cls, transfer: Transfer) -> Throughput:
        """The rates from the receiver's intervals. Raises ValueError without intervals."""
        steady = tcp_path.steady(transfer.intervals)
        first_10s = tcp_path.mean_until(transfer.intervals, 10)
        return cls(steady.bytes_per_s, steady.from_s, steady.settled, transfer.bytes_per_s, first_10s)


class Evidence(LaneEvidence, frozen=True):
    """The observations of the sender's kernel, the lane's queues and the tools during one cell.

    `drop_segments` is how many segments one counted drop may have held. `sockets` is None when nobody saw the streams
    at work.
    """

    transfer: Transfer
    throughput: Throughput
    sockets: Sockets | None
    drop_segments: int
    wanted_duration_s: float
    sender: Buffers
    receiver: Buffers

    @property
    def retransmits(self) -> int:
        """Segments that were sent again."""
        return self.transfer.retransmits or 0


class Judgement(CellJudgement, frozen=True, kw_only=True):
    """The judgement of a cell of streams: its prediction and what limited it; `kind` is one of KINDS.

    `laws` holds the throughput that each applicable law allows, `predicted_limit` names the smallest.
    """

    predicted_bytes_per_s: float
    predicted_mean_bytes_per_s: float
    predicted_limit: str
    laws: dict[str, float]


class Verdict(Struct, frozen=True):
    """The limiter as one of KINDS and as a short text, and the evidence as one sentence."""

    kind: str
    limiter: str
    evidence: str


def judge(path: TcpPath, seen: Evidence) -> Verdict:
    """Decide which of KINDS limited the streams."""
    of_line = seen.throughput.steady_bytes_per_s / path.line_bytes_per_s
    if of_line >= LINE_SHARE:
        return Verdict(LINE, LINE, f"{of_line:.1%} of what the line carries")
    return of_emulator(seen) or _windows(path, seen) or _congestion(path, seen) or _rest(seen, of_line)


def fills_window(seen: Evidence) -> bool:
    """Whether the receiver's window held the streams back, and not only while it grew."""
    sockets = seen.sockets
    if sockets is None:
        return False
    growing = not seen.throughput.settled and sockets.peer_window_bytes < GROWING_SHARE * seen.receiver.receive_bytes
    filled = sockets.in_flight_bytes >= FILLED_SHARE * sockets.peer_window_bytes
    return not growing and sockets.rwnd_share > (PACED_SHARE if filled else LIMITED_SHARE)


def fills_send_buffer(sockets: Sockets) -> bool:
    """Whether the senders' own buffers held the streams back: what is in flight is then always about the same."""
    even = sockets.in_flight_bytes >= FILLED_SHARE * sockets.most_in_flight_bytes
    return sockets.sndbuf_share > (PACED_SHARE if even else LIMITED_SHARE)


def busy(seen: Evidence) -> str:
    """Which CPU was at its limit, as a clause; empty when none was. A workload's thread uses at most one core."""
    used = seen.transfer.cpu_percent
    if used >= CPU_PERCENT * seen.transfer.threads:
        return f"{seen.transfer.program} used {used:.0f} % of a core"
    if seen.machine.core_percent >= CPU_PERCENT:
        return f"a core was busy for {seen.machine.core_percent:.0f} % of the time"
    return ""


def of_emulator(seen: LaneEvidence) -> Verdict | None:
    """The emulator itself, when it dropped packets or TCP lacked memory; else None."""
    if seen.queues.drops_limit:
        return Verdict(EMULATOR, "emulator (limit)", f"its own queue dropped {seen.queues.drops_limit} packets")
    if seen.lacked_memory:
        times = f"{seen.machine.memory_pressures} times" if seen.machine.memory_pressures else "before it began"
        return Verdict(EMULATOR, "emulator (memory)", f"TCP ran short of tcp_mem {times}")
    return None


def of_loss(again: int, loss: float, dropped: int) -> Verdict | None:
    """Loss, when segments were sent again on a lane that has loss or whose buffer dropped packets; else None."""
    if not again or not (loss or dropped):
        return None
    why = f"at a loss of {loss:.4%}" if loss else f"of {dropped} packets dropped by the full buffer"
    return Verdict(LOSS, LOSS if loss else "loss (buffer drops)", f"{again} segments sent again {why}")


def _windows(path: TcpPath, seen: Evidence) -> Verdict | None:
    if seen.sockets is None:
        return None
    if fills_send_buffer(seen.sockets) and seen.sockets.sndbuf_share >= seen.sockets.rwnd_share:
        if of_cpu := _behind_the_window(path, seen, seen.sockets.in_flight_bytes):
            return of_cpu
        text = f"the sender waited for its own buffer {seen.sockets.sndbuf_share:.0%} of the time"
        if seen.sockets.sndbuf_share <= LIMITED_SHARE:
            text += f" and never had more than {units.mib_text(seen.sockets.most_in_flight_bytes)} in flight"
        return Verdict(SEND_BUFFER, f"send buffer, {units.mib_text(seen.sockets.in_flight_bytes)} in flight", text)
    if fills_window(seen):
        if of_cpu := _behind_the_window(path, seen, seen.sockets.peer_window_bytes):
            return of_cpu
        text = f"the sender waited for the receiver's window {seen.sockets.rwnd_share:.0%} of the time"
        if seen.sockets.rwnd_share <= LIMITED_SHARE:
            text += f" and had {seen.sockets.in_flight_bytes / seen.sockets.peer_window_bytes:.0%} of it in flight"
        return Verdict(RECEIVE_WINDOW, f"receive window {units.mib_text(seen.sockets.peer_window_bytes)}", text)
    return None


def _behind_the_window(path: TcpPath, seen: Evidence, window_bytes: int) -> Verdict | None:
    """A busy CPU drains the window slowly, so the window is full: at the idle path's RTT it would carry far more."""
    carries = path.streams * window_bytes_per_s(window_bytes, seen.rtt_before_ns)
    reason = busy(seen)
    if not reason or seen.throughput.steady_bytes_per_s > LIMITED_SHARE * carries:
        return None
    if math.isinf(carries):
        return Verdict(CPU, CPU, f"{reason}, which filled the window; at an RTT of 0 no window is too small")
    could = f"the window could carry {units.throughput_text(carries)}"
    return Verdict(CPU, CPU, f"{reason}, which filled the window; {could}")


def _congestion(path: TcpPath, seen: Evidence) -> Verdict | None:
    if seen.machine.marked > seen.retransmits:
        text = f"{seen.machine.marked} segments acknowledged as marked by ECN, {seen.retransmits} retransmitted"
        return Verdict(CONGESTION_WINDOW, "congestion window (ECN marks)", text)
    if path.loss:
        text = f"{seen.retransmits} segments retransmitted at a loss of {path.loss:.4%}"
        return Verdict(CONGESTION_WINDOW, "congestion window (loss)", text)
    if seen.queues.drops_buffer:
        dropped = seen.queues.drops_buffer
        text = f"{dropped} packets dropped by the full bottleneck buffer, {seen.retransmits} retransmitted"
        return Verdict(CONGESTION_WINDOW, "congestion window (buffer drops)", text)
    return None


def _rest(seen: Evidence, of_line: float) -> Verdict:
    if reason := busy(seen):
        return Verdict(CPU, CPU, reason)
    if not seen.throughput.settled:
        return Verdict(SLOW_START, SLOW_START, "the rate was still rising when the run ended")
    if seen.sockets is None:
        return Verdict(UNKNOWN, UNKNOWN, f"{of_line:.1%} of the line, and the streams' windows were not seen")
    return Verdict(UNKNOWN, UNKNOWN, f"no window, buffer or line limited it: {of_line:.1%} of the line")
