"""The server of the request program: it answers every request at once, in the order of its connection."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

from emulator.hosts.requests.wire import BLOCK, IN, RequestConnection, SocketTotals, tuned

BACKLOG = 4096


class RequestServer:
    """Answers the requests of every connection; it ends with the last connection."""

    def __init__(self, wish: dict[str, Any]) -> None:
        self._request, self._answer, self._cc = wish["request"], wish["answer"], wish["congestion_control"]
        self._epoll, self._buffer = select.epoll(), bytearray(len(BLOCK))
        self._open: dict[int, RequestConnection] = {}
        self._sockets, self._requests, self._listener = SocketTotals(), 0, -1

    def add(self, one: socket.socket) -> None:
        """Serve a connection."""
        self._epoll.register(one.fileno(), IN)
        self._open[one.fileno()] = RequestConnection(one, self._epoll, self._request)

    def listen(self, port: int) -> socket.socket:
        """Accept connections at the port of every address."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        # Connections inherit it, so that the first answer has it too.
        tuned(listener, self._cc)
        listener.listen(BACKLOG)
        self._listener = listener.fileno()
        self._epoll.register(self._listener, IN)
        return listener

    def run(self, listener: socket.socket | None = None) -> dict[str, Any]:
        """Serve until there was a connection and all have ended; the report."""
        seen = bool(self._open)
        while self._open or not seen:
            for fd, _ in self._epoll.poll():
                if listener is not None and fd == self._listener:
                    self._accept(listener)
                    seen = True
                else:
                    self._serve(self._open[fd])
        return {"requests": self._requests, "cpu_s": time.process_time(), "sockets": vars(self._sockets)}

    def _accept(self, listener: socket.socket) -> None:
        try:
            while True:
                self.add(tuned(listener.accept()[0], None))
        except BlockingIOError:
            return

    def _serve(self, one: RequestConnection) -> None:
        try:
            messages = one.pull(self._buffer)
            if messages is not None:
                self._requests += messages
                one.to_send += messages * self._answer
                one.push()
                return
        except (ConnectionError, TimeoutError):
            # The client gave up; it reports what was not answered.
            pass
        self._sockets.add(one.socket)
        del self._open[one.socket.fileno()]
        one.socket.close()
