"""The summary of a CI job: the exact text, and its length."""

from __future__ import annotations

from msgspec.structs import replace
from support.folders import GOLDEN
from support.golden import golden
from support.made_gates import EVERY_VERDICT, one
from support.made_programs import result, turns_row
from support.made_results import MS, cell_result, cell_spec, changed

from emulator.analysis import regression_gate
from emulator.analysis.regression_gate import Gate, MeasuredCell
from emulator.experiment import baseline_file
from emulator.experiment.run_folder import Asked
from emulator.report import job_summary, remarks

SPECS = [cell_spec(rtt * MS) for rtt in (32, 80, 90)]
SOUND = cell_result(SPECS[0])
VOID = changed(cell_result(SPECS[1]), invalid=("12 packets dropped | by the *limit*",), notes=("office: <slow>",))
FOUND = {one.spec.id: one for one in (SOUND, VOID)}
FAILURES = {SPECS[2].id: "the client ended with 3:\n`boom`"}


def summary(gate: Gate, most_bytes: int = job_summary.MOST_BYTES, baseline: str = "") -> str:
    said = remarks.objections(SPECS, FOUND, FAILURES)
    return job_summary.text(SPECS, FOUND, said, gate, baseline, most_bytes)


def alone() -> Gate:
    asked = Asked(tuple(SPECS), True, 0, 1)
    return baseline_file.judge(None, asked, FOUND, FAILURES, 1.0)


def test_void_and_failed_cells_without_a_baseline() -> None:
    text = summary(alone())
    assert text == golden(GOLDEN / "job_summary_void.md", text)
    assert text.count("12 packets dropped") == 1, "a reason is told once"


def test_every_verdict_against_a_baseline() -> None:
    said = ["failed failed: " + EVERY_VERDICT.cells[6].why[0], "note: a note"]
    text = job_summary.text([SPECS[0]], {SPECS[0].id: SOUND}, said, EVERY_VERDICT, "the `base`.yaml")
    assert text == golden(GOLDEN / "job_summary_gate.md", text)
    assert text.count("twice") == 1


def test_a_sweep_of_programs_has_its_law() -> None:
    found = {one.spec.id: one for one in (result(turns_row("", rtt, 17), "redis") for rtt in (10, 80, 346))}
    specs = [one.spec for one in found.values()]
    cells = [MeasuredCell(id, baseline_file.figures(one)) for id, one in found.items()]
    said = remarks.objections(specs, found, {})
    text = job_summary.text(specs, found, said, regression_gate.without_baseline(cells))
    assert text == golden(GOLDEN / "job_summary_program.md", text)
    assert "\nlaw: this program costs 18.000" in text


def test_nothing_to_do_where_nothing_failed() -> None:
    passed = Gate((replace(EVERY_VERDICT.cells[2]),), compared=True)
    assert "What to do next" not in summary(passed)
    assert "What to do next" in summary(EVERY_VERDICT)


def test_a_summary_has_room_where_it_goes() -> None:
    many = [MeasuredCell(f"cell-{number}", one("completion", 1e9), ("drops é",)) for number in range(9000)]
    gate = regression_gate.without_baseline(many)
    whole = summary(gate, 10**9)
    assert len(whole.encode()) > job_summary.MOST_BYTES // 4
    for most in (300, 1000, 1001, 1002, 5000):
        cut = summary(gate, most)
        assert len(cut.encode()) <= most
        kept, _, end = cut.partition("\n\nThe rest has no room")
        assert whole.startswith(kept + "\n")
        assert end
    assert summary(gate, len(whole.encode())) == whole
