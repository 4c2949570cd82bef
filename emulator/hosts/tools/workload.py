"""The workload of a cell as an interface. Streams start between two hosts and report what the receiver received.

A workload is a value: its kind and its own settings, which a cell stores as JSON (`workloads`). The cell does not know
how it counts. A new workload of streams is a `Struct` of msgspec with what `StreamWorkload` has, and a row of
`workloads.KINDS`; one of another nature also has a function that measures it (`experiment.run_cell.MEASURES`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

from msgspec import Struct

from emulator.analysis.transfer import Transfer
from emulator.hosts.host import Host


class Ends(Struct, frozen=True):
    """The two hosts and their addresses on the lane. Data flows from the sender to the receiver."""

    sender: Host
    receiver: Host
    sender_address: str
    receiver_address: str


class Load(Struct, frozen=True):
    """The parameters of a workload; `both`: data also flows back at the same time.

    `congestion_control` None keeps the kernel's default. `interval_s` is the length of the receiver's intervals.
    `expected_bytes_per_s` (of payload) and `rtt_ns` are estimates for block sizes and time limits.
    """

    duration_s: int
    streams: int
    congestion_control: str | None
    both: bool
    interval_s: float
    expected_bytes_per_s: float
    rtt_ns: int


class RunningWorkload(Protocol):
    """A running workload."""

    @property
    def port(self) -> int:
        """The receiver's TCP port; in a test of both directions the streams back come from it."""

    @property
    def connections(self) -> int:
        """The number of connections at that port while the streams flow, including idle ones."""

    def is_running(self) -> bool:
        """Whether it is still at work."""

    def wait(self) -> tuple[Transfer, ...]:
        """Wait for its end: a transfer for each direction, the sender's first. Raises MeasureError."""

    def raw(self) -> Any:
        """The tool's output as JSON, for the run folder; known after `wait`."""


class Workload(Protocol):
    """What a cell runs over its lane, as a value."""

    kind: ClassVar[str]

    def check(self, load: Load) -> None:
        """Raise ValueError with the reason when the workload cannot carry the load."""

    def title(self, load: Load) -> str:
        """What the head of a table calls it."""

    def part(self, load: Load) -> str:
        """Its part of a cell's name: a word without blanks."""


class StreamWorkload(Workload, Protocol):
    """A program that sends as much data as it can over the lane, for a given time."""

    def start(self, ends: Ends, load: Load) -> AbstractContextManager[RunningWorkload]:
        """Start it; leaving the block ends whatever still runs. Raises MissingError, MeasureError."""
