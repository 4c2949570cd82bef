"""A host in a network namespace of this machine: run commands there, read and write its sysctls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import MissingError
from emulator.hosts import route_metrics, saved_settings
from emulator.hosts.host import listens
from emulator.hosts.tools import nstat, process
from emulator.hosts.tools.process import Completed, Running
from emulator.kernel import netns
from emulator.plan.state import HOST_PORT, namespace_of

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
        """The value of a sysctl such as "net.ipv4.tcp_rmem", words separated by one blank. Raises MissingError."""
        with saved_settings.where(self.namespace, name):
            try:
                return " ".join(saved_settings.path(name).read_text().split())
            except OSError as error:
                raise MissingError(f"{name} cannot be read here: {error.strerror}") from None

    def write_sysctl(self, name: str, value: str) -> None:
        """Set a sysctl. Raises MissingError when this kernel does not have it or the value."""
        saved_settings.write_sysctl(self.namespace, name, value)

    def has_sysctl(self, name: str) -> bool:
        """Whether there is such a sysctl."""
        with saved_settings.where(self.namespace, name):
            return saved_settings.path(name).exists()

    @contextlib.contextmanager
    def kept(self, sysctls: Sequence[str], *, routes: bool) -> Iterator[None]:
        """What these sysctls, and the connected routes, are now is what they are after the block; last is put first.

        It is written down before the block, so that others can put it back when we are killed.
        """
        with saved_settings.at_work(self.namespace) as file:
            values = [(name, self.read_sysctl(name)) for name in reversed(sysctls)]
            found = route_metrics.connected(self) if routes else []
            was = saved_settings.before(self.namespace, values, [one.change_argv(one.metrics) for one in found])
            saved_settings.write(file, was)
            try:
                yield
            finally:
                was.put_back()
                file.unlink()

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
