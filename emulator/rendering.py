"""A run's tables and report on disk: table.md, table.csv, report.html and the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from emulator import report
from emulator.cells import CellResult, CellSpec
from emulator.results import RunFolder

TITLE = "Throughput against RTT"


def markdown(specs: Sequence[CellSpec], found: Mapping[str, CellResult], said: Sequence[str]) -> str:
    """All tables as one document, with what would lift the cells and what the detectors said."""
    tables = [report.overview(specs, found), *report.details(specs, found)]
    return report.markdown(TITLE, tables, [*said, *report.advice(found), *report.findings(found)])


def write_all(
    folder: RunFolder, specs: Sequence[CellSpec], found: Mapping[str, CellResult], said: Sequence[str]
) -> list[Path]:
    """Write the tables, then report.html and figures/; returns these two. Raises MissingError without matplotlib."""
    folder.write("table.md", markdown(specs, found, said))
    folder.write("table.csv", report.csv_text(list(found.values())))
    from emulator import plots, report_html

    figures = plots.draw(specs, found)
    (folder.path / "figures").mkdir(exist_ok=True)
    written = []
    for figure in figures:
        for suffix, content in (("svg", figure.svg.encode()), ("png", figure.png)):
            path = folder.path / "figures" / f"{figure.name}.{suffix}"
            path.write_bytes(content)
            written.append(path)
    folder.write("report.html", report_html.page(folder.facts(), folder.machine(), specs, found, said, figures))
    return [folder.path / "report.html", *written]
