"""What the ends of the request program share, and those of the flow program: a start, a timer, counts of durations.

The request program is these modules: `wire`, `server` and `client`; the flow program is `wire` and its own two. They
run on hosts where nothing of Longhaul is installed (`load`), so they import the standard library only, and run on any
Linux with Python 3.8.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

NS = 10**9
OTHER_FILES = 64
DIGIT_BITS = 15
"""Of a duration: its leading bits, which is what HdrHistogram keeps for four digits."""
BLOCK = memoryview(bytes(1 << 20))
TCP_INFO_BYTES = 192
RETRANSMITS_AT, TIMES_AT = 100, 168
"""Where struct tcp_info (include/uapi/linux/tcp.h) has total_retrans, and busy_time, rwnd_limited, sndbuf_limited."""
IN, OUT = select.EPOLLIN, select.EPOLLOUT


class RequestFailed(Exception):
    """The measurement cannot go on; the text is for the user."""


class DurationCounts:
    """DurationCounts in ns: their exact count, sum and extremes, and a histogram of four digits."""

    def __init__(self) -> None:
        self.count, self.sum_ns, self.least_ns, self.most_ns = 0, 0, 0, 0
        self.bins: dict[int, int] = {}

    def add(self, ns: int) -> None:
        """Count one duration."""
        self.least_ns = min(self.least_ns, ns) if self.count else ns
        self.most_ns = max(self.most_ns, ns)
        self.count += 1
        self.sum_ns += ns
        shift = max(0, ns.bit_length() - DIGIT_BITS)
        middle = (ns >> shift << shift) + (1 << shift >> 1)
        self.bins[middle] = self.bins.get(middle, 0) + 1

    def report(self) -> dict[str, Any]:
        """As JSON; the histogram is (middle of the bin, count) in rising order."""
        names = ("count", "sum_ns", "least_ns", "most_ns")
        return {**{name: getattr(self, name) for name in names}, "histogram": sorted(self.bins.items())}


class ExactTimer:
    """A timerfd: select and epoll wait up to a thousandth longer than asked, or a millisecond."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise RequestFailed("no timer: " + os.strerror(ctypes.get_errno()))
        self._at_ns: int | None = None

    def set(self, at_ns: int | None) -> None:
        """Become readable at this time of the monotonic clock; None: never."""
        if at_ns == self._at_ns:
            return
        self._at_ns = at_ns
        # An interval of 0, then the time; a time of 0 would switch it off.
        seconds, rest = divmod(max(at_ns, 1), NS) if at_ns is not None else (0, 0)
        self._libc.timerfd_settime(self.fd, 1, struct.pack("@4l", 0, 0, seconds, rest), None)

    def clear(self) -> None:
        """Forget that it has expired."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return
        self._at_ns = None


class SocketTotals:
    """What the kernel says of all TCP sockets of one end, summed."""

    def __init__(self) -> None:
        self.retransmits, self.busy_us, self.rwnd_limited_us, self.sndbuf_limited_us = 0, 0, 0, 0

    def add(self, one: socket.socket) -> None:
        """Count a socket before it is closed; one that is no TCP socket counts as nothing."""
        try:
            info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        except OSError:
            return
        if len(info) >= TCP_INFO_BYTES:
            self.retransmits += struct.unpack_from("=L", info, RETRANSMITS_AT)[0]
            busy_us, rwnd_us, sndbuf_us = struct.unpack_from("=QQQ", info, TIMES_AT)
            self.busy_us += busy_us
            self.rwnd_limited_us += rwnd_us
            self.sndbuf_limited_us += sndbuf_us


class RequestConnection:
    """One end of a connection: how many bytes it still has to send, and how many of the next message have come."""

    def __init__(self, one: socket.socket, epoll: Any, expects: int) -> None:
        self.socket, self.epoll, self.expects = one, epoll, expects
        self.to_send, self.got, self.wants = 0, 0, IN
        self.flights: deque[tuple[int, int]] = deque()
        self.first_ns: int | None = None
        self.setup_ns: int | None = None

    def push(self) -> None:
        """Send what the socket takes, and wait for more room if that was not all."""
        try:
            while self.to_send:
                self.to_send -= self.socket.send(BLOCK[: self.to_send])
        except BlockingIOError:
            pass
        wants = IN | OUT if self.to_send else IN
        if wants != self.wants:
            self.wants = wants
            self.epoll.modify(self.socket.fileno(), wants)

    def pull(self, into: bytearray) -> int | None:
        """Receive once: how many messages are complete now; None at the end of the connection."""
        try:
            count = self.socket.recv_into(into)
        except BlockingIOError:
            return 0
        if not count:
            return None
        messages, self.got = divmod(self.got + count, self.expects)
        return messages


def tuned(one: socket.socket, congestion_control: str | None) -> socket.socket:
    """The socket without Nagle's delay and without blocking, with this congestion control if one is named."""
    one.setblocking(False)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if congestion_control:
        try:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion_control.encode())
        except OSError as error:
            raise RequestFailed(f"congestion control {congestion_control}: {error.strerror}") from None
    return one


def allow_files(count: int) -> None:
    """Be allowed so many open files, of which each connection is one. Raises RequestFailed."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, count), max(most, count)))
    except (OSError, ValueError):
        raise RequestFailed(
            f"it may open {most} files and needs {count}: use fewer connections, or ulimit -n"
        ) from None


def run_end(argv: list[str], ends: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]], files: str) -> int:
    """Run the end that is named first, with its settings in JSON; print its report, and return the exit code.

    The setting `files` is how many connections there will be.
    """
    try:
        wish = json.loads(argv[1])
        allow_files(wish[files] + OTHER_FILES)
        report, code = ends[argv[0]](wish), 0
    except (RequestFailed, OSError) as error:
        report, code = {"error": str(error)}, 1
    print(json.dumps(report))  # noqa: T201
    return code
