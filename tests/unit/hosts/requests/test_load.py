"""The request program between two processes of this machine, over its loopback: what it counts, and how it fails."""

from __future__ import annotations

import ast
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.free_ports import free_ports
from support.waiting import PATIENCE_S

from emulator.analysis.request_figures import RequestFigures
from emulator.errors import LateError, MeasureError
from emulator.hosts.host import listens
from emulator.hosts.requests import load as request_load
from emulator.hosts.requests.client import RequestClient
from emulator.hosts.requests.load import RequestTest
from emulator.hosts.tools import process
from emulator.hosts.tools.process import Completed, Running
from emulator.model.request_load import RequestLoad

PROGRAM = Path(request_load.__file__).parent


class LocalHost:
    """This machine, as far as the request program needs a host."""

    name = "here"

    def start(self, argv: Sequence[str]) -> Running:
        return process.start([sys.executable if argv[0] == "python3" else argv[0], *argv[1:]])

    def is_listening(self, port: int) -> bool:
        return listens(Path("/proc/net/tcp").read_text(), port)


@pytest.fixture(autouse=True)
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A port of its own."""
    with free_ports() as first:
        monkeypatch.setattr(request_load, "PORT", first)
        yield


def figures(load: RequestLoad, duration_s: int = round(PATIENCE_S), **settings: Any) -> RequestFigures:
    """What was measured: the load's count ends it, or else the duration."""
    host: Any = LocalHost()
    reports = request_load.run(RequestTest(load, duration_s, 0, **settings), host, host, "127.0.0.1")
    assert reports.server["requests"] == reports.client["answered"]
    return RequestFigures.of(reports.client, reports.server)


@pytest.mark.parametrize(
    "load",
    [
        RequestLoad(count=50),
        RequestLoad(connections=8, in_flight=4, count=500),
        RequestLoad(request_bytes=1, answer_bytes=1, count=20),
        RequestLoad(connections=3, request_bytes=3_000_001, answer_bytes=5_000_003, in_flight=3, count=30),
        RequestLoad(connections=2, offered_per_s=500, count=100),
    ],
    ids=lambda load: load.part,
)
def test_every_request_is_answered_and_counted(load: RequestLoad) -> None:
    found = figures(load)
    assert (found.answered, found.unanswered) == (load.count, 0)
    assert found.times.count == found.service.count == found.transfer.count == load.count
    assert found.setup.count == load.connections
    assert sum(count for _, count in found.times.histogram) == load.count
    assert found.times.min_ns <= found.times.p50_ns <= found.times.p99_9_ns <= found.times.max_ns
    assert found.times.max_ns <= found.elapsed_ns
    assert found.overhead_ns > 0, "in real time the program costs something"


def test_the_rest_of_what_was_received_begins_the_next_answer() -> None:
    near, far = socket.socketpair()
    with near, far:
        client = RequestClient({"answer": 10, "rate": None, "think_ns": 0, "count": 0, "duration_ns": 0}, lambda: 0)
        one = client.add(near)
        one.flights.extend([(0, 0), (50, 50)])
        for size, now_ns in ((4, 100), (11, 120), (5, 300)):
            far.send(bytes(size))
            client._receive(one, now_ns)
        report = client._report(400)
    assert (report["answered"], report["unanswered"]) == (2, 0)
    assert [ns for ns, _ in report["transfer"]["histogram"]] == [20, 180]
    assert [ns for ns, _ in report["times"]["histogram"]] == [120, 250]


def test_users_think() -> None:
    load = RequestLoad(connections=2, think_ns=50_000_000, count=8)
    found = figures(load)
    assert found.elapsed_ns >= 3 * 50_000_000
    assert found.per_s(load) <= 2 / 0.05


def test_the_duration_ends_it() -> None:
    load = RequestLoad(
        connections=20, offered_per_s=20
    )  # one for each: none waits for another, however busy the machine
    found = figures(load, duration_s=1)
    assert (found.answered, found.unanswered, found.overloaded) == (20, 0, False)
    assert found.per_s(load) == pytest.approx(20)


def test_its_errors_are_told_in_its_own_words() -> None:
    words = (
        r"^python3 on here ended before it listened on port \d+: congestion control nosuch: No such file or directory$"
    )
    with pytest.raises(MeasureError, match=words):
        figures(RequestLoad(), congestion_control="nosuch")


def test_a_server_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.hosts.tools.listening.server", lambda *_: process.start(["sleep", "60"]))
    with pytest.raises(MeasureError, match=r"the request program on here: connection 1 was not set up: .*refused"):
        figures(RequestLoad())


class Ended(Running):
    """A program on a far host whose end is an error."""

    def __init__(self, error: MeasureError) -> None:
        self.error = error

    def wait(self, timeout_s: float) -> Completed:
        raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LateError("python3 did not end within 60 s"), "7 requests were not answered, .* the lane carries nothing"),
        (MeasureError("far-machine: connection lost"), "^far-machine: connection lost$"),
    ],
)
def test_a_server_without_an_end_is_late_or_its_host_is_gone(error: MeasureError, said: str) -> None:
    host: Any = LocalHost()
    with pytest.raises(MeasureError, match=said):
        request_load._ended(Ended(error), {"unanswered": 7}, host)


def test_a_program_that_cannot_run_says_why() -> None:
    broken = Completed(("python3",), "", "Traceback:\nImportError: no module named _ctypes\n", 1)
    with pytest.raises(MeasureError, match="on here printed no report, but: ImportError: no module named _ctypes"):
        request_load.PROGRAM.report(broken, LocalHost())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["wire", "server", "client"])
def test_the_program_needs_nothing_but_an_old_python(name: str) -> None:
    tree = ast.parse((PROGRAM / f"{name}.py").read_text(), feature_version=(3, 8))
    modules = [
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    carried = {f"emulator.hosts.requests.{one}" for one in ("wire", "server")}
    assert {name.partition(".")[0] for name in {*modules} - carried} <= sys.stdlib_module_names
    assert len(request_load.PROGRAM.text) < 100_000, "an argument of a program has at most 128 KiB"


@pytest.mark.parametrize("users", [3000, 10**7])
def test_more_connections_than_open_files_are_allowed(users: int) -> None:
    """1024 by default, the hard limit by anybody, any number by root: up to the kernel's fs.nr_open."""
    text = request_load.PROGRAM.text.removesuffix("sys.exit(module.main(sys.argv[1:]))\n")
    wire = 'sys.modules["emulator.hosts.requests.wire"]'
    show = f"import resource\n{wire}.allow_files({users})\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    done = process.run([sys.executable, "-c", text + show], 30)
    if users == 3000:
        assert int(done.stdout) >= users
    else:
        assert "and needs 10000000: use fewer connections, or ulimit -n" in done.stderr
