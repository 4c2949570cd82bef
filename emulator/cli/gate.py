"""The options of a sweep that compare it with a baseline: reads, writes and prints for the command `sweep`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from emulator.cli.options import Quantity
from emulator.cli.output import emit_table, width
from emulator.errors import InputError, Mistake
from emulator.system import named_file

if TYPE_CHECKING:
    from emulator.analysis.regression_gate import Baseline, Gate
    from emulator.experiment.cell_spec import CellSpec
    from emulator.experiment.results import Result
    from emulator.experiment.run_folder import Asked

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS = frozenset({"baseline", "write_baseline", "force", "tolerance", "junit", "markdown"})
"""The parameters that the options here have."""
GAP = "\n\n"
"""A blank line, which ends whatever paragraph a file ends with."""


def _tolerance(text: str) -> float:
    from emulator.experiment.baseline_file import tolerance_percent

    return tolerance_percent(text)


def gate_options(command: F) -> F:
    """--baseline, --write-baseline, --force, --tolerance, --junit and --markdown."""
    file = partial(click.option, metavar="FILE")
    for one in reversed((
        file("--baseline", type=click.Path(), help="Fail when a cell is slower than in this baseline, which "
             "--write-baseline wrote, or than in the folder of an earlier run."),
        file("--write-baseline", type=click.Path(dir_okay=False), help="Write the cells' figures to this new file."),
        click.option("--force", is_flag=True, help="Overwrite the baseline."),
        click.option("--tolerance", type=Quantity("PERCENT", _tolerance), default="1%", show_default=True,
                     help="The least change for the worse that fails."),
        file("--junit", type=click.Path(dir_okay=False), help="Write a test case for each cell to this file, as JUnit "
             "XML."),
        file("--markdown", type=click.Path(dir_okay=False), help="Append tables and verdicts to this file, as Markdown "
             "for the summary of a CI job."),
    )):  # fmt: skip
        command = one(command)
    return command


class Outputs(Struct, frozen=True):
    """What the options here ask for. `tolerance` is in percent."""

    baseline: Path | None
    write_baseline: Path | None
    tolerance: float
    junit: Path | None
    markdown: Path | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Outputs:
        """Read the options. Raises InputError for what would fail after hours of measuring, all at once."""
        writes = given["write_baseline"]
        mistakes = []
        if writes and given["baseline"]:
            text = "a sweep writes a baseline or is compared with one: use one of the two"
            mistakes.append(Mistake("--write-baseline", "", text))
        if given["force"] and not writes:
            mistakes.append(Mistake("--force", "", "it overwrites a baseline: add --write-baseline FILE"))
        if writes and Path(writes).exists() and not given["force"]:
            mistakes.append(Mistake("--write-baseline", writes, "exists already; overwrite it with --force"))
        mistakes += [
            Mistake(option, file, why)
            for option, file in (
                ("--write-baseline", writes),
                ("--junit", given["junit"]),
                ("--markdown", given["markdown"]),
            )
            if file and (why := named_file.why_not(Path(file)))
        ]
        if mistakes:
            raise InputError(mistakes)
        files = (given["baseline"], writes, given["junit"], given["markdown"])
        before, after, junit, markdown = (Path(file) if file else None for file in files)
        return cls(before, after, given["tolerance"], junit, markdown)

    def before(self, asked: Asked) -> Baseline | None:
        """The baseline to compare with. Raises InputError when it is none, or has none of these cells."""
        from emulator.experiment import baseline_file
        from emulator.experiment.run_folder import RunFolder

        if self.baseline is None:
            return None
        if self.baseline.is_dir():
            return baseline_file.of_run(RunFolder(self.baseline), asked)
        found = baseline_file.load(self.baseline)
        if not any(spec.id in found.cells for spec in asked.specs):
            text = "this baseline has no cell in common with the sweep"
            raise InputError.single(text, "--baseline", str(self.baseline))
        return found

    def report(
        self, specs: Sequence[CellSpec], found: Mapping[str, Result], failures: Mapping[str, str], gate: Gate
    ) -> None:
        """Write the reports. Raises MissingError."""
        from emulator.report import job_summary, junit, remarks

        with ExitStack() as each:  # Where one cannot be written, the other is.
            if self.junit:
                each.callback(named_file.write, self.junit, junit.text(gate))
            if self.markdown:
                said = remarks.objections(specs, found, failures)
                baseline = str(self.baseline) if self.baseline and not self.baseline.is_dir() else ""
                taken = self.markdown.stat().st_size + len(GAP) if self.markdown.exists() else 0
                room = job_summary.MOST_BYTES - taken
                summary = job_summary.text(specs, found, said, gate, baseline, room)
                each.callback(named_file.append, self.markdown, summary, GAP)

    def renew(self, asked: Asked, found: Mapping[str, Result], gate: Gate) -> None:
        """Write the new baseline, if one is asked for and every cell is valid."""
        from emulator.analysis.regression_gate import Baseline
        from emulator.experiment import baseline_file

        if self.write_baseline is None:
            return
        if not gate.passed:
            click.echo(f"{self.write_baseline} is not written: every cell of a baseline must be valid", err=True)
            return
        cells = {id: baseline_file.figures(result) for id, result in found.items()}
        baseline_file.write(self.write_baseline, Baseline(baseline_file.conditions(asked, found), cells))
        click.echo(f"baseline: {self.write_baseline}", err=True)


def emit_gate(gate: Gate, *, as_json: bool) -> None:
    """Show what changed since the baseline, and on stderr what failed and why."""
    from emulator.report import gate_report

    if not as_json:
        table = gate_report.table(gate)
        click.echo(f"\n{table.title}\n")
        emit_table(table.header, table.rows, left=table.left, most=width())
        click.echo()
        for line in gate_report.remarks(gate):
            click.echo(line)
    for line in gate_report.problems(gate):
        click.echo(line, err=True)
    click.echo(gate_report.verdict(gate), err=True)
