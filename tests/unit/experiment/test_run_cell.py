"""A cell on a late machine, between hosts on paper: what fails at first is tried again and recorded, never bare."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.fake_hosts import OPEN_TIMEOUT, SILENT, FakeHost, FakeWork, FakeWorkload, completed

from emulator.analysis import verdict
from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.errors import MeasureError, MissingError
from emulator.experiment import run_cell
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.hosts import tcp_profiles
from emulator.hosts.tools import workloads
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology
from emulator.report import html, remarks, tables

MS = 10**6
NO_REPLY = completed(stderr=OPEN_TIMEOUT, exit_code=1)
UNANSWERED = completed(SILENT)


@pytest.fixture
def hosts() -> tuple[FakeHost, FakeHost]:
    """Sender and receiver."""
    return FakeHost("near"), FakeHost("far")


def spec(workload: FakeWorkload | None = None) -> CellSpec:
    """A second over 32 ms; short, for its looks take real time."""
    lane = Lane("far", Impairment(rate_bps=10**9), Impairment(rate_bps=10**9)).with_rtt(32 * MS)
    one = CellSpec(Topology("cell", "near", (lane,)), tcp_profiles.DEFAULT, 1, None, 1)
    return replace(one, workload=workload or FakeWorkload())


@pytest.fixture
def measured(tmp_path: Path, hosts: tuple[FakeHost, FakeHost], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measures a cell between the hosts."""
    monkeypatch.setitem(workloads.KINDS, "fake", FakeWorkload)

    def run(one: CellSpec) -> CellResult:
        appliance = Appliance(FakeKernel(), tmp_path, guard=lambda _: None)
        appliance.up(one.topology)
        return run_cell.measure_streams(one, appliance, *hosts).result

    return run


def test_the_lease_is_there_before_the_hosts_are_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To connect over SSH takes time, in which somebody else could take the lanes."""
    appliance = Appliance(FakeKernel(), tmp_path, guard=lambda _: None)
    leased: list[int | None] = []

    @contextmanager
    def reached(_: Topology) -> Iterator[dict[str, FakeHost]]:
        leased.append(IntentStore(tmp_path).leaseholder())
        raise MissingError("ssh far: no route to host")
        yield {}

    monkeypatch.setattr(run_cell.resolve, "reached", reached)
    with pytest.raises(MissingError, match="no route to host"):
        run_cell.execute(spec(), appliance)
    assert (leased, IntentStore(tmp_path).leaseholder()) == ([os.getpid()], None)
    assert (appliance.topology(), appliance.pending_ns()) == (None, None)


def said(result: CellResult) -> dict[str, str]:
    """What each check found."""
    return dict(text.split(": ", 1) for text in result.judgement.findings)


def test_on_an_idle_machine_nothing_is_tried_again(measured: Any, hosts: tuple[FakeHost, FakeHost]) -> None:
    result = measured(spec())
    assert not {"tried-again", "no-irtt", "no-loaded-rtt", "no-socket-figures"} & said(result).keys()
    assert (result.delays.rtt_ns, result.delays.idle.tool, result.delays.loaded.tool) == (32 * MS, "irtt", "irtt")
    assert len(hosts[0].called("ss")) == run_cell.LOOKS


def test_a_reply_that_comes_late_is_asked_for_again(measured: Any, hosts: tuple[FakeHost, FakeHost]) -> None:
    hosts[0].answers = {"irtt": [NO_REPLY], "ping": [UNANSWERED, UNANSWERED]}
    result = measured(spec())
    again = [text for text in result.judgement.findings if text.startswith("tried-again")]
    assert again[0].startswith("tried-again: the RTT before the run needed 3 attempts: none of 4 echoes was answered")
    assert (
        "the idle lane's RTT by irtt needed 2 attempts: irtt got no answer from its server: Error: [OpenTime"
        in again[1]
    )
    assert (result.judgement.invalid, result.delays.idle.tool) == ((), "irtt")
    # Each attempt waits longer for the server.
    first, second, *_ = hosts[0].called("irtt", "client")
    assert not any(word.startswith("--timeouts") for word in first) or first != second
    assert any(word.startswith("--timeouts") for word in second)


def test_where_irtt_never_gets_an_answer_ping_measures(measured: Any, hosts: tuple[FakeHost, FakeHost]) -> None:
    hosts[0].answers = {"irtt": [NO_REPLY] * 3}
    result = measured(spec())
    assert (result.delays.idle.tool, result.delays.loaded.tool, result.judgement.invalid) == ("ping", "ping", ())
    assert "ping measured instead" in said(result)["no-irtt"]


def test_a_lane_that_never_answers_fails_with_what_to_do(measured: Any, hosts: tuple[FakeHost, FakeHost]) -> None:
    hosts[0].answers = {"ping": [UNANSWERED] * 3}
    with pytest.raises(MeasureError, match=r"^the RTT before the run failed 3 times: none of 4 .* measure again"):
        measured(spec())


def test_a_server_that_starts_late_is_started_again(measured: Any) -> None:
    result = measured(spec(FakeWorkload(["iperf3 on far did not listen on port 5201 within 10 s"])))
    assert said(result)["tried-again"].startswith("the start of fake needed 2 attempts: iperf3 on far did not listen")


def test_probes_beside_the_streams_that_fail_do_not_fail_the_cell(
    measured: Any, hosts: tuple[FakeHost, FakeHost]
) -> None:
    hosts[0].answers = {"irtt": [completed(hosts[0]._well(["irtt"])), NO_REPLY]}
    result = measured(spec())
    assert result.delays.loaded is None
    assert "OpenTimeout" in said(result)["no-loaded-rtt"]
    assert result.judgement.invalid == ()


@pytest.mark.parametrize("answer", [completed(), MeasureError("ss did not end within 30 s")], ids=["short", "slow"])
def test_connections_that_ss_never_saw_are_a_note_and_the_cell_counts(
    measured: Any, hosts: tuple[FakeHost, FakeHost], answer: Any
) -> None:
    hosts[0].answers = {"ss": [answer] * run_cell.MOST_LOOKS}
    result = measured(spec())
    assert (result.sockets, result.judgement.invalid) == (None, ())
    assert result.steady_bytes_per_s > 0
    assert result.judgement.kind not in (verdict.SEND_BUFFER, verdict.RECEIVE_WINDOW)
    assert "ss did not see the streams at work" in said(result)["no-socket-figures"]
    assert ("ss did not end within 30 s" in said(result)["no-socket-figures"]) == isinstance(answer, Exception)
    assert CellResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    found = {result.spec.id: result}
    row = dict(
        zip(
            tables.CSV_COLUMNS,
            tables.csv_text([result.spec], {result.spec.id: result}).splitlines()[1].split(","),
            strict=False,
        )
    )
    assert (row["window_bytes"], row["peer_window_bytes"]) == ("", "")
    assert "streams at work" in "".join(remarks.findings(found))
    assert html.page({}, {}, [result.spec], found, [], [])


def test_streams_that_begin_late_are_looked_at_later(measured: Any, hosts: tuple[FakeHost, FakeHost]) -> None:
    hosts[0].answers = {"ss": [completed()] * 20}
    result = measured(spec())
    assert result.sockets is not None
    assert len(hosts[0].called("ss")) == 20 + run_cell.LOOKS


def test_when_the_workload_has_ended_nobody_looks_any_more(
    measured: Any, hosts: tuple[FakeHost, FakeHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeWork, "is_running", lambda _: False)
    hosts[0].answers = {"ss": [completed()] * run_cell.MOST_LOOKS}
    assert measured(spec()).sockets is None
    assert len(hosts[0].called("ss")) == run_cell.LOOKS
