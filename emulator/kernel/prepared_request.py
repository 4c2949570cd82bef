"""Netlink requests that are encoded beforehand, so that to send them takes one system call and nothing else.

When a change must happen at an instant, the work of making its message has no place between the two.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

NLM_F_ACK = 4
_HEADER = struct.Struct("=IHHII")
_ERROR = struct.Struct("=i")
ANSWER_BYTES = 1 << 18


SO_SNDBUFFORCE = 32
SEND_BUFFER_BYTES = 1 << 24
"""A jitter's table is 32 KiB, and every direction of every lane may bring one."""


def encode(messages: Sequence[Any]) -> bytes:
    """The messages (pyroute2's) one after the other, numbered from 1; the last alone is acknowledged."""
    parts = []
    for number, message in enumerate(messages, 1):
        message["header"]["sequence_number"] = number
        message["header"]["flags"] |= NLM_F_ACK
        if number < len(messages):
            message["header"]["flags"] ^= NLM_F_ACK  # a hundred lanes' would not find room; a refusal is told anyway
        message.encode()
        parts.append(bytes(message.data))
    return b"".join(parts)


class Requests:
    """A plain socket for requests that are only acknowledged. Not for two threads at once."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        with suppress(PermissionError):
            self._socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER_BYTES)
        self._socket.bind((0, 0))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, encoded: bytes, count: int) -> None:
        """All `count` requests in one sendmsg(2): the kernel handles them one after the other without returning
        between, and goes on behind one that it refuses. Raises OSError, the first refusal."""
        self._socket.send(encoded)
        refused, done = 0, not count
        while not done:
            answer = self._socket.recv(ANSWER_BYTES)
            while answer:
                length, _, _, number, _ = _HEADER.unpack_from(answer)
                refused = refused or -_ERROR.unpack_from(answer, _HEADER.size)[0]
                done = done or number == count
                answer = answer[(length + 3) & ~3 :]
        if refused:
            raise OSError(refused, os.strerror(refused))
