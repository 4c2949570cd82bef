"""The one setting that raises a cell's throughput most, and by how much; and the settings that a path needs. Pure."""

from __future__ import annotations

import math

from msgspec import Struct

from emulator import units
from emulator.analysis import tcp_path, verdict
from emulator.analysis.tcp_path import NS, TcpPath
from emulator.analysis.throughput_models import CUBIC, MATHIS, Prediction, Windows
from emulator.analysis.verdict import Buffers, Evidence, Verdict
from emulator.model.tcp_profile import LARGEST_BUFFER_BYTES
from emulator.units import KIB_BYTES, MIB_BYTES

WINDOW_SHARE = 0.75
"""The share of a receive buffer that the kernel offers as window in the long run (half before Linux 6.6)."""
IN_FLIGHT_SHARE = 2 / 3
"""The least share in flight of a full send buffer: its writer sleeps until a third of it is free.

How much more is in flight differs from one size of the buffer to the next."""
GROWN_FACTOR = 2
"""The kernel enlarges a receive buffer until its window is so many times what arrived in a round trip."""

PACING_BURST_NS = 1_000_000
"""What a sender that paces itself (bbr) sends at once, as a time at its rate (sk_pacing_shift, net/core/sock.c).

A smaller buffer drops a part of each burst."""


class Advice(Struct, frozen=True):
    """A setting, its present and its recommended value, and the resulting throughput, which the law `then` limits."""

    setting: str
    now: str
    wanted: str
    bytes_per_s: float
    then: str

    def __str__(self) -> str:
        throughput = units.throughput_text(self.bytes_per_s)
        return f"{self.setting} from {self.now} to {self.wanted}: {throughput}, then {self.then}"


def windows(sender: Buffers, receiver: Buffers) -> Windows:
    """What the hosts' settings let one stream have in flight."""
    window = int(receiver.receive_bytes * WINDOW_SHARE) if receiver.window_bytes is None else receiver.window_bytes
    return Windows(window, int(sender.send_bytes * IN_FLIGHT_SHARE))


def measured_windows(seen: Evidence) -> Windows:
    """The same, with the measured value at the end that was found to limit, and the window that has grown to its most.

    Where TCP is short of memory the measured values are what that left of them.
    """
    allowed = windows(seen.sender, seen.receiver)
    if seen.sockets is None or seen.lacked_memory:
        return allowed
    receive, send = allowed.receive_bytes, allowed.send_bytes
    assert receive is not None
    assert send is not None
    if verdict.fills_window(seen) or GROWN_FACTOR * seen.sockets.most_in_flight_bytes >= receive:
        receive = seen.sockets.peer_window_bytes
    if verdict.fills_send_buffer(seen.sockets):
        send = seen.sockets.in_flight_bytes
    return Windows(max(receive, seen.sockets.peer_window_bytes), max(send, seen.sockets.in_flight_bytes))


def advise(path: TcpPath, seen: Evidence, found: Verdict, prediction: Prediction) -> Advice | None:
    """What raises the cell's throughput most; None where no host setting does (line full, or cause unknown)."""
    match found.kind:
        case verdict.SEND_BUFFER if seen.sockets:
            law = prediction.after(verdict.SEND_BUFFER)
            now = seen.sender.send_bytes
            share = min(IN_FLIGHT_SHARE, seen.sockets.in_flight_bytes / now)
            return _buffer(path, "tcp_wmem max", now, share, law.bytes_per_s, law.name)
        case verdict.RECEIVE_WINDOW if seen.sockets:
            law = prediction.after(verdict.RECEIVE_WINDOW)
            now = seen.receiver.receive_bytes
            if limit := seen.receiver.window_bytes:
                return _buffer(path, "window", limit, 1.0, law.bytes_per_s, law.name)
            share = min(1.0, seen.sockets.peer_window_bytes / now)
            return _buffer(path, "tcp_rmem max", now, share, law.bytes_per_s, law.name)
        case verdict.CONGESTION_WINDOW:
            return _loss(path, seen, prediction)
        case verdict.SLOW_START:
            now_s = seen.transfer.duration_s
            longer = f"{max(seen.wanted_duration_s, 2 * now_s):.0f} s"
            return Advice("duration", f"{now_s:g} s", longer, prediction.bytes_per_s, prediction.limit)
        case verdict.EMULATOR if seen.lacked_memory:
            pages = math.ceil(16 * path.streams * max(seen.sender.send_bytes, path.bdp_bytes) / 4096)
            return Advice("tcp_mem", "too little", f"{pages} pages", prediction.bytes_per_s, prediction.limit)
    return None


def _buffer(path: TcpPath, setting: str, now_bytes: int, share: float, target: float, then: str) -> Advice | None:
    """The buffer whose `share` carries `target`; more streams where no buffer suffices.

    None where nothing was in flight when the sockets were read: the share is unknown.
    """
    if not share:
        return None
    per_stream = target * path.rtt_ns / NS / path.streams
    wanted = math.ceil(per_stream / share / MIB_BYTES) * MIB_BYTES
    if wanted <= now_bytes:
        return None
    if wanted > LARGEST_BUFFER_BYTES:
        streams = math.ceil(path.streams * wanted / LARGEST_BUFFER_BYTES)
        return Advice("streams", str(path.streams), f"{streams} of the largest buffers", target, then)
    return Advice(setting, units.mib_text(now_bytes), units.mib_text(wanted), target, then)


def _loss(path: TcpPath, seen: Evidence, prediction: Prediction) -> Advice:
    rest = [law for law in prediction.laws if law.name not in (MATHIS, CUBIC)]
    buffer = path.buffer_bytes
    if not path.loss and buffer is not None and buffer < tcp_path.bdp_bytes(path.rate_bps, PACING_BURST_NS):
        # Whole KiB can be typed (`--buffer 2202KiB`), a rounded fraction of a MiB cannot.
        wanted = units.format_size(-(-max(path.bdp_bytes, 2 * buffer) // KIB_BYTES) * KIB_BYTES)
        return Advice("the lane's buffer", units.mib_text(buffer), wanted, rest[0].bytes_per_s, rest[0].name)
    if not path.congestion_control.startswith("bbr"):
        return Advice("congestion control", path.congestion_control, "bbr", rest[0].bytes_per_s, rest[0].name)
    streams = path.streams * math.ceil(rest[0].bytes_per_s / max(1.0, seen.throughput.steady_bytes_per_s))
    return Advice("streams", str(path.streams), str(streams), rest[0].bytes_per_s, rest[0].name)


def wanted_duration_s(path: TcpPath, window_bytes: int, initcwnd: int = tcp_path.INITCWND_SEGMENTS) -> float:
    """Ten slow starts up to the window, and a hundred round trips."""
    slow_start_ns = tcp_path.slow_start_ns(window_bytes, path.rtt_ns, path.mtu, initcwnd)
    return max(10 * slow_start_ns, 100 * path.rtt_ns) / NS


def streams_needed(path: TcpPath, allowed: Windows) -> int:
    """How many streams with such windows fill the line."""
    window = min(size for size in (allowed.receive_bytes, allowed.send_bytes) if size is not None)
    return max(1, math.ceil(path.line_bytes_per_s / tcp_path.window_bytes_per_s(window, path.rtt_ns)))
