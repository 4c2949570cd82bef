"""Tables of results, against golden files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from samples import cell_result, cell_spec

from emulator import report
from emulator.cells import CellResult, CellSpec
from emulator.hosts import profiles

GOLDEN = Path(__file__).parent / "golden"
MS, MIB = 10**6, 2**20


@pytest.fixture
def cells() -> tuple[list[CellSpec], dict[str, CellResult]]:
    """Two RTTs, two profiles: one cell sound, one invalid, one unsettled with a note, one missing."""
    most = profiles.maximum(10**10, 32 * MS)
    specs = [cell_spec(rtt, profile=profile) for rtt in (32 * MS, 346 * MS) for profile in (profiles.DEFAULT, most)]
    sound, wrong, drifting = (
        cell_result(spec, mib * MIB) for spec, mib in zip(specs, (87.5, 1140.1, 8.25), strict=False)
    )
    wrong = replace(wrong, invalid=("the emulator's own queue dropped 4 packets (limit)",), limiter="line")
    drifting = replace(drifting, settled=False, notes=("office: initrwnd only lowers",))
    return specs, {result.spec.id: result for result in (sound, wrong, drifting)}


def test_markdown(cells: tuple[list[CellSpec], dict[str, CellResult]]) -> None:
    specs, found = cells
    said = report.objections(specs, found, {specs[3].id: "the lab stalled"})
    text = report.markdown("sweep", [report.overview(specs, found), *report.details(specs, found)], said)
    assert text == (GOLDEN / "table.md").read_text()


def test_csv(cells: tuple[list[CellSpec], dict[str, CellResult]]) -> None:
    specs, found = cells
    assert report.csv_text([found[s.id] for s in specs if s.id in found]) == (GOLDEN / "table.csv").read_text()


def test_rows_carry_the_lanes_names_where_several_are_compared() -> None:
    specs = [cell_spec(name="japan"), cell_spec(name="london")]
    rows = report.overview(specs, {}).rows
    assert rows == (("japan 32 ms", "-"), ("london 32 ms", "-"))


@pytest.mark.parametrize(("mib", "text"), [(1140.14, "1140"), (999.96, "1000.0"), (43.52, "43.5"), (0, "0.0")])
def test_throughputs_have_four_digits_or_one_decimal(mib: float, text: str) -> None:
    assert report.mib(mib * MIB) == text
