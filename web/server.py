"""The web server: waitress on a TCP port and a unix socket at once; it disconnects slow and idle clients."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer, UnixWSGIServer
from waitress.task import ThreadedTaskDispatcher

from emulator.errors import InputError, MissingError
from web.app import LARGEST_BODY_BYTES
from web.auth.guard import TRUSTED
from web.live import MOST_WATCHERS
from web.request_parser import StrictParser

Application = Callable[[WSGIEnvironment, StartResponse], Any]
THREADS = MOST_WATCHERS + 16
"""Every watcher of the event stream occupies a thread; 16 threads remain for other requests."""

CONNECTIONS = 1000
IDLE_S, REQUEST_S = 30.0, 15.0
"""How long a connection may be silent, and how long a request may take to arrive, in seconds."""


class _TimedChannel(HTTPChannel):  # type: ignore[misc]
    """A connection that records when the arriving request began."""

    parser_class = StrictParser
    began: float | None = None

    def received(self, data: bytes) -> Any:
        """As in waitress, but a client that sends a byte now and then does not count as active."""
        if self.began is None:
            self.began = time.time()
        answer = super().received(data)
        if self.request is None:
            self.began = None
        return answer


class _Strict:
    """Disconnects clients that send or read slowly, besides the idle ones."""

    channel_class = _TimedChannel
    active_channels: dict[int, _TimedChannel]
    request_s = REQUEST_S
    adj: Any

    def maintenance(self, now: float) -> None:
        """Called by waitress every few seconds."""
        super().maintenance(now)  # type: ignore[misc]
        for channel in list(self.active_channels.values()):
            slow_to_ask = channel.began is not None and now - channel.began > self.request_s
            silent_s = now - channel.last_activity
            if slow_to_ask or (channel.total_outbufs_len and silent_s > self.adj.channel_timeout):
                channel.will_close = True


class _Tcp(_Strict, TcpWSGIServer):  # type: ignore[misc]
    pass


class _Unix(_Strict, UnixWSGIServer):  # type: ignore[misc]
    pass


class Server:
    """Listens as soon as it is created, on an address or an existing socket.

    Raises InputError or MissingError when it cannot.
    """

    def __init__(
        self, app: Application, listen: str | socket.socket | None, unix: Path | None = None, *, idle_s: float = IDLE_S,
        request_s: float = REQUEST_S, threads: int = THREADS,
    ) -> None:  # fmt: skip
        self._map: dict[int, Any] = {}
        self._unix, self._ending = unix, False
        self.address = ""
        dispatcher = self._dispatcher = ThreadedTaskDispatcher()
        dispatcher.set_thread_count(threads)
        common: dict[str, Any] = {
            "channel_timeout": idle_s, "cleanup_interval": max(1, int(idle_s // 6)), "ident": None, "threads": threads,
            "max_request_body_size": LARGEST_BODY_BYTES, "max_request_header_size": 16 * 1024,
            "connection_limit": CONNECTIONS, "outbuf_high_watermark": 512 * 1024, "expose_tracebacks": False,
            "asyncore_use_poll": True, "clear_untrusted_proxy_headers": True,
        }  # fmt: skip
        self._servers = []
        try:
            if listen:
                tcp = listen if isinstance(listen, socket.socket) else _bound(listen)
                adjusted = Adjustments(sockets=[tcp], **common)
                info = (tcp.family, tcp.type, tcp.proto, tcp.getsockname())
                server = _Tcp(app, self._map, True, tcp, dispatcher, adjusted, info, bind_socket=False)
                self.address = "{}:{}".format(*_shown(tcp))
                self._servers.append(server)
            if unix:
                adjusted = Adjustments(unix_socket=str(unix), unix_socket_perms="600", **common)
                with _private_umask():
                    self._servers.append(_Unix(_trusting(app), self._map, True, None, dispatcher, adjusted))
        except OSError as error:
            dispatcher.shutdown()
            where = listen if listen and not self.address else unix
            raise MissingError(f"cannot listen on {where}: {error.strerror}; choose another with --listen") from None
        for one in self._servers:
            one.request_s = request_s

    def run(self) -> None:
        """Serve until `end` is called."""
        while not self._ending and self._map:
            wasyncore.loop(timeout=1, map=self._map, use_poll=True, count=1)
        self._dispatcher.shutdown(timeout=2)  # first: a thread that ends notifies its server
        for server in self._servers:
            for channel in list(server.active_channels.values()):
                channel.handle_close()  # wasyncore would leave the files of answers open that are not sent yet
            server.close()
        wasyncore.close_all(self._map)
        if self._unix:
            self._unix.unlink(missing_ok=True)

    def end(self) -> None:
        """Make `run` return soon; any thread or signal handler may call it."""
        self._ending = True
        for server in self._servers:
            with suppress(OSError):  # the loop noticed it and closed everything
                server.pull_trigger()

    def end_on_signals(self) -> None:
        """Make SIGTERM and SIGINT end the server in order."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.end())


def split(listen: str) -> tuple[str, int]:
    """Parse host and port of "127.0.0.1:8642" or "[::1]:8642". Raises InputError."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise InputError.single(f"{listen!r} is not an address: write 127.0.0.1:8642 or [::1]:8642", "--listen")
    return host.strip("[]"), int(port)


def is_loopback(listen: str) -> bool:
    """Whether only this machine can reach the address."""
    host = split(listen)[0]
    return host in ("localhost", "::1") or host.startswith("127.")


def _bound(listen: str) -> socket.socket:
    host, port = split(listen)
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise InputError.single(f"{host!r} is not an address of this machine: {error.strerror}", "--listen") from None
    sock = socket.socket(family, kind, proto)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def _shown(sock: socket.socket) -> tuple[str, int]:
    host, port = sock.getsockname()[:2]
    return (f"[{host}]" if ":" in host else host), port


def _trusting(app: Application) -> Application:
    """Listen on a unix socket; whoever may open the file is trusted."""

    def trusting(environ: WSGIEnvironment, start: StartResponse) -> Any:
        environ[TRUSTED] = True
        return app(environ, start)

    return trusting


@contextmanager
def _private_umask() -> Iterator[None]:
    # waitress sets the mode after it binds the file: until then the umask must keep others out.
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)
