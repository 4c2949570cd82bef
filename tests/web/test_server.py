"""The web server itself: sockets, patience, bounds, its end; and the serve command as a process."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from support import refused_calls
from support.waiting import PATIENCE_S
from support.web_daemon import TOKENS, House

from emulator.control.remote import Client
from emulator.errors import InputError, MissingError, RefusedError
from web.server import Server, split

LIMIT_S = PATIENCE_S
Start = Callable[..., Server]


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A daemon with nothing up."""
    return House(tmp_path)


@pytest.fixture
def start(house: House) -> Iterator[Start]:
    """Starts servers over the house, and ends them."""
    running: list[tuple[Server, threading.Thread]] = []

    def begin(**said: object) -> Server:
        server = Server(house.app, "127.0.0.1:0", threads=4, **said)  # type: ignore[arg-type]
        thread = threading.Thread(target=server.run)
        thread.start()
        running.append((server, thread))
        return server

    yield begin
    for server, thread in running:
        server.end()
        house.live.channel.close()
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def connect(server: Server) -> socket.socket:
    """A connection to the server's port."""
    return socket.create_connection(split(server.address), timeout=LIMIT_S)


def test_the_port_needs_a_token_and_the_unix_socket_its_files_mode(start: Start, house: House, tmp_path: Path) -> None:
    path = tmp_path / "longhaul.sock"
    server = start(unix=path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(Client(f"unix:{path}").ask("GET", "/api/status").text)["lanes"] == []
    with pytest.raises(RefusedError, match="LONGHAUL_TOKEN"):
        Client(f"http://{server.address}").ask("GET", "/api/status")
    assert Client(f"http://{server.address}", TOKENS.read).ask("GET", "/api/status").etag == ""


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: local", b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx"]
)
def test_a_client_that_does_not_finish_asking_is_cut_off(start: Start, sent: bytes) -> None:
    with connect(start(idle_s=1.0)) as slow:
        slow.sendall(sent)
        assert slow.recv(1) == b""


def test_a_client_that_drips_is_cut_off_too(start: Start) -> None:
    with connect(start(idle_s=6.0, request_s=0.5)) as slow:
        deadline = time.monotonic() + LIMIT_S
        slow.settimeout(0.05)
        slow.sendall(b"GET /healthz HTTP/1.1\r\n")
        while time.monotonic() < deadline:
            try:
                slow.sendall(b"X-Drip: 1\r\n")
                if slow.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    pytest.fail("still connected")


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"PUT /api/topology HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000, b"413"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
)
def test_what_is_too_large_or_no_request(start: Start, request_head: bytes, status: bytes) -> None:
    with connect(start()) as client:
        client.sendall(request_head)
        assert client.recv(12)[9:12] == status


HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
"""A request that must never be seen, for it stands in what may be the body of another."""

LENGTHS = b"Content-Length: %d\r\n" % len(HIDDEN)
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def request(fields: bytes, body: bytes = b"", line: bytes = b"POST /healthz HTTP/1.1") -> bytes:
    """A request with these header fields beside its Host."""
    return line + b"\r\nHost: localhost\r\n" + fields + b"\r\n" + body


@pytest.mark.parametrize(
    "sent",
    [
        request(LENGTHS + CHUNKED, b"0\r\n\r\n" + HIDDEN),
        request(CHUNKED + LENGTHS, b"0\r\n\r\n" + HIDDEN),
        request(LENGTHS + CHUNKED, HIDDEN, b"POST /healthz HTTP/1.0"),
        request(CHUNKED, b"0\r\n\r\n" + HIDDEN, b"POST /healthz HTTP/1.0"),
        request(LENGTHS + b"Content-Length: 0\r\n", HIDDEN),
        request(LENGTHS * 2, HIDDEN),
        request(b"Content-Length: %d, %d\r\n" % (len(HIDDEN), len(HIDDEN)), HIDDEN),
        request(b"Content-Length: +9\r\n", HIDDEN),
        request(b"Content-Length: 0x9\r\n", HIDDEN),
        request(b"Content-Length: -1\r\n", HIDDEN),
        request(b"Content-Length:\r\n", HIDDEN),
        request(b"Content-Length: " + b"9" * 5000 + b"\r\n", HIDDEN),
        request(b"Content_Length: 0\r\n" + LENGTHS, HIDDEN),
        request(b"Content-Length : 0\r\n", HIDDEN),
        request(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n" + HIDDEN),
        request(b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n" + HIDDEN),
        request(b"Transfer-Encoding: identity\r\n", HIDDEN),
        request(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + HIDDEN),
        request(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n" + HIDDEN),
        request(b"Transfer-Encoding:\r\n", HIDDEN),
        request(CHUNKED * 2, b"0\r\n\r\n" + HIDDEN),
        request(b"Transfer_Encoding: chunked\r\n" + LENGTHS, HIDDEN),
        request(b"X: 1\r\n Transfer-Encoding: chunked\r\n", HIDDEN),
        request(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n" + HIDDEN),
        request(b"X: 1\rTransfer-Encoding: chunked\r\n", HIDDEN),
        request(b"X: 1\nTransfer-Encoding: chunked\r\n", HIDDEN),
        request(b"Host: elsewhere\r\n", HIDDEN),
        b"POST /healthz HTTP/1.1\r\n\r\n" + HIDDEN,
        request(LENGTHS, HIDDEN, b"POST /healthz HTTP/1.2"),
        request(LENGTHS, HIDDEN, b"POST /healthz HTTP/2.0"),
        request(LENGTHS, HIDDEN, b"POST /healthz"),
        request(LENGTHS, HIDDEN, b"POST /healthz HTTP/1.1 "),
        request(LENGTHS, HIDDEN, b"POST  /healthz HTTP/1.1"),
        request(LENGTHS, HIDDEN, b"POST /healthz\tHTTP/1.1"),
        request(CHUNKED, b"0\n\n" + HIDDEN),
        request(CHUNKED, b"0\n\r\n\r\n" + HIDDEN),
        request(CHUNKED, b"0\rx\r\n\r\n" + HIDDEN),
        request(CHUNKED, b"0;a=\n\r\n\r\n" + HIDDEN),
        request(CHUNKED, b"0;a\rb\r\n\r\n" + HIDDEN),
        request(CHUNKED, b"0x0\r\n\r\n" + HIDDEN),
        request(CHUNKED, b"-0\r\n\r\n" + HIDDEN),
        request(CHUNKED, b"\r\n0\r\n\r\n" + HIDDEN),
        request(CHUNKED, b"1\r\nxx\r\n0\r\n\r\n" + HIDDEN),
        request(CHUNKED, b"1\r\nx\n0\r\n\r\n" + HIDDEN),
        request(CHUNKED, b"0\r\nContent-Length: 0\r\n\r\n" + HIDDEN),
        request(CHUNKED, b"fffffffff\r\n" + HIDDEN),
        request(CHUNKED, b"0;" + b"a" * 300 + b"\r\n\r\n" + HIDDEN),
    ],
)
def test_what_two_readers_could_take_for_other_requests_is_refused_and_the_connection_closed(
    start: Start, sent: bytes
) -> None:
    with connect(start()) as client:
        client.sendall(sent)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    head = answer.partition(b"\r\n\r\n")[0]
    assert head[9:12] == b"400", head
    assert b"connection: close" in head.lower()
    assert len(re.findall(rb"^HTTP/1\.[01] ", answer, re.MULTILINE)) == 1


@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_a_body_in_chunks_is_read_whole_however_it_arrives(start: Start, cut: int) -> None:
    body = json.dumps({"rtt": "1ms", "note": "x" * 300}).encode()
    parts = [body[:1], body[1:200], body[200:]]
    chunks = b"".join(b'%x;name="v"\r\n%s\r\n' % (len(part), part) for part in parts) + b"000\r\n\r\n"
    fields = CHUNKED + b"Content-Type: application/json\r\nAuthorization: Bearer %s\r\n" % TOKENS.write.encode()
    sent = request(fields, chunks, b"PATCH /api/lanes/a HTTP/1.1") + HIDDEN
    with connect(start()) as client:
        for place in range(0, len(sent), cut):
            client.sendall(sent[place : place + cut])
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 ") == 2
    assert b"nothing is up" in answer and answer.count(b"HTTP/1.1 200 OK") == 1


def test_events_reach_a_real_client_and_end_with_the_server(
    start: Start, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.live.HEARTBEAT_S", LIMIT_S)  # no comment may come before the event
    server = start()
    connection = http.client.HTTPConnection(*split(server.address), timeout=LIMIT_S)
    connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {TOKENS.read}"})
    response = connection.getresponse()
    assert response.headers["Content-Type"] == "text/event-stream"
    assert response.readline() == b"retry: 2000\n"
    house.live.look()
    assert [response.readline() for _ in range(3)][2] == b"event: look\n"
    house.live.channel.close()
    assert response.read().endswith(b"\n\n")
    connection.close()


def test_the_file_of_an_answer_that_nobody_reads_is_closed_when_the_server_ends(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(2**25))
    sent: list[IO[bytes]] = []

    def app(environ: WSGIEnvironment, begin: StartResponse) -> Iterable[bytes]:
        sent.append(large.open("rb"))
        begin("200 OK", [])
        answer: Iterable[bytes] = environ["wsgi.file_wrapper"](sent[0])
        return answer

    server = Server(app, "127.0.0.1:0", threads=1)
    thread = threading.Thread(target=server.run)
    thread.start()
    with connect(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(1) == b"H"
        server.end()
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    assert sent[0].closed


def test_an_address_in_use_is_told(start: Start, house: House) -> None:
    with pytest.raises(MissingError, match=r"cannot listen on 127\.0\.0\.1.*choose another with --listen"):
        Server(house.app, start().address, threads=1)


@pytest.mark.parametrize("listen", ["8642", "localhost", "localhost:http", "[::1]:70000"])
def test_what_is_no_address(listen: str) -> None:
    with pytest.raises(InputError, match=r"write 127\.0\.0\.1:8642"):
        split(listen)


@contextmanager
def serving(state: Path, *before: str) -> Iterator[tuple[Client, Path]]:
    """A client of `longhaul serve`, started by another program, and its token's file; at the end it ends."""
    command = [*before, sys.executable, "-m", "emulator", "serve", "--listen", "127.0.0.1:0", "--json"]
    environment = {**os.environ, "LONGHAUL_STATE": str(state)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout
        answer = json.loads("".join(process.stdout.readline() for _ in range(4)))
        token = Path(answer["token"])
        try:
            yield Client(answer["url"], token.read_text().strip()), token
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0


def test_serve_makes_its_token_and_ends_in_order(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as (client, token):
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        assert client.ask("GET", "/api/status").json()["topology"] is None


@pytest.mark.parametrize(("refused", "offered"), [("", True), ("ptrace", False), ("memory", False)])
def test_labs_are_offered_where_the_kernel_permits_what_they_need(tmp_path: Path, refused: str, offered: bool) -> None:
    before = [sys.executable, refused_calls.__file__, refused] if refused else []
    with serving(tmp_path, *before) as (client, _):
        try:
            asked = '{"rtt": ["1ms"], "in_lab": true}'
            client.ask("POST", "/api/runs?dry_run=1", asked, Content_Type="application/json")
        except InputError as error:
            assert (offered, [one.path for one in error.mistakes]) == (False, ["in_lab"])
        else:
            assert offered
