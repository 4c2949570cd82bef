"""A host in a network namespace of this machine: runs commands there, reads and writes its sysctls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from emulator.errors import MeasureError, MissingError
from emulator.hosts import root_qdisc, route_metrics, saved_settings
from emulator.hosts.host import listens
from emulator.hosts.tools import nstat, process
from emulator.hosts.tools.process import Completed, Running
from emulator.kernel import netns
from emulator.model.device_names import namespace_of
from emulator.plan.state import HOST_PORT
from emulator.system import bounded_file

PROC = Path("/proc")
OWN = Path("/proc/thread-self/net")
"""The sysctls of the calling thread's namespace; /proc/net belongs to the process's namespace."""


class NamespaceHost(Struct, frozen=True):
    """The hub or a site of a virtual topology, by its name in the topology."""

    name: str

    @property
    def namespace(self) -> str:
        """The kernel's name of the namespace."""
        return namespace_of(self.name)

    @property
    def interface(self) -> str:
        """The namespace's only interface."""
        return HOST_PORT

    def run(self, argv: Sequence[str], timeout_s: float, *, as_root: bool = False) -> Completed:  # noqa: ARG002
        """Run a program in the namespace to its end, as root: only root may enter a namespace."""
        return process.run(argv, timeout_s, self.namespace)

    def start(self, argv: Sequence[str], *, as_root: bool = False) -> Running:  # noqa: ARG002
        """Start a program in the namespace, as root: only root may enter a namespace."""
        return process.start(argv, self.namespace)

    def read(self, file: str, last_bytes: int | None = None) -> str:
        """A text file, whole or its end, or what the kernel shows of the namespace below /proc. Raises MeasureError."""
        path = Path(file)
        try:
            if path.is_relative_to(PROC):
                with netns.inside(self.namespace):
                    return (OWN / path.name if path.parent == PROC / "net" else path).read_text("utf-8")
            if last_bytes is None:
                content = bounded_file.read_bytes(path, bounded_file.OUTPUT)
            else:
                content = bounded_file.read_end(path, bounded_file.OUTPUT, last_bytes)
        except OSError as error:
            raise MeasureError(f"{file} cannot be read: {error.strerror}") from None
        return content.decode(errors="replace")

    def read_sysctl(self, name: str) -> str:
        """The value of a sysctl such as "net.ipv4.tcp_rmem", its words separated by one blank. Raises MissingError."""
        with saved_settings.where(self.namespace, name):
            try:
                return " ".join(saved_settings.path(name).read_text("utf-8").split())
            except OSError as error:
                raise MissingError(f"{name} cannot be read here: {error.strerror}") from None

    def write_sysctl(self, name: str, value: str) -> None:
        """Set a sysctl. Raises MissingError when this kernel lacks it or refuses the value."""
        saved_settings.write_sysctl(self.namespace, name, value)

    def has_sysctl(self, name: str) -> bool:
        """Whether the namespace has this sysctl."""
        with saved_settings.where(self.namespace, name):
            return saved_settings.path(name).exists()

    @contextlib.contextmanager
    def kept(self, sysctls: Sequence[str], *, routes: bool, qdisc: bool) -> Iterator[None]:
        """Restore these sysctls, the connected routes and the root qdisc after the block, in reverse order.

        The values are saved on disk before the block, so that another process can restore them if this one is killed.
        """
        with saved_settings.at_work(self.namespace) as file:
            values = [(name, self.read_sysctl(name)) for name in reversed(sysctls)]
            commands = [one.change_argv(one.metrics) for one in (route_metrics.connected(self) if routes else [])]
            if qdisc:
                root_qdisc.check(self)
                commands.append(root_qdisc.take_off_argv(self.interface))
            was = saved_settings.before(self.namespace, values, commands)
            saved_settings.write(file, was)
            try:
                yield
            finally:
                was.put_back()
                file.unlink()

    def is_listening(self, port: int) -> bool:
        """Whether a TCP server listens on the port."""
        with netns.inside(self.namespace):
            tables = [OWN / table for table in ("tcp", "tcp6")]
            return any(listens(table.read_text("utf-8"), port) for table in tables if table.exists())

    def counters(self) -> dict[str, int]:
        """The present values of the watched TCP counters. Raises MeasureError, MissingError."""
        with netns.inside(self.namespace):
            text = "".join((OWN / Path(file).name).read_text("utf-8") for file in nstat.FILES)
        return nstat.watched(text)
