"""A host in a network namespace of this machine: run commands there, read and write its sysctls."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.errors import MissingError
from emulator.kernel import netns
from emulator.measure import process
from emulator.measure.process import Completed, Running
from emulator.state import HOST_PORT, namespace_of

PROC_SYS = Path("/proc/sys")


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

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program there to its end."""
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

    def _where(self, sysctl: str) -> contextlib.AbstractContextManager[None]:
        return netns.inside(self.namespace) if is_local(sysctl) else contextlib.nullcontext()

    def is_listening(self, port: int) -> bool:
        """Whether a TCP server waits on the port."""
        with netns.inside(self.namespace):
            tables = [Path(f"/proc/thread-self/net/{table}") for table in ("tcp", "tcp6")]
            return any(_listens(table.read_text(), port) for table in tables if table.exists())


def is_local(sysctl: str) -> bool:
    """Whether each namespace has a value of its own; tcp_mem is the machine's."""
    return sysctl != "net.ipv4.tcp_mem"


def _path(sysctl: str) -> Path:
    return PROC_SYS / sysctl.replace(".", "/")


def _listens(table: str, port: int) -> bool:
    listening = "0A"
    rows = (line.split() for line in table.splitlines()[1:])
    return any(row[1].endswith(f":{port:04X}") and row[3] == listening for row in rows)
