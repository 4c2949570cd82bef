"""Test runs by the API: begun, watched, cancelled, resumed, reported, forgotten."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support import made_requests
from support.gated_runs import ASKED, CELLS, Gate, begin
from support.made_results import execution
from support.waiting import PATIENCE_S
from support.web_daemon import House, until

from emulator.errors import MeasureError, MissingError
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Asked, Execution, RunFolder
from emulator.model.request_load import RequestLoad


@pytest.fixture
def house(gated: House) -> House:
    """A daemon with nothing up."""
    return gated


def test_a_run_from_its_start_to_its_tables(house: House, gate: Gate) -> None:
    name = begin(house)
    assert house.client.get("/api/runs").json == {"runs": [name], "names": {}}
    gate.open(1)
    half = until(house, name, lambda run: run["finished"] == 1)
    assert (half["state"], half["total"], half["left_s"] > 9) == ("running", 4, True)
    assert house.client.get("/metrics").text.count('longhaul_runs{state="running"} 1.0') == 1
    gate.open(3)
    done = until(house, name, lambda run: run["state"] != "running")
    assert (done["state"], done["trouble"], done["left_s"]) == ("done", "", 0)
    cells = {cell["id"]: cell for cell in done["cells"]}
    assert list(cells) == CELLS
    assert cells[CELLS[0]]["state"] == "done"
    assert cells[CELLS[0]]["steady_bytes_per_s"] == 87.5 * 2**20
    assert (cells[CELLS[3]]["state"], cells[CELLS[3]]["failure"]) == ("failed", "iperf3 had enough")
    table = house.client.get(f"/api/runs/{name}/report")
    assert (table.content_type, "| 32 ms | 87.5 (0.734) | - |" in table.text) == ("text/markdown; charset=utf-8", True)
    rows = house.client.get(f"/api/runs/{name}/report?format=csv").text.splitlines()
    assert (len(rows), rows[0].split(",")[0]) == (4, "cell")
    results = house.client.get(f"/api/runs/{name}/report?format=json").json
    assert [CellResult.from_json(cell).spec.id for cell in results["cells"]] == CELLS[:3]
    assert house.client.get(f"/api/runs/{name}/report?format=pdf").status_code == 422
    deadline = time.monotonic() + PATIENCE_S
    while house.reported[-1].state != "done":
        assert time.monotonic() < deadline
    assert len(house.reported[-1].found) + len(house.reported[-1].failures) == 4


def test_the_report_with_figures_is_a_page_without_scripts_and_drawn_once(
    house: House, gate: Gate, tmp_path: Path
) -> None:
    name = begin(house)
    gate.open(4)
    until(house, name, lambda run: run["state"] == "done")
    first = house.client.get(f"/api/runs/{name}/report?format=html")
    assert (first.status_code, first.content_type) == (200, "text/html; charset=utf-8")
    assert first.text.startswith("<!doctype html>") and "<svg" in first.text and "iperf3 had enough" in first.text
    assert "sandbox" in first.headers["Content-Security-Policy"] and "script" not in first.text
    (tmp_path / "runs" / name / "report.html").write_text("as it was drawn")
    assert house.client.get(f"/api/runs/{name}/report?format=html").text == "as it was drawn"


def test_a_run_of_requests_that_the_command_line_made(house: House, tmp_path: Path) -> None:
    cells = [made_requests.result(RequestLoad(users)) for users in (1, 8)]
    wanted = Asked(tuple(cell.spec for cell in cells), in_lab=True)
    folder = RunFolder.create(
        tmp_path / "runs" / "20260102-030405-000", {"created": "2026-01-02T03:04:05+00:00"}, wanted
    )
    for cell in cells:
        folder.save(Execution(cell, {}))
    answer = house.client.get("/api/runs/20260102-030405-000").json["cells"]
    assert [round(cell["requests_per_s"], 1) for cell in answer] == [12.5, 100.0]
    assert {cell["request_p50_ns"] // 10**6 for cell in answer} == {80}
    assert {(cell["steady_bytes_per_s"], cell["limiter"]) for cell in answer} == {(None, "round trips")}
    assert "12.5/s" in house.client.get("/api/runs/20260102-030405-000/report").text


def test_what_is_planned_is_told_before(house: House, gate: Gate) -> None:
    planned = house.client.post("/api/runs?dry_run=1", json=ASKED).json
    assert (planned["state"], planned["total"], planned["left_s"]) == ("planned", 4, 4 * (10 + 6))
    assert house.client.post("/api/runs?dry_run=1", json=ASKED | {"in_lab": True}).json["left_s"] < 4 * 4
    assert [round(cell["expected_bytes_per_s"] / 2**20, 1) for cell in planned["cells"]] == [11.4] * 4
    assert (gate.begun, house.client.get("/api/runs").json) == ([], {"runs": [], "names": {}})


def test_one_run_at_a_time(house: House, gate: Gate) -> None:
    name = begin(house)
    assert house.client.post("/api/runs", json=ASKED).status_code == 409
    gate.open(4)
    until(house, name, lambda run: run["state"] == "done")
    gate.open(4)
    until(house, begin(house), lambda run: run["state"] == "done")


def test_a_run_cancelled_in_its_last_cell_is_done_for_nothing_is_left_to_resume(house: House, gate: Gate) -> None:
    name = begin(house, rtt=["1ms"])
    gate.open(1)
    until(house, name, lambda run: (run["finished"], len(gate.begun)) == (1, 2))
    assert house.client.post(f"/api/runs/{name}/cancel").json["state"] == "running"
    gate.open(1)
    ended = until(house, name, lambda run: run["state"] != "running")
    assert (ended["state"], ended["trouble"], ended["finished"]) == ("done", "", 2)


def test_cancelled_then_resumed_without_measuring_anything_twice(house: House, gate: Gate) -> None:
    name = begin(house)
    gate.open(1)
    until(house, name, lambda run: (run["finished"], len(gate.begun)) == (1, 2))
    assert house.client.post(f"/api/runs/{name}/cancel").json["state"] == "running"
    gate.open(1)  # the cell at work ends
    stopped = until(house, name, lambda run: run["state"] != "running")
    assert (stopped["state"], stopped["trouble"], stopped["finished"]) == ("stopped", "cancelled", 2)
    assert len(gate.begun) == 2
    assert house.client.post(f"/api/runs/{name}/resume").status_code == 200
    gate.open(2)
    done = until(house, name, lambda run: run["state"] == "done")
    assert (done["finished"], sorted(gate.begun)) == (4, sorted(CELLS))


def test_cancelled_in_its_last_cell_it_is_done_once_that_has_ended(house: House, gate: Gate) -> None:
    name = begin(house)
    gate.open(3)
    until(house, name, lambda run: len(gate.begun) == 4)
    assert house.client.post(f"/api/runs/{name}/cancel").json["state"] == "running"
    gate.open(1)
    ended = until(house, name, lambda run: run["state"] != "running")
    assert (ended["state"], ended["trouble"], ended["finished"]) == ("done", "", 4)
    assert [cell["failure"] for cell in ended["cells"] if cell["state"] == "failed"] == ["iperf3 had enough"]


def test_watchers_hear_of_a_run_when_it_begins_and_when_it_is_deleted(house: House, gate: Gate) -> None:
    name = begin(house)
    deadline = time.monotonic() + PATIENCE_S
    while not house.reported:
        assert time.monotonic() < deadline
    assert (house.reported[0].id, house.reported[0].state, house.reported[0].found) == (name, "running", {})
    gate.open(4)
    until(house, name, lambda run: run["state"] == "done")
    assert house.client.delete(f"/api/runs/{name}").status_code == 204
    assert (house.reported[-1].id, house.reported[-1].state, house.reported[-1].specs) == (name, "deleted", ())


def test_a_run_at_work_is_not_deleted_and_one_that_has_ended_is_not_cancelled(house: House, gate: Gate) -> None:
    name = begin(house)
    refused = house.client.delete(f"/api/runs/{name}")
    assert (refused.status_code, refused.json["detail"]) == (
        409, f"run {name} is active: cancel it, then delete it once it has ended",
    )  # fmt: skip
    gate.open(4)
    done = until(house, name, lambda run: run["state"] == "done")
    assert house.client.post(f"/api/runs/{name}/cancel").json == done
    assert house.client.get("/api/runs").json == {"runs": [name], "names": {}}


def test_a_done_run_measures_its_failed_cells_again_and_no_other(tmp_path: Path) -> None:
    begun: list[str] = []

    def late_once(spec: CellSpec) -> Execution:
        begun.append(spec.id)
        if spec.id == CELLS[2] and begun.count(spec.id) == 1:
            raise MeasureError("no echo was answered")
        return execution(spec)

    house = House(tmp_path, runner=late_once)
    name = begin(house)
    failed = until(house, name, lambda run: run["state"] == "done")
    assert [cell["state"] for cell in failed["cells"]].count("failed") == 1
    assert house.client.post(f"/api/runs/{name}/resume").status_code == 200
    done = until(house, name, lambda run: run["state"] == "done")
    assert {cell["state"] for cell in done["cells"]} == {"done"}
    assert sorted(begun) == sorted([*CELLS, CELLS[2]])


def test_a_machine_that_can_measure_nothing_stops_the_run(tmp_path: Path) -> None:
    def missing(spec: CellSpec) -> Execution:
        raise MissingError("iperf3 is not installed")

    house = House(tmp_path, runner=missing)
    reply = until(house, begin(house), lambda run: run["state"] != "running")
    assert (reply["state"], reply["trouble"]) == ("stopped", "iperf3 is not installed")


def test_a_run_is_forgotten_when_it_has_ended(house: House, gate: Gate, tmp_path: Path) -> None:
    name = begin(house)
    gate.open(4)
    until(house, name, lambda run: run["state"] == "done")
    assert house.client.delete(f"/api/runs/{name}").status_code == 204
    assert house.client.get(f"/api/runs/{name}").status_code == 404
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("name", ["..", "20260102-030405-000-000", "x", "%2e%2e%2ftoken"])
def test_what_is_no_run(house: House, name: str) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/report"), ("POST", "/resume"), ("POST", "/cancel")):
        assert house.client.open(f"/api/runs/{name}{path}", method=method).status_code in (404, 405)


def test_cells_come_in_the_order_of_the_runs_seed(tmp_path: Path) -> None:
    begun: list[str] = []

    def runner(spec: CellSpec) -> Execution:
        begun.append(spec.id)
        return execution(spec)

    house = House(tmp_path, runner=runner, order_seed=lambda: 3)
    name = begin(house)
    until(house, name, lambda run: run["state"] == "done")
    seed = json.loads((tmp_path / "runs" / name / "run.json").read_text())["order_seed"]
    assert (seed, sorted(begun)) == (3, sorted(CELLS))
    assert begun != CELLS


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({}, "rtt"),
        ({"rtt": []}, "rtt"),
        ({"rtt": ["32"]}, "rtt"),
        ({"rtt": {"32ms": 1}}, "rtt"),
        ({"rtt": ["1ms"], "streams": [0]}, "streams"),
        ({"rtt": ["1ms"], "duration": "soon"}, "duration"),
        ({"rtt": ["1ms"], "in_lab": "perhaps"}, "in_lab"),
        ({"rtt": ["1ms"], "tcp_profile": ["fast"]}, "tcp_profile"),
        ({"rtt": ["1ms"], "streams": [1, 129]}, "streams"),
        ({"rtt": ["1ms"], "rate": "none"}, "rate"),
        ({"rtt": ["1ms"], "cc": ["Cubic"]}, "cc"),
        ({"rtt": ["1ms"], "cc": ["prague"], "in_lab": True}, "cc"),
        ({"rtt": ["1ms"], "speed": 1}, "speed"),
        ({"lane": ["paris"]}, "lane"),
        ({"rtt": ["1ms", "1ms"]}, ""),
    ],
)
def test_mistakes_in_a_run_are_told(house: House, said: Any, path: str) -> None:
    answer = house.client.post("/api/runs", json=said)
    assert answer.status_code == 422, answer.text
    assert answer.json["mistakes"][0]["path"] == path


def test_too_many_cells(house: House) -> None:
    asked = {"rtt": [f"{n}ms" for n in range(64)], "streams": list(range(1, 17))}
    assert "1024 cells are too many" in house.client.post("/api/runs", json=asked).json["mistakes"][0]["text"]


def test_where_there_is_no_lab(house: House, gate: Gate, tmp_path: Path) -> None:
    """As in a service whose unit refuses what labs need, after a run of a server that had them."""
    name = begin(house, in_lab=True)
    house.client.post(f"/api/runs/{name}/cancel")
    gate.open(1)  # a cell that is at work already ends
    until(house, name, lambda run: run["state"] == "stopped")
    house.runs.stop()
    without = House(tmp_path, lab=False)
    answer = without.client.post("/api/runs", json={"rtt": ["1ms"], "in_lab": True})
    assert answer.json["mistakes"] == [
        {"where": "request", "path": "in_lab", "text": "this server has no lab: omit in_lab"}
    ]
    refused = without.client.post(f"/api/runs/{name}/resume")
    assert refused.status_code == 409
    assert refused.json["detail"] == f"this server has no lab: it cannot resume run {name}"
    page = without.client.get("/runs").text
    assert ('name="in_lab"' in page, "longhaul sweep --in-lab" in page) == (False, True)


def test_stopping_the_daemon_waits_for_the_cell_at_work(house: House, gate: Gate, tmp_path: Path) -> None:
    name = begin(house)
    gate.open(1)
    until(house, name, lambda run: (run["finished"], len(gate.begun)) == (1, 2))
    work, stopping = house.runs._work, threading.Thread(target=house.runs.stop)
    stopping.start()
    assert work and work.cancelled.wait(PATIENCE_S)
    assert stopping.is_alive()
    gate.open(1)
    stopping.join(PATIENCE_S)
    assert not stopping.is_alive()
    kept = json.loads((tmp_path / "runs" / name / "results.json").read_text())
    assert (len(kept["cells"]), len(gate.begun)) == (2, 2)
