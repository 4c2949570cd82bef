"""Runs against each other: what is a regression and what is noise."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.made_results import cell_result, cell_spec, changed

from emulator.experiment import compare_runs
from emulator.experiment.cell_result import CellResult

MIB = 2**20


def of(*means: float) -> CellResult:
    return replace(cell_result(steady_bytes_per_s=sum(means) / len(means)), repeats=means)


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (of(100.0, 100.0, 100.0), of(99.0, 99.0, 99.0), "REGRESSION"),
        (of(100.0, 100.0, 100.0), of(101.0, 101.0, 101.0), "faster"),
        (of(100.0, 102.0, 98.0), of(99.0, 97.0, 101.0), "same"),
        (of(100.0), of(99.0), "same"),
        (of(100.0), of(95.0), "REGRESSION"),
        (of(100.0), changed(of(100.0), invalid=("drops",)), "REGRESSION"),
        (changed(of(100.0), invalid=("drops",)), changed(of(100.0), invalid=("drops",)), "same"),
    ],
)
def test_words(before: CellResult, after: CellResult, word: str) -> None:
    (change,) = compare_runs.changes({"a": before}, {"a": after})
    assert (change.word, change.regressed) == (word, word == "REGRESSION")


def test_only_what_is_in_both_is_compared() -> None:
    one, other = cell_result(), cell_result(cell_spec(rtt_ns=1))
    assert compare_runs.changes({"a": one}, {"b": other}) == []
