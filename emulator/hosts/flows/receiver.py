"""The receiver of the flow program: it reads every flow to its end and counts the bytes of each interval.

Each group has a port of its own, after the port of the control connections. The time of both ends begins when every
sender has its control connection. A flow ends by agreement: the sender ends its half, the receiver reads to that end
and closes then; the receiver itself ends with the control connections, when no flow is open any more.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from typing import Any

from emulator.hosts.requests.wire import BLOCK, IN, NS, ExactTimer, RequestFailed, tuned

BACKLOG = 4096
ANSWER = b"."
BEGIN = b"b"


class ReceivedFlow:
    """A connection of a group: the bytes of each interval so far, and those of the transfer that is under way."""

    def __init__(self, one: socket.socket, transfer: int | None) -> None:
        self.socket, self.transfer = one, transfer
        self.intervals: list[int] = []
        self.now = self.got = 0

    def take(self, count: int) -> None:
        """Count bytes, and answer every transfer that is complete."""
        self.now += count
        if self.transfer is None:
            return
        answers, self.got = divmod(self.got + count, self.transfer)
        if answers:
            # A few bytes always fit: the sender waits for each.
            self.socket.send(ANSWER * answers)


class FlowReceiver:
    """Receives the flows of one measurement."""

    def __init__(self, wish: dict[str, Any], clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._wish, self._clock = wish, clock
        self._epoll, self._buffer, self._timer = select.epoll(), bytearray(len(BLOCK)), ExactTimer()
        self._epoll.register(self._timer.fd, IN)
        self._listening: dict[int, tuple[int, socket.socket]] = {}
        self._control: dict[int, socket.socket] = {}
        self._open: dict[int, ReceivedFlow] = {}
        self._flows: list[list[ReceivedFlow]] = [[] for _ in wish["groups"]]
        self._begin_ns: int | None = None
        self._ticks = self._lost = self._ended = 0

    def listen(self) -> None:
        """Listen at every port; at the port of the control connections last, for who sees it finds all of them."""
        for group in (*range(len(self._wish["groups"])), -1):
            # Connections take over the listener's congestion control: DCTCP echoes ECN as only its own sender expects.
            control = self._wish["groups"][group]["congestion_control"] if group >= 0 else None
            one = tuned(socket.socket(socket.AF_INET, socket.SOCK_STREAM), control)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("", self._wish["port"] + 1 + group))
            one.listen(BACKLOG)
            self._epoll.register(one.fileno(), IN)
            self._listening[one.fileno()] = group, one

    def run(self) -> dict[str, Any]:
        """Receive until every sender has ended; the report. Raises RequestFailed when no sender comes, or goes on."""
        limit_ns = self._clock() + self._wish["patience_ns"]
        while not self._ended or self._control or self._open:
            self._timer.set(limit_ns if self._begin_ns is None else min(self._due_ns(), limit_ns))
            ready = [fd for fd, _ in self._epoll.poll()]
            # Reading the clock costs as much as reading a packet: only the timer makes anything due.
            if self._timer.fd in ready:
                now_ns = self._clock()
                if self._begin_ns is not None:
                    self._tick(now_ns)
                    limit_ns = self._begin_ns + self._wish["longest_ns"]
                if now_ns >= limit_ns:
                    if self._begin_ns is None:
                        raise RequestFailed("no sender connected in time")
                    break
            for fd in ready:
                self._handle(fd)
        self._tick(self._clock())
        return self._report()

    def _due_ns(self) -> int:
        """When the interval that is counted now ends; after the last one nothing is due any more."""
        assert self._begin_ns is not None
        if self._ticks >= self._wish["intervals"]:
            return int(self._begin_ns + self._wish["longest_ns"])
        return int(self._begin_ns + (self._ticks + 1) * self._wish["interval_ns"])

    def _tick(self, now_ns: int) -> None:
        """End every interval that is over."""
        while self._ticks < self._wish["intervals"] and self._due_ns() <= now_ns:
            self._ticks += 1
            for flow in (flow for group in self._flows for flow in group):
                flow.intervals += [0] * (self._ticks - 1 - len(flow.intervals)) + [flow.now]
                flow.now = 0

    def _handle(self, fd: int) -> None:
        if fd == self._timer.fd:
            self._timer.clear()
        elif fd in self._listening:
            self._accept(*self._listening[fd])
        elif fd in self._control:
            self._end(self._control[fd])
        elif fd in self._open:
            self._receive(self._open[fd])

    def _accept(self, group: int, listener: socket.socket) -> None:
        try:
            while True:
                one = listener.accept()[0]
                one.setblocking(False)
                self._epoll.register(one.fileno(), IN)
                if group < 0:
                    self._control[one.fileno()] = one
                    continue
                self._open[one.fileno()] = flow = ReceivedFlow(one, self._wish["groups"][group]["bytes"])
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._flows[group].append(flow)
        except BlockingIOError:
            pass
        if group < 0 and self._begin_ns is None and len(self._control) == self._wish["senders"]:
            self._begin_ns = self._clock()
            for one in self._control.values():
                one.send(BEGIN)

    def _end(self, one: socket.socket) -> None:
        """A control connection is readable when its sender has ended."""
        del self._control[one.fileno()]
        self._ended += 1
        one.close()

    def _receive(self, flow: ReceivedFlow) -> None:
        try:
            count = flow.socket.recv_into(self._buffer)
            if count:
                flow.take(count)
                return
        except BlockingIOError:
            return
        except OSError:
            # The sender gave the flow up; what arrived of it is counted.
            self._lost += 1
        del self._open[flow.socket.fileno()]
        flow.socket.close()

    def _report(self) -> dict[str, Any]:
        """The bytes of every interval: of each flow, or, of transfers, of all flows of the group together."""
        groups = []
        for wish, flows in zip(self._wish["groups"], self._flows):  # noqa: B905  # for Python 3.8
            rows = [flow.intervals + [0] * (self._wish["intervals"] - len(flow.intervals)) for flow in flows]
            late = sum(flow.now for flow in flows)
            if wish["bytes"] is not None:
                rows = [[sum(row[at] for row in rows) for at in range(self._wish["intervals"])]] if rows else []
            groups.append({"flows": rows, "late": late})
        return {"groups": groups, "begin_ns": self._begin_ns, "lost": self._lost, "cpu_s": time.process_time()}


def receive(wish: dict[str, Any]) -> dict[str, Any]:
    """The receiver's end."""
    receiver = FlowReceiver(wish)
    receiver.listen()
    report = receiver.run()
    return {**report, "wall_s": wish["intervals"] * wish["interval_ns"] / NS}
