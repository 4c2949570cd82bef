"""The flow program between two processes of this machine, over its loopback: what it counts, and how it ends.

When flows begin and end: test_start_and_stop.py.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.free_ports import free_ports

from emulator.errors import MeasureError
from emulator.hosts.flows import load as flow_load
from emulator.hosts.flows.load import FlowReports, FlowTest
from emulator.hosts.host import listens
from emulator.hosts.tools import process
from emulator.hosts.tools.process import Running
from emulator.model.flow_group import MOST_GROUPS, Contest

PROGRAM = Path(flow_load.__file__).parent
KIB = 2**10


class LocalHost:
    """This machine, as far as the flow program needs a host."""

    def __init__(self, name: str = "here") -> None:
        self.name = name

    def start(self, argv: Sequence[str]) -> Running:
        return process.start([sys.executable if argv[0] == "python3" else argv[0], *argv[1:]])

    def is_listening(self, port: int) -> bool:
        return listens(Path("/proc/net/tcp").read_text(), port)


@pytest.fixture(autouse=True)
def ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ports of its own for the control connections and every group."""
    with free_ports(MOST_GROUPS + 1) as first:
        monkeypatch.setattr(flow_load, "PORT", first)
        yield


def run(text: str, duration_s: int = 1, senders: Sequence[str] = ()) -> FlowReports:
    """Each group sends from the host of that name; from one host when there are no names."""
    contest, receiver = Contest.parse(text), LocalHost()
    hosts: list[Any] = [LocalHost(name) for name in senders or ["here"] * len(contest.groups)]
    return flow_load.run(FlowTest(contest, duration_s, 0), hosts, receiver, "127.0.0.1")  # type: ignore[arg-type]


def test_every_flow_is_counted_by_itself_and_ends_by_agreement() -> None:
    """In three seconds even where this machine is busy: no flow waits so long for its first byte."""
    reports = run("cubic:3,reno:1", 3)
    assert [len(group["flows"]) for group in reports.receiver["groups"]] == [3, 1]
    for sent, received in zip(reports.sender["groups"], reports.receiver["groups"], strict=True):
        assert [len(flow) for flow in received["flows"]] == [30] * len(received["flows"])
        assert min(map(sum, received["flows"])) > 0
        assert (sent["lost"], sent["unfinished"]) == ([], 0)
        assert len(sent["windows"]) == len(sent["trips_us"]) == 30
        assert sent["windows"][-1] > 0
    assert [group["congestion_control"] for group in reports.sender["groups"]] == ["cubic", "reno"]
    assert reports.receiver["lost"] == 0


def test_groups_of_several_senders_are_reported_in_their_order() -> None:
    reports = run("cubic:1,reno:2,cubic:1:bytes=1KiB:think=100ms", senders=["one", "other", "one"])
    assert [group["congestion_control"] for group in reports.sender["groups"]] == ["cubic", "reno", "cubic"]
    assert [len(group["flows"]) for group in reports.receiver["groups"]] == [1, 2, 1]
    assert [bool(group["times"]["count"]) for group in reports.sender["groups"]] == [False, False, True]
    assert [group["lost"] for group in reports.sender["groups"]] == [[], [], []]


@pytest.mark.parametrize("keep", ["", ":keep"])
def test_transfers_are_answered_and_timed(keep: str) -> None:
    reports = run(f"cubic:2:bytes=30KiB:think=50ms{keep}")
    sent, received = reports.sender["groups"][0], reports.receiver["groups"][0]
    assert (sent["lost"], sent["unfinished"]) == ([], 0)
    assert sent["times"]["count"] >= 2, "what is under way at the end ends as it would have"
    (together,) = received["flows"]
    assert sum(together) + received["late"] == sent["times"]["count"] * 30 * KIB
    assert 0 < sent["times"]["least_ns"] <= sent["times"]["most_ns"]


def test_more_transfers_than_a_socket_takes_at_once() -> None:
    reports = run("cubic:2:bytes=8MiB:keep")
    sent, received = reports.sender["groups"][0], reports.receiver["groups"][0]
    assert sent["lost"] == []
    assert sum(received["flows"][0]) + received["late"] == sent["times"]["count"] * 8192 * KIB


def test_a_congestion_control_that_the_kernel_lacks_is_told() -> None:
    with pytest.raises(MeasureError) as caught:
        run("nosuch:1")
    text = str(caught.value)
    assert "on here ended before it listened on port" in text and "congestion control nosuch: No such file" in text
    assert "ModuleType" not in text, "the program's text is no part of the message"


def test_intervals() -> None:
    contest = Contest.parse("cubic:1")
    assert [
        (test.interval_ns, test.intervals) for s in (1, 30, 60, 100, 3601) if (test := FlowTest(contest, s, 0))
    ] == [
        (10**8, 10),
        (10**8, 300),
        (2 * 10**8, 300),
        (34 * 10**7, 294),
        (12_010_000_000, 299),
    ]


@pytest.mark.parametrize("name", ["receiver", "sender"])
def test_the_program_runs_on_python_3_8_and_needs_the_standard_library_only(name: str) -> None:
    tree = ast.parse((PROGRAM / f"{name}.py").read_text(), feature_version=(3, 8))
    named = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = {module for module in named if module and module.startswith("emulator")}
    assert ours <= {"emulator.hosts.requests.wire", "emulator.hosts.flows.receiver"}
