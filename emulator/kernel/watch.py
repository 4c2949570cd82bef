"""Reports other programs' changes: rtnetlink's groups for links, qdiscs and addresses, engines that end, and a replaced
file (inotify(7))."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import select
import socket
from pathlib import Path

from emulator.kernel.engine_watch import Engines
from emulator.kernel.rtnl_socket import opened

LINK, QDISC, IPV4_ADDRESS = 0x1, 0x8, 0x10
"""RTMGRP_LINK, RTMGRP_TC, RTMGRP_IPV4_IFADDR (include/uapi/linux/rtnetlink.h)."""

BUFFER_BYTES = 1 << 20
IN_MOVED_TO = 0x80
_libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """It does not read what changed, only that something did: the caller then observes. Raises OSError."""

    def __init__(self, file: Path) -> None:
        self._socket = opened(LINK | QDISC | IPV4_ADDRESS)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._socket.setblocking(False)
        self._engines = Engines()
        self._name = os.fsencode(file.name)
        self._files = _watch_folder(file.parent)

    def wait(self, timeout_s: float, wake_fd: int | None = None) -> bool:
        """Wait until something changes, `wake_fd` is readable, or the time is over; returns whether something changed.

        All changes that arrived meanwhile count as one burst.
        """
        if self._engines.look():
            return True
        news, waiting = self._socket.fileno(), select.poll()
        for fd in {news, self._files, *self._engines.descriptors, wake_fd}:
            if fd is not None:
                waiting.register(fd, select.POLLIN)
        ready = {fd for fd, _ in waiting.poll(math.ceil(max(timeout_s, 0) * 1000))}
        ended = self._engines.ended(ready)
        replaced = self._files is not None and self._files in ready and self._name in os.read(self._files, 1 << 16)
        return (news in ready and self._drain()) or ended or replaced

    def close(self) -> None:
        """Close the sockets and descriptors."""
        self._socket.close()
        self._engines.close()
        if self._files is not None:
            os.close(self._files)

    def _drain(self) -> bool:
        while True:
            try:
                self._socket.recv(1 << 16)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # the queue overflowed: that is a change as well
                    raise


def _watch_folder(folder: Path) -> int | None:
    """An inotify file descriptor that reports every file renamed into a folder.

    None on a kernel without inotify: the watchdog then sees a new intent at its next check.
    """
    fd = int(_libc.inotify_init1(os.O_CLOEXEC))
    if fd < 0 and ctypes.get_errno() == errno.ENOSYS:
        return None
    if fd < 0 or _libc.inotify_add_watch(fd, os.fsencode(folder), IN_MOVED_TO) < 0:
        raise OSError(code := ctypes.get_errno(), os.strerror(code), str(folder))
    return fd
