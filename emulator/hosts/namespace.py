"""A host in a network namespace of this machine: run commands there, read and write its sysctls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import MissingError
from emulator.hosts import route
from emulator.hosts.host import listens
from emulator.kernel import netns
from emulator.measure import nstat, process
from emulator.measure.process import Completed, Running
from emulator.state import HOST_PORT, namespace_of

PROC_SYS = Path("/proc/sys")
OWN = Path("/proc/thread-self/net")
"""Of the calling thread's namespace; /proc/net is that of the process."""


@dataclass(frozen=True)
class NamespaceHost:
    """The hub or a site of a virtual topology, by its name there."""

    name: str

    @property
    def namespace(self) -> str:
        """The kernel's name for it."""
        return namespace_of(self.name)

    @property
    def interface(self) -> str:
        """Its only interface."""
        return HOST_PORT

    def run(self, argv: Sequence[str], timeout_s: float, *, as_root: bool = False) -> Completed:  # noqa: ARG002
        """Run a program there to its end; as root in any case, or we could not step in."""
        return process.run(argv, timeout_s, self.namespace)

    def start(self, argv: Sequence[str]) -> Running:
        """Start a program there."""
        return process.start(argv, self.namespace)

    def read_sysctl(self, name: str) -> str:
        """The value of a sysctl such as "net.ipv4.tcp_rmem", words separated by one blank."""
        with self._where(name):
            return " ".join(_path(name).read_text().split())

    def write_sysctl(self, name: str, value: str) -> None:
        """Set a sysctl. Raises MissingError when this kernel does not have it or the value."""
        with self._where(name):
            try:
                _path(name).write_text(value)
            except OSError as error:
                raise MissingError(f"{name} cannot be set to {value!r} here: {error.strerror}") from None

    @contextlib.contextmanager
    def kept(self, sysctls: Sequence[str], *, routes: bool) -> Iterator[None]:
        """What these sysctls, and the connected routes, are now is what they are after the block; last is put first."""
        before = [(name, self.read_sysctl(name)) for name in sysctls]
        found = route.connected(self) if routes else []
        try:
            yield
        finally:
            for one in found:
                route.change(self, one, one.metrics)
            for name, value in reversed(before):
                self.write_sysctl(name, value)

    def is_listening(self, port: int) -> bool:
        """Whether a TCP server waits on the port."""
        with netns.inside(self.namespace):
            tables = [OWN / table for table in ("tcp", "tcp6")]
            return any(listens(table.read_text(), port) for table in tables if table.exists())

    def counters(self) -> dict[str, int]:
        """The watched TCP counters as they are now. Raises MeasureError, MissingError."""
        with netns.inside(self.namespace):
            text = "".join((OWN / Path(file).name).read_text() for file in nstat.FILES)
        return nstat.watched(text)

    def _where(self, sysctl: str) -> contextlib.AbstractContextManager[None]:
        return netns.inside(self.namespace) if is_local(sysctl) else contextlib.nullcontext()


def is_local(sysctl: str) -> bool:
    """Whether each namespace has a value of its own; tcp_mem is the machine's."""
    return sysctl != "net.ipv4.tcp_mem"


def _path(sysctl: str) -> Path:
    return PROC_SYS / sysctl.replace(".", "/")
