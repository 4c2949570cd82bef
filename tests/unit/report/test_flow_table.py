"""Tables and CSV of groups of flows, and their results in a run folder."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.made_flows import LINE, MS, result

from emulator import units
from emulator.experiment import baseline_file, compare_runs, grid, results
from emulator.experiment.flows_result import FlowsResult
from emulator.experiment.repeated_result import merged
from emulator.experiment.run_folder import Asked, Execution, RunFolder
from emulator.report import flow_table, remarks, table_kinds, write
from emulator.report.figures import draw, flows


@pytest.fixture(scope="module")
def found() -> dict[str, FlowsResult]:
    """The pairs of two congestion controls at two RTTs, each alone, and one cell that is not valid."""
    cells = [
        made
        for rtt_ns in (20 * MS, 80 * MS)
        for made in (
            result("cubic:1,cubic:1", [[0.5], [0.5]], rtt_ns),
            result("cubic:1,bbr:1", [[0.2], [0.78]], rtt_ns, drops_limit=int(rtt_ns == 80 * MS)),
            result("bbr:1,bbr:1", [[0.6], [0.38]], rtt_ns),
            result("cubic:1", [[1.0]], rtt_ns),
            result("bbr:1", [[0.975]], rtt_ns),
        )
    ]
    return {cell.spec.id: cell for cell in cells}


def test_shares_of_every_contest_at_every_rtt(found: dict[str, FlowsResult]) -> None:
    table = flow_table.overview([one.spec for one in found.values()], found)
    assert table.header == ("groups", "20 ms, default", "80 ms, default")
    assert table.rows[0] == ("1 cubic against 1 cubic", "50% : 50%, J 1.000", "50% : 50%, J 1.000")
    assert table.rows[1] == ("1 cubic against 1 bbr", "20% : 80%, J 0.741", "✗20% : 80%, J 0.741")
    assert table.rows[3][1] == "1140 (9.564)" and table.rows[3][0] == "1 cubic"
    empty = flow_table.overview([one.spec for one in found.values()], {})
    assert {text for row in empty.rows for text in row[1:]} == {"-"}


def test_many_settings_are_in_rows(found: dict[str, FlowsResult]) -> None:
    cells = [result("cubic:1,bbr:1", [[0.5], [0.5]], rtt * MS) for rtt in (10, 40, 160)]
    more = found | {one.spec.id: one for one in cells}
    table = flow_table.overview([one.spec for one in more.values()], more)
    assert table.header == ("setting", "groups", "shares")
    assert len(table.rows) == 13, "a contest has no row for a setting in which it is no cell"
    assert table.rows[1] == ("20 ms, default", "1 cubic against 1 bbr", "20% : 80%, J 0.741")
    assert table.rows[-1] == ("160 ms, default", "1 cubic against 1 bbr", "50% : 50%, J 1.000")


def test_every_figure_of_every_group(found: dict[str, FlowsResult]) -> None:
    table, *matrices = flow_table.details([one.spec for one in found.values()], found)
    assert table.title == "default"
    assert len(table.rows) == 16
    row = dict(zip(table.header, table.rows[2], strict=True))
    assert row == {
        "RTT": "20 ms", "groups": "1 cubic against 1 bbr", "group": "1 cubic", "MiB/s (Gbit/s)": row["MiB/s (Gbit/s)"],
        "of line": "20.0%", "of fair": "0.41", "J": "-", "harm": "80%", "fair after": "-", "queueing": "70.0 ms",
        "p95": "70.0 ms", "again": "0", "p50 of transfers": "-", "p99": "-", "of ideal": "-",
    }  # fmt: skip
    assert next(row[4:8] for row in table.rows if row[2] == "1 bbr") == ("78.0%", "1.59", "-", "20%")
    alone = next(row for row in table.rows if row[1] == "1 cubic")
    assert alone[4:9] == ("100.0%", "-", "-", "-", "-")
    assert [one.title for one in matrices] == [
        "of its fair share against: 20 ms, default",
        "of its fair share against: 80 ms, default",
    ]
    assert matrices[0].header == ("", "against cubic", "against bbr")
    assert matrices[0].rows[0] == ("cubic", "1.00", "0.41")
    assert matrices[1].rows == (("cubic", "1.00", "✗0.41"), ("bbr", "✗1.59", matrices[1].rows[1][2]))


def test_of_two_flows_with_the_same_control_the_lesser_share_is_in_the_matrix() -> None:
    cells = [result("cubic:1,cubic:1", [[0.7], [0.3]]), result("cubic:1,bbr:1", [[0.2], [0.8]])]
    ((setting, shares),) = flow_table.pairs(cells).items()
    assert setting == "80 ms, default"
    assert {pair: (round(share, 2), valid) for pair, (share, valid) in shares.items()} == {
        ("cubic", "cubic"): (0.6, True), ("cubic", "bbr"): (0.4, True), ("bbr", "cubic"): (1.6, True),
    }  # fmt: skip


def test_the_harm_to_transfers_is_of_their_time() -> None:
    together = result("cubic:1,reno:4:bytes=1KiB", [[0.9], [0.1]], transfers_ns=[400 * MS] * 10)
    alone = result("reno:4:bytes=1KiB", [[0.1]], transfers_ns=[100 * MS] * 10)
    rows = flow_table.rows({one.spec.id: one for one in (together, alone)})
    assert [row.harm for row in rows] == [None, pytest.approx(0.75, rel=1e-3), None]
    specs = [together.spec, alone.spec]
    short = flow_table.details(specs, {one.spec.id: one for one in (together, alone)})[0].rows[1]
    assert short[5:8] == ("-", "-", "75%")
    assert short[-3:] == ("400.0 ms", "400.0 ms", "40.0%"), "two round trips of 80 ms: a handshake and an answer"
    long, line = csv.DictReader(io.StringIO(flow_table.csv_text(specs, {together.spec.id: together})))
    assert (long["fct_efficiency"], float(line["fct_efficiency"])) == ("", pytest.approx(0.4, rel=1e-3))
    assert int(line["transfer_ideal_ns"]) == pytest.approx(160 * MS, rel=1e-4)


def test_harm_needs_the_same_lane_and_profile() -> None:
    together, elsewhere = result("cubic:1,bbr:1", [[0.5], [0.5]], 80 * MS), result("cubic:1", [[1.0]], 20 * MS)
    rows = flow_table.rows({one.spec.id: one for one in (together, elsewhere)})
    assert [row.harm for row in rows] == [None, None, None]


def test_csv_has_a_line_for_every_group(found: dict[str, FlowsResult]) -> None:
    lines = list(csv.DictReader(io.StringIO(flow_table.csv_text([one.spec for one in found.values()], found))))
    assert len(lines) == 16
    assert lines[3]["group"] == "bbr:1"
    assert lines[3]["congestion_control"] == "bbr"
    assert float(lines[3]["bytes_per_s"]) == pytest.approx(0.78 * LINE)
    assert lines[3]["harm"].startswith("0.2")
    assert None not in lines[3].values()


def test_objections_advice_and_findings(found: dict[str, FlowsResult]) -> None:
    specs = [one.spec for one in found.values()]
    (said,) = remarks.objections(specs, found, {})
    assert "invalid: the emulator's own queue dropped 1 packets (limit)" in said
    assert remarks.objections(specs, {}, {specs[0].id: "it broke"}) == [f"{specs[0].id} failed: it broke"]
    (help,) = flow_table.advice(specs, found)
    assert "and 2 more: a queue that serves each flow in turn" in help
    assert remarks.findings(found) == []


def test_results_survive_json_and_a_run_folder(found: dict[str, FlowsResult], tmp_path: Path) -> None:
    cells = list(found.values())
    for one in cells:
        assert results.from_json(json.loads(json.dumps(one.to_json()))) == one
    asked = Asked(tuple(one.spec for one in cells), in_lab=True)
    folder = RunFolder.create(tmp_path / "run", {}, asked)
    for one in cells:
        folder.save(Execution(one, {"flows": {}}))
    assert folder.finished(asked) == found
    assert table_kinds.tables_of(asked.specs) is flow_table
    write.write_all(folder, asked.specs, found, [])
    assert "Flows against flows" in (tmp_path / "run" / "table.md").read_text()
    report = (tmp_path / "run" / "report.html").read_text()
    assert "1 cubic against 1 bbr" in report and "flows by Python 3.13.5" in report


def test_repeats_are_one_result_with_the_times_of_all() -> None:
    made: list[FlowsResult] = [
        result("cubic:1,reno:4:bytes=1KiB", [[share], [0.1]], transfers_ns=[n * MS])
        for n, share in enumerate((0.9, 0.7, 0.8), 1)
    ]
    one = merged(made)
    assert one.flows.groups[0].bytes_per_s == pytest.approx(0.8 * LINE)
    assert one.flows.groups[1].times.count == 3
    assert one.repeats == tuple(each.figure for each in made)
    spoilt = replace(made[0], judgement=replace(made[0].judgement, invalid=("why",), findings=("check: why",)))
    assert merged([spoilt, *made[1:]]).judgement.invalid == ("why",)
    assert merged(made[:1]) is made[0]


def test_runs_are_compared_by_the_first_groups_rate() -> None:
    before, after = result("cubic:1,bbr:1", [[0.5], [0.5]]), result("cubic:1,bbr:1", [[0.0], [0.9]])
    (change,) = compare_runs.changes({"a": before}, {"a": after})
    assert (change.unit, change.slower) == ("bytes_per_s", True)
    assert change.share == pytest.approx(-1)
    (back,) = compare_runs.changes({"a": after}, {"a": before})
    assert (back.share, back.share_text, back.word) == (None, "-", "faster"), "no share of nothing"
    assert flow_table.figure_text(before).endswith("± -")
    repeats = [result("cubic:1,bbr:1", [[share], [0.1]]) for share in (0.3, 0.4, 0.8)]
    mean = units.both_rates(sum(one.figure for one in repeats) / 3)
    assert flow_table.figure_text(merged(repeats)).startswith(f"{mean} ± "), "as the change and the ± are of the mean"
    assert list(baseline_file.figures(before)) == ["throughput"]


def test_the_plan(found: dict[str, FlowsResult]) -> None:
    specs: list[Any] = [one.spec for one in found.values()]
    table = flow_table.planned(specs)
    assert table.rows[1][1:4] == ("20 ms", "10 s", "1 cubic against 1 bbr")
    plan = flow_table.plan_json(specs, 3)
    assert plan["cells"][1]["groups"] == ["cubic:1", "bbr:1"]
    assert plan["cells"][1]["fair_bytes_per_s"] == pytest.approx(LINE / 2)
    assert "flows send for 300 s" in flow_table.plan_legend(specs, 3) or "5min" in flow_table.plan_legend(specs, 3)
    assert grid.cost_s(specs, 1) > 0


def test_a_figure_over_time_for_every_cell_of_several_groups(found: dict[str, FlowsResult]) -> None:
    figures = draw.draw_flows(list(found.values()))
    assert [one.name for one in figures] == ["fair-shares", *(f"flows-{number}" for number in range(1, 7))]
    assert [one.title for one in figures][2] == "1 cubic against 1 bbr"
    assert "lane-20ms-default-cubic1-vs-bbr1" in figures[2].caption
    assert all(text in figures[0].svg for text in ("20 ms", "80 ms", "against"))
    assert all("<svg" in one.svg and one.png for one in figures)
    many = [cell for _ in range(10) for cell in found.values()]
    assert len(flows.drawable(many)) == flows.MOST_CELLS


def test_the_figure_has_a_gap_where_nothing_is_known() -> None:
    cell = result(
        "cubic:1,bbr:1", [[0.5], [0.5]], windows=[None] * 5 + [2**20] * 5, trips_us=[None] * 5 + [100_000] * 5
    )
    rates, windows, queueing = flows._lines(cell, cell.contest.groups[0], cell.flows.groups[0])
    assert rates[0] == pytest.approx(LINE / 2 / 2**20)
    assert [math.isnan(one) for one in windows] == [True] * 5 + [False] * 5
    assert (windows[-1], queueing[-1]) == (1, pytest.approx(20))
