"""The sender of the flow program, and the program's start: `send JSON` or `receive JSON`.

Flows without an end send as much as they can from their group's start to its stop; then the sender ends its half of the
connection and waits until the receiver has read all of it and closes. A flow of transfers sends its bytes, waits for
the answer, thinks and sends again, over a new connection each or over one. Each end prints one JSON document: its
report, or `{"error": TEXT}`. All times are in ns of one clock.
"""

from __future__ import annotations

import errno
import heapq
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from emulator.hosts.flows.receiver import ANSWER, receive
from emulator.hosts.requests.wire import (
    BLOCK,
    IN,
    OUT,
    TCP_INFO_BYTES,
    DurationCounts,
    ExactTimer,
    RequestFailed,
    SocketTotals,
    run_end,
    tuned,
)

NOTSENT_LOWAT, UNSENT_BYTES = 25, 1 << 17
"""TCP_NOTSENT_LOWAT, which Python has no name for, and how much may wait unsent: a flow stops soon after its stop."""
SEGMENT_AT, TRIP_AT, WINDOW_AT, LEAST_TRIP_AT = 16, 68, 80, 148
"""Where struct tcp_info has the segment size, the smoothed RTT in us, the congestion window in segments and the least
RTT in us."""
NAME_BYTES = 16
MAX_PACING_RATE, PACED = 47, struct.pack("=Q", 2**62 + 2**32 - 2)
"""SO_MAX_PACING_RATE, which Python has no name for, and a rate in bytes/s that limits no flow: any but the highest
makes TCP pace. Kernels before 4.20 read its lower half."""


class SentFlow:
    """One flow of a group, over one connection at a time."""

    def __init__(self, group: FlowsOfGroup) -> None:
        self.group = group
        self.socket: socket.socket | None = None
        self.connected = self.ending = False
        self.to_send = self.waits_for = 0
        self.began_ns: int | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing of it is under way."""
        return self.socket is None and self.began_ns is None


class FlowsOfGroup:
    """The flows of one group, and what is counted of them."""

    def __init__(self, wish: dict[str, Any]) -> None:
        self.wish = wish
        self.flows = [SentFlow(self) for _ in range(wish["flows"])]
        self.windows: list[int | None] = []
        self.trips_us: list[int | None] = []
        self.times, self.totals = DurationCounts(), SocketTotals()
        self.used, self.least_trip_us = "", 0
        self.lost: list[str] = []
        self.unfinished = 0

    def sample(self) -> None:
        """Note the sum of the flows' congestion windows, in bytes, and the mean of their smoothed RTTs, in us."""
        window, trips_us = 0, []
        for flow in self.flows:
            info = info_of(flow.socket) if flow.socket and flow.connected else b""
            if not info:
                continue
            window += number_at(info, WINDOW_AT) * number_at(info, SEGMENT_AT)
            if number_at(info, TRIP_AT):
                trips_us.append(number_at(info, TRIP_AT))
        self.windows.append(window or None)
        self.trips_us.append(sum(trips_us) // len(trips_us) if trips_us else None)

    def close(self, flow: SentFlow) -> None:
        """Close the flow's connection, and count what the kernel says of it."""
        assert flow.socket
        self.totals.add(flow.socket)
        least_us = number_at(info_of(flow.socket), LEAST_TRIP_AT)
        if least_us not in (0, 2**32 - 1):
            self.least_trip_us = min(self.least_trip_us or least_us, least_us)
        flow.socket.close()
        flow.socket, flow.connected, flow.ending = None, False, False

    def report(self) -> dict[str, Any]:
        """Everything counted, as JSON."""
        return {
            "congestion_control": self.used,
            "windows": self.windows,
            "trips_us": self.trips_us,
            "least_trip_us": self.least_trip_us,
            "times": self.times.report(),
            "sockets": vars(self.totals),
            "lost": self.lost,
            "unfinished": self.unfinished,
        }


def info_of(one: socket.socket) -> bytes:
    """What the kernel says of a TCP socket; nothing of one that is none."""
    try:
        info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    except OSError:
        return b""
    return info if len(info) >= TCP_INFO_BYTES else b""


def number_at(info: bytes, at: int) -> int:
    """A number of 32 bits in struct tcp_info; 0 where there is none."""
    return int(struct.unpack_from("=L", info, at)[0]) if info else 0


class FlowSender:
    """Sends the flows of one measurement."""

    def __init__(self, wish: dict[str, Any], clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._wish, self._clock = wish, clock
        self._epoll, self._timer = select.epoll(), ExactTimer()
        self._epoll.register(self._timer.fd, IN)
        self._groups = [FlowsOfGroup(group) for group in wish["groups"]]
        self._open: dict[int, SentFlow] = {}
        self._due: list[tuple[int, int, Callable[[int], None]]] = []
        self._planned = 0
        self._begin_ns = 0
        self._turn_ns: int | None = None

    def run(self) -> dict[str, Any]:
        """Send from the receiver's sign on until all flows have ended; the report. Raises RequestFailed."""
        with self._begun():
            for group in self._groups:
                self._at(self._begin_ns + group.wish["start_ns"], partial(self._start, group))
                self._at(self._begin_ns + group.wish["stop_ns"], partial(self._stop, group))
            for number in range(1, self._wish["intervals"] + 1):
                self._at(self._begin_ns + number * self._wish["interval_ns"], self._sample)
            give_up_ns = self._begin_ns + self._wish["give_up_ns"]
            while self._due or not all(flow.idle for group in self._groups for flow in group.flows):
                self._timer.set(min([give_up_ns, *(one[0] for one in self._due[:1])]))
                ready, self._turn_ns = self._epoll.poll(), None
                for fd, events in ready:
                    self._handle(fd, events)
                if self._turn_ns is None:
                    continue
                if self._turn_ns >= give_up_ns:
                    self._give_up()
                    break
                while self._due and self._due[0][0] <= self._turn_ns:
                    heapq.heappop(self._due)[2](self._turn_ns)
        return {
            "python": sys.version.split()[0],
            "groups": [group.report() for group in self._groups],
            "cpu_s": time.process_time(),
            "wall_s": (self._clock() - self._begin_ns) / 10**9,
        }

    def _begun(self) -> socket.socket:
        """The control connection, after the receiver's sign to begin; its end tells the receiver that all is sent."""
        limit_s = self._wish["patience_ns"] / 10**9
        try:
            control = socket.create_connection((self._wish["address"], self._wish["port"]), limit_s)
            control.settimeout(limit_s)
            begun = control.recv(1)
        except OSError as error:
            raise RequestFailed(f"no connection to the receiver: {error}") from None
        if not begun:
            raise RequestFailed("the receiver ended before the measurement began")
        self._begin_ns = self._clock()
        return control

    def _now_ns(self) -> int:
        """The time of this turn of the loop. Most turns only send, and reading the clock costs as much as that."""
        if self._turn_ns is None:
            self._turn_ns = self._clock()
        return self._turn_ns

    def _at(self, ns: int, act: Callable[[int], None]) -> None:
        """Do something at this time."""
        self._planned += 1
        heapq.heappush(self._due, (ns, self._planned, act))

    def _sample(self, _: int) -> None:
        for group in self._groups:
            group.sample()

    def _start(self, group: FlowsOfGroup, now_ns: int) -> None:
        for flow in group.flows:
            self._begin(flow, now_ns)

    def _begin(self, flow: SentFlow, now_ns: int) -> None:
        """Begin a flow or its next transfer, unless its group has stopped."""
        group = flow.group
        if now_ns >= self._begin_ns + group.wish["stop_ns"]:
            if flow.socket:
                self._finish(flow)
            return
        flow.began_ns, flow.to_send = now_ns, group.wish["bytes"] or 0
        if flow.socket is None:
            self._connect(flow)
        else:
            self._push(flow)

    def _connect(self, flow: SentFlow) -> None:
        group = flow.group
        flow.socket = one = tuned(socket.socket(socket.AF_INET, socket.SOCK_STREAM), group.wish["congestion_control"])
        one.setsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT, UNSENT_BYTES)
        if group.wish["paced"]:
            one.setsockopt(socket.SOL_SOCKET, MAX_PACING_RATE, PACED)
        if not group.used:
            used = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, NAME_BYTES)
            group.used = used.split(b"\0")[0].decode()
        code = one.connect_ex((self._wish["address"], group.wish["port"]))
        if code not in (0, errno.EINPROGRESS):
            raise RequestFailed(f"a flow of {group.used} cannot connect: {os.strerror(code)}")
        flow.waits_for = IN | OUT
        self._epoll.register(one.fileno(), flow.waits_for)
        self._open[one.fileno()] = flow

    def _handle(self, fd: int, events: int) -> None:
        if fd == self._timer.fd:
            self._timer.clear()
            self._now_ns()
        elif fd in self._open:
            flow = self._open[fd]
            try:
                if events & ~OUT:
                    self._receive(flow)
                if events & OUT and flow.socket and not flow.ending:
                    flow.connected = True
                    self._push(flow)
            except OSError as error:
                flow.group.lost.append(error.strerror or str(error))
                self._drop(flow)

    def _push(self, flow: SentFlow) -> None:
        """Send what the socket takes, and wait for more room if that was not all."""
        assert flow.socket
        endless = flow.group.wish["bytes"] is None
        try:
            while endless or flow.to_send:
                block = BLOCK if endless else BLOCK[: flow.to_send]
                sent = flow.socket.send(block)
                flow.to_send -= 0 if endless else sent
                if sent < len(block):
                    break
        except BlockingIOError:
            pass
        self._wait(flow, IN | OUT if endless or flow.to_send else IN)

    def _wait(self, flow: SentFlow, events: int) -> None:
        """Wait for these events of the flow's connection."""
        assert flow.socket
        if events != flow.waits_for:
            flow.waits_for = events
            self._epoll.modify(flow.socket.fileno(), events)

    def _receive(self, flow: SentFlow) -> None:
        """An answer ends a transfer; the receiver's end of the connection ends the flow, which has ended its half."""
        assert flow.socket
        try:
            said = flow.socket.recv(len(ANSWER) * 2)
        except BlockingIOError:
            return
        group = flow.group
        if said and not flow.to_send and flow.began_ns is not None:
            group.times.add(self._now_ns() - flow.began_ns)
            flow.began_ns = None
            self._after_transfer(flow, self._now_ns())
        elif not said:
            if not flow.ending:
                group.lost.append("the receiver closed it")
            self._drop(flow)

    def _after_transfer(self, flow: SentFlow, now_ns: int) -> None:
        """End the connection unless the flow keeps it, and plan the next transfer."""
        wish = flow.group.wish
        due_ns = now_ns + wish["think_ns"]
        if due_ns >= self._begin_ns + wish["stop_ns"]:
            self._finish(flow)
            return
        if not wish["keeps"]:
            self._drop(flow)
        self._at(due_ns, partial(self._begin, flow))

    def _finish(self, flow: SentFlow) -> None:
        """End the flow's half of the connection."""
        assert flow.socket
        flow.ending = True
        flow.socket.shutdown(socket.SHUT_WR)
        self._wait(flow, IN)

    def _stop(self, group: FlowsOfGroup, _: int) -> None:
        """Endless flows end now; a transfer that is under way ends as it would have."""
        for flow in group.flows if group.wish["bytes"] is None else ():
            if flow.connected:
                self._finish(flow)
            elif flow.socket:
                group.unfinished += 1
                self._drop(flow)

    def _drop(self, flow: SentFlow) -> None:
        """Close the flow's connection, whatever of it is under way."""
        if flow.socket:
            self._open.pop(flow.socket.fileno(), None)
            self._close(flow)
        flow.began_ns = None

    def _close(self, flow: SentFlow) -> None:
        assert flow.socket
        self._epoll.unregister(flow.socket.fileno())
        flow.group.close(flow)

    def _give_up(self) -> None:
        """Drop what has not ended in time."""
        for group in self._groups:
            for flow in group.flows:
                if not flow.idle:
                    group.unfinished += 1
                    if flow.began_ns is not None and group.wish["bytes"] is not None:
                        group.times.add(self._clock() - flow.began_ns)
                    self._drop(flow)


def send(wish: dict[str, Any]) -> dict[str, Any]:
    """The sender's end."""
    return FlowSender(wish).run()


def main(argv: list[str]) -> int:
    """Run one end with its settings in JSON; print its report."""
    return run_end(argv, {"send": send, "receive": receive}, "files")
