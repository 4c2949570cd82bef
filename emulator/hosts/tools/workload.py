"""What runs in a cell, as an interface: it is started between two hosts, and tells what the receiver received.

A workload is a value: its kind and its own settings, which a cell keeps as JSON (`workloads`). The cell knows nothing
of how it counts. A new one is a frozen dataclass with `kind`, `check` and `start`, and a row of `workloads.KINDS`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from emulator.analysis.transfer import Transfer
from emulator.hosts.host import Host


@dataclass(frozen=True)
class Ends:
    """The two hosts and their addresses on the lane. Data flows from the sender to the receiver."""

    sender: Host
    receiver: Host
    sender_address: str
    receiver_address: str


@dataclass(frozen=True)
class Load:
    """What is asked of a workload; `both`: data flows back at the same time, too.

    `congestion_control` None leaves the kernel's. `interval_s` is how often the receiver notes what has arrived.
    `expected_bytes_per_s` (of payload) and `rtt_ns` are guesses, for choosing block sizes and time limits.
    """

    duration_s: int
    streams: int
    congestion_control: str | None
    both: bool
    interval_s: float
    expected_bytes_per_s: float
    rtt_ns: int


class RunningWorkload(Protocol):
    """A workload at work."""

    @property
    def port(self) -> int:
        """The receiver's TCP port; the streams back, of both directions, come from it."""

    @property
    def connections(self) -> int:
        """How many connections there are at that port while the streams flow, idle ones included."""

    def wait(self) -> tuple[Transfer, ...]:
        """Wait for its end: a transfer for each direction, the sender's first. Raises MeasureError."""

    def raw(self) -> Any:
        """What the tool answered, as JSON, for the run folder; known after `wait`."""


class Workload(Protocol):
    """Something that sends data over the lane, as a value."""

    kind: ClassVar[str]

    def check(self, load: Load) -> None:
        """Raise ValueError with the reason when it cannot do what is asked."""

    def start(self, ends: Ends, load: Load) -> AbstractContextManager[RunningWorkload]:
        """Start it; whatever still runs when the block is left is ended. Raises MissingError, MeasureError."""
