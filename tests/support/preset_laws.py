"""What the tests of presets read of a sweep's CSV, and the law of its cells."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from emulator.analysis import program_law
from emulator.analysis.program_law import LawPoint, ProgramLaw

LEFT_OUT_MS = 160
RTTS, ENDS = f"20,{LEFT_OUT_MS},346", "20,346"


def rows(folder: Path) -> list[dict[str, str]]:
    """The lines of the CSV of the only run in this folder."""
    (table,) = folder.glob("*/table.csv")
    with table.open() as lines:
        return list(csv.DictReader(lines))


def point(row: dict[str, str]) -> LawPoint:
    """A cell as the law needs it."""
    size = int(row["bytes"]) if row["bytes"] else None
    return LawPoint(int(row["rtt_asked_ns"]), int(row["rate_bps"]), size, (float(row["completion_mean_s"]),))


def law(rows: list[dict[str, str]]) -> ProgramLaw:
    """The law of all RTTs but the one to leave out, for which its prediction must be right, if it was measured."""
    points = [point(row) for row in rows]
    fitted = program_law.fit([one for one in points if one.rtt_ns != LEFT_OUT_MS * 10**6])
    assert isinstance(fitted, ProgramLaw)
    assert fitted.objection == ""
    for left in (one for one in points if one.rtt_ns == LEFT_OUT_MS * 10**6):
        assert fitted.completion_s(left) == pytest.approx(left.mean_s, rel=0.03)
    return fitted
