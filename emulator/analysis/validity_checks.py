"""Detectors of the known ways in which such a measurement goes wrong. Each looks at one cell and says a sentence.

A finding that is fatal makes the number invalid; the others are things to know when reading it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from emulator.analysis.tcp_path import Path, window_bytes_per_s
from emulator.analysis.transfer import Caveat
from emulator.analysis.verdict import MIB, Evidence, busy

CEILING_TOLERANCE = 1.01
SENDER_EXCESS = 0.02
SPURIOUS_SHARE = 0.25
FIRST_TIMEOUT_NS = 1_000_000_000
"""TCP's patience with a path of which it knows nothing (RFC 6298; TCP_TIMEOUT_INIT)."""
UNEVEN_BUFFERS = 2


def find(path: Path, seen: Evidence) -> list[Caveat]:
    """What all detectors say of a cell, then the workload of itself; none when nothing speaks against the number."""
    said = ((name, look(path, seen), fatal) for name, fatal, look in DETECTORS)
    return [*(Caveat(name, text, fatal) for name, text, fatal in said if text), *seen.transfer.caveats]


def _limit(_: Path, seen: Evidence) -> str:
    drops = seen.drops_limit
    return f"the emulator's own queue dropped {drops} packets (limit)" if drops else ""


def _memory(_: Path, seen: Evidence) -> str:
    times = seen.memory_pressures
    if not times:
        return "TCP was short of memory before it began: raise tcp_mem" if seen.memory_short else ""
    return f"TCP ran into memory pressure {times} times: raise tcp_mem"


def _impossible(path: Path, seen: Evidence) -> str:
    most = max(seen.peer_window_bytes, seen.most_in_flight_bytes)
    ceiling = min(path.line_bytes_per_s, path.streams * window_bytes_per_s(most, path.rtt_ns))
    if seen.steady_bytes_per_s <= CEILING_TOLERANCE * ceiling:
        return ""
    return f"{seen.steady_bytes_per_s / MIB:.1f} MiB/s is more than the possible {ceiling / MIB:.1f} MiB/s"


def _rtt(path: Path, seen: Evidence) -> str:
    if abs(seen.rtt_before_ns - path.rtt_ns) <= seen.rtt_tolerance_ns:
        return ""
    return f"the RTT was {seen.rtt_before_ns / 1e6:.3f} ms where {path.rtt_ns / 1e6:.3f} ms was asked for"


def _retransmits(path: Path, seen: Evidence) -> str:
    """TCP sends some again that were only late: the more, the more was dropped, and of few by chance some more. That
    much is explained; and that of each connection's first segment, where its answer cannot be there in time."""
    drops, first = seen.drops_buffer + (seen.drops_limit or 0), path.streams if path.rtt_ns >= FIRST_TIMEOUT_NS else 0
    dropped_segments = drops * seen.drop_segments
    if path.loss or seen.retransmits <= first + dropped_segments * (1 + SPURIOUS_SHARE) + 2 * sqrt(dropped_segments):
        return ""
    dropped = f"only {drops} packets were" if drops else "nothing was"
    return f"{seen.retransmits} segments were sent again although {dropped} dropped"


def _changed(_: Path, seen: Evidence) -> str:
    return f"the lane was changed behind our back: {seen.drift[0]}" if seen.drift else ""


def _super_frames(path: Path, seen: Evidence) -> str:
    """netem draws once per skb: with segmentation offload on, a loss takes up to 64 KiB at a time."""
    offloaded = path.loss and any("gso" in step or "gro" in step for step in seen.drift)
    return "offloads are on while loss is asked for: it hits whole super-frames, not packets" if offloaded else ""


def _cached(_: Path, seen: Evidence) -> str:
    peers = seen.cached_metrics
    return f"the sender remembered {peers} peers' TCP metrics: flush with ip tcp_metrics flush" if peers else ""


def _cpu(_: Path, seen: Evidence) -> str:
    reason = busy(seen)
    return f"{reason}: the CPU may be the limit" if reason else ""


def _one_end(_: Path, seen: Evidence) -> str:
    """Data flows from the sender's send buffer into the receiver's receive buffer: the smaller of the two counts."""
    low, high = sorted((seen.sender.send_bytes, seen.receiver.receive_bytes))
    if high <= UNEVEN_BUFFERS * low:
        return ""
    ends = f"{seen.sender.send_bytes / MIB:.3g} MiB to send, {seen.receiver.receive_bytes / MIB:.3g} MiB to receive"
    return f"only one end is tuned: {ends}; the smaller limits"


def _sender_figure(_: Path, seen: Evidence) -> str:
    received_bytes = seen.transfer.received_bytes
    excess = (received_bytes if seen.transfer.sent_bytes is None else seen.transfer.sent_bytes) - received_bytes
    if excess <= SENDER_EXCESS * received_bytes:
        return ""
    return f"the sender counted {excess / MIB:.1f} MiB more than had arrived: only the receiver's figure counts"


def _short(_: Path, seen: Evidence) -> str:
    if seen.transfer.duration_s >= seen.wanted_duration_s:
        return ""
    wanted = f"{seen.wanted_duration_s:.0f} s hold ten slow starts and a hundred round trips"
    return f"{seen.transfer.duration_s:g} s are short for this RTT: {wanted}"


DETECTORS: tuple[tuple[str, bool, Callable[[Path, Evidence], str]], ...] = (
    ("drops-by-limit", True, _limit),
    ("tcp-mem", True, _memory),
    ("impossible", True, _impossible),
    ("rtt-not-as-set", True, _rtt),
    ("retransmits-without-loss", True, _retransmits),
    ("changed", True, _changed),
    ("loss-per-super-frame", True, _super_frames),
    ("cached-metrics", True, _cached),
    ("cpu", False, _cpu),
    ("one-end-tuned", False, _one_end),
    ("sender-figure", False, _sender_figure),
    ("short-run", False, _short),
)
"""Name, whether fatal, and the look itself. What only one workload gets wrong it says itself (`Transfer.caveats`)."""
