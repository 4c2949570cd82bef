"""record: the command that measures a real path and writes its path profile."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from emulator import units
from emulator.analysis.statistics import Estimate
from emulator.cli.complete import lane_names
from emulator.cli.options import TIME, appliance_of, need_up
from emulator.cli.output import emit_json, emit_table, json_option
from emulator.cli.types import progress
from emulator.errors import EXIT_NOT_AS_ASKED, InputError, MeasureError, Mistake

if TYPE_CHECKING:
    from emulator.record.compare_profiles import Likeness
    from emulator.record.path_profile import Direction, PathProfile
    from emulator.record.probes import RecordedProbe
    from emulator.record.recording import RecordingPlan, Target

FOUND = ("direction", "least", "median", "99 %", "jitter", "lost", "in a row", "loss model", "fit (p)", "rate")
LIKE = ("direction", "figure", "recorded", "there", "apart at most", "verdict")


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul record paris.example.org --for 1h\n"
    "  longhaul record 198.51.100.7 --every 20ms --by irtt --rate --output paris\n"
    "  longhaul record --lane london --for 5min --against paris\n"
    "  longhaul record --again paris --step 100ms"
)
@click.argument("host", required=False)
@click.option("--lane", shell_complete=lane_names, help="Record an active lane, from the hub's host to the site's.")
@click.option("--again", type=click.Path(path_type=Path), help="Compute the profile of an interrupted recording.")
@click.option("--for", "for_ns", type=TIME, default="1min", show_default=True, help="Duration.")
@click.option(
    "--every", "every_ns", type=TIME, default="100ms", show_default=True, help="Probe interval, at least 10ms."
)
@click.option("--by", type=click.Choice(["auto", "irtt", "ping"]), default="auto", help="auto: irtt where it answers.")
@click.option("--rate", is_flag=True, help="Also load each direction for 12 s: iperf3 -s must run there.")
@click.option("--step", "step_ns", type=TIME, default="1s", show_default=True, help="Step of the trace over time.")
@click.option("--output", type=click.Path(path_type=Path), help="The new folder; default recordings/HOST.")
@click.option("--against", type=click.Path(path_type=Path), help="Exit with 8 if this path profile differs.")
@json_option
@click.pass_context
def record(
    ctx: click.Context, host: str | None, lane: str | None, again: Path | None, for_ns: int, every_ns: int, by: str,
    rate: bool, step_ns: int, output: Path | None, against: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Measure the path to HOST and write its path profile: delays, jitter's shape, losses and their bursts, a trace.

    Sends small probes at a fixed interval: with irtt, which measures each direction, if its server runs there; else
    with ping, which measures only round trips. Ctrl-C ends the recording early and keeps it; --again computes the
    profile of a recording that a crash interrupted. `longhaul replay` plays the profile on a lane.
    """
    from emulator.record import file, recording
    from emulator.record.recording import RecordingPlan

    if sum(1 for given in (host, lane, again) if given) != 1:
        raise click.UsageError("name a HOST, a --lane, or a folder for --again", ctx)
    plan = RecordingPlan(by, every_ns, for_ns, step_ns)
    if again:
        every_ns = file.source(again).every_ns
        plan = RecordingPlan(by, every_ns, max(for_ns, every_ns), step_ns)
    _check(host, plan)
    reference = file.load(against) if against else None
    if again:
        _finish(ctx, again, step_ns, reference, as_json)
        return
    label = str(host or lane)
    folder = output or Path("recordings") / re.sub(r"[^A-Za-z0-9._-]", "-", label)
    try:
        with _ends(ctx, host, lane, by) as ends:
            with _bar(label, for_ns) as reported:
                recording.record(ends, label, _now(), folder, plan, reported)
            if rate:
                recording.measure_rates(ends, folder)
    except (KeyboardInterrupt, MeasureError):
        # Keep whatever was recorded: an hour may have passed before Ctrl-C, or before iperf3 failed.
        if file.has_answers(folder):
            _finish(ctx, folder, step_ns, None, as_json)
        raise
    _finish(ctx, folder, step_ns, reference, as_json)


def _check(host: str | None, plan: RecordingPlan) -> None:
    from emulator.record.recording import is_address

    wrong = [Mistake(f"--{name}", "", text) for name, text in plan.mistakes]
    if host is not None and not is_address(host):
        wrong.append(Mistake("HOST", host, "use a host's name or address"))
    if wrong:
        raise InputError(wrong)


@contextlib.contextmanager
def _ends(ctx: click.Context, host: str | None, lane: str | None, by: str) -> Iterator[Target]:
    from emulator.record import recording

    if host:
        with recording.to_host(host, by) as ends:
            yield ends
        return
    assert lane is not None
    topology = need_up(appliance_of(ctx).topology(), "--lane", lane)
    with recording.over_lane(topology, lane, by) as ends:
        yield ends


@contextlib.contextmanager
def _bar(label: str, for_ns: int) -> Iterator[Callable[[RecordedProbe], None]]:
    """The progress bar; without a terminal, one line for every tenth of the time."""
    with progress(10, f"record {label}") as advance:
        shown = 0

        def reported(probe: RecordedProbe) -> None:
            nonlocal shown
            # On a busy machine ping may take longer than requested.
            tenths = min(10, probe.sent_ns * 10 // for_ns)
            if tenths > shown:
                advance(tenths - shown, f"{tenths * 10} %")
                shown = tenths

        yield reported


def _now() -> str:
    from emulator.system.clock import SystemClock

    return SystemClock().today().isoformat()


def _finish(ctx: click.Context, folder: Path, step_ns: int, reference: PathProfile | None, as_json: bool) -> None:
    """Compute, write and show the profile; exit with 8 when it differs from the reference."""
    from emulator.config.path_profile_include import PROFILE
    from emulator.hosts.tools import time_tolerance
    from emulator.record import compare_profiles, file, recording

    profile = recording.finish(folder, step_ns)
    rows = compare_profiles.compared(profile, reference, time_tolerance.rtt_tolerance_ns()) if reference else []
    alike = all(row.alike for row in rows)
    if as_json:
        answer: dict[str, Any] = {"folder": str(folder), "profile": file.tree(profile)}
        emit_json(answer | ({"alike": alike, "figures": [_json(row) for row in rows]} if reference else {}))
    else:
        _show(profile, rows)
        click.echo(f"{folder / PROFILE}; replay it on a lane: longhaul replay {folder} LANE")
    if not alike:
        ctx.exit(EXIT_NOT_AS_ASKED)


def _json(row: Likeness) -> dict[str, Any]:
    return {**asdict(row), "alike": row.alike}


def _show(profile: PathProfile, rows: list[Likeness]) -> None:
    source, (least, median, p99) = profile.source, profile.rtt_ns
    click.echo(
        f"{source.host} by {source.tool}: RTT {_ms(least)} at least, {_ms(median.value)} as a median, "
        f"{_ms(p99.value)} in 99 %; each way {source.ways}\n"
    )
    cells = [_cells(name, getattr(profile, name)) for name in ("outbound", "inbound")]
    emit_table(FOUND, cells, left=("direction", "loss model"))
    click.echo("\nIn parentheses: the interval that holds the true figure with 99.9 %.")
    if rows:
        click.echo()
        emit_table(LIKE, [_like(row) for row in rows], left=("direction", "figure", "verdict"))
    click.echo()


def _cells(name: str, one: Direction) -> list[str]:
    found = one.found
    model = "-" if not one.loss else "by chance" if isinstance(one.loss, int) else str(one.loss)
    return [
        name, _ms(found.least_ns), _sure(found.median_ns, 1e-6, "ms"), _ms(found.p99_ns.value), _ms(one.jitter_ns),
        _sure(found.lost, 100, "%"), _sure(found.burst, 1, "") if found.burst else "-", model,
        f"{found.goodness.p_value:.3f}" if found.goodness else "-",
        units.format_rate(one.rate_bps) if one.rate_bps else "-",
    ]  # fmt: skip


def _like(row: Likeness) -> list[str]:
    unit = f" {row.unit}" if row.unit else ""
    verdict = "alike" if row.alike else "DIFFERENT"
    return [row.direction, row.what, *(f"{v:.4g}{unit}" for v in (row.one, row.other, row.allowed)), verdict]


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3f} ms"


def _sure(one: Estimate, scale: float, unit: str) -> str:
    value, low, high = (f"{figure * scale:.4g}" for figure in (one.value, one.low, one.high))
    return f"{value} ({low} .. {high}) {unit}".rstrip()
