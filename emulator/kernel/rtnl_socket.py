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
from collections.abc import Iterator, Sequence
from typing import NamedTuple

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP_INTR, NLM_F_DUMP = 0x1, 0x4, 0x10, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
"""netlink.h of the kernel's uapi."""

HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence number, port."""
TCMSG = struct.Struct("=4xiII4x")
"""struct tcmsg, which begins all that is said of qdiscs and filters: interface, handle, parent."""

SIOCGIFNAME = 0x8910
NESTED_OR_ORDERED = 0xC000
ANSWER_BYTES = 1 << 18
ABSENT = (errno.ENODEV, errno.ENOENT, errno.EOPNOTSUPP)
"""What a query asks for does not exist; the last: it is below a qdisc that has no places."""
AT_ONCE = 16
"""The answers to so many queries find room in the socket, each about 5 KB of 208; the kernel drops what does not."""
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


class RtnlQuery(NamedTuple):
    """A request for one thing: its type (RTM_GET...), its body and its flags."""

    kind: int
    body: bytes
    flags: int = 0


class RtnlAnswer(NamedTuple):
    """One message of the kernel's; `number` is that of the request."""

    kind: int
    flags: int
    number: int
    body: bytes

    def check(self, accepted: Sequence[int] = ()) -> None:
        """Of an NLMSG_ERROR or NLMSG_DONE: raises OSError unless it only acknowledges, or its errno is `accepted`."""
        code = -_INT.unpack_from(self.body)[0]
        if code and code not in accepted:
            raise OSError(code, os.strerror(code))


class RtnlSocket:
    """Dumps and queries. One thread at a time may use it; it stays in the namespace where it was opened."""

    def __init__(self) -> None:
        self._socket = opened()
        self._asked_from, self._sent = 1, 0
        """The numbers of the first and the last request that were sent together."""
        # Kept: each answer's own would be mapped and unmapped.
        self._buffer = memoryview(bytearray(ANSWER_BYTES))

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
            self._send([RtnlQuery(kind, body, NLM_F_DUMP)])
            interrupted, found = False, list[bytes]()
            for answer in self._answers():
                interrupted |= bool(answer.flags & NLM_F_DUMP_INTR)
                if answer.kind in (NLMSG_ERROR, NLMSG_DONE):
                    answer.check()
                    break
                found.append(answer.body)
            if not interrupted:
                break
        return found

    def queries(self, asked: Sequence[RtnlQuery]) -> list[bytes | None]:
        """The body of the answer to each; None where what it asks for does not exist, or is not shown. Raises OSError.

        One system call asks several: a process that is traced, as in a lab, pays most for the calls.
        """
        found = list[bytes | None]()
        for first in range(0, len(asked), AT_ONCE):
            found += self._together(asked[first : first + AT_ONCE])
        return found

    def _together(self, asked: Sequence[RtnlQuery]) -> list[bytes | None]:
        found: list[bytes | None] = [None] * len(asked)
        # The kernel answers in order: when it acknowledges the last, it has answered all.
        self._send([*asked[:-1], asked[-1]._replace(flags=asked[-1].flags | NLM_F_ACK)])
        for answer in self._answers():
            if answer.kind != NLMSG_ERROR:
                found[answer.number - self._asked_from] = answer.body
                continue
            answer.check(ABSENT)
            if answer.number == self._sent:
                break
        return found

    def name_of(self, index: int) -> str:
        """An interface's name. Raises OSError when there is none."""
        named: bytes = fcntl.ioctl(self._socket, SIOCGIFNAME, _NAMED.pack(b"", index))
        return named.partition(b"\0")[0].decode(errors="backslashreplace")

    def _send(self, asked: Sequence[RtnlQuery]) -> None:
        """Send requests in one datagram, each numbered."""
        parts = []
        for number, (kind, body, flags) in enumerate(asked, self._sent + 1):
            parts.append(HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST | flags, number, 0))
            parts.append(body.ljust(aligned(len(body)), b"\0"))
        self._asked_from, self._sent = self._sent + 1, self._sent + len(asked)
        self._socket.send(b"".join(parts))

    def _answers(self) -> Iterator[RtnlAnswer]:
        """The answers to what was sent last; those to requests whose reader was interrupted are left out."""
        while True:
            size = self._socket.recv_into(self._buffer)
            for kind, flags, number, body in messages(bytes(self._buffer[:size])):
                if self._asked_from <= number <= self._sent:
                    yield RtnlAnswer(kind, flags, number, body)


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
