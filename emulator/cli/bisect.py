"""The command bisect: finds the commit of a Linux tree that made a cell slower."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from emulator.cli.output import emit_json, json_option
from emulator.cli.program_options import program_options
from emulator.cli.request_options import request_options
from emulator.cli.root_options import kernel_option, with_option
from emulator.cli.sweep_options import asked_for, axis_options
from emulator.errors import EXIT_NOT_AS_ASKED, InputError, Mistake
from emulator.lab.boot_options import MOST_SEED

if TYPE_CHECKING:
    from emulator.experiment.cell_spec import CellSpec
    from emulator.experiment.kernel_bisect import BisectOutcome, BisectStep
    from emulator.experiment.results import Result
    from emulator.experiment.run_folder import Asked

NOT_ASKED = {
    "profile_file": None, "order_seed": 0, "in_lab": True, "root_folder": None, "host_root": False, "project": None,
    "kernel": None, "cc_sources": (), "against": (), "pairs": None, "clock": None, "pcap": False,
    "snap_bytes": None, "dry_run": False,
}  # fmt: skip
"""What a sweep could be asked besides."""
OWN_PROGRAM = "; for a program of your own use git bisect run, see longhaul docs integrations"
NAMED = 3
"""Of too many cells so many are named."""


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul bisect --tree ../linux --good v6.11 --bad v6.12 --rtt 80 --rate 1Gbit --cc cubic\n"
    "  longhaul bisect --good v6.11 --bad HEAD --rtt 20 --rate 100Mbit --loss 0.01% --repeats 3\n"
    "  longhaul bisect --good v6.11 --bad HEAD --rtt 20 --server 'python3 -m http.server 80' --ready tcp:80 \\\n"
    "      --client 'curl -so file http://{server}/file'"
)
@click.option(
    "--tree", type=click.Path(exists=True, file_okay=False), default=".", show_default=True,
    help="The Git repository of Linux. It is only read.",
)  # fmt: skip
@click.option("--good", required=True, metavar="REV", help="A commit whose figure is as it should be.")
@click.option("--bad", required=True, metavar="REV", help="A later commit whose figure is not.")
@click.option("--topology", type=click.Path(dir_okay=False), metavar="FILE", help="A topology file with one cell.")
@partial(axis_options, of_one_cell=True)
@program_options
@request_options
@click.option("--seed", type=click.IntRange(0, MOST_SEED), metavar="N", help="Seed of all random impairments.")
@with_option
@kernel_option
@json_option
@click.pass_context
def bisect(ctx: click.Context, /, **given: Any) -> None:
    """Find the commit of Linux that made a cell slower, or faster.

    Builds and measures the cell at --good and --bad; exits with 8 if they do not differ. Then git bisect chooses
    commits, and each counts as bad whose figure is beyond the middle between the two. A commit that does not build,
    does not boot or gives no valid figure is skipped. The options of the cell are those of sweep, with one value each.

    Every figure is kept: after Ctrl-C the same command goes on where it was. Exits with 8 if skipped commits hide the
    first bad one.
    """
    as_json = given.pop("as_json")
    tree = Path(given.pop("tree")).resolve()
    ends = _ends(tree, good=given.pop("good"), bad=given.pop("bad"))
    _, asked = asked_for(ctx, given | NOT_ASKED, of_one_cell=True)
    if len(asked.specs) != 1:
        raise InputError.single(_too_many([spec.id for spec in asked.specs]), "bisect")
    outcome = _found(tree, ends, asked, as_json)
    if as_json:
        emit_json(_plain(outcome))
    else:
        _conclude(outcome)
    if not outcome.found:
        ctx.exit(EXIT_NOT_AS_ASKED)


def _too_many(cells: list[str]) -> str:
    more = ", ..." if len(cells) > NAMED else ""
    made = f"{len(cells)} ({', '.join(cells[:NAMED])}{more})"
    return f"a bisection measures one cell, and what you ask for makes {made}: give each option one value"


def _ends(tree: Path, **revisions: str) -> tuple[str, str]:
    """The commits of the two revisions. Raises InputError with both mistakes."""
    from emulator.lab import kernel_commit

    commits, mistakes = [], []
    for option, revision in revisions.items():
        try:
            commits.append(kernel_commit.resolve(tree, revision))
        except ValueError as error:
            hint = OWN_PROGRAM if isinstance(error, kernel_commit.NoLinuxError) else ""
            mistakes.append(Mistake(f"--{option}", "", f"{error}{hint}"))
    if mistakes:
        raise InputError(mistakes)
    good, bad = commits
    if good == bad:
        raise InputError.single(f"both are the commit {good[:12]}", "--good, --bad")
    return good, bad


def _found(tree: Path, ends: tuple[str, str], asked: Asked, as_json: bool) -> BisectOutcome:
    from emulator.experiment import commit_figures, kernel_bisect
    from emulator.lab.git_bisection import GitBisection

    (spec,) = asked.specs
    figures = commit_figures.place(tree, spec, asked.root, asked.most_repeats)
    measure = commit_figures.kept(figures, _measure(tree, asked))
    git = GitBisection(tree, figures / "bisect.git")

    def tell(step: BisectStep, left: int) -> None:
        more = f"   about {left} {'step' if left == 1 else 'steps'} left" if left else ""
        click.echo(f"{_line(spec, step)}{more}", err=as_json)

    try:
        return kernel_bisect.bisect(git, *ends, measure, tell)
    except KeyboardInterrupt:
        click.echo("every finished figure is kept: the same command goes on from there", err=True)
        raise
    finally:
        shutil.rmtree(figures / "bisect.git", ignore_errors=True)


def _measure(tree: Path, asked: Asked) -> Callable[[str], Result]:
    """Builds a commit's kernel and measures the cell on it."""
    from emulator.cli.build_progress import build_progress
    from emulator.experiment import lab_programs, sweep_runner

    (spec,) = asked.specs

    def measure(commit: str) -> Result:
        with build_progress() as building:
            root = lab_programs.settled(replace(asked.root, kernel=f"{tree}@{commit}"), building)
            lab_programs.built([spec], root, building)
        runner = sweep_runner.in_lab(sweep_runner.cpus()[:1], None, root)
        return sweep_runner.repeated(spec, lambda again: runner(again).result, asked.most_repeats)

    return measure


def _line(spec: CellSpec, step: BisectStep) -> str:
    from emulator.report import table_kinds

    figure = table_kinds.tables_of([spec]).figure_text(step.result) if step.result else "-"
    why = f": {step.why.splitlines()[0]}" if step.why else ""
    return f"{step.verdict:4}  {figure:>30}  {step.commit[:12]}  {step.subject}{why}"


def _conclude(outcome: BisectOutcome) -> None:
    """Print what was found, by how much the ends differ, and what the figures are counted in."""
    from emulator.report.tables import THROUGHPUT

    spec = outcome.ends.before.spec
    if outcome.found:
        (step,) = (step for step in outcome.steps if step.commit == outcome.found)
        click.echo(f"\nthe first bad commit is {outcome.found}\n{step.subject}")
    elif outcome.candidates:
        click.echo("\nskipped commits hide the first bad one, which is one of:")
        for commit in outcome.candidates:
            click.echo(f"  {commit}")
    else:
        click.echo(f"\n{spec.id} does not differ between the two ends by more than their uncertainty: choose other "
                   "commits, another cell, or more --repeats")  # fmt: skip
    unit = f"{THROUGHPUT}, " if outcome.ends.unit == "bytes_per_s" else ""
    click.echo(f"cell: {spec.id}, {outcome.ends.share_text} from good to bad\nfigures: {unit}± at 99 % confidence")


def _plain(outcome: BisectOutcome) -> dict[str, Any]:
    from emulator.experiment import kernel_bisect

    ends = outcome.ends
    steps = [
        {"commit": step.commit, "subject": step.subject, "verdict": step.verdict, "why": step.why,
         "figure": step.result.figure if step.result else None}
        for step in outcome.steps
    ]  # fmt: skip
    return {
        "cell": ends.id, "unit": ends.unit, "share": ends.share, "differs": ends.differs,
        "threshold": kernel_bisect.threshold(ends), "first_bad": outcome.found or None,
        "candidates": list(outcome.candidates), "steps": steps,
        "spec": ends.before.spec.to_json(),
    }  # fmt: skip
