"""What a workload carried in one direction, as the receiver saw it. Values; pure."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.analysis.tcp_path import Interval


@dataclass(frozen=True)
class Caveat:
    """What speaks against a number, by the name of the check that found it; a fatal one makes the number invalid."""

    check: str
    text: str
    fatal: bool


@dataclass(frozen=True)
class SenderSample:
    """The sender at one moment of the run: all streams' congestion windows together, and their mean RTT."""

    end_s: float
    cwnd_bytes: int
    rtt_ns: int


@dataclass(frozen=True)
class Transfer:
    """The bytes of one direction, all streams together.

    `program` is what carried them, `tool` its name and version. `intervals` are the receiver's and not empty. What the
    workload cannot tell is None: `sent_bytes`, and `retransmits` in segments, for which the kernel's counters are taken
    then. CPU is in per cent of one core at either end, of at most `threads` cores. `ramp` is the sender's, and empty
    where nobody noted it. `caveats` are what the tool's own counting costs.
    """

    program: str
    tool: str
    received_bytes: int
    received_s: float
    sent_bytes: int | None
    duration_s: float
    intervals: tuple[Interval, ...]
    retransmits: int | None = None
    sender_cpu_percent: float = 0.0
    receiver_cpu_percent: float = 0.0
    threads: int = 1
    ramp: tuple[SenderSample, ...] = ()
    caveats: tuple[Caveat, ...] = ()

    @property
    def bytes_per_s(self) -> float:
        """The mean over the whole run, payload at the receiver."""
        return self.received_bytes / self.received_s

    @property
    def cpu_percent(self) -> float:
        """The busier end's."""
        return max(self.sender_cpu_percent, self.receiver_cpu_percent)
