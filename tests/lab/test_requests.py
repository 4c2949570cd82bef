"""Cells of requests through the whole path: measured, judged, kept in a run folder, resumed; and with a lane that
misbehaves."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.lab_cells import KIB, MBIT, MIB, MS, run, spec

from emulator.cli.main import main
from emulator.control.appliance import Appliance
from emulator.errors import MeasureError
from emulator.experiment import repeated_result, requests_cell, results
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.requests_result import RequestsResult
from emulator.experiment.run_folder import RunFolder
from emulator.hosts import tcp_profiles
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.impairment import Buffer
from emulator.model.request_load import RequestLoad
from emulator.report import request_table

SWEEP = """
name: two
hub: hub
defaults: {rate: 100Mbit}
lanes:
  east: {rtt: 20ms}
  west: {rtt: 80ms}
schedule:
  tracks:
    - {lanes: [west], keys: [{at: 0s, rtt: 80ms}, {at: 1s, rtt: 20ms}]}
sweep:
  lane: west
  tcp_profile: default
  duration: 2s
  repeats: 1
  workload:
    requests: {connections: [1, 4], answer: [1KiB, 64KiB], count: 500}
"""


def cell(load: RequestLoad, **settings: Any) -> CellSpec:
    return replace(spec(**settings), workload=RequestsWorkload(load))


def measured(appliance: Appliance, one: CellSpec) -> RequestsResult:
    """The result of the cell; it survives its way through JSON."""
    appliance.up(one.topology)
    hub, site = NamespaceHost(one.topology.hub), NamespaceHost(one.lane.name)
    with tcp_profiles.applied(one.profile, hub, site):
        result = requests_cell.measure(one, appliance, hub, site).result
    assert isinstance(result, RequestsResult)
    assert results.from_json(json.loads(json.dumps(result.to_json()))) == result
    return result


@pytest.mark.parametrize("direction", ["outbound", "inbound"])
def test_a_cell_is_measured_and_judged(appliance: Appliance, direction: str) -> None:
    one = cell(RequestLoad(8), rtt_ms=80, rate_mbit=100, direction=direction)
    result = measured(appliance, one)
    assert result.figure == pytest.approx(100, rel=0.001)
    assert (result.judgement.kind, result.judgement.invalid, result.judgement.findings) == ("round trips", (), ())
    assert result.judgement.round_trips_per_s == 100
    assert request_table.details([one], {one.id: result})[0].rows[0][1:4] == ("100/s", "-", "100.0%")


def test_the_line_of_the_answers_direction_limits(appliance: Appliance) -> None:
    """The buffer holds whatever is in flight: which segments a full one drops is chance, and may cost a fifth."""
    load = RequestLoad(16, answer_bytes=100 * KIB)
    one = cell(load, rtt_ms=20, rate_mbit=100, duration_s=5, buffer=Buffer(8 * MIB))
    slow = replace(one.lane, inbound=replace(one.lane.inbound, rate_bps=10 * MBIT))
    result = measured(appliance, replace(one, topology=one.topology.alone(slow)))
    assert result.judgement.kind == "line"
    assert result.judgement.line_per_s == pytest.approx(10e6 / 8 / (102_400 + 71 * 66))
    assert 0.9 < result.figure / result.judgement.line_per_s <= 1
    assert result.judgement.invalid == ()


def test_small_requests_fill_the_line_with_their_headers(appliance: Appliance) -> None:
    """256 bytes of request are 322 on the line, which carries 15 528 of them a second: 544 in a round trip."""
    one = cell(RequestLoad(654, answer_bytes=1), rtt_ms=35, rate_mbit=40, duration_s=2)
    result = measured(appliance, one)
    assert (result.judgement.kind, result.judgement.invalid) == ("line", ())
    assert result.judgement.line_per_s == pytest.approx(40e6 / 8 / 322)
    assert result.figure / result.judgement.line_per_s == pytest.approx(0.99, abs=0.02)


def test_loss_on_the_lane(appliance: Appliance) -> None:
    one = cell(RequestLoad(8, answer_bytes=20 * KIB), rtt_ms=80, rate_mbit=100, loss=0.02, duration_s=10)
    result = measured(appliance, one)
    assert (result.judgement.kind, result.judgement.invalid) == ("loss", ())
    assert result.requests.retransmits > 10
    assert result.requests.times.p99_ns > 150 * MS


def test_an_offered_rate_that_the_places_cannot_carry(appliance: Appliance) -> None:
    one = cell(RequestLoad(2, offered_per_s=50), rtt_ms=80, rate_mbit=100)
    result = measured(appliance, one)
    assert (result.judgement.kind, result.judgement.invalid) == ("round trips", ())
    assert result.figure == pytest.approx(25, rel=0.01)
    assert [said.partition(": ")[0] for said in result.judgement.findings] == ["overload"]
    # Each takes a little more than 80 ms, of which 50 a second fill four places.
    assert result.judgement.advice == ("more in flight: this offered rate needs connections x in flight of at least 5")


def test_answers_faster_than_the_round_trip_are_impossible(appliance: Appliance) -> None:
    """Somebody takes the delay away while the requests run."""
    one = cell(RequestLoad(4), rtt_ms=80, rate_mbit=100, duration_s=5)
    appliance.up(one.topology)
    port = appliance.status().lanes[0].outbound.port
    appliance.down()

    def shorten() -> None:
        time.sleep(3)
        run("tc", "qdisc", "change", "dev", port, "root", "netem", "delay", "1ms", "limit", "1000")

    thread = threading.Thread(target=shorten)
    thread.start()
    result = measured(appliance, one)
    thread.join()
    checks = {said.partition(": ")[0] for said in result.judgement.findings}
    assert {"above-ceiling", "below-rtt", "changed"} <= checks
    assert any("are more than 4 connections x 1 in flight / RTT allow" in said for said in result.judgement.invalid)
    assert request_table.overview([one], {one.id: result}).rows[0][1].startswith("✗")


def test_a_lane_that_dies(appliance: Appliance) -> None:
    one = cell(RequestLoad(2), rtt_ms=80, rate_mbit=100)
    appliance.up(one.topology)
    port = appliance.status().lanes[0].outbound.port
    thread = threading.Thread(target=lambda: time.sleep(3) or run("ip", "link", "set", port, "down"))
    thread.start()
    words = (
        "2 requests were not answered, and the end of the connections did not reach far within 60 s: the lane carries"
    )
    with pytest.raises(MeasureError, match=words):
        measured(appliance, one)
    thread.join()


def test_a_sweep_is_kept_captured_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the file's section, beside a schedule, which the measured lane does not follow."""
    monkeypatch.setattr("emulator.control.local.local", lambda: Appliance(NetlinkKernel(), tmp_path))
    file = tmp_path / "two.yaml"
    file.write_text(SWEEP)
    assert main(["sweep", str(file), "--runs", str(tmp_path / "runs"), "--pcap", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    folder = RunFolder(Path(answer["run"]))
    assert [one["spec"]["workload"]["requests"]["answer_bytes"] for one in answer["cells"]] == [KIB, 64 * KIB] * 2
    before = folder.finished(folder.asked())
    assert len(before) == 4
    assert all(one.figure == pytest.approx(12.5 * one.load.places, rel=0.2) for one in before.values())
    assert all(len(one.captures) == 4 and not any(f.dropped for f in one.captures) for one in before.values())
    lost = next(iter(before))
    (folder.path / "cells" / f"{lost}.0.json").unlink()
    assert main(["sweep", "--resume", str(folder.path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["cells"]) == 4
    after = folder.finished(folder.asked())
    assert after[lost].requests.times.count == before[lost].requests.times.count
    assert after[lost].figure == pytest.approx(before[lost].figure, rel=1e-4)
    assert (folder.path / "table.csv").read_text().count("\n") == 5


def test_repeats_add_up_their_times(appliance: Appliance) -> None:
    one = cell(RequestLoad(2), rtt_ms=20, loss=0.05, duration_s=3)
    found = []
    for number in range(3):
        found.append(measured(appliance, one.again(number)))
        appliance.down()
    both = repeated_result.merged(found)
    assert isinstance(both, RequestsResult)
    assert both.requests.times.count == sum(one.requests.times.count for one in found)
    assert both.repeats == tuple(one.figure for one in found)
    assert len(set(both.repeats)) == 3, "each repeat has its own losses"
    assert both.requests.times.max_ns == max(one.requests.times.max_ns for one in found)


def test_large_messages_both_ways(appliance: Appliance) -> None:
    """The buffer holds whatever is in flight: chance, as in which segments a full one drops, moves no figure."""
    one = cell(RequestLoad(2, 2, MIB, MIB), rtt_ms=20, rate_mbit=100, duration_s=5, buffer=Buffer(8 * MIB))
    result = measured(appliance, one)
    assert result.judgement.invalid == ()
    assert result.queues.drops_buffer == 0
    assert 0.7 < result.figure / result.judgement.line_per_s <= 1
