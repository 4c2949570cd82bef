"""`longhaul serve --demo`: the whole thing inside the lab, in real time, reached from the host.

Nothing is said here about how fast it is: only what netem can never do, deliver early, is asserted.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from emulator.client import Client
from emulator.errors import RefusedError

LIMIT_S = 120.0
MS = 10**6


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the demo is."""
    command = [sys.executable, "-m", "emulator", "serve", "--demo", "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout
        told = "".join(process.stdout.readline() for _ in range(4))
        yield json.loads(told)["url"]
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(LIMIT_S) == 0


def seen(url: str, wanted: Any) -> dict[str, Any]:
    """The first look of the event stream that is as wanted."""
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=LIMIT_S)
    connection.request("GET", "/api/events")
    response, deadline = connection.getresponse(), time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        line = response.readline()
        if line.startswith(b"data: ") and wanted(look := json.loads(line[6:])):
            connection.close()
            return dict(look)
    pytest.fail("not seen in time")


def test_traffic_and_round_trips_are_real(url: str) -> None:
    def full(look: dict[str, Any]) -> bool:
        lanes = look["lanes"].values()
        return bool(lanes) and all(lane["min_ns"] and lane["outbound"]["rate_bps"] > 10**5 for lane in lanes)

    look = seen(url, full)
    assert {name: lane["asked_ns"] for name, lane in look["lanes"].items()} == {
        "california": 32 * MS, "london": 80 * MS, "japan": 346 * MS,
    }  # fmt: skip
    assert all(lane["min_ns"] >= lane["asked_ns"] for lane in look["lanes"].values())


def test_a_change_is_followed_by_the_round_trips(url: str) -> None:
    client = Client(url)
    client.ask("PATCH", "/api/lanes/california", json.dumps({"rtt": "500ms"}), Content_Type="application/json")
    look = seen(url, lambda one: (one["lanes"]["california"]["min_ns"] or 0) >= 500 * MS)
    assert look["lanes"]["california"]["asked_ns"] == 500 * MS
    assert look["drift"] == 0


def test_pages_of_other_sites_cannot_use_it(url: str) -> None:
    with pytest.raises(RefusedError):
        Client(url).ask("DELETE", "/api/topology", Origin="http://evil.example")


def test_it_listens_on_loopback_alone() -> None:
    command = [sys.executable, "-m", "emulator", "serve", "--demo", "--listen", "0.0.0.0:0"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (ran.returncode, "loopback alone" in ran.stderr) == (2, True)
