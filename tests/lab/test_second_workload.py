"""A workload that is not the first one, through the whole cell path: N bytes over one TCP connection, by Python; or
over many, each shorter than a look at it.

Cell, result, verdict, report and run folder know nothing of it: what it takes is what stands here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec import Struct
from msgspec.structs import replace
from support.lab_cells import measure, spec

from emulator.analysis.tcp_path import Interval
from emulator.analysis.transfer import Transfer
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Asked, RunFolder
from emulator.hosts.tools import listening, workloads
from emulator.hosts.tools.process import Running
from emulator.hosts.tools.workload import Ends, Load
from emulator.report import html, tables

PORT = 7000
SERVER = """
import json, socket, sys, time
every, found = float(sys.argv[2]), []
server = socket.create_server(("", int(sys.argv[1])))
begin, start, count = None, 0.0, 0
for _ in range(int(sys.argv[3])):
    connection, _ = server.accept()
    begin = begin or time.monotonic()
    while data := connection.recv(65536):
        count, now = count + len(data), time.monotonic() - begin
        if now - start >= every:
            found.append((start, now, count))
            start, count = now, 0
    connection.close()
found.append((start, time.monotonic() - begin, count))
print(json.dumps(found))
"""
CLIENT = """
import socket, sys
for _ in range(int(sys.argv[4])):
    connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    connection.sendall(bytes(int(sys.argv[3])))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
    connection.close()
"""


class SendBytes(Struct, frozen=True):
    """So many bytes, however long they take, over each of some connections one after another."""

    size_bytes: int
    connections: int = 1
    kind: ClassVar[str] = "send"

    def check(self, load: Load) -> None:
        if load.streams > 1 or load.both:
            raise ValueError("send has one stream, one way")

    def title(self, load: Load) -> str:
        """The number of streams."""
        return f"{load.streams} streams"

    def part(self, load: Load) -> str:
        """The number of streams."""
        return str(load.streams)

    @contextmanager
    def start(self, ends: Ends, load: Load) -> Iterator[Sending]:
        argv = ["python3", "-c", SERVER, str(PORT), str(load.interval_s), str(self.connections)]
        with listening.server(ends.receiver, argv, PORT) as server:
            sizes = [str(self.size_bytes), str(self.connections)]
            with ends.sender.start(["python3", "-c", CLIENT, ends.receiver_address, str(PORT), *sizes]):
                yield Sending(server)


class Sending:
    """At work."""

    port, connections = PORT, 1

    def __init__(self, server: Running) -> None:
        self._server, self._reported = server, []

    def is_running(self) -> bool:
        return self._server.running()

    def wait(self) -> tuple[Transfer, ...]:
        self._reported = json.loads(self._server.wait(60).checked().stdout)
        intervals = tuple(Interval(*one) for one in self._reported)
        end_s = intervals[-1].end_s
        return (Transfer("send", "send 1", sum(i.bytes for i in intervals), end_s, None, end_s, intervals),)

    def raw(self) -> Any:
        return self._reported


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> CellSpec:
    """A cell of 3 s at 10 Mbit/s that sends 3.6 MB."""
    monkeypatch.setitem(workloads.KINDS, SendBytes.kind, SendBytes)
    return replace(spec(duration_s=3), workload=SendBytes(3_600_000))


def test_another_workload_is_measured_judged_and_reported(one: CellSpec, tmp_path: Path) -> None:
    result = measure(one, tmp_path)
    assert (result.judgement.kind, result.judgement.invalid) == ("line", ())
    assert 0.95 < result.steady_bytes_per_s / one.path.line_bytes_per_s <= 1
    assert result.transfer.received_bytes == 3_600_000
    assert (result.transfer.tool, result.transfer.sent_bytes) == ("send 1", None)
    assert result.transfer.retransmits == result.machine.counters["TcpRetransSegs"]
    again = CellResult.from_json(json.loads(json.dumps(result.to_json())))
    assert again == result
    assert again.spec.workload == SendBytes(3_600_000)
    found = {one.id: result}
    assert tables.overview([one], found).rows[0][1] == tables.steady_text(result)
    assert tables.csv_text([result.spec], {result.spec.id: result}).count("\n") == 2
    assert "send 1" in html.page({}, {}, [one], found, [], [])


def test_connections_too_short_to_be_looked_at_are_measured_without_their_windows(
    one: CellSpec, tmp_path: Path
) -> None:
    """Each lasts two round trips of 20 ms; `ss` wants to see the same one twice."""
    result = measure(replace(one, workload=SendBytes(1000, connections=60)), tmp_path)
    assert result.transfer.received_bytes == 60_000
    assert (result.sockets, result.judgement.invalid) == (None, ())
    assert any(said.startswith("no-socket-figures: ss did not see") for said in result.judgement.findings)
    assert CellResult.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_a_run_folder_keeps_which_workload_it_was(one: CellSpec, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {}, Asked((one,), in_lab=True))
    assert folder.asked().specs == (one,)
