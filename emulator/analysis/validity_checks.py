"""Checks for the known errors of such measurements. Each examines one cell and returns a sentence.

A fatal finding makes the number invalid; the others are notes for the reader. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from emulator import units
from emulator.analysis.observed import LaneEvidence, MachineUse, Queues
from emulator.analysis.tcp_path import TcpPath, window_bytes_per_s
from emulator.analysis.transfer import Caveat
from emulator.analysis.verdict import RECEIVE_WINDOW, SEND_BUFFER, Evidence, busy, judge

CEILING_TOLERANCE = 1.01
SENDER_EXCESS = 0.02
SPURIOUS_SHARE = 0.25
FIRST_TIMEOUT_NS = 1_000_000_000
"""TCP's initial retransmission timeout on an unknown path (RFC 6298; TCP_TIMEOUT_INIT)."""
UNEVEN_BUFFERS = 2
WINDOW_TOLERANCE = 0.05


def of_lane(path: TcpPath, seen: LaneEvidence) -> list[Caveat]:
    """The findings about the lane and the machine."""
    said = ((name, look(path, seen), fatal) for name, fatal, look in LANE_DETECTORS)
    return [Caveat(name, text, fatal) for name, text, fatal in said if text]


def find(path: TcpPath, seen: Evidence) -> list[Caveat]:
    """The findings of all checks about a cell, then the workload's own; empty when nothing is wrong."""
    said = ((name, look(path, seen), fatal) for name, fatal, look in DETECTORS)
    return [*(Caveat(name, text, fatal) for name, text, fatal in said if text), *seen.transfer.caveats]


def dropped_by_limit(queues: Queues) -> str:
    """The packets that the emulator itself dropped; empty when there are none."""
    drops = queues.drops_limit
    return f"the emulator's own queue dropped {drops} packets (limit)" if drops else ""


def memory_pressure(machine: MachineUse) -> str:
    """How often TCP was short of tcp_mem; empty when it never was."""
    times = machine.memory_pressures
    return f"TCP ran into memory pressure {times} times: raise tcp_mem" if times else ""


def not_as_set(seen_ns: int, asked_ns: int, tolerance_ns: int) -> str:
    """The RTT that was measured, when it is not the requested one."""
    if abs(seen_ns - asked_ns) <= tolerance_ns:
        return ""
    return f"the RTT was {seen_ns / 1e6:.3f} ms instead of the requested {asked_ns / 1e6:.3f} ms"


def changed(drift: tuple[str, ...]) -> str:
    """The first change of the lane by others; empty when there was none."""
    return f"something outside Longhaul changed the lane: {drift[0]}" if drift else ""


def _limit(_: TcpPath, seen: LaneEvidence) -> str:
    return dropped_by_limit(seen.queues)


def _memory(_: TcpPath, seen: LaneEvidence) -> str:
    before = "TCP was short of memory before the cell began: raise tcp_mem" if seen.memory_short else ""
    return memory_pressure(seen.machine) or before


def first_timeouts(rtt_ns: int) -> int:
    """How often TCP sends a SYN again before the answer can be there: once a second, on kernels of before 6.5 more
    rarely (`tcp_syn_linear_timeouts`)."""
    return rtt_ns // FIRST_TIMEOUT_NS


def _listen(_: TcpPath, seen: LaneEvidence) -> str:
    drops = seen.machine.listen_drops
    attempts = "1 attempt" if drops == 1 else f"{drops} attempts"
    text = f"a full listen queue dropped {attempts} to connect, and TCP tried again after a second: raise its backlog"
    return text if drops else ""


def _impossible(path: TcpPath, seen: Evidence) -> str:
    ceiling = path.line_bytes_per_s
    if seen.sockets:
        most = max(seen.sockets.peer_window_bytes, seen.sockets.most_in_flight_bytes)
        ceiling = min(ceiling, path.streams * window_bytes_per_s(most, path.rtt_ns))
    # Of a stream that has not settled, the last part may bring what waited before it for a lost segment.
    rates = seen.throughput
    rate = rates.steady_bytes_per_s if rates.settled else rates.mean_bytes_per_s
    if rate <= CEILING_TOLERANCE * ceiling:
        return ""
    had, possible = map(units.throughput_text, (rate, ceiling))
    return f"{had} exceeds the possible {possible}"


def _rtt(path: TcpPath, seen: LaneEvidence) -> str:
    return not_as_set(seen.rtt_before_ns, path.rtt_ns, seen.rtt_tolerance_ns)


def _retransmits(path: TcpPath, seen: Evidence) -> str:
    """The number of retransmissions that need no other explanation: those of dropped packets; those of segments that
    were only late, whose number grows with the drops; a few random ones; the first segment of each connection, when
    its answer cannot arrive in time; and what a full listen queue dropped."""
    drops = seen.queues.drops_buffer + (seen.queues.drops_limit or 0)
    first = path.streams * first_timeouts(path.rtt_ns) + seen.machine.listen_drops
    dropped_segments = drops * seen.drop_segments
    if path.loss or seen.retransmits <= first + dropped_segments * (1 + SPURIOUS_SHARE) + 2 * sqrt(dropped_segments):
        return ""
    dropped = f"only {drops} packets were" if drops else "no packet was"
    return f"TCP retransmitted {seen.retransmits} segments although {dropped} dropped"


def _changed(_: TcpPath, seen: LaneEvidence) -> str:
    return changed(seen.drift)


def _super_frames(path: TcpPath, seen: LaneEvidence) -> str:
    """netem draws once for each skb: with segmentation offload, one loss takes up to 64 KiB."""
    offloaded = path.loss and any("gso" in step or "gro" in step for step in seen.drift)
    return "offloads are on while the lane has loss: a loss hits whole super-frames, not packets" if offloaded else ""


def _cached(_: TcpPath, seen: LaneEvidence) -> str:
    peers = seen.cached_metrics
    return f"the sender remembered {peers} peers' TCP metrics: run ip tcp_metrics flush" if peers else ""


def _cpu(_: TcpPath, seen: Evidence) -> str:
    reason = busy(seen)
    return f"{reason}: the CPU may be the limit" if reason else ""


def _one_end(path: TcpPath, seen: Evidence) -> str:
    """Data flows from the sender's send buffer into the receiver's receive buffer. A much smaller one is told where it
    limits the streams; in other cells it does no harm, nor where a window was asked for."""
    send, receive = seen.sender.send_bytes, seen.receiver.receive_bytes
    smaller = SEND_BUFFER if send < receive else RECEIVE_WINDOW
    even = max(send, receive) <= UNEVEN_BUFFERS * min(send, receive)
    if even or seen.receiver.window_bytes is not None or judge(path, seen).kind != smaller:
        return ""
    texts = map(units.mib_text, (send, receive))
    return "the two ends are tuned differently: {} to send, {} to receive; the smaller buffer limits".format(*texts)


def _window(path: TcpPath, seen: Evidence) -> str:
    """The receive window that limits the streams should be the one that was asked for."""
    asked_bytes = seen.receiver.window_bytes
    if asked_bytes is None or seen.sockets is None or judge(path, seen).kind != RECEIVE_WINDOW:
        return ""
    found_bytes = seen.sockets.peer_window_bytes
    if abs(found_bytes - asked_bytes) <= WINDOW_TOLERANCE * asked_bytes:
        return ""
    found, asked = units.mib_text(found_bytes), units.format_size(asked_bytes)
    return f"the receiver offered {found} instead of {asked}: only 64 KiB, 128 KiB, 256 KiB and so on are exact"


def _sender_figure(_: TcpPath, seen: Evidence) -> str:
    received_bytes = seen.transfer.received_bytes
    excess = (received_bytes if seen.transfer.sent_bytes is None else seen.transfer.sent_bytes) - received_bytes
    if excess <= SENDER_EXCESS * received_bytes:
        return ""
    return f"the sender counted {units.mib_text(excess)} more than arrived: only the receiver's figure is valid"


def _short(_: TcpPath, seen: Evidence) -> str:
    if seen.transfer.duration_s >= seen.wanted_duration_s:
        return ""
    wanted = f"{seen.wanted_duration_s:.0f} s hold ten slow starts and a hundred round trips"
    return f"{seen.transfer.duration_s:g} s is short for this RTT: {wanted}"


LANE_DETECTORS: tuple[tuple[str, bool, Callable[[TcpPath, LaneEvidence], str]], ...] = (
    ("drops-by-limit", True, _limit),
    ("tcp-mem", True, _memory),
    ("rtt-not-as-set", True, _rtt),
    ("changed", True, _changed),
    ("loss-per-super-frame", True, _super_frames),
    ("cached-metrics", True, _cached),
    ("listen-queue-full", False, _listen),
)
"""The checks that hold for every workload, in the same form as `DETECTORS`."""
DETECTORS: tuple[tuple[str, bool, Callable[[TcpPath, Evidence], str]], ...] = (
    *LANE_DETECTORS[:2],
    ("impossible", True, _impossible),
    LANE_DETECTORS[2],
    ("retransmits-without-loss", True, _retransmits),
    *LANE_DETECTORS[3:],
    ("cpu", False, _cpu),
    ("one-end-tuned", False, _one_end),
    ("window-not-as-asked", False, _window),
    ("sender-figure", False, _sender_figure),
    ("short-run", False, _short),
)
"""Name, whether fatal, and the check. A workload reports its own errors of counting itself (`Transfer.caveats`)."""
