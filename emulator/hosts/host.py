"""What a host is: the hub or a site, where iperf3 and ping run and TCP is tuned, wherever that may be."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from emulator.hosts.tools.process import Completed, Running

_LISTENING = "0A"
"""TCP_LISTEN in the kernel's tables (include/net/tcp_states.h)."""


class Host(Protocol):
    """A namespace of this machine, or another machine over SSH."""

    @property
    def name(self) -> str:
        """The hub's or the site's name in the topology."""

    @property
    def interface(self) -> str:
        """The interface that leads to the lane."""

    def run(self, argv: Sequence[str], timeout_s: float, *, as_root: bool = False) -> Completed:
        """Run a program there to its end. Raises MissingError, MeasureError."""

    def start(self, argv: Sequence[str]) -> Running:
        """Start a program there; it ends with the block of `Running`, or when the connection does."""

    def read_sysctl(self, name: str) -> str:
        """The value of a sysctl such as "net.ipv4.tcp_rmem", words separated by one blank."""

    def write_sysctl(self, name: str, value: str) -> None:
        """Set a sysctl. Raises MissingError when that kernel does not have it or refuses the value."""

    def has_sysctl(self, name: str) -> bool:
        """Whether that kernel has such a sysctl and shows it."""

    def kept(self, sysctls: Sequence[str], *, routes: bool) -> AbstractContextManager[None]:
        """What these sysctls, and the connected routes, are now is what they are after the block, come what may."""

    def is_listening(self, port: int) -> bool:
        """Whether a TCP server waits on the port."""

    def counters(self) -> dict[str, int]:
        """The kernel's TCP counters that are watched (`measure.nstat`)."""


def listens(table: str, port: int) -> bool:
    """Whether a table such as /proc/net/tcp has a server on the port."""
    rows = (line.split() for line in table.splitlines())
    return any(len(row) > 3 and row[1].endswith(f":{port:04X}") and row[3] == _LISTENING for row in rows)
