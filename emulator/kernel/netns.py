"""Step into a network namespace without a fork: setns(2) moves the calling thread alone.

Sockets opened, /proc/sys/net read and processes started meanwhile belong to that namespace.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import MissingError

RUN = Path("/run/netns")
"""Where iproute2 keeps named namespaces; ours are the same kind, so that `ip netns exec` works with them."""

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Run the body in `namespace`. Raises MissingError when it does not exist or may not be entered."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            there = os.open(RUN / namespace, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise MissingError(f"there is no host {namespace}: is the topology up? ({error.strerror})") from error
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
    return frozenset(entry.name for entry in RUN.iterdir()) if RUN.is_dir() else frozenset()


def _setns(fd: int, name: str) -> None:
    if _libc.setns(fd, _CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise MissingError(f"cannot enter {name}: {reason}; run as root, or in the lab: longhaul lab run -- ...")
