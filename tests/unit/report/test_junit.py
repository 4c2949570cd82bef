"""JUnit XML of a sweep: what XML parsers read back, and the exact text."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from support.folders import GOLDEN
from support.golden import golden
from support.made_gates import EVERY_VERDICT, one

from emulator.analysis import regression_gate
from emulator.analysis.regression_gate import MeasuredCell
from emulator.report import junit

FIGURE = one("completion", 1e9)


def test_the_text() -> None:
    text = junit.text(EVERY_VERDICT)
    assert text == golden(GOLDEN / "junit.xml", text)


def test_a_parser_counts_what_the_suite_says() -> None:
    suites = ElementTree.fromstring(junit.text(EVERY_VERDICT))
    (suite,) = suites
    found = {name: len(suite.findall(f"testcase/{name}")) for name in ("failure", "error", "system-out")}
    assert found == {"failure": 3, "error": 2, "system-out": 4}
    for element in (suites, suite):
        assert [element.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["9", "3", "2", "0"]
    names = [case.get("name") for case in suite]
    assert names == [cell.id for cell in EVERY_VERDICT.cells]
    assert all(float(str(case.get("time"))) >= 0 for case in suite)


@given(st.text(), st.text(min_size=1))
def test_whatever_a_program_printed_is_read_back(id: str, failure: str) -> None:
    gate = regression_gate.without_baseline([MeasuredCell(id, {}, failure=failure)])
    (case,) = ElementTree.fromstring(junit.text(gate).encode()).iter("testcase")
    (error,) = case
    assert case.get("name") == junit.allowed(id)
    assert error.get("type") == "FAILED"
    assert str(error.get("message")).startswith("FAILED; ")
    # A parser reads every line end as \n (XML 1.0, section 2.11).
    said = junit.allowed(failure).replace("\r\n", "\n").replace("\r", "\n")
    assert str(error.text).endswith(said)


def test_without_a_baseline_a_cell_that_is_not_valid_is_an_error() -> None:
    cells = [MeasuredCell("a", FIGURE), MeasuredCell("b", FIGURE, ("drops",))]
    suite = ElementTree.fromstring(junit.text(regression_gate.without_baseline(cells)))[0]
    assert [case[0].tag for case in suite] == ["system-out", "error"]
