"""What hosts in namespaces were like before a profile: on disk while it is on them, for who is killed restores nothing.

A file a namespace, below a lock that is held by who is at work there and by nobody once it is dead: what is left then
is put back by the next measurement, `up`, `down` or look of the daemon. Like the settings themselves, the files last
until the machine's next start.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from emulator.errors import LonghaulError, MeasureError, MissingError, RefusedError
from emulator.hosts.tools import process
from emulator.kernel import netns
from emulator.system import atomic_file

FOLDER = Path("/run/longhaul/hosts")
TCP_MEM = "net.ipv4.tcp_mem"
"""The one setting of ours that is the machine's; namespaces other than the first do not even show it."""

_PROC_SYS = Path("/proc/sys")
_TIMEOUT_S = 30.0
_SO_NETNS_COOKIE = 71


@dataclass(frozen=True)
class Before:
    """How a host was: its sysctls, and the commands that make its routes as they were.

    `cookie` tells its namespace from a later one of the same name.
    """

    namespace: str
    cookie: int
    sysctls: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, ...], ...]

    def put_back(self) -> None:
        """Make it so again, of a namespace that is gone only what is the machine's. Raises LonghaulError."""
        stands = _cookie(self.namespace) == self.cookie
        for argv in self.commands if stands else ():
            process.run(argv, _TIMEOUT_S, self.namespace).checked()
        for name, value in self.sysctls:
            if stands or not is_local(name):
                write_sysctl(self.namespace, name, value)


def before(namespace: str, sysctls: list[tuple[str, str]], commands: list[list[str]]) -> Before:
    """How a host of that namespace is now."""
    return Before(namespace, _cookie(namespace), tuple(sysctls), tuple(map(tuple, commands)))


def is_local(sysctl: str) -> bool:
    """Whether each namespace has a value of its own."""
    return sysctl != TCP_MEM


def where(namespace: str, sysctl: str) -> contextlib.AbstractContextManager[None]:
    """Where to read and write a sysctl."""
    return netns.inside(namespace) if is_local(sysctl) else contextlib.nullcontext()


def path(sysctl: str) -> Path:
    """The file of a sysctl."""
    return _PROC_SYS / sysctl.replace(".", "/")


def write_sysctl(namespace: str, name: str, value: str) -> None:
    """Set a sysctl of a namespace. Raises MissingError when this kernel does not have it or the value."""
    with where(namespace, name):
        try:
            path(name).write_text(value)
        except OSError as error:
            raise MissingError(f"{name} cannot be set to {value!r} here: {error.strerror}") from None


@contextlib.contextmanager
def at_work(namespace: str) -> Iterator[Path]:
    """The file for what this namespace was like, which nobody else may write for the time of the block.

    Before, all that the killed have left is put back. Raises RefusedError when another is at work, MeasureError when
    something cannot be put back.
    """
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = FOLDER / f"{namespace}.json"
    if reasons := recover():
        raise MeasureError("\n".join(reasons))
    with _lock(file) as is_ours:
        if not is_ours:
            raise RefusedError(f"{namespace}: another measurement is at work there: wait for its end")
        yield file


def write(file: Path, was: Before) -> None:
    """Write down what a host was like, before it is touched."""
    atomic_file.write(file, json.dumps(asdict(was)).encode())


def recover() -> list[str]:
    """Put back what measurements that were killed have left. Why some could not be: empty when all is well."""
    reasons = []
    for file in sorted(FOLDER.glob("*.json")):
        with _lock(file) as is_free:
            if is_free and file.exists():
                try:
                    _read(file).put_back()
                    file.unlink()
                except (LonghaulError, OSError, ValueError, KeyError, TypeError) as error:
                    reasons.append(f"{error}; put it back by hand and remove {file}")
    return reasons


def _read(file: Path) -> Before:
    raw = json.loads(file.read_text())
    sysctls = tuple((name, value) for name, value in raw["sysctls"])
    return Before(raw["namespace"], raw["cookie"], sysctls, tuple(map(tuple, raw["commands"])))


def _cookie(namespace: str) -> int:
    """The kernel's number for a namespace, which is never used again as inodes are (Linux 5.14); 0 without one."""
    try:
        with netns.inside(namespace), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
            return int.from_bytes(any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), "little")
    except (MissingError, OSError):
        return 0


@contextlib.contextmanager
def _lock(file: Path) -> Iterator[bool]:
    """Whether we have it. A process that dies lets go of it; its file stays, for removing it would be a race."""
    fd = os.open(file.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)
