"""Saves the settings of namespace hosts on disk while a profile is applied: a killed process cannot restore them.

Each namespace has one file, guarded by a lock that the process at work holds and that the kernel releases when it dies.
The next measurement, `up`, `down` or check of the daemon restores what a dead process left. Like the settings
themselves, the files last until the machine restarts.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from emulator.errors import LonghaulError, MeasureError, MissingError, RefusedError
from emulator.hosts.tools import process
from emulator.kernel import netns
from emulator.system import atomic_file, bounded_file, kept_file
from emulator.system.struct_json import from_plain, to_plain

FOLDER = Path("/run/longhaul/hosts")
TCP_MEM = "net.ipv4.tcp_mem"
"""The one sysctl that is global to the machine; only the first namespace shows it."""

_PROC_SYS = Path("/proc/sys")
_TIMEOUT_S = 30.0
_SO_NETNS_COOKIE = 71


class Before(Struct, frozen=True):
    """A host's state before the profile: its sysctls, and the commands that restore its
    routes and its root qdisc.

    `cookie` distinguishes its namespace from a later one of the same name.
    """

    namespace: str
    cookie: int
    sysctls: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        words = [self.namespace, *itertools.chain(*self.sysctls, *self.commands)]
        names = [self.namespace, *(name for name, _ in self.sysctls)]
        if not all(self.commands) or any("\0" in word for word in words) or any("/" in name for name in names):
            raise ValueError("these are no settings of a host")

    def put_back(self) -> None:
        """Restore the state; when the namespace is gone, only the machine's settings. Raises LonghaulError."""
        stands = _cookie(self.namespace) == self.cookie
        for argv in self.commands if stands else ():
            process.run(argv, _TIMEOUT_S, self.namespace).checked()
        for name, value in self.sysctls:
            if stands or not is_local(name):
                write_sysctl(self.namespace, name, value)


def before(namespace: str, sysctls: list[tuple[str, str]], commands: list[list[str]]) -> Before:
    """The present state of the host in that namespace."""
    return Before(namespace, _cookie(namespace), tuple(sysctls), tuple(map(tuple, commands)))


def is_local(sysctl: str) -> bool:
    """Whether each namespace has its own value of this sysctl."""
    return sysctl != TCP_MEM


def where(namespace: str, sysctl: str) -> contextlib.AbstractContextManager[None]:
    """The folder of the namespace's or the machine's sysctls."""
    return netns.inside(namespace) if is_local(sysctl) else contextlib.nullcontext()


def path(sysctl: str) -> Path:
    """The file of a sysctl."""
    return _PROC_SYS / sysctl.replace(".", "/")


def write_sysctl(namespace: str, name: str, value: str) -> None:
    """Set a sysctl of a namespace. Raises MissingError when this kernel lacks it or refuses the value."""
    with where(namespace, name):
        try:
            path(name).write_text(value, "utf-8")
        except OSError as error:
            raise MissingError(f"{name} cannot be set to {value!r} here: {error.strerror}") from None


@contextlib.contextmanager
def at_work(namespace: str) -> Iterator[Path]:
    """Lock the namespace's file for the block and yield it.

    First restores what killed processes left. Raises RefusedError when another measurement holds the lock, MeasureError
    when a setting cannot be restored, MissingError when nothing can be written there.
    """
    atomic_file.folder(FOLDER, mode=0o700)
    file = FOLDER / f"{namespace}.json"
    if reasons := recover():
        raise MeasureError("\n".join(reasons))
    with contextlib.ExitStack() as until_done:
        with _one_at_a_time():
            is_ours = until_done.enter_context(_lock(file))
        if not is_ours:
            raise RefusedError(f"{namespace}: another measurement is running there: wait until it ends")
        yield file


def write(file: Path, was: Before) -> None:
    """Save a host's state before anything changes. Raises MissingError."""
    atomic_file.write(file, json.dumps(to_plain(was)).encode(), clearing=True)


def recover() -> list[str]:
    """Restore what killed measurements left. Returns the reasons of failures; empty when everything is restored.

    A file that is spoilt is set aside: nobody knows any more what it held.
    """
    if not (files := sorted(FOLDER.glob("*.json"))):
        return []
    with _one_at_a_time():
        return [reason for file in files if (reason := _recovered(file))]


def _recovered(file: Path) -> str:
    """Restore what a killed measurement left; "", or the reason why it cannot be restored."""
    try:
        with _lock(file) as is_free:
            if is_free and os.path.lexists(file):
                from_plain(Before, kept_file.read_json(file, bounded_file.SAVED)).put_back()
                file.unlink()
    except ValueError as error:
        return _lost(file, str(error))
    except (LonghaulError, OSError) as error:
        return f"{error}; restore it by hand and remove {file}"
    return ""


def _lost(file: Path, why: str) -> str:
    """Set a spoilt file aside; what the user must know of it."""
    try:
        there = f"it is now {kept_file.set_aside(file)}"
    except OSError as error:
        there = f"it cannot be renamed: {error.strerror}"
    cure = "its host may still have the settings of a measurement: longhaul down and up make a new one"
    return f"{file} cannot be read: {why}; {there}; {cure}"


def _cookie(namespace: str) -> int:
    """The kernel's id of a namespace, which it never reuses, unlike inodes (Linux 5.14); 0 without one."""
    try:
        with netns.inside(namespace), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as any_socket:
            return int.from_bytes(any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), "little")
    except (MissingError, OSError):
        return 0


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Wait for others who try the files' locks: a check that holds one for a moment is no measurement."""
    fd = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _lock(file: Path) -> Iterator[bool]:
    """Whether we got the lock. The kernel releases a dead process's lock; the file stays, as removing it would be
    racy."""
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
