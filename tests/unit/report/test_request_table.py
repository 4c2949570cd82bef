"""Tables, CSV and figures of requests, and their results in a run folder."""

from __future__ import annotations

import csv
import io
import json
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.made_requests import MS, counted, result

from emulator.analysis.request_figures import RequestTimes
from emulator.experiment import compare_runs, grid, results
from emulator.experiment.repeated_result import merged
from emulator.experiment.requests_result import RequestsResult
from emulator.experiment.run_folder import Asked, Execution, RunFolder
from emulator.model.request_load import RequestLoad
from emulator.report import remarks, request_table, table_kinds, write
from emulator.report.figures import requests

KIB, MIB = 2**10, 2**20


@pytest.fixture(scope="module")
def found() -> dict[str, RequestsResult]:
    """Users by sizes at two RTTs; one cell answers faster than light."""
    loads = [RequestLoad(users, answer_bytes=size) for users, size in product((1, 8, 64), (KIB, MIB))]
    cells = [result(load, rtt_ns) for rtt_ns in (20 * MS, 80 * MS) for load in loads]
    cells[3] = result(loads[3], 20 * MS, [5 * MS] * 4000)
    return {cell.spec.id: cell for cell in cells}


def test_rows_of_rtt_or_of_requests(found: dict[str, RequestsResult]) -> None:
    specs = [cell.spec for cell in found.values()]
    table = request_table.overview(specs, found)
    assert table.header == ("requests", "20 ms", "80 ms")
    assert table.title.endswith("time: default")
    assert table.rows[0] == ("1 connection, 256 B for 1 KiB", "50/s, 20.001 ms", "12.5/s, 80.001 ms")
    assert table.rows[3][1].startswith("✗")
    few = [spec for spec in specs if spec.workload == specs[0].workload]
    assert request_table.overview(few, found).header == ("RTT", "default, 1 connection, 256 B for 1 KiB")
    assert request_table.overview(few, {}).rows == (("20 ms", "-"), ("80 ms", "-"))
    assert [table.title for table in request_table.details(specs, found)] == [
        "RTT 20 ms, default",
        "RTT 80 ms, default",
    ]
    assert len(request_table.details(specs, found)[0].rows) == 6
    assert [table.title for table in request_table.details(few, found)] == ["default, 1 connection, 256 B for 1 KiB"]


def test_every_figure_of_a_cell() -> None:
    cell = result(RequestLoad(4, 2), times=[80 * MS] * 1998 + [2000 * MS] * 2)
    header, (row,) = (table := request_table.details([cell.spec], {cell.spec.id: cell})[0]).header, table.rows
    assert dict(zip(header, row, strict=True)) == {
        "RTT": "80 ms", "answered": "97.66/s", "±": "-", "of ceiling": "97.7%", "p50": "80.001 ms",
        "p90": "80.001 ms", "p99": "80.001 ms", "p99.9": "80.001 ms", "longest": "2.000 s", "set-up": "80.000 ms",
        "transfer": "0.000 ms", "own": "1 us", "again": "0", "limited by": "round trips",
    }  # fmt: skip


def test_problems_and_what_helps(found: dict[str, RequestsResult]) -> None:
    specs = [cell.spec for cell in found.values()]
    said = remarks.objections(specs, found, {specs[0].id: "the lab burned down"})
    assert [one for one in said if "invalid" in one and "less than the RTT" in one]
    assert f"{specs[0].id} failed: the lab burned down" in said
    said = request_table.advice(specs, found)
    assert len(said) == 4, "one for each RTT and size"
    assert said[0].startswith("lane-20ms-default-c1-k1-256B-1KiB and 2 more: more in flight: the rate grows")
    assert not any("less than the RTT" in one for one in remarks.findings(found))


def test_the_plan_shows_the_ceilings(found: dict[str, RequestsResult]) -> None:
    table = request_table.planned([cell.spec for cell in found.values()])
    assert table.rows[2][3:] == ("400/s", "1146789/s")
    assert request_table.planned([result(RequestLoad(), 0, [MS] * 10).spec]).rows[0][3] == "-"


def test_csv_has_every_column(found: dict[str, RequestsResult]) -> None:
    rows = list(csv.DictReader(io.StringIO(request_table.csv_text([cell.spec for cell in found.values()], found))))
    assert len(rows) == len(found)
    assert (rows[0]["connections"], rows[0]["answer_bytes"], rows[0]["offered_per_s"]) == ("1", "1024", "")
    assert float(rows[0]["requests_per_s"]) == pytest.approx(50, rel=1e-3)
    assert [name for name in rows[0] if all(row[name] == "" for row in rows)] == ["offered_per_s", "half_width_per_s"]


def test_the_figures_group_what_differs_in_users_and_size_only(found: dict[str, RequestsResult]) -> None:
    cells = list(found.values())
    groups = requests.matrices(cells)
    assert list(groups) == ["RTT 20 ms, default, requests of 256 B", "RTT 80 ms, default, requests of 256 B"]
    assert set(groups["RTT 80 ms, default, requests of 256 B"]) == set(product((1, 8, 64), (KIB, MIB)))
    lines = requests.lines(cells)
    assert len(lines) == 4
    assert [cell.load.places for cell in next(iter(lines.values()))] == [1, 8, 64]
    offered = [result(RequestLoad(users, offered_per_s=5)) for users in (1, 2)]
    assert requests.lines(offered) == {}
    assert requests.matrices([cells[0]]) == {}


def test_the_bars_hold_every_request() -> None:
    times = RequestTimes.of(counted([80 * MS] * 90 + [160 * MS] * 10))
    edges = [80 / 1.01 * 1.1**place for place in range(10)]
    assert requests.shares(times, edges) == pytest.approx([90, 0, 0, 0, 0, 0, 0, 10, 0])


def test_a_run_folder_keeps_and_draws_them(found: dict[str, RequestsResult], tmp_path: Path) -> None:
    specs = [cell.spec for cell in found.values()]
    folder = RunFolder.create(tmp_path / "run", {}, Asked(tuple(specs), in_lab=True))
    for cell in found.values():
        folder.save(Execution(cell, {}))
    asked = folder.asked()
    assert asked.specs == tuple(specs)
    assert folder.finished(asked) == found
    written = write.write_all(folder, specs, folder.finished(asked), ["a problem"])
    names = {path.name for path in written}
    assert {"report.html", "concurrency.svg", "users-1.svg", "users-2.png"} <= names
    page = (folder.path / "report.html").read_text()
    for words in ("Requests over the lane", "Users by size", "Requests against concurrency", "p99.9", "Python 3.13.5"):
        assert words in page, words
    assert write.write_all(folder, specs, folder.finished(asked), ["a problem"]) == written
    assert page == (folder.path / "report.html").read_text()


def test_repeats_of_a_cell() -> None:
    cells = [result(RequestLoad(), times=[ns * MS] * 100) for ns in (80, 90, 100)]
    cells = [replace(cell, spec=cell.spec.again(number)) for number, cell in enumerate(cells)]
    both = merged(cells)
    assert both.spec.repeat == 1
    assert both.requests.times.count == 300
    assert both.repeats == (12.5, pytest.approx(100 / 9), 10.0)
    assert both.figure == pytest.approx((12.5 + 100 / 9 + 10) / 3), "the mean, as its half-width is of the mean"
    assert results.enough(cells, 3) and not results.enough(cells[:2], 3)
    assert results.from_json(json.loads(json.dumps(both.to_json()))) == both


def test_repeats_name_each_finding_once() -> None:
    cells = [result(RequestLoad(), times=[80 * MS] * 9 + [ns * MS], overhead_ns=ns * MS) for ns in (90, 100, 110)]
    both = merged(cells)
    assert [said.partition(": ")[0] for said in both.judgement.findings] == ["program-overhead"]
    assert "takes 100000 us" in both.judgement.findings[0], "that of the median measurement"


def test_two_runs_are_compared_by_their_rate() -> None:
    slow, fast = (result(RequestLoad(), times=[ns * MS] * 100) for ns in (160, 80))
    (change,) = compare_runs.changes({"one": fast}, {"one": slow})
    assert (change.unit, change.word, change.regressed) == ("requests_per_s", "REGRESSION", True)
    assert table_kinds.comparison([change]).rows[0][1:4] == ("12.5/s ± -", "6.25/s ± -", "-50.0%")


def test_the_time_left_counts_the_requests() -> None:
    small, large = (result(RequestLoad(64, answer_bytes=size)).spec for size in (KIB, MIB))
    assert 3 < grid.cost_s([small], 1) < grid.cost_s([large], 1)
