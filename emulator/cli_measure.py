"""verify, sweep, bdp: the commands that measure and compute."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emulator import __version__, units
from emulator.cli_core import PROBABILITY, TIME, Quantity, _appliance
from emulator.cli_output import emit_json, emit_table, json_option
from emulator.errors import EXIT_NOT_AS_ASKED, InputError

if TYPE_CHECKING:
    from emulator.model import Lane, Topology
    from emulator.results import CellResult, CellSpec, RunFolder
    from emulator.verify import Pair


class Listed(click.ParamType[list[Any]]):
    """A list separated by commas, each item read by one function."""

    name = "list"

    def __init__(self, parse: Callable[[str], Any], metavar: str) -> None:
        self.parse, self.name = parse, metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A tuple of values; none may be missing between two commas."""
        if not isinstance(value, str):
            return value
        try:
            return tuple(self.parse(item.strip()) for item in value.split(","))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _rtt_ns(text: str) -> int:
    """A duration; a bare number is in ms."""
    return units.parse_duration_ns(f"{text}ms" if text.replace(".", "", 1).isdigit() else text)


def _word(text: str) -> str:
    if not text:
        raise ValueError("a name was expected between the commas")
    return text


def _positive(text: str) -> int:
    number = units.parse_count(text)
    if not number:
        raise ValueError("0 is too few")
    return number


RTTS = Listed(_rtt_ns, "RTT,...")
WORDS = Listed(_word, "NAME,...")
COUNTS = Listed(_positive, "N,...")
RATE = Quantity("RATE", units.parse_rate_bps)
RTT = Quantity("RTT", _rtt_ns)
SIZE = Quantity("SIZE", units.parse_size_bytes)


@contextmanager
def _progress(total: float, what: str) -> Iterator[Callable[[float, str], None]]:
    """A bar with the time left on stderr; where that is no terminal, a line for everything done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(by: float, text: str) -> None:
            bar.advance(task, by)
            if not console.is_terminal:
                click.echo(text, err=True)

        yield advance


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul verify\n"
    "  longhaul verify --count 100 --output japan.json\n"
    "  longhaul lab run -- sh -c 'longhaul up topologies/new-york.yaml && longhaul verify'"
)
@click.option("--count", type=click.IntRange(min=1), default=10, show_default=True, help="Echoes per pair.")
@click.option("--tolerance", "tolerance_ns", type=TIME, help="Allowed difference; 10us in the lab, else 1ms.")
@click.option("--output", type=click.Path(dir_okay=False), help="Write the certificate (JSON) here.")
@json_option
@click.pass_context
def verify(ctx: click.Context, count: int, tolerance_ns: int | None, output: str | None, as_json: bool) -> None:
    """Ping every pair of hosts of the topology that is up: RTT asked against measured.

    Exits with 8 when any pair is out of tolerance.
    """
    from emulator import verify as certify
    from emulator.measure import clock

    status = _appliance(ctx).status()
    if status.topology is None:
        raise InputError.single("nothing is up: longhaul up FILE")
    allowed_ns = clock.rtt_tolerance_ns() if tolerance_ns is None else tolerance_ns
    total = len(certify.hosts(status.topology)) * (len(certify.hosts(status.topology)) - 1) / 2
    pairs = []
    with _progress(total, "ping") as advance:
        at_once = 1 if clock.here_is_virtual() else certify.AT_ONCE
        for pair in certify.measure(status.topology, count, allowed_ns, at_once):
            pairs.append(pair)
            advance(1, f"{pair.one} - {pair.other}")
    certificate = certify.Certificate(
        status.topology, os.uname().release, __version__, count, allowed_ns,
        certify.installed(status.lanes), tuple(pairs), status.datapath,
    )  # fmt: skip
    if output:
        _write_certificate(Path(output), certificate.to_json())
    if as_json:
        emit_json(certificate.to_json())
    else:
        _emit_pairs(pairs, allowed_ns)
    if not certificate.passed:
        ctx.exit(EXIT_NOT_AS_ASKED)


def _write_certificate(path: Path, value: dict[str, Any]) -> None:
    import json

    from emulator.results import write_atomically

    try:
        write_atomically(path, json.dumps(value, indent=2) + "\n")
    except OSError as error:
        raise InputError.single(f"cannot be written: {error.strerror}", str(path)) from None


def _emit_pairs(pairs: Sequence[Pair], allowed_ns: int) -> None:
    """The matrix as one row a pair, in ms."""
    header = ("from", "to", "asked", "min", "median", "p99", "lost", "")
    rows = [
        [
            *(pair.one, pair.other),
            *(f"{ns / 1e6:.3f}" for ns in (pair.asked_ns, pair.min_ns, pair.median_ns, pair.p99_ns)),
            *(str(pair.lost), "ok" if pair.passed else "FAILED"),
        ]
        for pair in pairs
    ]
    emit_table(header, rows, left=("from", "to", ""))
    bad = sum(not pair.passed for pair in pairs)
    verdict = f"{bad} of {len(pairs)} pairs are" if bad else "no pair is"
    click.echo(f"\nRTT in ms; {verdict} off by more than {units.format_duration(allowed_ns)}.")


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul sweep --in-lab --rtt 0,32,80,346 --profile default,max\n"
    "  longhaul sweep --in-lab topologies/new-york.yaml --streams 1,8\n"
    "  longhaul sweep --in-lab topologies/new-york.yaml --lane japan --cc cubic,bbr\n"
    "  longhaul sweep --resume runs/20260102-030405"
)
@click.argument("topology", type=click.Path(dir_okay=False), required=False)
@click.option("--rtt", "rtts_ns", type=RTTS, help="Round-trip times; bare numbers are ms.")
@click.option("--lane", help="One lane of the topology (of the one that is up, if no file is given).")
@click.option("--profile", "profile_names", type=WORDS, default="default,max", show_default=True, help="TCP profiles.")
@click.option("--profiles", "profile_file", type=click.Path(dir_okay=False), help="A YAML file with more profiles.")
@click.option("--streams", type=COUNTS, default="1", show_default=True, help="Parallel streams.")
@click.option("--cc", "algorithms", type=WORDS, help="Congestion controls: cubic, bbr, reno.")
@click.option("--rate", "rate_bps", type=RATE, help="Bottleneck both ways; else the lane's, else 10Gbit.")
@click.option("--duration", "duration_s", type=click.IntRange(min=1), help="Seconds per cell; else from the RTT.")
@click.option("--seed", type=click.IntRange(min=0), help="For every random thing; else the topology's.")
@click.option("--in-lab", is_flag=True, help="Each cell in a lab of its own, one per CPU.")
@click.option("--runs", type=click.Path(file_okay=False), default="runs", show_default=True, help="Run folders.")
@click.option("--resume", type=click.Path(exists=True, file_okay=False), help="Go on with this run folder.")
@json_option
@click.pass_context
def sweep(ctx: click.Context, /, resume: str | None, runs: str, in_lab: bool, as_json: bool, **asked: Any) -> None:
    """Measure TCP throughput against RTT, and say what limited every cell.

    The cells are all combinations of lanes or RTTs, profiles, streams and congestion controls. Results are saved as
    they come. Exits with 8 when a cell is invalid or failed.
    """
    from emulator import sweep as sweeping
    from emulator.results import RunFolder

    if resume:
        folder = RunFolder(Path(resume))
        specs, in_lab = folder.asked()
    else:
        specs = _grid(ctx, asked)
        now = datetime.now(UTC)
        facts = {"created": now.isoformat(timespec="seconds"), "version": __version__}
        folder = RunFolder.create(Path(runs) / now.strftime("%Y%m%d-%H%M%S-%f")[:-3], facts, specs, in_lab)
    found = folder.finished(specs)
    todo = [spec for spec in specs if spec.id not in found]
    runner = sweeping.in_lab(sweeping.cpus()) if in_lab else sweeping.here()
    failures: dict[str, str] = {}
    try:
        with _progress(sum(map(sweeping.cost_s, todo)), "sweep") as advance:
            workers = len(sweeping.cpus()) if in_lab else 1
            for outcome in sweeping.run_cells(todo, folder, runner, workers, lambda text: click.echo(text, err=True)):
                if outcome.result:
                    found[outcome.spec.id] = outcome.result
                else:
                    failures[outcome.spec.id] = outcome.failure
                advance(sweeping.cost_s(outcome.spec), outcome.spec.id)
    finally:
        _conclude(specs, found, failures, folder, as_json)
    if failures or any(result.invalid for result in found.values()):
        ctx.exit(EXIT_NOT_AS_ASKED)


def _grid(ctx: click.Context, asked: dict[str, Any]) -> list[CellSpec]:
    """The cells that the options ask for. Raises InputError."""
    from emulator import sweep as sweeping
    from emulator.hosts import profiles

    base = _base(ctx, asked["topology"], asked["lane"], asked["rtts_ns"])
    if asked["seed"] is not None:
        from dataclasses import replace

        base = replace(base, seed=asked["seed"])
    lanes: Sequence[Lane] = base.lanes
    if asked["lane"]:
        if asked["lane"] not in base.sites:
            raise InputError.single(f"no such lane; there are {', '.join(base.sites)}", "--lane", asked["lane"])
        lanes = [base.lane(asked["lane"])]
    lanes = [sweeping.with_bottleneck(lane, asked["rate_bps"]) for lane in lanes]
    if asked["rtts_ns"] is not None:
        if len(lanes) > 1:
            raise InputError.single("say of which lane: add --lane NAME", "--rtt")
        lanes = _at(lanes[0], asked["rtts_ns"])
    known = profiles.load_profiles(asked["profile_file"])
    names, algorithms = asked["profile_names"], asked["algorithms"] or (None,)
    return sweeping.grid(base, lanes, names, known, asked["streams"], algorithms, asked["duration_s"])


def _base(ctx: click.Context, file: str | None, lane: str | None, rtts_ns: Sequence[int] | None) -> Topology:
    """The topology whose lanes are measured: from a file, what is up, or one plain lane for a list of RTTs."""
    from emulator import topologyfile
    from emulator.model import Lane, Topology

    if file:
        return topologyfile.load(file)
    if lane:
        present = _appliance(ctx).topology()
        if present is None:
            raise InputError.single("nothing is up here: name a topology file too", "--lane", lane)
        return present
    if rtts_ns is None:
        raise InputError.single("say what to measure: a topology file, or RTTs such as --rtt 0,32,346", "sweep")
    return Topology("sweep", "hub", (Lane("lane"),))


def _at(lane: Lane, rtts_ns: Sequence[int]) -> list[Lane]:
    from emulator import sweep as sweeping

    try:
        return sweeping.lanes_at(lane, rtts_ns)
    except ValueError as error:
        raise InputError.single(str(error), "--rtt") from None


def _conclude(
    specs: Sequence[CellSpec],
    found: dict[str, CellResult],
    failures: dict[str, str],
    folder: RunFolder,
    as_json: bool,
) -> None:
    """Write results.json, table.md and table.csv; show the tables, or the results as JSON."""
    from emulator import report

    results = [found[spec.id] for spec in specs if spec.id in found]
    folder.write_results(results)
    overview, details = report.overview(specs, found), report.details(specs, found)
    said = report.objections(specs, found, failures)
    folder.write("table.md", report.markdown("Throughput against RTT", [overview, *details], said))
    folder.write("table.csv", report.csv_text(results))
    if as_json:
        emit_json({"run": str(folder.path), "cells": [r.to_json() for r in results], "failures": failures})
        return
    for table in (overview, *details):
        click.echo(f"{table.title}\n")
        emit_table(table.header, table.rows, left=("limited by",))
        click.echo()
    click.echo(report.LEGEND)
    for text in said:
        click.echo(text)
    click.echo(f"results: {folder.path}")


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul bdp --rate 10Gbit --rtt 346ms\n"
    "  longhaul bdp --rate 1Gbit --rtt 71ms --window 256KiB --streams 7\n"
    "  longhaul bdp --rate 10Gbit --rtt 80ms --loss 0.01%"
)
@click.option("--rate", "rate_bps", type=RATE, default="10Gbit", show_default=True, help="The bottleneck.")
@click.option("--rtt", "rtt_ns", type=RTT, required=True, help="Round-trip time; a bare number is ms.")
@click.option("--mtu", type=click.IntRange(576, 65521), default=1500, show_default=True)
@click.option("--window", "window_bytes", type=SIZE, help="What one stream may have in flight.")
@click.option("--streams", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--loss", "loss_p32", type=PROBABILITY, default="0", show_default=True, help="Random loss.")
@click.option("--cc", "algorithm", default="cubic", show_default=True, help="Congestion control, for loss.")
@json_option
def bdp(
    rate_bps: int, rtt_ns: int, mtu: int, window_bytes: int | None, streams: int, loss_p32: int,
    algorithm: str, as_json: bool,
) -> None:  # fmt: skip
    """The arithmetic of a path: what it holds, what TCP needs to fill it, what the emulator needs to be it."""
    from emulator import arithmetic
    from emulator.analysis import Path as TcpPath
    from emulator.model import P32

    path = TcpPath(rate_bps, rtt_ns, mtu, loss_p32 / P32, streams, algorithm)
    facts = arithmetic.facts(path, window_bytes)
    if as_json:
        emit_json(facts)
        return
    rows = arithmetic.rows(path, facts)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name.ljust(width)}  {value}")
