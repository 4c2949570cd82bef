"""The tables of a run of programs, as `table_kinds` asks for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from support.folders import GOLDEN
from support.golden import golden
from support.made_programs import MIB, connection, result, row, run, runs, turns_row, window_row

from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.program_result import ProgramResult
from emulator.hosts import tcp_profiles
from emulator.report import program_report, remarks, table_kinds, write

MOST = tcp_profiles.maximum(10**9, 346 * 10**6)
Grid = tuple[list[CellSpec], dict[str, ProgramResult]]


def results() -> Iterator[ProgramResult]:
    """A chatty program at four RTTs, and a download in windows at two rates, one of them impossible and one fast."""
    for rtt in (0, 10, 80, 346):
        yield result(turns_row("", rtt, 17), "redis", MOST)
    for rtt in (80, 200, 346):
        yield result(window_row("", rtt, 20, 10**9), "redis")
    yield result(row("", 8, runs(run(600, connection(100, 64 * MIB, client_ms=16, server_ms=590)))), "redis")
    yield result(row("", 200, runs(run(40, connection(100, 64 * MIB))), 10**10), "redis")


@pytest.fixture
def grid() -> Grid:
    all = list(results())
    return [one.spec for one in all], {one.spec.id: one for one in all}


def test_markdown(grid: Grid) -> None:
    specs, found = grid
    said = remarks.objections(specs, found, {specs[0].id: "the lab stalled"})
    text = write.markdown(specs, found, said)
    assert text == golden(GOLDEN / "program_report.md", text)
    header = text.splitlines()[2]
    assert header.startswith("Times measured in the lab are network time only: computing costs no virtual time there")


def test_programs_have_these_tables(grid: Grid) -> None:
    assert table_kinds.tables_of(grid[0]) is program_report  # type: ignore[comparison-overlap]


def test_rates_are_rows_of_one_table_and_not_tables_of_their_own(grid: Grid) -> None:
    titles = [(table.title, len(table.rows)) for table in program_report.details(*grid)]
    assert titles == [("max, redis", 4), ("default, redis", 5)]


def test_advice_is_told_once_for_each_limiter(grid: Grid) -> None:
    specs, found = grid
    below = [table.below[1] for table in program_report.details(specs, found)]
    places = [line.partition(":")[0] for line in below]
    assert places == ["largest saving, at 346 ms", "largest saving, at 346 ms, 1 Gbit/s"]
    others = [line.partition(": ")[0] for line in program_report.advice(specs, found)]
    assert others == ["default, redis, at 8 ms, 1 Gbit/s"], "5 ms of a program's own are not worth advice"


def test_problems_name_the_cell(grid: Grid) -> None:
    specs, found = grid
    said = remarks.objections(specs, found, {specs[1].id: "the lab stalled"})
    assert [line.partition(": ")[0] for line in said] == [f"{specs[-1].id} invalid", f"{specs[1].id} failed"]
    assert remarks.findings(found) == [], "what voids a cell is told once"
    noted = {"a": replace(found[specs[1].id], notes=("initrwnd only lowers",))}
    assert remarks.objections(specs, noted, {}) == ["note: initrwnd only lowers"]


def test_a_plan_tells_the_ideal_time(grid: Grid) -> None:
    assert program_report.planned(grid[0]).rows[2][1:] == ("80 ms", "1 Gbit/s", "64 MiB", "5", "617 ms")


def test_lanes_that_are_compared_are_named(grid: Grid) -> None:
    one = next(results())
    lanes = [replace(one.spec.lane, name=name) for name in ("japan", "london")]
    topologies = [replace(one.spec.topology, lanes=(lane,)) for lane in lanes]
    named = [replace(one, spec=replace(one.spec, topology=topology)) for topology in topologies]
    found = {each.spec.id: each for each in named}
    rows = program_report.details([each.spec for each in named], found)[0].rows
    assert [cells[0] for cells in rows] == ["japan 0 ms", "london 0 ms"]


def test_csv_names_the_settings(grid: Grid) -> None:
    head, first, *_ = program_report.csv_text(*grid).splitlines()
    assert head.startswith("cell,lane,program,profile,congestion_control,direction,loss,rtt_measured_ns,series,")
    assert first.startswith(
        'lane-0ms-max-redis-1Gbit,lane,redis,max,cubic,outbound,0.0,0,"max, redis",0,1000000000,1500,3,1,0.005,'
    )


def test_the_figure_of_a_comparison(grid: Grid) -> None:
    assert program_report.figure_text(grid[1][grid[0][1].id]) == "185.000 ± 0.001 ms"
