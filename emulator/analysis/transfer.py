"""What a workload carried in one direction, as measured at the receiver. Plain values; pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from emulator.analysis.tcp_path import Interval


class Caveat(Struct, frozen=True):
    """A reason to doubt a number, with the name of the check that found it; a fatal one makes the number invalid."""

    check: str
    text: str
    fatal: bool

    def __str__(self) -> str:
        return f"{self.check}: {self.text}"


def reasons(found: Iterable[Caveat]) -> tuple[str, ...]:
    """Why the number is invalid; empty when it is valid."""
    return tuple(one.text for one in found if one.fatal)


class SenderSample(Struct, frozen=True):
    """The sender at one time of the run: the sum of all streams' congestion windows, and the streams' mean RTT."""

    end_s: float
    cwnd_bytes: int
    rtt_ns: int


class Transfer(Struct, frozen=True):
    """The bytes of one direction, summed over all streams.

    `program` is the workload's program, `tool` its name and version. `intervals` come from the receiver and are never
    empty. A figure that the workload does not know is None: `sent_bytes`, and `retransmits` in segments, which the
    kernel's counters then replace. CPU is in per cent of one core at either end, of at most `threads` cores. `ramp`
    comes from the sender and is empty where nobody recorded it. `caveats` are the effects of the tool's own counting.
    """

    program: str
    tool: str
    received_bytes: int
    received_s: float
    sent_bytes: int | None
    duration_s: float
    intervals: tuple[Interval, ...]
    retransmits: int | None = None
    retransmitted_bytes: int | None = None
    sender_cpu_percent: float = 0.0
    receiver_cpu_percent: float = 0.0
    threads: int = 1
    ramp: tuple[SenderSample, ...] = ()
    caveats: tuple[Caveat, ...] = ()

    @property
    def bytes_per_s(self) -> float:
        """The mean over the whole run: payload at the receiver."""
        return self.received_bytes / self.received_s

    @property
    def cpu_percent(self) -> float:
        """The CPU of the busier end."""
        return max(self.sender_cpu_percent, self.receiver_cpu_percent)
