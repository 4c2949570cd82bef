"""The regression gate: what fails it, what is told, and what passes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from emulator.analysis import regression_gate
from emulator.analysis.regression_gate import HOSTS, LAB, Baseline, CellFigure, Conditions, MeasuredCell

NOW = Conditions(LAB, "6.12.117", "0.2.0", "abc")
GBIT, S = 1e9, 1e9


def one(key: str, value: float, percent: float | None = None) -> Mapping[str, CellFigure]:
    return {key: CellFigure.rounded(key, value, percent)}


@pytest.mark.parametrize(
    ("before", "after", "word", "percent"),
    [
        (one("completion", S), one("completion", 1.01 * S), "REGRESSION", 1.0),
        (one("completion", S), one("completion", 1.0099 * S), "same", 0.99),
        (one("completion", S), one("completion", 1.005 * S), "same", 0.5),
        (one("completion", S), one("completion", 0.99 * S), "faster", -1.0),
        (one("throughput", GBIT), one("throughput", 0.99 * GBIT), "REGRESSION", -1.0),
        (one("throughput", GBIT), one("throughput", 1.02 * GBIT), "faster", 2.0),
        (one("throughput", GBIT), one("throughput", 0.0), "REGRESSION", -100.0),
        (one("throughput", GBIT, 0.8), one("throughput", 0.99 * GBIT, 0.8), "within the noise", -1.0),
        (one("throughput", GBIT, 0.8), one("throughput", 0.98 * GBIT, 0.8), "REGRESSION", -2.0),
        (one("p99", 0), one("p99", 0), "same", 0.0),
        (one("p99", 0), one("p99", 5), "REGRESSION", 100.0),
    ],
)
def test_one_figure(
    before: Mapping[str, CellFigure], after: Mapping[str, CellFigure], word: str, percent: float
) -> None:
    gate = regression_gate.compare(Baseline(NOW, {"a": before}), [MeasuredCell("a", after)], NOW)
    (cell,) = gate.cells
    assert (cell.word, cell.changes[0].percent, gate.passed) == (word, percent, word != "REGRESSION")


@pytest.mark.parametrize(("place", "word"), [(LAB, "REGRESSION"), (HOSTS, "within the noise")])
def test_a_single_measurement_is_certain_in_the_lab_only(place: str, word: str) -> None:
    now = Conditions(place, "", "", "")
    cells = [MeasuredCell("a", one("throughput", 0.97 * GBIT))]
    assert regression_gate.compare(Baseline(now, {"a": one("throughput", GBIT)}), cells, now).cells[0].word == word


def test_the_tolerance_decides() -> None:
    before, cells = Baseline(NOW, {"a": one("completion", S)}), [MeasuredCell("a", one("completion", 1.03 * S))]
    assert [regression_gate.compare(before, cells, NOW, tolerance).passed for tolerance in (3.0, 3.01)] == [False, True]


def test_the_worst_figure_of_a_cell_counts() -> None:
    before = one("requests_per_s", 90) | one("p50", 80e6) | one("p99", 90e6)
    after = one("requests_per_s", 95) | one("p50", 80e6) | one("p99", 99e6)
    (cell,) = regression_gate.compare(Baseline(NOW, {"a": before}), [MeasuredCell("a", after)], NOW).cells
    assert [change.word for change in cell.changes] == ["faster", "same", "REGRESSION"]
    assert cell.word == "REGRESSION"


def test_cells_that_cannot_be_compared() -> None:
    figure = one("completion", S)
    before = Baseline(NOW, dict.fromkeys(("gone", "spoilt", "failed", "other"), figure))
    cells = [
        MeasuredCell("new", figure),
        MeasuredCell("new and spoilt", figure, ("drops",)),
        MeasuredCell("spoilt", figure, ("drops",)),
        MeasuredCell("failed", {}, failure="it ended with 3"),
        MeasuredCell("other", one("throughput", GBIT)),
    ]
    gate = regression_gate.compare(before, cells, NOW)
    assert [(cell.id, cell.word, cell.passed) for cell in gate.cells] == [
        ("new", "new", True),
        ("new and spoilt", "INVALID", False),
        ("spoilt", "INVALID", False),
        ("failed", "FAILED", False),
        ("other", "ABSENT", False),
        ("gone", "ABSENT", False),
    ]
    assert not gate.passed


def test_what_is_not_as_when_the_baseline_was_written_is_told_and_fails_nothing() -> None:
    gate = regression_gate.compare(
        Baseline(Conditions(HOSTS, "6.1", "0.1", "x"), {"a": one("completion", S)}),
        [MeasuredCell("a", one("completion", S))],
        NOW,
    )
    assert gate.passed
    assert gate.notes == (
        "measured in: hosts in the baseline, lab now",
        "kernel: 6.1 in the baseline, 6.12.117 now",
        "Longhaul: 0.1 in the baseline, 0.2.0 now",
        "the cells ask for something else than the baseline's: topology, profiles, workload, duration or seed",
    )


def test_without_a_baseline_validity_alone_decides() -> None:
    sound = MeasuredCell("a", one("completion", S))
    assert regression_gate.without_baseline([sound]).passed
    assert not regression_gate.without_baseline([sound, MeasuredCell("b", {}, failure="x")]).passed
