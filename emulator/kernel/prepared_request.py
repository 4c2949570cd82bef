"""Netlink requests encoded in advance, so that sending them takes one system call and nothing else.

A scheduled change must happen at an instant: building its message then would delay it.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from emulator.kernel.rtnl_socket import ANSWER_BYTES, HEADER, aligned, opened

NLM_F_ACK = 4
_ERROR = struct.Struct("=i")
SO_SNDBUFFORCE = 32
SEND_BUFFER_BYTES = 1 << 24
"""A jitter's table is 32 KiB, and every direction of every lane may bring one."""


def encode(messages: Sequence[Any]) -> bytes:
    """The messages (pyroute2's) one after the other, numbered from 1; the kernel acknowledges only the last."""
    parts = []
    for number, message in enumerate(messages, 1):
        message["header"]["sequence_number"] = number
        message["header"]["flags"] |= NLM_F_ACK
        if number < len(messages):
            message["header"]["flags"] ^= (
                NLM_F_ACK  # a hundred lanes' would find no room; the kernel reports a refusal anyway
            )
        message.encode()
        parts.append(bytes(message.data))
    return b"".join(parts)


class Requests:
    """A plain socket for requests that the kernel only acknowledges. One thread at a time may use it."""

    def __init__(self) -> None:
        self._socket, self._buffer = opened(), memoryview(bytearray(ANSWER_BYTES))
        with suppress(PermissionError):
            self._socket.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, SEND_BUFFER_BYTES)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, encoded: bytes, count: int) -> None:
        """Send all `count` requests in one sendmsg(2). Raises OSError, the first refusal.

        The kernel handles them in order without returning in between, and continues after one that it refuses."""
        self._socket.send(encoded)
        refused, done = 0, not count
        while not done:
            answer = bytes(self._buffer[: self._socket.recv_into(self._buffer)])
            while answer:
                length, _, _, number, _ = HEADER.unpack_from(answer)
                refused = refused or -_ERROR.unpack_from(answer, HEADER.size)[0]
                done = done or number == count
                answer = answer[aligned(length) :]
        if refused:
            raise OSError(refused, os.strerror(refused))
