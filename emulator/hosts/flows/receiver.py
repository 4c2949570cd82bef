"""The receiver of the flow program: it reads every flow to its end and counts the bytes of each interval.

Each group has a port of its own, after the port of the control connections. The time of both ends begins when every
sender has its control connection. A flow ends by agreement: the sender ends its half, the receiver reads to that end
and closes then; the receiver itself ends with the control connections, when no flow is open any more.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from emulator.hosts.requests.wire import BLOCK, IN, NS, TCP_INFO_BYTES, ExactTimer, RequestFailed, tuned

BACKLOG = 4096
ANSWER = b"."
BEGIN = b"b"
STATE_AT, RECEIVED_AT = 0, 128
"""Where struct tcp_info has the state, a byte, and the bytes received in order, a number of 64 bits."""
CLOSE_WAIT = 8
"""The sender has ended its half (tcp_states.h), which counts as a byte."""


class ReceivedFlow(ABC):
    """A connection of a group, and the bytes of each interval so far."""

    def __init__(self, one: socket.socket) -> None:
        self.socket = one
        self.intervals: list[int] = []
        self._before = 0

    @abstractmethod
    def total(self) -> int:
        """The bytes received so far."""

    def taken(self) -> int:
        """The bytes received since it was asked last."""
        before, self._before = self._before, self.total()
        return self._before - before


class Transfers(ReceivedFlow):
    """A connection of transfers: whenever one is complete, it is answered."""

    def __init__(self, one: socket.socket, transfer: int) -> None:
        super().__init__(one)
        self._transfer = transfer
        self._total = self._got = 0

    def total(self) -> int:
        return self._total

    def take(self, count: int) -> None:
        """Count bytes, and answer every transfer that is complete."""
        self._total += count
        answers, self._got = divmod(self._got + count, self._transfer)
        if answers:
            # A few bytes always fit: the sender waits for each.
            self.socket.send(ANSWER * answers)


class EndlessFlow(ReceivedFlow):
    """A flow without an end, read by a thread of its own: the kernel fills a block before it wakes the program.

    To be woken for each packet costs more than the packet.
    """

    def __init__(self, one: socket.socket, told: socket.socket) -> None:
        super().__init__(one)
        self._read, self.ended, self.lost = 0, False, False
        one.setblocking(True)
        self._thread = threading.Thread(target=self._receive, args=(told,), daemon=True)
        self._thread.start()

    def total(self) -> int:
        """The bytes received so far, those of a block that is not full included."""
        if self.ended:
            return self._read
        _, received = self._state_and_received()
        # Whether those bytes hold the sender's end, only a state that was read after them tells.
        state, received_then = self._state_and_received()
        return received_then - 1 if state == CLOSE_WAIT else received

    def _state_and_received(self) -> tuple[int, int]:
        """The connection's state, and the bytes it has received.

        tcp_get_info reads the state first and the bytes under a lock later: in between, the sender's end may arrive.
        """
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        return info[STATE_AT], int(struct.unpack_from("=Q", info, RECEIVED_AT)[0])

    def close(self) -> None:
        """Close the connection, whatever is still on its way."""
        with suppress(OSError):  # it is closed already
            self.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.socket.close()

    def _receive(self, told: socket.socket) -> None:
        block = bytearray(len(BLOCK))
        try:
            while True:
                count = self.socket.recv_into(block, 0, socket.MSG_WAITALL)
                if not count:
                    break
                self._read += count
        except OSError:
            # The sender gave the flow up; what arrived of it is counted.
            self.lost = True
        self.ended = True
        told.send(ANSWER)


class FlowReceiver:
    """Receives the flows of one measurement."""

    def __init__(self, wish: dict[str, Any], clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._wish, self._clock = wish, clock
        self._epoll, self._buffer, self._timer = select.epoll(), bytearray(len(BLOCK)), ExactTimer()
        self._epoll.register(self._timer.fd, IN)
        self._listening: dict[int, tuple[int, socket.socket]] = {}
        self._control: dict[int, socket.socket] = {}
        self._open: dict[int, Transfers] = {}
        self._endless: list[EndlessFlow] = []
        self._ends, self._told = socket.socketpair()
        self._epoll.register(self._ends.fileno(), IN)
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
        while not self._ended or self._control or self._open or self._endless:
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
        report = self._report()
        for flow in self._endless:
            flow.close()
        return report

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
                flow.intervals += [0] * (self._ticks - 1 - len(flow.intervals)) + [flow.taken()]

    def _handle(self, fd: int) -> None:
        if fd == self._timer.fd:
            self._timer.clear()
        elif fd == self._ends.fileno():
            self._close_ended()
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
                if group < 0:
                    self._epoll.register(one.fileno(), IN)
                    self._control[one.fileno()] = one
                else:
                    self._add(group, one)
        except BlockingIOError:
            pass
        if group < 0 and self._begin_ns is None and len(self._control) == self._wish["senders"]:
            self._begin_ns = self._clock()
            for one in self._control.values():
                one.send(BEGIN)

    def _add(self, group: int, one: socket.socket) -> None:
        """Receive a connection of a group from now on: none of its bytes is of an interval that is over."""
        if self._begin_ns is not None:
            self._tick(self._clock())  # the timer may be late
        self._flows[group].append(self._begun(one, self._wish["groups"][group]["bytes"]))

    def _begun(self, one: socket.socket, transfer: int | None) -> ReceivedFlow:
        """A flow that is received from now on."""
        if transfer is None:
            self._endless.append(flow := EndlessFlow(one, self._told))
            return flow
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._epoll.register(one.fileno(), IN)
        self._open[one.fileno()] = transfers = Transfers(one, transfer)
        return transfers

    def _close_ended(self) -> None:
        """Close the endless flows that have been read to their end."""
        self._ends.recv(BACKLOG)
        for flow in [flow for flow in self._endless if flow.ended]:
            self._endless.remove(flow)
            self._lost += flow.lost
            flow.close()

    def _end(self, one: socket.socket) -> None:
        """A control connection is readable when its sender has ended."""
        del self._control[one.fileno()]
        self._ended += 1
        one.close()

    def _receive(self, flow: Transfers) -> None:
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
            late = sum(flow.taken() for flow in flows)
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
