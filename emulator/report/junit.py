"""The verdicts on a sweep as JUnit XML, which GitHub's, GitLab's and Jenkins' test reports read. Pure text.

A test case is a cell. What got worse or is absent is a failure; what is not valid, or was not measured, is an error.
There is no date and no host name in it: the same figures give the same bytes.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from emulator.analysis.regression_gate import FAILED, INVALID, CellVerdict, Gate
from emulator.report import gate_report

SUITE = "longhaul sweep"
CLASS = "longhaul.sweep"
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 (section 2.2) allows in no form; a program's last line may hold any of it."""


def text(gate: Gate) -> str:
    """The document, with one test suite."""
    errors = sum(map(_is_error, gate.cells))
    counts = {
        "tests": str(len(gate.cells)),
        "failures": str(sum(not cell.passed for cell in gate.cells) - errors),
        "errors": str(errors),
        "skipped": "0",
        "time": f"{sum(cell.seconds for cell in gate.cells):.3f}",
    }
    suites = Element("testsuites", {"name": SUITE, **counts})
    suite = SubElement(suites, "testsuite", {"name": SUITE, **counts})
    for cell in gate.cells:
        _case(suite, cell)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _is_error(cell: CellVerdict) -> bool:
    return cell.word in (INVALID, FAILED)


def _case(suite: Element, cell: CellVerdict) -> None:
    own = {"classname": CLASS, "name": allowed(cell.id), "time": f"{cell.seconds:.3f}"}
    case = SubElement(suite, "testcase", own)
    lines = gate_report.lines(cell)
    if cell.passed:
        SubElement(case, "system-out").text = allowed("\n".join(lines))
        return
    reasons = gate_report.reasons(cell)
    told = {"type": cell.word, "message": allowed("; ".join([cell.word, *reasons]))}
    SubElement(case, "error" if _is_error(cell) else "failure", told).text = allowed("\n".join([*lines, *cell.why]))


def allowed(words: str) -> str:
    """The words with U+FFFD for every character that no XML document can hold."""
    return _NOT_XML.sub("\ufffd", words)
