"""A host over SSH, with the same interface as one in a namespace.

`restore_guard.sh` runs on the remote machine before any setting changes, and restores the settings afterwards.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from emulator.errors import MeasureError, MissingError, RefusedError
from emulator.hosts import root_qdisc
from emulator.hosts.host import listens
from emulator.hosts.ssh_connection import LEASE_S, Connection
from emulator.hosts.tools import nstat
from emulator.hosts.tools.process import Completed, Running

_KEEPER = Path(__file__).with_name("restore_guard.sh")
_TIMEOUT_S = 30.0
_BUSY = 3


class SshHost:
    """The hub or a site of this name, with this address on the lane."""

    def __init__(self, name: str, address: str, connection: Connection, lease_s: int = LEASE_S) -> None:
        self.name, self._address, self._connection, self._lease_s = name, address, connection, lease_s

    @cached_property
    def interface(self) -> str:
        """The interface that has the host's address. Raises MissingError when there is none."""
        said = self.run(["ip", "-j", "-4", "addr", "show", "up", "to", f"{self._address}/32"], _TIMEOUT_S).checked()
        for link in json.loads(said.stdout or "[]"):
            if link:
                return str(link["ifname"])
        raise MissingError(
            f"{self._connection.destination}: no interface that is up has the address {self._address} of {self.name}: "
            f"ip addr add {self._address}/24 dev INTERFACE && ip link set INTERFACE up"
        )

    def run(self, argv: Sequence[str], timeout_s: float, *, as_root: bool = False) -> Completed:
        """Run a program on the host to its end. Raises MissingError, MeasureError."""
        with self._connection.start(argv, as_root=as_root) as program:
            return program.wait(timeout_s)

    def start(self, argv: Sequence[str], *, as_root: bool = False) -> Running:
        """Start a program on the host; it ends when the connection does."""
        return self._connection.start(argv, as_root=as_root)

    def read(self, file: str, last_bytes: int | None = None) -> str:
        """A text file of the host, whole or its end, or what its kernel shows below /proc. Raises MeasureError."""
        argv = ["cat", file] if last_bytes is None else ["tail", "-c", str(last_bytes), file]
        return self.run(argv, _TIMEOUT_S).checked().stdout

    def read_sysctl(self, name: str) -> str:
        """The value of a sysctl. Raises MissingError when the host's kernel lacks it."""
        return " ".join(self._sysctl(name, ["cat", _path(name)], as_root=False).stdout.split())

    def write_sysctl(self, name: str, value: str) -> None:
        """Set a sysctl. Raises MissingError when the host's kernel lacks it or refuses the value."""
        self._sysctl(name, ["sh", "-c", 'echo "$1" >"$2"', "sysctl", value, _path(name)], as_root=True)

    def has_sysctl(self, name: str) -> bool:
        """Whether the host's kernel has this sysctl and shows it. Raises MeasureError when the host does not answer."""
        there = self.run(["test", "-e", _path(name)], _TIMEOUT_S)
        return there.exit_code == 0 or (there.exit_code != 1 and bool(there.checked()))

    @contextlib.contextmanager
    def kept(self, sysctls: Sequence[str], *, routes: bool, qdisc: bool) -> Iterator[None]:
        """Restore these sysctls, the connected routes and the root qdisc after the block, even when it fails or the
        connection breaks."""
        interface = self.interface if routes or qdisc else "-"
        arguments = ["keep", str(self._lease_s), interface, root_qdisc.HANDLE if qdisc else "-", *sysctls]
        with self._connection.start_script(_KEEPER.read_text("utf-8"), "longhaul-keeper", arguments) as keeper:
            if (said := keeper.read_line(_TIMEOUT_S)) != "ready":
                self._not_kept(said, keeper)
            beats = _Heartbeat(keeper, self._lease_s / 4)
            try:
                if qdisc:
                    # Not earlier: only now nothing is there any more that a killed measurement left.
                    root_qdisc.check(self)
                yield
            except BaseException:
                # The block's own error is what counts; the guard restores in either case.
                beats.end()
                keeper.read_line(_TIMEOUT_S)
                raise
            beats.end()
            self._check(keeper.read_line(_TIMEOUT_S))

    def _not_kept(self, said: str, keeper: Running) -> None:
        keeper.close_stdin()
        done, where = keeper.wait(_TIMEOUT_S), self._connection.destination
        if done.exit_code == _BUSY:
            raise RefusedError(f"{where}: another measurement is running there: wait until it ends")
        why = said or done.stderr.strip() or "the restore guard did not start"
        raise MissingError(f"{where}: {why}; no setting was changed")

    def _check(self, answer: str) -> None:
        """Check that the guard restored everything, and not before the end. Raises MeasureError."""
        where = self._connection.destination
        if answer == "expired":
            raise MeasureError(
                f"{where}: no heartbeat for {self._lease_s} s, so the host restored its settings: measure again"
            )
        if not answer:
            raise MeasureError(f"{where}: connection lost; the host restores its settings within {self._lease_s} s")
        if answer != "restored":
            raise MeasureError(
                f"{where}: some settings could not be restored: {answer}; /run/longhaul-keeper on that host keeps "
                "their old values, and the next measurement tries again"
            )

    def is_listening(self, port: int) -> bool:
        """Whether a TCP server listens on the port."""
        return listens(self.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"], _TIMEOUT_S).stdout, port)

    def counters(self) -> dict[str, int]:
        """The present values of the watched TCP counters. Raises MeasureError."""
        return nstat.watched(self.run(["cat", *nstat.FILES], _TIMEOUT_S).checked().stdout)

    def _sysctl(self, name: str, argv: Sequence[str], *, as_root: bool) -> Completed:
        done = self.run(argv, _TIMEOUT_S, as_root=as_root)
        if done.exit_code:
            why = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise MissingError(f"{self._connection.destination}: {name} cannot be read or set: {why}")
        return done


class _Heartbeat:
    """Sends the guard regular heartbeats, as proof that we are connected."""

    def __init__(self, keeper: Running, every_s: float) -> None:
        self._keeper, self._every_s, self._over = keeper, every_s, threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        count = 1
        with contextlib.suppress(OSError):
            while not self._over.wait(self._every_s):
                self._keeper.say(str(count))
                count += 1

    def end(self) -> None:
        """Tell the guard to restore. When the message cannot reach it, the guard restores anyway."""
        self._over.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            self._keeper.say("end")


def _path(sysctl: str) -> str:
    return "/proc/sys/" + sysctl.replace(".", "/")
