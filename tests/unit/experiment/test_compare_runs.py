"""Runs against each other: what is a regression and what is noise."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support import made_programs
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


def test_a_cell_that_carried_nothing_is_compared() -> None:
    nothing, something = of(0.0), of(100.0)
    (back,) = compare_runs.changes({"a": nothing}, {"a": something})
    assert (back.word, back.share, back.share_text) == ("faster", None, "-")
    (gone,) = compare_runs.changes({"a": something}, {"a": nothing})
    assert (gone.word, gone.share) == ("REGRESSION", -1)
    (same,) = compare_runs.changes({"a": nothing}, {"a": nothing})
    assert (same.word, same.share) == ("same", None)


def test_the_first_kernel_asked_for_is_the_reference_even_when_a_cell_of_it_is_missing() -> None:
    specs = [replace(cell_spec(rtt), kernel=kernel) for kernel in ("6.1", "7.2") for rtt in (20, 40)]
    found = {spec.id: cell_result(spec) for spec in specs[1:]}
    compared = compare_runs.across_kernels(specs, found)
    assert [(kernel, [change.id for change in changes]) for kernel, changes in compared.items()] == [
        ("7.2", [replace(specs[1], kernel="").id])
    ]
    assert compared["7.2"][0].before.spec.kernel == "6.1"


def test_a_cell_that_was_asked_for_and_has_no_result_any_more_is_absent() -> None:
    specs = [cell_spec(rtt) for rtt in (20, 40, 80)]
    before = {spec.id: cell_result(spec) for spec in specs[:2]}
    assert compare_runs.absent(before, specs[1:], {}) == [specs[1].id]
    assert compare_runs.absent(before, specs, before) == []


def test_the_runs_of_a_single_measurement_of_a_program_tell_how_certain_it_is() -> None:
    before, after = (
        made_programs.result(made_programs.row("", 80, made_programs.runs(*map(made_programs.run, times_ms))), "redis")
        for times_ms in ((1000, 1001, 1002), (1020, 1021, 1022))
    )
    assert before.half_width == pytest.approx(9.925 * 0.001 / 3**0.5, rel=1e-3)
    (change,) = compare_runs.changes({"a": before}, {"a": after})
    assert (change.unit, change.word, change.share) == ("s", "REGRESSION", pytest.approx(20 / 1001))


def test_only_what_is_in_both_is_compared() -> None:
    one, other = cell_result(), cell_result(cell_spec(rtt_ns=1))
    assert compare_runs.changes({"a": one}, {"b": other}) == []
