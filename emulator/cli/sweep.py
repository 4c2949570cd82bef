"""The command sweep: runs an experiment and writes its run folder."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from msgspec.structs import replace

from emulator import __version__
from emulator.cli.against_options import against_options
from emulator.cli.gate import OPTIONS as GATE_OPTIONS
from emulator.cli.gate import Outputs, emit_gate, gate_options
from emulator.cli.options import snap_option
from emulator.cli.output import count, emit_json, emit_table, json_option, width
from emulator.cli.program_options import program_options
from emulator.cli.request_options import request_options
from emulator.cli.root_options import clock_option, project_option, root_options, warn
from emulator.cli.sweep_options import asked_for, axis_options
from emulator.cli.types import RUN_NAME, progress
from emulator.errors import EXIT_NOT_AS_ASKED, InputError, MissingError
from emulator.lab.boot_options import MOST_SEED

if TYPE_CHECKING:
    from emulator.analysis.regression_gate import Gate
    from emulator.experiment.cell_spec import CellSpec
    from emulator.experiment.results import Result
    from emulator.experiment.run_folder import Asked, RunFolder
    from emulator.experiment.sweep_runner import Runner
    from emulator.model.topology import Topology

OF_A_RESUMED_RUN = frozenset({"resume", "scheduler", "as_json"}) | GATE_OPTIONS
"""The options that a run in a folder does not hold."""
SNAP_BYTES = 128
"""Of each frame a sweep keeps the headers: the payload has no meaning, and is 1.2 GB a second at 10 Gbit/s."""


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul sweep --in-lab --rtt 0,32,80,346 --tcp-profile default,max\n"
    "  longhaul sweep --in-lab topologies/new-york.yaml --streams 1,8 --dry-run\n"
    "  longhaul sweep --in-lab topologies/new-york.yaml --lane japan --cc cubic,bbr --direction outbound,inbound\n"
    "  longhaul sweep --in-lab --rtt 80 --rate 1Gbit --write-baseline baseline.yaml\n"
    "  longhaul sweep --in-lab --rtt 80 --rate 1Gbit --baseline baseline.yaml --junit sweep.xml    1 % slower: exit 8\n"
    '  longhaul sweep --in-lab --rtt 80 --rate 1Gbit --baseline baseline.yaml --markdown "$GITHUB_STEP_SUMMARY"\n'
    "  longhaul sweep --in-lab --rtt 80 --rate 1Gbit --duration 5s --repeats 1 --pcap\n"
    "  longhaul sweep --in-lab --rtt 10,80 --server 'python3 -m http.server 80' --ready tcp:80 \\\n"
    "      --client 'curl -so file http://{server}/file'      any program instead of streams\n"
    "  longhaul sweep --in-lab --rtt 80 --rate 1Gbit --connections 1,8,64 --answer 1KiB,1MiB     requests instead\n"
    "  longhaul sweep --in-lab --rtt 20,100 --rate 1Gbit --against cubic:1,bbr:1     flows against flows instead\n"
    "  longhaul sweep --in-lab --rtt 20 --rate 1Gbit --pairs cubic,bbr,reno     every pair, as a matrix\n"
    "  longhaul sweep --in-lab --with nginx,curl --rtt 10,80 --server 'nginx -g \"daemon off;\"' --ready tcp:80 \\\n"
    "      --client 'curl -so file http://{server}/'\n"
    "  longhaul sweep --lane japan --tcp-profile default     between the SSH hosts of the topology that is up\n"
    "  longhaul sweep --scheduler tcp://cluster:8786 --rtt 0,32,80,346\n"
    "  longhaul sweep --resume runs/20260102-030405"
)
@click.argument("topology", type=click.Path(dir_okay=False), required=False, metavar="[FILE]")
@axis_options
@program_options
@request_options
@against_options
@click.option(
    "--profiles", "profile_file", type=click.Path(dir_okay=False), help="YAML file with further TCP profiles."
)
@click.option(
    "--seed",
    type=click.IntRange(0, MOST_SEED),
    metavar="N",
    help="Seed of all random impairments; default: the topology's.",
)
@click.option(
    "--order-seed", type=click.IntRange(0, MOST_SEED), metavar="N", help="Seed of the cells' order; default: a new one."
)
@click.option("--in-lab", is_flag=True, help="Run each cell in its own lab, one lab per CPU.")
@partial(root_options, kernels=True)
@project_option
@clock_option
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Like --in-lab, on a Dask cluster: tcp://HOST:8786, or local for a cluster in this process.",
)
@click.option("--runs", type=click.Path(file_okay=False), default="runs", show_default=True, help="Run folders.")
@click.option("--name", "run_name", default="", type=RUN_NAME, metavar="NAME", help="A name for the run, for people.")
@click.option("--resume", type=click.Path(exists=True, file_okay=False), help="Resume the run in this folder.")
@gate_options
@click.option("--pcap", is_flag=True, help="Write the frames of every cell to RUN/pcap, for Wireshark.")
@snap_option(SNAP_BYTES)
@click.option("--dry-run", is_flag=True, help="Show the cells and their predicted throughput.")
@json_option
@click.pass_context
def sweep(ctx: click.Context, /, **given: Any) -> None:
    """Measure TCP throughput against RTT, and report what limited every cell.

    The cells are all combinations of the axes; the topology file's sweep section may hold axes too. Longhaul measures
    each cell at least three times, until its mean is known to 2.5 % (99 % confidence) or --repeats is reached. It saves
    each result at once. Exits with 8 when a cell is invalid, failed or, with --baseline, absent or slower.
    """
    from emulator.experiment import baseline_file
    from emulator.experiment.run_folder import RunFolder

    given["in_lab"] = given["in_lab"] or bool(given["scheduler"])
    outputs = Outputs.of(given)
    if given["resume"]:
        folder = RunFolder(Path(given["resume"]))
        asked = folder.asked()
        _refuse_other_cells(ctx, asked)
        before = outputs.before(asked)
        _writable_by(given["scheduler"], asked)
        asked = _prepared(asked, given["scheduler"])
    else:
        base, asked = asked_for(ctx, given)
        if given["dry_run"]:
            _show_plan(asked, given["as_json"])
            return
        before = outputs.before(asked)
        _writable_by(given["scheduler"], asked)
        asked = _prepared(asked, given["scheduler"])
        folder = _new_folder(Path(given["runs"]), base, asked, given["run_name"])
    found, failures = folder.finished(asked), dict[str, str]()
    try:
        _run(asked, folder, given["scheduler"], found, failures)
    finally:
        found = {spec.id: found[spec.id] for spec in asked.specs if spec.id in found}
        gate = baseline_file.judge(before, asked, found, failures, outputs.tolerance)
        with ExitStack() as each:  # The last one runs first; an error of one stops none of the others.
            each.callback(_show, asked.specs, found, failures, folder, gate, given["as_json"])
            each.callback(outputs.renew, asked, found, gate)
            each.callback(outputs.report, asked.specs, found, failures, gate)
            each.callback(_write, asked.specs, found, failures, folder)
    if not gate.passed:
        ctx.exit(EXIT_NOT_AS_ASKED)


def _refuse_other_cells(ctx: click.Context, asked: Asked) -> None:
    """Refuse what a resumed run would ignore: its folder says what it measures. Raises InputError."""
    kept = OF_A_RESUMED_RUN | ({"in_lab"} if asked.in_lab else set())
    given = [
        one.human_readable_name if isinstance(one, click.Argument) else one.opts[0]
        for one in ctx.command.params
        if one.name not in kept and ctx.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE
    ]
    if given:
        text = "a resumed run measures what its folder says: leave them out, or start a new run without --resume"
        raise InputError.single(text, ", ".join(given))


def _writable_by(scheduler: str | None, asked: Asked) -> None:
    """Refuse on a cluster what its machines may not have: the run folder, to capture; this machine's folders."""
    if scheduler and asked.snap_bytes is not None:
        text = "a cluster cannot write captures (--pcap) into the run folder; use --in-lab without --scheduler"
        raise InputError.single(text, "--scheduler", scheduler)
    root = asked.root
    if scheduler and (root.kernel or root.kernels or root.cc_sources):
        text = f"{root.asked} is built on this machine, and a cluster has others: use --in-lab without --scheduler"
        raise InputError.single(text, "--scheduler", scheduler)
    if scheduler and (root.host or root.folder or root.project):
        given = f"--project {root.project}" if root.project else root.option
        text = f"{given} is of this machine, and a cluster has others: use --with PACKAGE"
        raise InputError.single(text, "--scheduler", scheduler)


def _prepared(asked: Asked, scheduler: str | None) -> Asked:
    """Build what the labs of this machine lack, and refuse what names a program that is not there.

    Returns what is asked with the kernels that were built.
    """
    from emulator.cli.build_progress import build_progress
    from emulator.experiment import lab_programs

    if asked.in_lab and not scheduler:
        warn(asked.root)
        with build_progress() as building:
            asked = replace(asked, root=lab_programs.settled(asked.root, building))
            lab_programs.built(asked.specs, asked.root, building)
    return asked


def _new_folder(runs: Path, base: Topology, asked: Asked, name: str) -> RunFolder:
    from emulator.config import loader
    from emulator.experiment.run_folder import RunFolder

    now = datetime.now(UTC)
    facts = {"created": now.isoformat(timespec="seconds"), "version": __version__, **_kernel_facts(asked)}
    folder = RunFolder.create(runs / now.strftime("%Y%m%d-%H%M%S-%f")[:-3], facts, asked, name)
    folder.write("topology.yaml", loader.dumps(base))
    return folder


def _kernel_facts(asked: Asked) -> dict[str, Any]:
    """What the kernels of a user's own were built from, by name; empty without any."""
    from emulator.lab import lab_facts

    chosen = [(asked.root.kernel, asked.root.kernel)] if asked.root.kernel else asked.root.kernels
    return {"kernels": {name: lab_facts.of_id(id) for name, id in chosen}} if chosen else {}


@contextmanager
def _labs(asked: Asked, folder: RunFolder, scheduler: str | None) -> Iterator[tuple[Runner, int]]:
    """The runner of one cell, and the number of cells that run at once."""
    from emulator.experiment import dask_runner, sweep_runner
    from emulator.experiment.cell_captures import CellCaptures

    captures = None if asked.snap_bytes is None else CellCaptures(folder.path.resolve(), asked.snap_bytes)
    if scheduler and not asked.in_lab:
        raise InputError.single("this run measures on one machine itself, not in labs", "--scheduler", scheduler)
    if scheduler:
        with dask_runner.farm(scheduler, asked.root) as labs:
            yield labs
    elif asked.in_lab:
        cpus = sweep_runner.cpus()
        yield sweep_runner.in_lab(cpus, captures, asked.root), len(cpus)
    else:
        yield sweep_runner.here(captures=captures), 1


def _run(
    asked: Asked, folder: RunFolder, scheduler: str | None, found: dict[str, Result], failures: dict[str, str]
) -> None:
    """Measure the missing cells and put results and failures into the two dictionaries as they arrive."""
    from emulator.analysis import statistics
    from emulator.experiment import grid, sweep_runner

    missing = [spec for spec in asked.specs if spec.id not in found]
    todo = sweep_runner.in_order(missing, asked.order_seed, in_lab=asked.in_lab)
    repeats = min(statistics.LEAST_REPEATS, asked.most_repeats)

    def say(text: str) -> None:
        click.echo(text, err=True)

    with _labs(asked, folder, scheduler) as (runner, workers), progress(grid.cost_s(todo, repeats), "sweep") as advance:
        for outcome in sweep_runner.run_cells(todo, folder, runner, workers, say, asked.most_repeats):
            if outcome.result:
                found[outcome.spec.id] = outcome.result
            else:
                failures[outcome.spec.id] = outcome.failure
            advance(grid.cost_s([outcome.spec], repeats), outcome.spec.id)


def _show_plan(asked: Asked, as_json: bool) -> None:
    """Print the cells of a dry run."""
    from emulator.analysis import statistics
    from emulator.report.table_kinds import tables_of

    tables, repeats = tables_of(asked.specs), min(statistics.LEAST_REPEATS, asked.most_repeats)
    if as_json:
        emit_json(tables.plan_json(asked.specs, repeats) | {"most_repeats": asked.most_repeats})
        return
    table = tables.planned(asked.specs)
    emit_table(table.header, table.rows, left=("cell", "limited by"))
    times = "once" if repeats == 1 else f"{repeats} times"
    often = f"{repeats} to {asked.most_repeats} times" if asked.most_repeats > repeats else times
    cells = f"{count(len(asked.specs), 'cell')}, each measured {often}"
    click.echo(f"\n{cells}; {tables.plan_legend(asked.specs, repeats)}")


def _write(specs: Sequence[CellSpec], found: dict[str, Result], failures: dict[str, str], folder: RunFolder) -> None:
    """Write results.json, the tables and the report into the run's folder."""
    from emulator.report import remarks, write

    folder.write_results(found.values())
    try:
        write.write_all(folder, specs, found, remarks.objections(specs, found, failures))
    except MissingError as error:
        click.echo(f"no report.html: {error}", err=True)


def _show(
    specs: Sequence[CellSpec],
    found: dict[str, Result],
    failures: dict[str, str],
    folder: RunFolder,
    gate: Gate,
    as_json: bool,
) -> None:
    """Show the tables and the gate, or the results as JSON."""
    from emulator.report import gate_report, remarks

    if as_json:
        cells = [result.to_json() for result in found.values()]
        judged = {"baseline": gate_report.to_json(gate)} if gate.compared else {}
        emit_json({"run": str(folder.path), "name": folder.name(), "cells": cells, "failures": failures} | judged)
    else:
        _emit_tables(specs, found, remarks.objections(specs, found, failures), folder)
    if gate.compared:
        emit_gate(gate, as_json=as_json)


def _emit_tables(specs: Sequence[CellSpec], found: dict[str, Result], said: Sequence[str], folder: RunFolder) -> None:
    """Show the tables, what is to know about them, and where the results are."""
    from emulator.experiment import compare_runs
    from emulator.experiment.cell_captures import FOLDER
    from emulator.model import run_name
    from emulator.report import remarks, table_kinds

    tables = table_kinds.tables_of(specs)
    for table in (tables.overview(specs, found), *tables.details(specs, found)) if found else ():
        click.echo(f"{table.title}\n")
        emit_table(table.header, table.rows, left=table.left, most=width())
        click.echo()
        for line in table.below:
            click.echo(textwrap.fill(line, width(), subsequent_indent="    "))
        if table.below:
            click.echo()
    for kernel, changes in compare_runs.across_kernels(specs, found).items():
        compared = table_kinds.comparison(changes)
        click.echo(f"kernel {kernel} against {specs[0].kernel}\n")
        emit_table(compared.header, compared.rows, left=compared.left)
        click.echo()
    if found:
        click.echo(tables.LEGEND)
    for heading, lines in (
        (tables.ADVICE, tables.advice(specs, found)),
        ("to know:", remarks.findings(found)),
    ):
        for text in [heading, *lines] if lines else []:
            click.echo(text)
    for text in said:
        click.echo(text)
    click.echo(f"results: {run_name.titled(folder.name(), str(folder.path))}")
    if files := [file for result in found.values() for file in result.captures]:
        click.echo(f"captured frames: {count(len(files), 'file')} in {folder.path / FOLDER}")
