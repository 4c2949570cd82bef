"""Which module makes the tables of a run: one for each kind of workload, all with the same functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.compare_runs import CellComparison
from emulator.hosts.flows.workload import FlowsWorkload
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.hosts.tools.program import ProgramWorkload
from emulator.report import flow_table, program_report, request_table, tables
from emulator.report.tables import Table


class Tables(Protocol):
    """The functions of a module of tables; `found` has results of the module's kind."""

    TITLE: str
    LEGEND: str
    ADVICE: str
    """The heading of the advice."""

    def overview(self, specs: Sequence[CellSpec], found: Any) -> Table:
        """The one figure of every cell."""

    def details(self, specs: Sequence[CellSpec], found: Any) -> list[Table]:
        """Every figure of every cell."""

    def advice(self, specs: Sequence[CellSpec], found: Any) -> list[str]:
        """What would make cells better."""

    def planned(self, specs: Sequence[CellSpec]) -> Table:
        """The cells before they are measured."""

    def plan_legend(self, specs: Sequence[CellSpec], repeats: int) -> str:
        """What stands below the plan."""

    def plan_json(self, specs: Sequence[CellSpec], repeats: int) -> dict[str, Any]:
        """The plan as JSON."""

    def csv_text(self, specs: Sequence[CellSpec], found: Any) -> str:
        """All figures for a spreadsheet."""

    def figure_text(self, result: Any) -> str:
        """The figure by which two runs are compared, and how certain it is."""


def comparison(changes: Sequence[CellComparison]) -> Table:
    """Cells then and now."""
    rows = []
    for change in changes:
        figures = (tables_of([one.spec]).figure_text(one) for one in (change.before, change.after))
        rows.append((change.id, *figures, change.share_text, change.word))
    return Table("compared", ("cell", "before", "after", "change", ""), tuple(rows), ("cell", ""))


KINDS: dict[str, Tables] = {
    ProgramWorkload.kind: program_report,
    RequestsWorkload.kind: request_table,
    FlowsWorkload.kind: flow_table,
}


def tables_of(specs: Sequence[CellSpec]) -> Tables:
    """The module for the cells of a run, which have one workload."""
    return KINDS.get(specs[0].workload.kind, tables) if specs else tables
