"""Forwards TCP connections from a port of the host to a port inside the lab, over one pair of byte streams.

The lab's only connection to the host is a serial line. Every chunk on it is a frame: connection, kind, length, bytes.
The host's end accepts connections, the lab's end connects to the server; both ends run this code.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

HEADER = struct.Struct("!4sHBH")
MAGIC = b"LhFw"
"""The first bytes of every frame; the reader skips everything before the first frame (a console's greeting)."""

HELLO, OPEN, DATA, CLOSE, TAKEN = range(5)
LARGEST = 4096
LARGEST_READ = 1 << 15
MOST_UNDER_WAY = 3072
"""The most bytes on their way to the lab. The lab acknowledges them by TAKEN frames, with their number in place of the
connection. User-mode Linux stops reading its serial line for ever when the terminal's buffer of 4096 bytes is full
(drivers/line.c, line_throttle)."""

MOST_WAITING_BYTES = 8 << 20
"""A peer that does not read is disconnected when this many bytes wait for it: all peers share the line."""

Connect = Callable[[], socket.socket]


@dataclass
class _ForwardedConnection:
    """One TCP connection at this end, and the bytes that wait to be sent to it."""

    number: int
    sock: socket.socket
    waiting: bytearray = field(default_factory=bytearray)
    closing: bool = False


class Forward:
    """One end of the line. With `listener` it accepts connections, with `connect` it opens them.

    `inward` and `outward` are two non-blocking file descriptors. `on_hello` is called when the other end is ready.
    """

    def __init__(
        self, inward: int, outward: int, *, listener: socket.socket | None = None, connect: Connect | None = None,
        on_hello: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        self._in, self._out, self._listener, self._connect = inward, outward, listener, connect
        self._on_hello = on_hello
        self._room = MOST_UNDER_WAY if listener else sys.maxsize
        self._ends: dict[int, _ForwardedConnection] = {}
        self._next, self._got, self._waiting = 0, bytearray(), bytearray()
        self._selector = selectors.DefaultSelector()
        self._selector.register(inward, selectors.EVENT_READ)
        if listener:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ)

    def hello(self) -> None:
        """Report to the other end that this one is ready."""
        self._frame(0, HELLO)

    def step(self, timeout_s: float) -> None:
        """Wait for events, at most `timeout_s`, and handle them."""
        self._watch()
        for key, events in self._selector.select(timeout_s):
            if key.fileobj == self._in:
                self._from_line()
            elif key.fileobj == self._out:
                self._to_line()
            elif key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, _ForwardedConnection) and key.data.number in self._ends:
                self._serve(key.data, events)

    def close(self) -> None:
        """Close every connection."""
        for end in list(self._ends.values()):
            self._drop(end)
        self._selector.close()

    def _watch(self) -> None:
        """Select for writing only while there is something to send; read from peers only while nothing waits."""
        registered, sendable = self._out in self._selector.get_map(), self._waiting and self._room
        if sendable and not registered:
            self._selector.register(self._out, selectors.EVENT_WRITE)
        elif not sendable and registered:
            self._selector.unregister(self._out)
        for end in self._ends.values():
            reading = 0 if self._waiting or end.closing else selectors.EVENT_READ
            events = reading | (selectors.EVENT_WRITE if end.waiting else 0)
            known = end.sock in self._selector.get_map()
            if events and known:
                self._selector.modify(end.sock, events, end)
            elif events:
                self._selector.register(end.sock, events, end)
            elif known:
                self._selector.unregister(end.sock)

    def _accept(self) -> None:
        assert self._listener
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        self._next = self._next % 0xFFFF + 1
        while self._next in self._ends:
            self._next = self._next % 0xFFFF + 1
        self._begin(self._next, sock)
        self._frame(self._next, OPEN)

    def _begin(self, number: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ends[number] = _ForwardedConnection(number, sock)

    def _serve(self, end: _ForwardedConnection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE and end.waiting:
                del end.waiting[: end.sock.send(end.waiting)]
            if events & selectors.EVENT_READ:
                data = end.sock.recv(LARGEST)
                if data:
                    self._frame(end.number, DATA, data)
                else:
                    self._finish(end)
                    return
        except BlockingIOError:
            return
        except OSError:
            self._finish(end)
            return
        if end.closing and not end.waiting:
            self._drop(end)

    def _finish(self, end: _ForwardedConnection) -> None:
        self._frame(end.number, CLOSE)
        self._drop(end)

    def _drop(self, end: _ForwardedConnection) -> None:
        if end.sock in self._selector.get_map():
            self._selector.unregister(end.sock)
        end.sock.close()
        self._ends.pop(end.number, None)

    def _frame(self, number: int, kind: int, data: bytes = b"") -> None:
        self._waiting += HEADER.pack(MAGIC, number, kind, len(data)) + data
        self._to_line()

    def _to_line(self) -> None:
        try:
            while self._waiting and self._room:
                sent = os.write(self._out, self._waiting[: min(LARGEST, self._room)])
                del self._waiting[:sent]
                self._room -= sent
        except BlockingIOError:
            return

    def _from_line(self) -> None:
        try:
            got = os.read(self._in, LARGEST_READ)
        except BlockingIOError:
            return
        self._got += got
        if self._connect:
            self._frame(len(got), TAKEN)
        while (start := self._got.find(MAGIC)) >= 0:
            del self._got[:start]
            if len(self._got) < HEADER.size:
                return
            _, number, kind, length = HEADER.unpack_from(self._got)
            if len(self._got) < HEADER.size + length:
                return
            data = bytes(self._got[HEADER.size : HEADER.size + length])
            del self._got[: HEADER.size + length]
            self._handle(number, kind, data)

    def _handle(self, number: int, kind: int, data: bytes) -> None:
        if kind == HELLO:
            self._on_hello()
        elif kind == TAKEN:
            self._room += number
            self._to_line()
        elif kind == OPEN and self._connect:
            try:
                self._begin(number, self._connect())
            except OSError:
                self._frame(number, CLOSE)
        elif end := self._ends.get(number):
            if kind == DATA:
                end.waiting += data
                if len(end.waiting) > MOST_WAITING_BYTES:
                    self._finish(end)
            elif kind == CLOSE:
                end.closing = True
                if not end.waiting:
                    self._drop(end)
