"""Where the completion time of a program went: shares of one run that add up to it, each with its evidence. Pure.

The order of the claims matters, because each takes only time that is left. What was seen comes first: the time that
the line needs, the time with no frame on the lane, and the time that the kernels counted as limited by a window. The
rest are waits of whole round trips: handshakes, turns in which both ends waited for each other, and the growth of the
congestion window. The kernels know these of TCP only: without a TCP connection the rest is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from emulator import units
from emulator.analysis import tcp_path, tuning_advice, validity_checks, verdict
from emulator.analysis.observed import LaneEvidence
from emulator.analysis.program_law import ProgramLaw, seconds_text
from emulator.analysis.program_runs import ProgramRun, ProgramRuns, TcpConnection, TimeShare
from emulator.analysis.tcp_path import NS, TcpPath
from emulator.analysis.verdict import Buffers

LINE, RECEIVE_WINDOW, SEND_BUFFER = verdict.LINE, verdict.RECEIVE_WINDOW, verdict.SEND_BUFFER
SLOW_START = verdict.SLOW_START
ROUND_TRIPS, HANDSHAKES, PROGRAM = "round trips", "handshakes", "the program itself"
LOSS, UNKNOWN, LISTEN_QUEUE = verdict.LOSS, verdict.UNKNOWN, "listen queue"
KINDS = (
    ROUND_TRIPS, HANDSHAKES, RECEIVE_WINDOW, SEND_BUFFER, SLOW_START, LOSS, LINE, PROGRAM, UNKNOWN, LISTEN_QUEUE,
)  # fmt: skip
OF_ANY_PROTOCOL = (LINE, PROGRAM, UNKNOWN)
"""What can be seen of a program without TCP: the others are known from TCP connections."""

LEAST_TIMEOUT_NS = 200_000_000
"""What TCP's retransmission timeout adds to the RTT at the least (TCP_RTO_MIN, include/net/tcp.h)."""
LATE_ACK_NS = 50_000_000
"""A delayed ACK (40 ms, TCP_DELACK_MIN) and a tick of the kernel's clock keep an end busy after its data arrived."""
SYN_SEGMENTS = 3
"""What a first timeout before the answer costs: the SYN again, the SYN-ACK again, and the answer to the second SYN."""
LEAST_HELD = 2
"""Round trips: one more than expected is no pattern."""
HELD_TOLERANCE = 0.2
FRAME_BYTES = tcp_path.ETHERNET_HEADER_BYTES + tcp_path.IP_TCP_HEADER_BYTES
"""Of a frame without payload."""
FRAMES_OF_A_CONNECTION = 10
"""Those that open and close it, with all that are sent twice."""
CLIENT, SERVER = "client", "server"


class ProgramFacts(LaneEvidence, frozen=True):
    """What is known of one cell.

    `path` has the rate and the loss of the direction with more data. `client` and `server` are the largest buffers of
    their hosts. `law` is the law of the cell's column, where one is known.
    """

    program: ProgramRuns
    path: TcpPath
    client: Buffers
    server: Buffers
    law: ProgramLaw | None = None
    initcwnd: int = tcp_path.INITCWND_SEGMENTS

    @property
    def run(self) -> ProgramRun:
        """The run that is judged."""
        return self.program.median

    @property
    def early_again(self) -> int:
        """How many segments of handshakes may be sent again, because the RTT is longer than TCP's first timeout."""
        return SYN_SEGMENTS * validity_checks.first_timeouts(self.path.rtt_ns) * len(self.run.connections)

    @property
    def lost_again(self) -> int:
        """The segments that were sent again for another reason than that, or a full listen queue."""
        return max(0, self.run.retransmits - self.early_again - self.run.listen_drops)

    @property
    def lost_timeouts(self) -> int:
        """How many of these had to wait for a timeout; others are sent again as soon as later ones are acknowledged."""
        return min(self.lost_again, max(0, self.run.timeouts - self.run.listen_drops))

    @property
    def line_ns(self) -> int:
        """How long the line carried the busier direction, with all headers."""
        return max(self.run.sent_bytes, self.run.received_bytes) * 8 * NS // self.path.rate_bps

    @property
    def quiet_ns(self) -> int | None:
        """How long nothing was in flight, scaled to this run from the one whose frames were seen; else by the law."""
        frames = self.program.frames
        if frames:
            return self.run.completion_ns * frames.quiet_ns // max(1, frames.completion_ns)
        return max(0, round(self.law.own_s * NS)) if self.law and not self.law.objection else None

    @property
    def is_mostly_tcp(self) -> bool:
        """Whether TCP can be what the lane carried: a frame for each byte at the most, and another that confirms it."""
        run = self.run
        sent, received = run.payload_sent_bytes, run.payload_received_bytes
        frames = sent + received + FRAMES_OF_A_CONNECTION * len(run.connections)
        most = frames * FRAME_BYTES + run.retransmits * (self.path.mtu + tcp_path.ETHERNET_HEADER_BYTES)
        return run.sent_bytes <= sent + most and run.received_bytes <= received + most

    @property
    def why_unknown(self) -> str:
        """Why the kernels' figures of TCP do not tell what the program waited for."""
        return "most of its bytes were not TCP's" if self.run.connections else "it opened no TCP connection"

    @property
    def streamed_bytes(self) -> int:
        """What the busiest connection carried in its busier direction."""
        one = self.run.busiest
        return max(one.sent_bytes, one.received_bytes) if one else 0

    @property
    def first_window_bytes(self) -> int:
        """What a new connection may send before an answer."""
        return self.initcwnd * tcp_path.mss_bytes(self.path.mtu)

    @property
    def streams(self) -> bool:
        """Whether a congestion window could have made it wait."""
        return self.streamed_bytes > self.first_window_bytes


def shares(facts: ProgramFacts) -> tuple[TimeShare, ...]:
    """The parts of the median run, the largest first; they add up to its completion time."""
    left, found = facts.run.completion_ns, dict[str, int]()
    for kind, wanted in (*_seen(facts), *_waits(facts)):
        got = min(max(0, wanted), left)
        found[kind], left = found.get(kind, 0) + got, left - got
    kind = _of_the_rest(facts)
    found[kind] = found.get(kind, 0) + left
    parts = [TimeShare(kind, time, _words(facts, kind, time)) for kind, time in found.items() if time]
    return tuple(sorted(parts, key=lambda part: -part.time_ns))


def _seen(facts: ProgramFacts) -> Iterator[tuple[str, int]]:
    """What frames and kernels showed. A lane without frames while a segment waits to be sent again is its timeout."""
    # The lane counts as quiet while a frame passes the bottleneck, if its delay is shorter than that.
    yield LINE, facts.line_ns
    quiet = min(facts.quiet_ns or 0, facts.run.completion_ns - facts.line_ns)
    refused = _refused_ns(facts, quiet)
    yield LISTEN_QUEUE, refused
    quiet = max(0, quiet - refused)
    timeouts = min(quiet, facts.lost_timeouts * (facts.path.rtt_ns + LEAST_TIMEOUT_NS))
    timeouts = timeouts if timeouts >= LEAST_TIMEOUT_NS else 0
    yield LOSS, timeouts
    yield PROGRAM, quiet - timeouts
    if one := facts.run.busiest:
        # A limited sender's time includes the line's.
        window = max(0, _rwnd_ns(one) - facts.line_ns)
        yield RECEIVE_WINDOW, _window_cost_ns(facts, window)
        yield SEND_BUFFER, _sndbuf_ns(one) - (0 if window else facts.line_ns)


def _window_cost_ns(facts: ProgramFacts, window_ns: int) -> int:
    """What a larger receive window would have saved of the time that the sender waited for it.

    The window grows while a connection starts, as the congestion window does. Where the host's largest one holds what
    was sent, either may be the smaller for a while: only what comes on top of the slow start is the receive window's.
    """
    if _largest_windows(facts)[0] < facts.streamed_bytes:
        return window_ns
    needed = facts.path.rtt_ns + (facts.quiet_ns or 0) + facts.line_ns + slow_start_wait_ns(facts, facts.initcwnd)
    return min(window_ns, max(0, facts.run.completion_ns - needed))


def _refused_ns(facts: ProgramFacts, quiet_ns: int) -> int:
    """How long a full listen queue kept clients waiting: a second for each attempt that it dropped.

    That is the quiet time where clients come one after another. Where they come together it is at least what the
    connection waited that was dropped most often.
    """
    drops = min(facts.run.listen_drops, facts.run.retransmits)
    most = max((one.retransmits for one in facts.run.connections), default=0)
    second = validity_checks.FIRST_TIMEOUT_NS
    return max(min(most, drops) * second, min(quiet_ns, drops * second))


def _waits(facts: ProgramFacts) -> Iterator[tuple[str, int]]:
    """Waits of whole round trips: handshakes, turns, and the growth of the window."""
    if not facts.path.rtt_ns or not facts.run.connections:
        return
    together = at_once(facts)
    yield HANDSHAKES, round(len(facts.run.connections) * facts.path.rtt_ns / together)
    if any(one.server_busy_ns for one in facts.run.connections):
        yield ROUND_TRIPS, round(sum(_turns_ns(one, facts.path.rtt_ns) for one in facts.run.connections) / together)
    elif facts.is_mostly_tcp and not facts.streams:
        yield ROUND_TRIPS, facts.run.completion_ns
    else:
        yield ROUND_TRIPS, facts.path.rtt_ns
    yield ROUND_TRIPS, held_back_ns(facts)
    yield SLOW_START, slow_start_wait_ns(facts, facts.initcwnd)
    if one := facts.run.busiest:
        # The kernel counts no wait for a send buffer while a part of a segment is left to send.
        counted = max(0, _rwnd_ns(one) - facts.line_ns) + max(0, _sndbuf_ns(one) - facts.line_ns)
        yield allowed_window(facts)[0], window_wait_ns(facts) - counted


def _of_the_rest(facts: ProgramFacts) -> str:
    if not facts.path.rtt_ns:
        return PROGRAM
    if facts.run.connections and not facts.is_mostly_tcp:
        return UNKNOWN
    if facts.lost_again:
        return LOSS
    if not facts.run.connections:
        return UNKNOWN
    return SLOW_START if facts.streams else ROUND_TRIPS


def at_once(facts: ProgramFacts) -> float:
    """How many connections were open at the same time, on average, from how long each lasted; at least 1."""
    if len(facts.run.connections) < 2:
        return 1.0
    times = sum(_least_life_ns(facts, one) for one in facts.run.connections)
    return max(1.0, times / max(1, facts.run.completion_ns - (facts.quiet_ns or 0)))


def _least_life_ns(facts: ProgramFacts, one: TcpConnection) -> int:
    """How long a connection lasted at the least: its handshake, its turns, and the growth of its window in a turn.

    The FIN at the end, which counts as busy, takes as long as the handshake, which does not.
    """
    rtt = facts.path.rtt_ns
    turns = _turns_ns(one, rtt)
    grows = _slow_start_ns(facts, facts.initcwnd, _each_turn_bytes(one, turns, rtt))
    return max(rtt + turns + grows, max(_busy_ns(one)) - LATE_ACK_NS)


def held_back_ns(facts: ProgramFacts) -> int:
    """How long the last part of one end's messages waited, because an earlier part was not acknowledged (Nagle).

    That costs a round trip in each turn but those in which the window grows: one end is busy for twice as long as the
    other, and frames are on the lane meanwhile. 0 where the figures do not fit that.
    """
    if len(facts.run.connections) != 1 or facts.lost_again or not facts.is_mostly_tcp:
        return 0
    (one,), rtt = facts.run.connections, facts.path.rtt_ns
    turns = _turns_ns(one, rtt)
    grows = _slow_start_ns(facts, facts.initcwnd, _each_turn_bytes(one, turns, rtt))
    seen = rtt + turns + grows + facts.line_ns + _rwnd_ns(one) + _sndbuf_ns(one)
    held = min(max(_busy_ns(one)), facts.run.completion_ns - (facts.quiet_ns or 0)) - seen
    least, most = (1 - HELD_TOLERANCE) * (turns - grows), (1 + HELD_TOLERANCE) * turns
    return held if held >= LEAST_HELD * rtt and least <= held <= most else 0


def holding_end(facts: ProgramFacts) -> str:
    """The end whose messages were held back: it was busy for longer."""
    return CLIENT if any(one.client_busy_ns > one.server_busy_ns for one in facts.run.connections) else SERVER


def slow_start_wait_ns(facts: ProgramFacts, initcwnd: int) -> int:
    """How long a window that doubles each round trip from `initcwnd` segments leaves the line idle.

    The first round trip is the request's own.
    """
    return _slow_start_ns(facts, initcwnd, facts.streamed_bytes)


def _slow_start_ns(facts: ProgramFacts, initcwnd: int, carried_bytes: int) -> int:
    rtt, rate = facts.path.rtt_ns, facts.path.rate_bps
    window = initcwnd * tcp_path.mss_bytes(facts.path.mtu)
    left, wait = carried_bytes - window, 0
    most = allowed_window(facts)[1]
    while left > 0 and window < most and (idle := rtt - window * 8 * NS // rate) > 0:
        window, wait = 2 * window, wait + idle
        left -= window
    return wait


def allowed_window(facts: ProgramFacts) -> tuple[str, int]:
    """What lets the least of the busier direction be in flight, by the hosts' largest buffers, and how many bytes."""
    receive, send = _largest_windows(facts)
    return (RECEIVE_WINDOW, receive) if receive < send else (SEND_BUFFER, send)


def _largest_windows(facts: ProgramFacts) -> tuple[int, int]:
    """What the receiver's and what the sender's largest buffer let the busier direction have in flight, in bytes."""
    from_client = _data_from(facts) == CLIENT
    source, sink = (facts.client, facts.server) if from_client else (facts.server, facts.client)
    allowed = tuning_advice.windows(source, sink)
    return allowed.receive_bytes or 0, allowed.send_bytes or 0


def window_wait_ns(facts: ProgramFacts) -> int:
    """How long that leaves the line idle, after a slow start up to it; 0 where it holds rate x RTT."""
    window = allowed_window(facts)[1]
    idle = facts.path.rtt_ns - window * 8 * NS // facts.path.rate_bps
    # A slow start up to a window sends twice as much.
    left = facts.streamed_bytes - 2 * window
    return max(0, left) * idle // window if idle > 0 else 0


def _data_from(facts: ProgramFacts) -> str:
    one = facts.run.busiest
    return CLIENT if one and one.sent_bytes > one.received_bytes else SERVER


def _turns_ns(one: TcpConnection, rtt_ns: int) -> int:
    """How long both ends waited for each other: a turn keeps each of them busy for a round trip, a stream its sender.

    Each end's FIN keeps it busy for one more round trip, after the client has ended.
    """
    asked = rtt_ns if one.sent_bytes and one.received_bytes else 0
    return max(asked, min(_busy_ns(one)) - rtt_ns)


def _each_turn_bytes(one: TcpConnection, turns_ns: int, rtt_ns: int) -> int:
    return max(one.sent_bytes, one.received_bytes) * rtt_ns // max(1, turns_ns)


def _busy_ns(one: TcpConnection) -> tuple[int, int]:
    return one.client_busy_ns, one.server_busy_ns


def _rwnd_ns(one: TcpConnection) -> int:
    return max(one.client_rwnd_limited_ns, one.server_rwnd_limited_ns)


def _sndbuf_ns(one: TcpConnection) -> int:
    return max(one.client_sndbuf_limited_ns, one.server_sndbuf_limited_ns)


def sender(facts: ProgramFacts, kind: str) -> str:
    """Which end's data waited for a window or a buffer: the client's or the server's."""
    one = facts.run.busiest
    client = server = 0
    if one and kind == RECEIVE_WINDOW:
        client, server = one.client_rwnd_limited_ns, one.server_rwnd_limited_ns
    elif one:
        client, server = one.client_sndbuf_limited_ns, one.server_sndbuf_limited_ns
    if client == server:
        return _data_from(facts)
    return CLIENT if client > server else SERVER


def receiver(facts: ProgramFacts, kind: str) -> str:
    """The other end."""
    return SERVER if sender(facts, kind) == CLIENT else CLIENT


def _words(facts: ProgramFacts, kind: str, time_ns: int) -> str:
    run, rtt = facts.run, facts.path.rtt_ns
    time, trips = seconds_text(time_ns / NS), f"{time_ns / rtt:.1f} round trips" if rtt else ""
    opened = "1 connection" if len(run.connections) == 1 else f"{len(run.connections)} connections"
    carried = units.mib_text(max(run.sent_bytes, run.received_bytes))
    return {
        LINE: f"the line carried {carried} in {time}",
        RECEIVE_WINDOW: f"the {sender(facts, kind)} waited {time} for the {receiver(facts, kind)}'s receive window",
        SEND_BUFFER: f"the {sender(facts, kind)} waited {time} for its own send buffer",
        HANDSHAKES: f"{trips} for the handshakes of {opened}",
        ROUND_TRIPS: f"{trips} in which each end waited for the other's answer",
        SLOW_START: f"{trips} until the congestion window had grown",
        LOSS: f"{time} to send {facts.lost_again} segments again",
        LISTEN_QUEUE: f"{time} to connect again after a full listen queue dropped {run.listen_drops} segments",
        PROGRAM: _words_of_the_program(facts, time),
        UNKNOWN: f"{trips} of which the kernels count nothing, because {facts.why_unknown}",
    }[kind]


def _words_of_the_program(facts: ProgramFacts, time: str) -> str:
    if not facts.quiet_ns:
        return f"{time} that neither the line nor a round trip explains"
    return f"no frame was on the lane for {time}" if facts.program.frames else f"{time} at any RTT, by the law"
