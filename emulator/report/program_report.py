"""The tables of a run of programs: what `table_kinds.Tables` asks for, by `program_table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emulator import units
from emulator.analysis import program_runs
from emulator.analysis.program_law import seconds_text
from emulator.analysis.tcp_path import NS
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.program_result import ProgramResult, busier_path
from emulator.hosts.tools.program import ProgramWorkload
from emulator.model.program import Program
from emulator.report import program_table
from emulator.report.program_table import ProgramRow, series_of
from emulator.report.tables import INVALID_MARK, Table, several_lanes

TITLE = "Completion time against RTT"
ADVICE = "what would shorten a program elsewhere:"
LEGEND = (
    "Times measured in the lab are network time only: computing costs no virtual time there, and what a program "
    "computes on a real machine comes on top. Times between namespaces of this machine, between SSH hosts, and in the "
    "lab with --clock counted include what the programs compute. "
    "time: from the client's start to its exit, the mean of all runs ± at 99 % confidence; the other figures are of "
    "the median run. round trips: time / RTT. FCT efficiency: the ideal time / time; ideal is one handshake and the "
    'bytes at the line\'s rate. connections, sent, received, sent again: of TCP, the payload at the client; "-": no '
    "TCP connection. first byte, quiet: when the client "
    "received the first payload, and the share of the time with no frame on the lane, from a run whose frames were "
    f"seen. {INVALID_MARK}: invalid, reasons below."
)
PLAN = ("cell", "RTT", "rate", "bytes", "runs", "ideal")


def rows(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult]) -> list[ProgramRow]:
    """The measured cells, in the grid's order."""
    named = several_lanes(specs)
    return [_row(found[spec.id], named=named) for spec in specs if spec.id in found]


def _row(result: ProgramResult, *, named: bool) -> ProgramRow:
    spec, path = result.spec, busier_path(result.spec, result.program)
    return ProgramRow(
        series=spec.series,
        rtt_ns=spec.lane.rtt_ns,
        rate_bps=path.rate_bps,
        program=result.program,
        judgement=result.judgement,
        repeats=result.repeats,
        mtu=spec.lane.mtu,
        lane=spec.lane.name if named else "",
        settings={
            "cell": spec.id,
            "lane": spec.lane.name,
            "program": _program(spec).name,
            "profile": spec.profile.name,
            "congestion_control": spec.path.congestion_control,
            "direction": spec.direction,
            "loss": path.loss,
            "rtt_measured_ns": result.delays.rtt_ns,
            "kernel": spec.kernel or result.machine.kernel,
        },
    )


def overview(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult]) -> Table:
    """The completion time of every cell."""
    return program_table.overview(series_of(rows(specs, found)))


def details(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult]) -> list[Table]:
    """Every figure, a table for each program and TCP profile, with its law and the largest saving below it."""
    return [program_table.table(series) for series in series_of(rows(specs, found))]


def advice(specs: Sequence[CellSpec], found: Mapping[str, ProgramResult]) -> list[str]:
    """What would help where a program is limited by something else than in the cell that stands below its table.

    Cells of one series and limiter get the same advice, so it is told for the longest of them.
    """
    lines = []
    for series in series_of(rows(specs, found)):
        told = {series.longest.judgement.kind} if series.longest else set()
        for row in sorted(series.advised, key=lambda row: -row.mean_s):
            if row.judgement.kind not in told:
                told.add(row.judgement.kind)
                lines.append(f"{series.name}, at {series.label(row)}: {row.judgement.advice}")
    return lines


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
        program, ideal = _program(spec), ideal_ns(spec)
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
    cells = [{"id": spec.id, "runs": _program(spec).repeat, "ideal_ns": ideal_ns(spec)} for spec in specs]
    return {"cells": cells, "least_repeats": repeats}


def _program(spec: CellSpec) -> Program:
    assert isinstance(spec.workload, ProgramWorkload)
    return spec.workload.program


def ideal_ns(spec: CellSpec) -> int | None:
    """The least time of a cell's program: one handshake, and its bytes at the line's rate; None without bytes."""
    carried = _program(spec).bytes
    return carried and program_runs.ideal_ns(carried, spec.path.rate_bps, spec.lane.rtt_ns)
