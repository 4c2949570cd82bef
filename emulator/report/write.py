"""Writes a run's tables and report to disk: table.md, table.csv, report.html and the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emulator.errors import MissingError
from emulator.experiment import results
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.flows_result import FlowsResult
from emulator.experiment.program_result import ProgramResult
from emulator.experiment.requests_result import RequestsResult
from emulator.experiment.results import Result
from emulator.experiment.run_folder import RunFolder
from emulator.report import github_markdown, program_report, published_results, remarks, summary
from emulator.report.table_kinds import tables_of
from emulator.system import atomic_file, bounded_file


def markdown(specs: Sequence[CellSpec], found: Mapping[str, Result], said: Sequence[str]) -> str:
    """All text of the report as one document: tables, summary, problems, explanations, advice, notes."""
    kind, streams = tables_of(specs), results.of_kind(CellResult, found)
    published = published_results.side_by_side(specs, streams)
    shown = [
        kind.overview(specs, found),
        *([published.table] if published else []),
        *kind.details(specs, found),
    ]
    lists = [
        ("Summary", summary.sentences(specs, streams) if streams else ()),
        ("Problems of this run", said),
        ("Why the published figures differ", published.words if published else ()),
        (kind.ADVICE.removesuffix(":").capitalize(), kind.advice(specs, found)),
        ("Notes on the measurements", remarks.findings(found)),
    ]
    return github_markdown.document(kind.TITLE, shown, lists, kind.LEGEND)


def write_all(
    folder: RunFolder, specs: Sequence[CellSpec], found: Mapping[str, Result], said: Sequence[str]
) -> list[Path]:
    """Write the tables, then report.html and figures/; return both paths. Raises MissingError without matplotlib."""
    folder.write("table.md", markdown(specs, found, said))
    folder.write("table.csv", tables_of(specs).csv_text(specs, found))
    from emulator.report import html
    from emulator.report.figures import draw

    figures = [
        *draw.draw(specs, results.of_kind(CellResult, found)),
        *draw.draw_programs(program_report.rows(specs, results.of_kind(ProgramResult, found))),
        *draw.draw_flows(list(results.of_kind(FlowsResult, found).values())),
        *draw.draw_requests(list(results.of_kind(RequestsResult, found).values())),
    ]
    atomic_file.folder(folder.path / "figures")
    written = []
    for figure in figures:
        for suffix, content in (("svg", figure.svg.encode()), ("png", figure.png)):
            path = folder.path / "figures" / f"{figure.name}.{suffix}"
            atomic_file.write(path, content, mode=0o666)
            written.append(path)
    folder.write("report.html", html.page(_facts(folder), folder.machine(), specs, found, said, figures))
    return [folder.path / "report.html", *written]


def _facts(folder: RunFolder) -> dict[str, Any]:
    """run.json, with the run's name and id."""
    return {**folder.facts(), "name": folder.name(), "id": folder.path.name}


def page(folder: RunFolder, specs: Sequence[CellSpec], found: Mapping[str, Result], said: Sequence[str]) -> str:
    """report.html with as much as is possible here. Without matplotlib it has no figures and says so."""
    from emulator.report import html

    try:
        return bounded_file.read_text(write_all(folder, specs, found, said)[0], bounded_file.RUN)
    except MissingError as error:
        lacking = [*said, f"This report has no figures: {error}"]
        text = html.page(_facts(folder), folder.machine(), specs, found, lacking, [])
        folder.write("report.html", text)
        return text
