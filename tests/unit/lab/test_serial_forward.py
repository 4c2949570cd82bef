"""Many TCP connections over one pair of byte streams."""

from __future__ import annotations

import fcntl
import os
import socket
import termios
import threading
from array import array
from collections.abc import Iterator

import pytest
from support.waiting import PATIENCE_S, until

from emulator.lab import serial_forward
from emulator.lab.serial_forward import Forward

LIMIT_S = PATIENCE_S


class Line:
    """Two pipes and a Forward at each end, stepped by the test or by a thread of their own."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.listener = socket.create_server(("127.0.0.1", 0))
        there, back = os.pipe2(os.O_NONBLOCK), os.pipe2(os.O_NONBLOCK)
        self.fds = (*there, *back)
        self.greeted = 0
        self.near = Forward(back[0], there[1], listener=self.listener, on_hello=self._greet)
        self.far = Forward(there[0], back[1], connect=self._connect)
        self._ended, self._threads = (
            False,
            [threading.Thread(target=self._run, args=(e,)) for e in (self.near, self.far)],
        )

    def _greet(self) -> None:
        self.greeted += 1

    def _connect(self) -> socket.socket:
        return socket.create_connection(self.server.getsockname())

    def _run(self, end: Forward) -> None:
        while not self._ended:
            end.step(0.05)

    def start(self) -> None:
        """Let both ends work."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Close everything."""
        self._ended = True
        for thread in self._threads:
            if thread.is_alive():
                thread.join(LIMIT_S)
        self.near.close(), self.far.close(), self.server.close(), self.listener.close()
        for fd in self.fds:
            os.close(fd)

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """A client's connection and what the server has accepted for it."""
        client = socket.create_connection(self.listener.getsockname(), LIMIT_S)
        self.server.settimeout(LIMIT_S)
        accepted, _ = self.server.accept()
        accepted.settimeout(LIMIT_S)
        return client, accepted


@pytest.fixture
def line() -> Iterator[Line]:
    """A line with both ends at rest."""
    made = Line()
    yield made
    made.stop()


def read(sock: socket.socket, size: int) -> bytes:
    """Exactly so many bytes."""
    got = b""
    while len(got) < size:
        part = sock.recv(size - len(got))
        assert part
        got += part
    return got


def test_connections_do_not_mix_and_large_ones_arrive_whole(line: Line) -> None:
    line.start()
    pairs = [line.pair() for _ in range(5)]
    blobs = [bytes([n]) * 300_000 for n in range(5)]
    senders = [threading.Thread(target=c.sendall, args=(b,)) for (c, _), b in zip(pairs, blobs, strict=True)]
    for sender in senders:
        sender.start()
    assert [read(server, 300_000) for _, server in pairs] == blobs
    for n, (client, server) in enumerate(pairs):
        server.sendall(b"answer %d" % n)
        assert read(client, 8) == b"answer %d" % n
    for sender, (client, server) in zip(senders, pairs, strict=True):
        sender.join(LIMIT_S), client.close(), server.close()


def under_way(line: Line) -> int:
    """Bytes that the lab's end has not read yet."""
    counted = array("i", [0])
    fcntl.ioctl(line.fds[0], termios.FIONREAD, counted)
    return counted[0]


def test_the_terminal_in_the_lab_never_overflows_however_long_it_does_not_read(line: Line) -> None:
    with socket.create_connection(line.listener.getsockname(), LIMIT_S) as client:
        client.setblocking(False)
        client.send(b"x" * 100_000)
        for _ in range(50):
            until(lambda: line.near.step(0.001) or under_way(line) >= serial_forward.MOST_UNDER_WAY)
            assert under_way(line) == serial_forward.MOST_UNDER_WAY
        line.start()
        line.server.settimeout(LIMIT_S)
        server, _ = line.server.accept()
        assert read(server, 50_000) == b"x" * 50_000
        server.close()


def test_either_side_may_end_a_connection(line: Line) -> None:
    line.start()
    client, server = line.pair()
    client.close()
    assert server.recv(1) == b""
    server.close()
    client, server = line.pair()
    server.sendall(b"last words")
    server.close()
    assert read(client, 10) == b"last words"
    assert client.recv(1) == b""
    client.close()


def test_nobody_at_the_other_side(line: Line) -> None:
    line.start()
    line.server.close()
    with socket.create_connection(line.listener.getsockname(), LIMIT_S) as client:
        assert client.recv(1) == b""


def test_what_a_console_says_first_is_skipped(line: Line) -> None:
    os.write(line.fds[3], b"booting...\r\nLhF ")
    line.start()
    line.far.hello()
    assert until(lambda: line.greeted == 1)


def test_a_reader_that_does_not_read_is_cut_off_and_the_others_go_on(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_forward, "MOST_WAITING_BYTES", 100_000)
    line.start()
    idle, sender = line.pair()
    other, server = line.pair()
    with pytest.raises(OSError), sender:
        while True:
            sender.sendall(b"x" * 65536)
    server.sendall(b"still here")
    assert read(other, 10) == b"still here"
    for sock in (idle, other, server):
        sock.close()
