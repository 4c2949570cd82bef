"""The interface of a host: the hub or a site, which runs programs and whose TCP settings change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from emulator.hosts.tools.process import Completed, Running

_LISTENING = "0A"
"""TCP_LISTEN in the kernel's tables (include/net/tcp_states.h)."""


class Host(Protocol):
    """A namespace of this machine, or another machine reached over SSH."""

    @property
    def name(self) -> str:
        """The hub's or the site's name in the topology."""

    @property
    def interface(self) -> str:
        """The interface that connects to the lane."""

    def run(self, argv: Sequence[str], timeout_s: float, *, as_root: bool = False) -> Completed:
        """Run a program on the host to its end. Raises MissingError, MeasureError."""

    def start(self, argv: Sequence[str], *, as_root: bool = False) -> Running:
        """Start a program on the host; it ends with the block of `Running`, or when the connection ends."""

    def read(self, file: str, last_bytes: int | None = None) -> str:
        """A text file of the host, whole or its end, or what its kernel shows below /proc. Raises MeasureError."""

    def read_sysctl(self, name: str) -> str:
        """The value of a sysctl such as "net.ipv4.tcp_rmem", its words separated by one blank."""

    def write_sysctl(self, name: str, value: str) -> None:
        """Set a sysctl. Raises MissingError when the host's kernel lacks it or refuses the value."""

    def has_sysctl(self, name: str) -> bool:
        """Whether the host's kernel has this sysctl and shows it."""

    def kept(self, sysctls: Sequence[str], *, routes: bool, qdisc: bool) -> AbstractContextManager[None]:
        """Restore these sysctls, the connected routes and the root qdisc after the block, even when it fails or the
        process is killed. Raises RefusedError when the root qdisc is one that cannot be restored."""

    def is_listening(self, port: int) -> bool:
        """Whether a TCP server listens on the port."""

    def counters(self) -> dict[str, int]:
        """The kernel's TCP counters that `hosts.tools.nstat` watches."""


def listens(table: str, port: int) -> bool:
    """Whether a table in the form of /proc/net/tcp shows a server on the port."""
    rows = (line.split() for line in table.splitlines())
    return any(len(row) > 3 and row[1].endswith(f":{port:04X}") and row[3] == _LISTENING for row in rows)
