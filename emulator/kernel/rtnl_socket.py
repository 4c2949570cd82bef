"""Reads rtnetlink with a plain socket: dumps and single queries, as the bodies of their messages.

pyroute2 decodes every attribute of a message by classes of its own, which takes ten times as long: what is read every
second, or for every lane, is decoded by its reader, as far as it needs it (link_messages.py, qdisc_counters.py).
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterator

NLM_F_REQUEST, NLM_F_DUMP_INTR, NLM_F_DUMP = 0x1, 0x10, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
"""netlink.h of the kernel's uapi."""

HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence number, port."""

SIOCGIFNAME = 0x8910
NESTED_OR_ORDERED = 0xC000
ANSWER_BYTES = 1 << 18
DUMPS = 100
"""So often a dump is begun again when the machine's links change meanwhile; the last one counts all the same."""

_ATTRIBUTE = struct.Struct("=HH")
_INT = struct.Struct("=i")
_NAMED = struct.Struct("=16si20x")


def opened(groups: int = 0) -> socket.socket:
    """An rtnetlink socket in the thread's namespace that receives these multicast groups."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    made.bind((0, groups))
    return made


class RtnlSocket:
    """Dumps and queries. One thread at a time may use it; it stays in the namespace where it was opened."""

    def __init__(self) -> None:
        self._socket = opened()
        self._sent = 0

    def __enter__(self) -> RtnlSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def dump(self, kind: int, body: bytes) -> list[bytes]:
        """The bodies of all answers to a request of this type (RTM_GET...). Raises OSError."""
        for _ in range(DUMPS):
            self._send(kind, NLM_F_REQUEST | NLM_F_DUMP, body)
            interrupted, found = False, list[bytes]()
            for answer, flags, data in self._answers():
                interrupted |= bool(flags & NLM_F_DUMP_INTR)
                if answer in (NLMSG_ERROR, NLMSG_DONE):
                    break
                found.append(data)
            if not interrupted:
                break
        return found

    def query(self, kind: int, body: bytes, flags: int = 0) -> bytes | None:
        """The body of the answer; None when what it asks for does not exist, or the kernel only acknowledges the
        request (with NLM_F_ACK). Raises OSError."""
        self._send(kind, NLM_F_REQUEST | flags, body)
        try:
            answer, _, data = next(self._answers())
            return None if answer == NLMSG_ERROR else data
        except OSError as error:
            if error.errno in (errno.ENODEV, errno.ENOENT):
                return None
            raise

    def name_of(self, index: int) -> str:
        """An interface's name. Raises OSError when there is none."""
        named: bytes = fcntl.ioctl(self._socket, SIOCGIFNAME, _NAMED.pack(b"", index))
        return named.partition(b"\0")[0].decode()

    def _send(self, kind: int, flags: int, body: bytes) -> None:
        self._sent += 1
        self._socket.send(HEADER.pack(HEADER.size + len(body), kind, flags, self._sent, 0) + body)

    def _answers(self) -> Iterator[tuple[int, int, bytes]]:
        """The type, the flags and the body of each answer. Raises OSError when the kernel refuses the request."""
        while True:
            for kind, flags, number, body in messages(self._socket.recv(ANSWER_BYTES)):
                if number != self._sent:  # of a request whose reader was interrupted
                    continue
                if kind in (NLMSG_ERROR, NLMSG_DONE) and (code := -_INT.unpack_from(body)[0]):
                    raise OSError(code, os.strerror(code))
                yield kind, flags, body


def messages(answer: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """The type, the flags, the sequence number and the body of each message of a datagram."""
    at = 0
    while at + HEADER.size <= len(answer):
        length, kind, flags, number, _ = HEADER.unpack_from(answer, at)
        if length < HEADER.size:
            return
        yield kind, flags, number, answer[at + HEADER.size : at + length]
        at += aligned(length)


def attributes(data: bytes) -> dict[int, bytes]:
    """The attributes by type; of a type that comes more than once, the last."""
    return dict(listed(data))


def listed(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The type and the content of each attribute."""
    at, end = 0, len(data)
    while at + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind & ~NESTED_OR_ORDERED, data[at + _ATTRIBUTE.size : at + length]
        at += aligned(length)


def attribute(kind: int, content: bytes) -> bytes:
    """One attribute, encoded."""
    length = _ATTRIBUTE.size + len(content)
    return (_ATTRIBUTE.pack(length, kind) + content).ljust(aligned(length), b"\0")


def aligned(length: int) -> int:
    """The length with its padding: netlink's messages and attributes begin at multiples of 4 bytes."""
    return (length + 3) & ~3
