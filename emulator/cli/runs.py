"""The commands for earlier runs: report, compare, runs, rename."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emulator.cli.output import count, emit_json, emit_table, json_option
from emulator.cli.types import RUN_NAME
from emulator.errors import EXIT_NOT_AS_ASKED, InputError
from emulator.model import run_name

if TYPE_CHECKING:
    from emulator.experiment.compare_runs import Cells
    from emulator.experiment.run_folder import RunFolder

RUN = click.Path(exists=True, file_okay=False)


@click.command(
    epilog="\b\nExamples:\n  longhaul report runs/20260102-030405\n  longhaul report runs/20260102-030405 --format md"
)
@click.argument("run", type=RUN)
@click.option(
    "--format", "form", type=click.Choice(["html", "md", "csv", "json"]), default="html", show_default=True,
    help="html writes report.html and figures/ into the run folder; the others are printed.",
)  # fmt: skip
@json_option
def report(run: str, form: str, as_json: bool) -> None:
    """Show a run's results: its tables, what limited every cell, and the figures."""
    from emulator.experiment.run_folder import RunFolder
    from emulator.report import remarks, write
    from emulator.report.table_kinds import tables_of

    folder = RunFolder(Path(run))
    asked = folder.asked()
    found = folder.measured(asked)
    tables = tables_of(asked.specs)
    said = remarks.objections(asked.specs, found, {})
    if form == "json" or (as_json and form != "html"):
        emit_json({"run": run, "cells": [result.to_json() for result in found.values()]})
    elif form == "csv":
        click.echo(tables.csv_text(asked.specs, found), nl=False)
    elif form == "md":
        click.echo(write.markdown(asked.specs, found, said), nl=False)
    else:
        written = write.write_all(folder, asked.specs, found, said)
        if as_json:
            emit_json({"run": run, "written": [str(path) for path in written]})
        else:
            figures = len({path.stem for path in written[1:]})
            click.echo(f"{written[0]}: {len(found)} of {len(asked.specs)} cells, {count(figures, 'figure')}")


@click.command(epilog="\b\nExample:\n  longhaul compare runs/20260102-030405 runs/20260109-030405")
@click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN [RUN...]")
@json_option
@click.pass_context
def compare(ctx: click.Context, runs: tuple[str, ...], as_json: bool) -> None:
    """Compare every run with the first: what changed by more than the uncertainty of both.

    A single run that measured several kernels is compared with itself: every kernel with the first one. Exits with 8
    when a cell became slower or invalid, or was asked for and not measured.
    """
    from emulator.experiment import compare_runs
    from emulator.report import table_kinds

    (first, (_, before)), *rest = _cells(runs)
    if not rest:
        raise InputError.single("a comparison needs two runs, or one of several kernels: name another one", "compare")
    compared = [(run, compare_runs.changes(before, found)) for run, (_, found) in rest]
    absent = [(run, id) for run, (asked, found) in rest for id in compare_runs.absent(before, asked, found)]
    if strangers := [run for run, changes in compared if not changes and run not in dict(absent)]:
        raise InputError.single(f"has no cell in common with {first}", strangers[0])
    if as_json:
        rows = [
            {"run": run, "cell": change.id, f"before_{change.unit}": change.before.figure,
             f"after_{change.unit}": change.after.figure, "word": change.word}
            for run, changes in compared for change in changes
        ]  # fmt: skip
        missing = [{"run": run, "cell": id} for run, id in absent]
        emit_json({"baseline": first, "changes": rows, "absent": missing})
    else:
        for run, changes in (one for one in compared if one[1]):
            click.echo(f"{_title(first)} -> {_title(run)}\n")
            table = table_kinds.comparison(changes)
            emit_table(table.header, table.rows, left=table.left)
            click.echo("\n± at 99 % confidence")
    for run, id in absent:
        click.echo(f"ABSENT: {id}: {run} has no result of it: it failed, or the run was ended", err=True)
    if absent or any(change.regressed for _, changes in compared for change in changes):
        ctx.exit(EXIT_NOT_AS_ASKED)


def _cells(runs: Sequence[str]) -> list[tuple[str, Cells]]:
    """What to compare with the first one: the cells of every run, or of every kernel of a single run."""
    from emulator.experiment import compare_runs
    from emulator.experiment.run_folder import RunFolder

    folders = [RunFolder(Path(run)) for run in runs]
    cells = [(asked.specs, folder.measured(asked)) for folder in folders for asked in [folder.asked()]]
    return list(zip(runs, cells, strict=True)) if len(runs) > 1 else list(compare_runs.by_kernel(*cells[0]).items())


def _title(run: str) -> str:
    from emulator.experiment.run_folder import RunFolder

    return run_name.titled(RunFolder(Path(run)).name(), run)


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul rename runs/20260102-030405 'before the new kernel'\n"
    "  longhaul rename runs/20260102-030405 ''     no name any more"
)
@click.argument("run", type=RUN)
@click.argument("name", type=RUN_NAME)
@json_option
def rename(run: str, name: str, as_json: bool) -> None:
    """Give RUN another name; an empty one removes it.

    The name is for people. Two runs may have the same one: the run's folder identifies it.
    """
    from emulator.experiment.run_folder import RunFolder

    folder = RunFolder(Path(run))
    folder.facts()
    folder.rename(name)
    if as_json:
        emit_json({"run": run, "name": name})
    else:
        click.echo(f"{run} is named {name!r}" if name else f"{run} has no name")


@click.command(
    epilog="\b\nExamples:\n  longhaul runs\n  longhaul runs --search kernel\n  longhaul runs --runs other/folder"
)
@click.option(
    "--runs", "folder", type=click.Path(file_okay=False), default="runs", show_default=True,
    help="The folder that holds the run folders.",
)  # fmt: skip
@click.option("--search", default="", metavar="TEXT", help="Only runs whose name or folder contains these words.")
@json_option
def runs(folder: str, search: str, as_json: bool) -> None:
    """List the runs: their name, their start, and the numbers of finished and invalid cells.

    The list includes runs that cannot be read, each with the reason.
    """
    from emulator.experiment.run_folder import run_folders

    found = [(run, run.name()) for run in run_folders(Path(folder))]
    rows = [_listed(run, name) for run, name in found if run_name.matches(search, name, run.path.name)]
    if as_json:
        emit_json(rows)
        return
    if not rows:
        hint = f"no run in {folder} has {search!r} in its name or folder"
        click.echo(hint if found else f"no runs in {folder}: longhaul sweep makes them")
        return
    names = ("run", "name", "created", "cells", "measured", "invalid")
    table = [tuple("-" if row[name] is None else str(row[name]) for name in names) for row in rows]
    emit_table(names, table, left=("run", "name", "created"))
    for row in rows:
        if row["trouble"]:
            click.echo(row["trouble"], err=True)


def _listed(run: RunFolder, name: str) -> dict[str, Any]:
    """One run of the list; `trouble` is the reason why it cannot be read."""
    row: dict[str, Any] = {"name": name} | dict.fromkeys(("created", "cells", "measured", "invalid"))
    try:
        facts, asked = run.facts(), run.asked()
        row |= {"created": str(facts.get("created", "")), "cells": len(asked.specs)}
        found = run.measured(asked)
    except InputError as error:
        return {"run": str(run.path), **row, "trouble": str(error)}
    invalid = sum(bool(result.judgement.invalid) for result in found.values())
    return {"run": str(run.path), **row, "measured": len(found), "invalid": invalid, "trouble": ""}
