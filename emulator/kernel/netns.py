"""Enters a network namespace without a fork: setns(2) moves the calling thread alone.

Sockets that it opens, processes that it starts and /proc/sys/net then belong to that namespace.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from emulator.errors import MissingError

T = TypeVar("T")


class GoneError(MissingError):
    """There is no such namespace, or no longer."""


RUN = Path("/run/netns")
"""Where iproute2 keeps named namespaces; Longhaul's are of the same kind, so `ip netns exec` works with them."""

_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_REC, _MS_SHARED, _MNT_DETACH = 4096, 16384, 1 << 20, 2
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Run the body in `namespace`. Raises GoneError when there is none, MissingError when the process may not enter."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            there = os.open(RUN / namespace, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise GoneError(f"there is no host {namespace}: is the topology up? ({error.strerror})") from error
        try:
            _setns(there, namespace)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _setns(home, "the namespace it came from")
    finally:
        os.close(home)


def names() -> frozenset[str]:
    """The named namespaces of this machine."""
    return frozenset(entry.name for entry in _entries() if _is_bound(entry))


def remnants() -> frozenset[str]:
    """The names that are no namespace but an empty file: a process was killed while it created or deleted them."""
    return frozenset(entry.name for entry in _entries() if _is_empty_file(entry) and not _is_bound(entry))


def _entries() -> list[os.DirEntry[str]]:
    try:
        with os.scandir(RUN) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_bound(entry: os.DirEntry[str]) -> bool:
    """Whether a namespace is bound over the name, or a link leads to one: all namespaces are on one device (nsfs)."""
    try:
        return os.stat(entry.path).st_dev == os.stat("/proc/thread-self/ns/net").st_dev  # noqa: PTH116 (no Path each)
    except OSError:  # a link that leads nowhere, or a name that is just being deleted
        return False


def _is_empty_file(entry: os.DirEntry[str]) -> bool:
    try:
        found = os.lstat(entry.path)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == 0


def _setns(fd: int, name: str) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) == 0:
        return
    code = ctypes.get_errno()
    if code == errno.EINVAL:
        raise GoneError(f"{RUN / name} is not a network namespace: delete it with ip netns del {name}")
    raise MissingError(f"cannot enter {name}: {os.strerror(code)}; run as root, or in the lab: longhaul lab run -- ...")


def create(namespace: str) -> None:
    """Create a named namespace as iproute2 does: an empty file, the namespace bound over it. Raises OSError."""
    RUN.mkdir(mode=0o755, parents=True, exist_ok=True)
    _share()
    path = RUN / namespace
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
    try:
        _in_new_thread(lambda: _bind_new(path))
    except OSError:
        path.unlink()
        raise


def delete(namespace: str) -> None:
    """Unbind and delete the name; the kernel ends the namespace with its last process or socket. Raises OSError."""
    path = RUN / namespace
    if _libc.umount2(os.fsencode(path), _MNT_DETACH) != 0 and ctypes.get_errno() != errno.EINVAL:
        _raise(path)
    path.unlink()


def _share() -> None:
    """Make the folder a mount of its own that other mount namespaces share, as iproute2 does.

    Whoever was killed between the two steps left a mount that is not shared: sharing is tried first.
    """
    try:
        _mount("none", RUN, _MS_SHARED)
    except OSError as error:
        if error.errno != errno.EINVAL:  # it is not a mount yet
            raise
        _mount(RUN, RUN, _MS_BIND)
        _mount("none", RUN, _MS_SHARED)


def _bind_new(path: Path) -> None:
    # In a thread of its own: unshare(2) would move the caller for good.
    if _libc.unshare(_CLONE_NEWNET) != 0:
        _raise(path)
    _mount("/proc/thread-self/ns/net", path, _MS_BIND)


def in_new(work: Callable[[], T]) -> T:
    """Run `work` in a new unnamed namespace, which lasts as long; returns its result. Raises OSError."""

    def enter() -> T:
        if _libc.unshare(_CLONE_NEWNET) != 0:
            _raise(RUN)
        return work()

    return _in_new_thread(enter)


def _in_new_thread(work: Callable[[], T]) -> T:
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(work).result()


def _mount(source: Path | str, target: Path, flags: int) -> None:
    if _libc.mount(os.fsencode(source), os.fsencode(target), b"none", flags, None) != 0:
        _raise(target)


def _raise(path: Path) -> None:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code), str(path))
