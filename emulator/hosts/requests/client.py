"""The client of the request program, and the program's start: `ask JSON` or `serve JSON`.

A request is `request` bytes, its answer `answer` bytes; the answers of a connection come in the order of its requests.
Closed loop: each of `in_flight` users on a connection sends, waits for the answer, thinks for `think_ns`, and sends
again. Open loop (`rate`): requests are due at fixed times; one that finds every place taken waits for the next free
one, and its time counts from when it was due. Each end prints one JSON document: its report, or `{"error": TEXT}`.
All times are in ns of one clock.
"""

from __future__ import annotations

import errno
import heapq
import os
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from emulator.hosts.requests.server import RequestServer
from emulator.hosts.requests.wire import (
    BLOCK,
    IN,
    NS,
    OUT,
    DurationCounts,
    ExactTimer,
    RequestConnection,
    RequestFailed,
    SocketTotals,
    run_end,
    tuned,
)

OVERHEAD_ROUNDS = 50


class RequestClient:
    """Sends the requests of one measurement and counts the time of each."""

    def __init__(self, wish: dict[str, Any], clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._wish, self._clock = wish, clock
        self._epoll, self._buffer = select.epoll(), bytearray(len(BLOCK))
        self._open: dict[int, RequestConnection] = {}
        self._thinking: list[tuple[int, int, RequestConnection]] = []
        self._free: deque[RequestConnection] = deque()
        self._backlog: deque[int] = deque()
        self._timer = ExactTimer()
        self._epoll.register(self._timer.fd, IN)
        self._begin_ns = self._last_ns = 0
        self._due = self._begun = self._answered = self._held = 0
        self._last_held = False
        self.times, self._service, self._transfer = DurationCounts(), DurationCounts(), DurationCounts()
        self._setup, self._late, self._sockets = DurationCounts(), DurationCounts(), SocketTotals()

    def add(self, one: socket.socket) -> RequestConnection:
        """Use a connection that is set up."""
        self._epoll.register(one.fileno(), IN)
        self._open[one.fileno()] = connection = RequestConnection(one, self._epoll, self._wish["answer"])
        return connection

    def connect(self, address: str, port: int) -> None:
        """Set up all connections at once, and count how long each takes. Raises RequestFailed."""
        waiting, limit_ns = {}, self._clock() + self._wish["patience_ns"]
        for number in range(self._wish["connections"]):
            one = tuned(socket.socket(socket.AF_INET, socket.SOCK_STREAM), self._wish["congestion_control"])
            asked_ns = self._clock()
            code = one.connect_ex((address, port))
            if code not in (0, errno.EINPROGRESS):
                raise RequestFailed(f"connection {number + 1} was not set up: {os.strerror(code)}")
            self._epoll.register(one.fileno(), OUT)
            waiting[one.fileno()] = (number, one, asked_ns)
        while waiting:
            self._timer.set(limit_ns)
            ready = self._epoll.poll()
            now_ns = self._clock()
            if now_ns >= limit_ns:
                raise RequestFailed(
                    f"{len(waiting)} of {self._wish['connections']} connections were not set up in time"
                )
            for fd, _ in ready:
                if fd in waiting:
                    self._connected(*waiting.pop(fd), now_ns)

    def _connected(self, number: int, one: socket.socket, asked_ns: int, now_ns: int) -> None:
        error = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise RequestFailed(f"connection {number + 1} was not set up: {os.strerror(error)}")
        self._epoll.unregister(one.fileno())
        self.add(one)
        self._setup.add(now_ns - asked_ns)

    def run(self) -> dict[str, Any]:
        """Send and receive until everything is answered, or the time for late answers is over; the report."""
        self._begin_ns = self._last_ns = self._clock()
        places = [one for _ in range(self._wish["in_flight"]) for one in self._open.values()]
        if self._wish["rate"]:
            self._free.extend(places)
            self._send_due(self._begin_ns)
        else:
            for one in places:
                self._send_if_any(one, self._begin_ns)
        for one in self._open.values():
            one.push()
        give_up_ns = self._end_ns + self._wish["drain_ns"]
        while self._unfinished():
            self._timer.set(self._next_ns(give_up_ns))
            ready = self._epoll.poll()
            now_ns = self._clock()
            if now_ns >= give_up_ns:
                break
            self._handle(ready, now_ns)
        return self._report(self._clock())

    @property
    def _end_ns(self) -> int:
        return int(self._begin_ns + self._wish["duration_ns"])

    def _unfinished(self) -> bool:
        return self._begun > self._answered or bool(self._backlog) or bool(self._thinking) or self._more_due()

    def _due_ns(self) -> int:
        """When the next request of the open loop is due."""
        return int(self._begin_ns + self._due * NS / self._wish["rate"])

    def _more_due(self) -> bool:
        return bool(self._wish["rate"]) and self._due < self._wish["count"] and self._due_ns() < self._end_ns

    def _next_ns(self, give_up_ns: int) -> int:
        """The next moment at which there is something to do besides answers."""
        thought_ns = self._thinking[0][0] if self._thinking else give_up_ns
        due_ns = self._due_ns() if self._more_due() else give_up_ns
        return min(thought_ns, due_ns, give_up_ns)

    def _handle(self, ready: list[tuple[int, int]], now_ns: int) -> None:
        touched = {}
        for fd, _ in ready:
            if fd == self._timer.fd:
                self._timer.clear()
            else:
                touched[fd] = one = self._open[fd]
                self._receive(one, now_ns)
        while self._thinking and self._thinking[0][0] <= now_ns:
            due_ns, _, one = heapq.heappop(self._thinking)
            if self._send_if_any(one, now_ns):
                self._late.add(now_ns - due_ns)
                touched[one.socket.fileno()] = one
        for one in self._send_due(now_ns):
            touched[one.socket.fileno()] = one
        for one in touched.values():
            one.push()

    def _send_due(self, now_ns: int) -> list[RequestConnection]:
        """Send the requests that are due, and queue those that find no free place; the connections used."""
        used = []
        while self._more_due() and self._due_ns() <= now_ns:
            due_ns = self._due_ns()
            self._due += 1
            self._last_held = not self._free
            if self._free:
                self._late.add(now_ns - due_ns)
                used.append(self._send(self._free.popleft(), due_ns))
            else:
                self._held += 1
                self._backlog.append(due_ns)
        return used

    def _send(self, one: RequestConnection, due_ns: int) -> RequestConnection:
        self._begun += 1
        one.flights.append((due_ns, self._clock()))
        one.to_send += self._wish["request"]
        return one

    def _send_if_any(self, one: RequestConnection, now_ns: int) -> bool:
        """In the closed loop: send the next request if the measurement goes on."""
        if self._begun >= self._wish["count"] or now_ns >= self._end_ns:
            return False
        self._send(one, now_ns)
        return True

    def _receive(self, one: RequestConnection, now_ns: int) -> None:
        try:
            before = one.got
            messages = one.pull(self._buffer)
        except OSError as error:
            raise RequestFailed(f"a connection was lost: {error.strerror}") from None
        if messages is None:
            raise RequestFailed("the server closed a connection")
        if one.first_ns is None and (messages or one.got > before):
            one.first_ns = now_ns
        for _ in range(messages):
            self._answer(one, now_ns)
            # The rest of what was received belongs to the next answer.
            one.first_ns = now_ns if one.got else None

    def _answer(self, one: RequestConnection, now_ns: int) -> None:
        due_ns, sent_ns = one.flights.popleft()
        first_ns = now_ns if one.first_ns is None else one.first_ns
        # In the closed loop nothing is due before it is sent.
        self.times.add(now_ns - (due_ns if self._wish["rate"] else sent_ns))
        self._service.add(now_ns - sent_ns)
        self._transfer.add(now_ns - first_ns)
        self._answered += 1
        self._last_ns = now_ns
        if self._wish["rate"]:
            if self._backlog:
                self._send(one, self._backlog.popleft())
            else:
                self._free.append(one)
        elif self._wish["think_ns"]:
            heapq.heappush(self._thinking, (now_ns + self._wish["think_ns"], self._answered, one))
        else:
            self._send_if_any(one, now_ns)

    def _report(self, now_ns: int) -> dict[str, Any]:
        """Everything counted. What was not answered counts with the time that it has waited so far."""
        waiting = [due_ns for one in self._open.values() for due_ns, _ in one.flights] + list(self._backlog)
        for due_ns in waiting:
            self.times.add(now_ns - due_ns)
        for one in self._open.values():
            self._sockets.add(one.socket)
            one.socket.close()
        return {
            "python": sys.version.split()[0],
            "answered": self._answered,
            "unanswered": len(waiting),
            "held": self._held,
            "last_held": self._last_held,
            "elapsed_ns": self._last_ns - self._begin_ns,
            "times": self.times.report(),
            "service": self._service.report(),
            "transfer": self._transfer.report(),
            "setup": self._setup.report(),
            "late": self._late.report(),
            "cpu_s": time.process_time(),
            "wall_s": (now_ns - self._begin_ns) / NS,
            "sockets": vars(self._sockets),
        }


def overhead_ns(wish: dict[str, Any]) -> int:
    """What a request costs the two programs alone: the median over a pair of sockets, without any network."""
    near, far = socket.socketpair()
    for one in (near, far):
        one.setblocking(False)
    child = os.fork()
    if not child:
        try:
            near.close()
            server = RequestServer(wish)
            server.add(far)
            server.run()
        finally:
            os._exit(0)
    far.close()
    alone = {"connections": 1, "in_flight": 1, "rate": None, "think_ns": 0, "count": OVERHEAD_ROUNDS}
    client = RequestClient({**wish, **alone})
    client.add(near)
    client.run()
    os.waitpid(child, 0)
    times, half = client.times.report(), OVERHEAD_ROUNDS // 2
    for ns, count in times["histogram"]:
        half -= count
        if half < 0:
            return int(ns)
    return int(times["most_ns"])


def serve(wish: dict[str, Any]) -> dict[str, Any]:
    """The server's end."""
    server = RequestServer(wish)
    return server.run(server.listen(wish["port"]))


def ask(wish: dict[str, Any]) -> dict[str, Any]:
    """The client's end."""
    own_ns = overhead_ns(wish)
    client = RequestClient(wish)
    client.connect(wish["address"], wish["port"])
    cpu_s = time.process_time()
    report = client.run()
    return {**report, "cpu_s": report["cpu_s"] - cpu_s, "overhead_ns": own_ns}


def main(argv: list[str]) -> int:
    """Run one end with its settings in JSON; print its report."""
    return run_end(argv, {"serve": serve, "ask": ask}, "connections")
