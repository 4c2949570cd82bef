"""A sweep for the summary of a CI job, as GitHub-flavoured Markdown: what failed and what to do, then the tables. Pure.

There is no date and no host name in it: the same figures give the same bytes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emulator.analysis.regression_gate import ABSENT, FAILED, INVALID, REGRESSION, Gate
from emulator.experiment.cell_spec import CellSpec
from emulator.report import gate_report, remarks
from emulator.report import github_markdown as markdown
from emulator.report.table_kinds import tables_of
from emulator.report.tables import Table

MOST_BYTES = 2**20
"""What GitHub takes as the summary of one step; of a longer one it shows nothing."""
RENEW = "longhaul sweep ... --write-baseline {} --force"
NEXT = {
    REGRESSION: "find the change that made it slower; if it is meant, renew the baseline and commit it: {renew}",
    ABSENT: "measure this cell again, or renew the baseline without it: {renew}",
    INVALID: "the figures of this cell mean nothing: repair what the reason names; {measuring} explains each check",
    FAILED: "repair what the reason names; {doctor} tells what does not run on the machine",
}
"""What to do about a cell that fails the gate, by its verdict."""


def text(
    specs: Sequence[CellSpec],
    found: Mapping[str, Any],
    said: Sequence[str],
    gate: Gate,
    baseline: str = "",
    most_bytes: int = MOST_BYTES,
) -> str:
    """The summary, of at most `most_bytes`; `said` are the problems of the run, `baseline` names its file."""
    kind = tables_of(specs)
    first, *others = kind.overview(specs, found), *kind.details(specs, found)
    parts = [
        f"## {markdown.inline(kind.TITLE)}",
        f"**{markdown.inline(gate_report.verdict(gate))}**",
        *_failures(gate, baseline),
        *(_titled(gate_report.table(gate)) if gate.compared else ()),
        *_titled(first),
        *_section("To know", [*gate_report.remarks(gate), *_notes(said, gate)]),
        *(part for table in others for part in _titled(table)),
        *_section(kind.ADVICE.removesuffix(":").capitalize(), kind.advice(specs, found)),
        *_section("Notes on the measurements", remarks.findings(found)),
        f"<sub>{markdown.inline(kind.LEGEND)}</sub>",
    ]
    return _shortened("\n\n".join(parts) + "\n\n", most_bytes)


def _failures(gate: Gate, baseline: str) -> Iterator[str]:
    """The reasons of the cells that did not pass, and what to do about each kind."""
    yield from _section("What failed", gate_report.problems(gate))
    renew = markdown.code(RENEW.format(shlex.quote(baseline) if baseline else "FILE"))
    commands = {"renew": renew, "measuring": "<code>longhaul docs measuring</code>"}
    commands["doctor"] = "<code>longhaul doctor</code>"
    if steps := [f"- {word}: {NEXT[word].format(**commands)}" for word in NEXT if gate.of(word)]:
        yield from ("### What to do next", "\n".join(steps))


def _titled(table: Table) -> Iterator[str]:
    """The table below its title, and the sentences about it, such as the law of a program."""
    if table.rows:
        yield from (f"### {markdown.inline(table.title)}", markdown.table(table), *map(markdown.sentence, table.below))


def _section(heading: str, lines: Sequence[str]) -> list[str]:
    return [f"### {heading}", markdown.items(lines)] if lines else []


def _notes(said: Sequence[str], gate: Gate) -> list[str]:
    """The problems of the run that are not among the reasons of its cells."""
    told = {f"{cell.id} {cell.word.lower()}: {why}" for cell in gate.cells for why in cell.why}
    return [line for line in said if line not in told]


def _shortened(whole: str, most_bytes: int) -> str:
    """The text; of a longer one as many whole lines as there is room for, and a sentence about the others."""
    if len(whole.encode()) <= most_bytes:
        return whole
    end = "\n\nThe rest has no room in a job's summary: read `table.md` in the folder of the run.\n\n"
    kept = whole.encode()[: max(most_bytes - len(end.encode()), 0)].decode(errors="ignore")
    return kept.rpartition("\n")[0] + end
