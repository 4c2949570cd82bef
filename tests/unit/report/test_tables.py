"""Tables of results, against golden files."""

from __future__ import annotations

import csv
import io

import pytest
from support.folders import GOLDEN
from support.golden import golden
from support.made_results import cell_result, cell_spec, changed

from emulator.experiment import grid
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.hosts import tcp_profiles
from emulator.model.buffer_depth import BufferDepth
from emulator.model.impairment import Impairment
from emulator.model.sweep_axes import Axes
from emulator.model.topology import Lane, Topology
from emulator.report import github_markdown, remarks, tables

MS, MIB = 10**6, 2**20


@pytest.fixture
def cells() -> tuple[list[CellSpec], dict[str, CellResult]]:
    """Two RTTs, two profiles: one cell sound, one invalid, one unsettled with a note, one missing."""
    most = tcp_profiles.maximum(10**10, 32 * MS)
    specs = [cell_spec(rtt, profile=profile) for rtt in (32 * MS, 346 * MS) for profile in (tcp_profiles.DEFAULT, most)]
    sound, wrong, drifting = (
        cell_result(spec, mib * MIB) for spec, mib in zip(specs, (87.5, 1140.1, 8.25), strict=False)
    )
    wrong = changed(wrong, invalid=("the emulator's own queue dropped 4 packets (limit)",), limiter="line")
    drifting = changed(drifting, settled=False, notes=("office: initrwnd only lowers",))
    return specs, {result.spec.id: result for result in (sound, wrong, drifting)}


def test_markdown(cells: tuple[list[CellSpec], dict[str, CellResult]]) -> None:
    specs, found = cells
    said = remarks.objections(specs, found, {specs[3].id: "the lab stalled"})
    text = github_markdown.document(
        "sweep", [tables.overview(specs, found), *tables.details(specs, found)], [("Mind", said)]
    )
    assert text == golden(GOLDEN / "table.md", text)


def test_csv(cells: tuple[list[CellSpec], dict[str, CellResult]]) -> None:
    specs, found = cells
    text = tables.csv_text(specs, found)
    assert text == golden(GOLDEN / "table.csv", text)


def test_rows_carry_the_lanes_names_where_several_are_compared() -> None:
    specs = [cell_spec(name="japan"), cell_spec(name="london")]
    rows = tables.overview(specs, {}).rows
    assert rows == (("japan 32 ms", "-"), ("london 32 ms", "-"))


def test_lanes_whose_names_begin_alike_are_several(cells: tuple[list[CellSpec], dict[str, CellResult]]) -> None:
    specs = [cell_spec(name="us-east"), cell_spec(name="us-west")]
    assert [row[0] for row in tables.overview(specs, {}).rows] == ["us-east 32 ms", "us-west 32 ms"]


def test_csv_names_the_cell_and_with_it_every_axis() -> None:
    slow = Impairment(rate_bps=10**7)
    base = Topology("cell", "hub", (Lane("lane", slow, slow).with_rtt(20 * MS),))
    axes = Axes(tcp_profile=("default",), aqm=("codel", "pie"), buffer=(BufferDepth.parse("0.5bdp"),))
    specs = grid.cells(base, axes, tcp_profiles.load_profiles(None))
    rows = list(csv.DictReader(io.StringIO(tables.csv_text(specs, {one.id: cell_result(one) for one in specs}))))
    assert [row["cell"] for row in rows] == [one.id for one in specs]
    assert ["codel" in rows[0]["cell"], "pie" in rows[1]["cell"]] == [True, True]


def test_what_lies_ahead_is_shown_as_theory_has_it(cells: tuple[list[CellSpec], dict[str, CellResult]]) -> None:
    rows = tables.planned(cells[0]).rows
    assert rows[0] == ("lane-32ms-default-1", "32 ms", "10 s", "83.3 (0.699)", "81.7 (0.685)", "send buffer")
    assert rows[3] == ("lane-346ms-max-1", "346 ms", "10 s", "186.2 (1.562)", "117.0 (0.981)", "slow start")


def test_advice_and_findings_are_told_once(cells: tuple[list[CellSpec], dict[str, CellResult]]) -> None:
    specs, found = cells
    assert tables.advice(specs, found)[0] == (
        "lane-32ms-default-1 and 2 more: tcp_wmem max from 4 MiB to 55 MiB: 1140 MiB/s, then line"
    )
    assert remarks.findings(found) == [
        "sender-figure in 3 of 3 cells: lane-32ms-default-1, the sender counted 3.0 MiB more than arrived: "
        "only the receiver's figure is valid"
    ]


def test_uncertainty_is_told(cells: tuple[list[CellSpec], dict[str, CellResult]]) -> None:
    specs, found = cells
    sure = changed(found[specs[0].id], repeats=(99.0, 100.0, 101.0), steady_bytes_per_s=100.0)
    assert remarks.uncertainty(sure) == "5.7%"
    assert remarks.objections(specs, {"a": sure}, {}) == [
        "a: after 3 repeats the mean is only known to 5.7% (99 % confidence)"
    ]
    assert remarks.uncertainty(found[specs[0].id]) == "-"


def test_a_void_cell_is_marked_where_runs_are_compared(cells: tuple[list[CellSpec], dict[str, CellResult]]) -> None:
    specs, found = cells
    assert [tables.figure_text(found[spec.id]) for spec in specs[:2]] == ["87.5 (0.734) ± -", "✗1140 (9.564) ± -"]
