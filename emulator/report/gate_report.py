"""The verdicts of a regression gate for people: a table, and the lines below it. Pure text."""

from __future__ import annotations

from typing import Any

from emulator.analysis.regression_gate import (
    FASTER,
    NOISE,
    REGRESSION,
    CellFigure,
    CellVerdict,
    FigureChange,
    Gate,
)
from emulator.report.tables import Table

COMPARED = ("cell", "figure", "baseline", "measured", "change", "verdict")
ALONE = ("cell", "figure", "measured", "verdict")
LEFT = ("cell", "figure", "verdict")
LEAST_SHOWN_PERCENT = 0.005
TITLES = {"completion": "completion time", "requests_per_s": "requests a second"}
"""What people read instead of a baseline's key."""


def title(figure: CellFigure) -> str:
    """The name of a figure for people."""
    return TITLES.get(figure.key, figure.key)


def shown(figure: CellFigure) -> str:
    """A figure with its unit, and its uncertainty where it is known."""
    text = figure.kind.show(figure.value)
    return f"{text} ± {figure.percent:.2f} %" if figure.percent and figure.percent >= LEAST_SHOWN_PERCENT else text


def percent(change: FigureChange) -> str:
    """A change with its sign, and with the two decimals to which it is compared."""
    return f"{change.percent:+.2f} %"


def table(gate: Gate) -> Table:
    """One row for each figure of each cell; the cell's verdict stands in its first row.

    A figure that all cells have as their only one stands in the title instead of a column.
    """
    header = COMPARED if gate.compared else ALONE
    rows = [row for cell in gate.cells for row in _rows(cell, compared=gate.compared)]
    name = "against the baseline" if gate.compared else "cells"
    kinds = {row[1] for row in rows} - {"-"}
    if len(kinds) == 1:
        rows = [(row[0], *row[2:]) for row in rows]
        return Table(f"{name}: {kinds.pop()}", (header[0], *header[2:]), tuple(rows), LEFT)
    return Table(name, header, tuple(rows), LEFT)


def _rows(cell: CellVerdict, *, compared: bool) -> list[tuple[str, ...]]:
    changes = {change.after.key: change for change in cell.changes}
    rows = []
    for figure in cell.figures:
        change = changes.get(figure.key)
        before = (shown(change.before) if change else "-",) if compared else ()
        by = (percent(change) if change else "-",) if compared else ()
        rows.append((title(figure), *before, shown(figure), *by))
    rows = rows or [("-",) * (4 if compared else 2)]
    return [("" if number else cell.id, *row, "" if number else cell.word) for number, row in enumerate(rows)]


def verdict(gate: Gate) -> str:
    """Whether the gate passed, in one sentence."""
    bad = [cell for cell in gate.cells if not cell.passed]
    of = f"{len(bad)} of {len(gate.cells)} cells"
    if not gate.compared:
        return f"failed: {of} not valid" if bad else f"passed: all {len(gate.cells)} cells valid"
    tolerance = f"tolerance {gate.tolerance_percent:g} %"
    return f"gate failed: {of} ({tolerance})" if bad else f"gate passed: {len(gate.cells)} cells ({tolerance})"


def reasons(cell: CellVerdict) -> list[str]:
    """Why a cell is as it is, without its id: figures that got worse, then what is wrong with it."""
    worse = [change for change in cell.changes if change.word == REGRESSION]
    said = [
        f"{title(change.after)} {percent(change)}: {shown(change.before)} in the baseline, {shown(change.after)} now"
        for change in worse
    ]
    return [*said, *cell.why]


def lines(cell: CellVerdict) -> list[str]:
    """The verdict, and for each figure what the baseline has, what was measured, and the change."""
    changes = {change.after.key: change for change in cell.changes}
    said = [f"verdict: {cell.word}"]
    for figure in cell.figures:
        if change := changes.get(figure.key):
            said.append(
                f"{title(figure)}: baseline {shown(change.before)}, measured {shown(figure)}, change {percent(change)}"
            )
        else:
            said.append(f"{title(figure)}: measured {shown(figure)}")
    return said


def problems(gate: Gate) -> list[str]:
    """A line for each reason of each cell that did not pass."""
    return [f"{cell.word}: {cell.id}: {text}" for cell in gate.cells if not cell.passed for text in reasons(cell)]


def remarks(gate: Gate) -> list[str]:
    """What does not fail the gate: noise, cells that got faster, what is not as when the baseline was written."""
    said = [f"note: {text}" for text in gate.notes]
    if noisy := gate.of(NOISE):
        said.append(f"note: the change is within the noise in {', '.join(noisy)}: more repeats make it certain")
    if faster := gate.of(FASTER):
        said.append(f"note: faster in {', '.join(faster)}: renew the baseline with --write-baseline FILE --force")
    return said


def to_json(gate: Gate) -> dict[str, Any]:
    """The gate as JSON: figures in bit/s, ns or requests a second."""
    return {
        "passed": gate.passed,
        "tolerance_percent": gate.tolerance_percent,
        "notes": list(gate.notes),
        "cells": [
            {
                "cell": cell.id,
                "verdict": cell.word,
                "passed": cell.passed,
                "reasons": reasons(cell),
                "changes": [
                    {
                        "figure": change.after.key,
                        "before": change.before.value,
                        "before_uncertainty_percent": change.before.percent,
                        "after": change.after.value,
                        "after_uncertainty_percent": change.after.percent,
                        "change_percent": change.percent,
                        "verdict": change.word,
                    }
                    for change in cell.changes
                ],
            }
            for cell in gate.cells
        ],
    }
