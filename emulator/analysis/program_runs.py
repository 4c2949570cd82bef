"""What was seen of a program that ran over a lane: each run of its client, and the connections that it used. Pure."""

from __future__ import annotations

import statistics

from msgspec import Struct

from emulator.analysis.cell_judgement import CellJudgement
from emulator.analysis.tcp_path import NS


class TcpConnection(Struct, frozen=True):
    """One TCP connection over the lane, by the client's kernel and, for what it sent, by the server's kernel.

    The kernel reports these totals when the connection ends (tcp_info, include/uapi/linux/tcp.h): the payload that the
    client sent and received, and of each sender the time with data in flight (`busy`), the part of it that the other
    end's window held up, and the part that its own send buffer held up. A figure of the server's is 0 when its kernel
    did not report the connection.
    """

    sent_bytes: int
    received_bytes: int
    retransmits: int
    client_busy_ns: int
    client_rwnd_limited_ns: int
    client_sndbuf_limited_ns: int
    server_busy_ns: int
    server_rwnd_limited_ns: int
    server_sndbuf_limited_ns: int

    @property
    def payload_bytes(self) -> int:
        """Both ways."""
        return self.sent_bytes + self.received_bytes


class Frames(Struct, frozen=True):
    """What the frames at the client's port show of one run; a run of its own, because looking at frames takes time.

    `completion_ns` is how long that run took, `first_byte_ns` when the client received the first payload, and
    `quiet_ns` how long no frame was on the lane in either direction: the time in which the programs did something else.
    """

    completion_ns: int
    first_byte_ns: int | None
    quiet_ns: int


class ProgramRun(Struct, frozen=True):
    """One run of the client, from its start to its exit.

    `sent_bytes` and `received_bytes` are what the lane carried from and to the client, with all headers. `connections`
    are the TCP connections that were opened for it. `listen_drops` are the segments that listening sockets dropped,
    `timeouts` how often a timer of TCP ended before an acknowledgement came (retransmission timeouts and loss probes).
    """

    completion_ns: int
    exit_code: int
    sent_bytes: int
    received_bytes: int
    retransmits: int
    connections: tuple[TcpConnection, ...]
    listen_drops: int = 0
    timeouts: int = 0

    @property
    def payload_sent_bytes(self) -> int:
        """By TCP, from the client."""
        return sum(one.sent_bytes for one in self.connections)

    @property
    def payload_received_bytes(self) -> int:
        """By TCP, to the client."""
        return sum(one.received_bytes for one in self.connections)

    @property
    def busiest(self) -> TcpConnection | None:
        """The connection that carried the most payload."""
        return max(self.connections, key=lambda one: one.payload_bytes, default=None)


class ProgramRuns(Struct, frozen=True):
    """All runs of a program in one cell, in their order.

    `bytes` is the payload that the program must carry in the slower direction, as the user said or as the connections
    show; None when neither is known (no TCP). `frames` is None when nobody looked at frames.
    """

    runs: tuple[ProgramRun, ...]
    frames: Frames | None
    bytes: int | None

    @property
    def median(self) -> ProgramRun:
        """The run with the median completion time; of an even number the faster of the middle two."""
        return sorted(self.runs, key=lambda run: run.completion_ns)[(len(self.runs) - 1) // 2]

    @property
    def completion_s(self) -> tuple[float, ...]:
        """The completion time of every run."""
        return tuple(run.completion_ns / NS for run in self.runs)

    @property
    def mean_completion_s(self) -> float:
        """The mean of all runs."""
        return statistics.fmean(self.completion_s)


class TimeShare(Struct, frozen=True):
    """A part of a run's time, what it went into (one of `program_time.KINDS`), and the evidence in words."""

    kind: str
    time_ns: int
    words: str


class ProgramJudgement(CellJudgement, frozen=True, kw_only=True):
    """What limited the program in one cell, as `analysis.program_verdict` finds it.

    `kind` is one of `program_time.KINDS`. `efficiency` is the flow completion time's: the ideal time divided by the
    mean of the measured ones; None when the program's bytes are unknown. `shares` are the parts of the median run's
    completion time: they add up to it.
    """

    efficiency: float | None
    shares: tuple[TimeShare, ...] = ()


def ideal_ns(payload_bytes: int, rate_bps: int, rtt_ns: int) -> int:
    """The least time for a request of this size: one handshake, and the bytes at the line's rate.

    FCT efficiency is this time divided by the measured one (draft-ietf-hpwan-framework calls it flow completion time).
    """
    return rtt_ns + -(-payload_bytes * 8 * NS // rate_bps)
