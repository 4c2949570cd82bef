"""By hand: how the web server bears 200 watchers of the event stream and 500 requests a second besides.

The server is a process of its own over the kernel in memory, with the twelve lanes of wide-star up, its watchdog at
work as below a service manager that wants to hear of it. Takes the seconds that are asked for, and a few more.

Example:
  .venv/bin/python tests/bench/load.py 20 500
"""

from __future__ import annotations

import argparse
import http.client
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from helped import parser

ROOT = Path(__file__).parents[2]
WATCHERS, ASKERS = 200, 8
WATCHDOG_S = 10.0
"""How long the service manager waits for a sign of life; the watchdog gives one twice as often."""


def serve(folder: str) -> None:
    """The server; its port is the first line it prints."""
    sys.path.insert(0, str(ROOT / "tests"))
    from emulator.config import loader
    from emulator.control.appliance import Appliance
    from emulator.kernel.fake import FakeKernel
    from web.auth.guard import Guard
    from web.auth.tokens import Tokens
    from web.wiring import server

    appliance = Appliance(FakeKernel(), Path(folder))
    appliance.up(loader.load(ROOT / "topologies/wide-star.yaml"))
    made = server(appliance, Path(folder), Guard(Tokens("w", "r", "o")), "127.0.0.1:0")
    print(made.address.split(":")[1], flush=True)
    made.end_on_signals()
    made.run()


def watch(port: int, seconds: float, counts: list[int]) -> None:
    """All watchers in one thread: how many looks each has seen."""
    selector = selectors.DefaultSelector()
    for number in range(WATCHERS):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer r\r\n\r\n")
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ, number)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for key, _ in selector.select(0.5):
            counts[key.data] += key.fileobj.recv(1 << 16).count(b"event: look")  # type: ignore[union-attr]


def ask(port: int, end: float, pause_s: float, took: list[float]) -> None:
    """One client with a connection kept open, paced."""
    connection, due = http.client.HTTPConnection("127.0.0.1", port), time.monotonic()
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        connection.request("GET", "/api/status", headers={"Authorization": "Bearer r"})
        response = connection.getresponse()
        response.read()
        assert response.status == 200
        took.append(time.monotonic() - began)
        due += pause_s


def hear(manager: socket.socket, over: threading.Event, signs: list[float]) -> None:
    """Stand for the service manager: when a sign of life came, and the end."""
    manager.settimeout(0.5)
    while not over.is_set():
        with suppress(TimeoutError):
            if b"WATCHDOG=1" in manager.recv(1000):
                signs.append(time.monotonic())
    signs.append(time.monotonic())


def main(seconds: float, rate: float) -> None:
    """One run and its figures."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"{folder}/notify")
        reported = {"NOTIFY_SOCKET": f"{folder}/notify", "WATCHDOG_USEC": str(round(WATCHDOG_S * 1e6))}
        command = [sys.executable, __file__, "--serve", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **reported}) as server:
            assert server.stdout
            port = int(server.stdout.readline())
            counts, took, signs, over = [0] * WATCHERS, list[float](), list[float](), threading.Event()
            watcher = threading.Thread(target=watch, args=(port, seconds + 2, counts))
            listener = threading.Thread(target=hear, args=(manager, over, signs))
            watcher.start()
            listener.start()
            time.sleep(2)
            end = time.monotonic() + seconds
            askers = [threading.Thread(target=ask, args=(port, end, ASKERS / rate, took)) for _ in range(ASKERS)]
            for thread in askers:
                thread.start()
            for thread in [*askers, watcher]:
                thread.join()
            over.set()
            listener.join()
            server.terminate()
    took.sort()
    shown = ", ".join(f"p{q * 100:g} {took[int(len(took) * q)] * 1e3:.1f} ms" for q in (0.5, 0.99, 0.999))
    print(f"GET /api/status: {len(took) / seconds:.0f}/s, {shown}")
    print(f"{WATCHERS} watchers: {min(counts)} to {max(counts)} looks each in {seconds + 2:.0f} s")
    gap_s = max(after - before for before, after in pairwise(signs))
    print(f"watchdog: a sign of life every {WATCHDOG_S / 2:g} s asked, the longest pause was {gap_s:.1f} s")


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("seconds", nargs="?", type=float, default=20, help="for which is asked; 20 unless said")
    said.add_argument("rate", nargs="?", type=float, default=500, help="requests a second; 500 unless said")
    said.add_argument("--serve", help=argparse.SUPPRESS)
    asked = said.parse_args()
    if asked.serve:
        serve(asked.serve)
    else:
        main(asked.seconds, asked.rate)
