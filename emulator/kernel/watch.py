"""Hear of other programs' changes: rtnetlink's groups for links, qdiscs and addresses, over a plain socket."""

from __future__ import annotations

import errno
import select
import socket

LINK, QDISC, IPV4_ADDRESS = 0x1, 0x8, 0x10
"""RTMGRP_LINK, RTMGRP_TC, RTMGRP_IPV4_IFADDR (include/uapi/linux/rtnetlink.h)."""

BUFFER_BYTES = 1 << 20


class Watch:
    """What happens is not read, only that something did: whoever hears of it observes. Raises OSError."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._socket.bind((0, LINK | QDISC | IPV4_ADDRESS))
        self._socket.setblocking(False)

    def wait(self, timeout_s: float, wake_fd: int | None = None) -> bool:
        """Until something changes, `wake_fd` is readable, or so much time is over; whether something changed.

        All that has arrived meanwhile counts as one burst.
        """
        news = self._socket.fileno()
        ready, _, _ = select.select([news] if wake_fd is None else [news, wake_fd], [], [], max(timeout_s, 0))
        return news in ready and self._drain()

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()

    def _drain(self) -> bool:
        while True:
            try:
                self._socket.recv(1 << 16)
            except BlockingIOError:
                return True
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # more happened than found room: that is news as well
                    raise
