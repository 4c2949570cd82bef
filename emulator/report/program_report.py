"""The tables of a run of programs: what `table_kinds.Tables` asks for, by `program_table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emulator import units
from emulator.analysis import program_runs
from emulator.analysis.program_law import seconds_text
from emulator.analysis.tcp_path import NS
from emulator.experiment.cell_result import CellSpec
from emulator.experiment.program_result import ProgramResult
from emulator.hosts.tools.program import ProgramWorkload
from emulator.model.program import Program
from emulator.report import program_table
from emulator.report.program_table import ProgramRow, series_of
from emulator.report.tables import Table

TITLE = program_table.TITLE
LEGEND = (
    "In the lab computing costs no virtual time: times there are of the network alone. Elsewhere they include it. "
    f"{program_table.LEGEND}"
)
ADVICE = "laws, and what would shorten a program most:"
PLAN = ("cell", "RTT", "rate", "bytes", "runs", "ideal")


def rows(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult]) -> list[ProgramRow]:
    """The measured cells, in the grid's order."""
    cells = [(spec, found[spec.id]) for spec in specs if spec.id in found]
    return [
        ProgramRow(
            spec.series, spec.lane.rtt_ns, spec.path.rate_bps, one.program, one.judgement, one.repeats, spec.lane.mtu
        )
        for spec, one in cells
    ]


def overview(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult]) -> Table:
    """The completion time of every cell."""
    return program_table.overview(series_of(rows(specs, found)))


def details(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult]) -> list[Table]:
    """Every figure, a table for each program and TCP profile."""
    return [program_table.table(series) for series in series_of(rows(specs, found))]


def objections(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult], failures: Mapping[str, str]) -> list[str]:
    """Problems of the run: invalid cells with reasons, failed cells, and notes."""
    failed = [f"{spec.id} failed: {failures[spec.id]}" for spec in specs if spec.id in failures]
    notes = dict.fromkeys(f"note: {note}" for result in found.values() for note in result.notes)
    return [*program_table.objections(rows(specs, found)), *failed, *notes]


def advice(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult]) -> list[str]:
    """The law of each series, and what would shorten it most."""
    return [f"{series.name}: {line}" for series in series_of(rows(specs, found)) for line in series.lines]


def findings(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult]) -> list[str]:
    """What the checks found that does not void a cell."""
    return program_table.findings(rows(specs, found))


def csv_text(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult]) -> str:
    """All figures for a spreadsheet."""
    return program_table.csv_text(rows(specs, found))


def figure_text(result: ProgramResult) -> str:
    """The completion time, by which two runs are compared."""
    return program_table.time_text(rows([result.spec], {result.spec.id: result})[0])


def planned(specs: Sequence[CellSpec]) -> Table:
    """The cells that would be measured, with the least time that the network allows, where the bytes are known."""
    lines = []
    for spec in specs:
        program, ideal = _program(spec), _ideal_ns(spec)
        lines.append((
            spec.id, units.format_duration(spec.lane.rtt_ns), units.format_rate(spec.path.rate_bps),
            units.format_size(program.bytes) if program.bytes else "-", str(program.repeat),
            seconds_text(ideal / NS) if ideal else "-",
        ))  # fmt: skip
    return Table("planned", PLAN, tuple(lines), ("cell",))


def plan_legend(specs: Sequence[CellSpec], repeats: int) -> str:  # noqa: ARG001
    """What stands below the plan."""
    return "ideal: one handshake, and the bytes at the line's rate."


def plan_json(specs: Sequence[CellSpec], repeats: int) -> dict[str, Any]:
    """The plan as JSON."""
    cells = [{"id": spec.id, "runs": _program(spec).repeat, "ideal_ns": _ideal_ns(spec)} for spec in specs]
    return {"cells": cells, "least_repeats": repeats}


def _program(spec: CellSpec) -> Program:
    assert isinstance(spec.workload, ProgramWorkload)
    return spec.workload.program


def _ideal_ns(spec: CellSpec) -> int | None:
    carried = _program(spec).bytes
    return carried and program_runs.ideal_ns(carried, spec.path.rate_bps, spec.lane.rtt_ns)
