"""The commands `longhaul schedule check` and `run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from emulator import units
from emulator.cli_options import TIME, appliance_of
from emulator.cli_output import count, emit_json, emit_table, json_option
from emulator.errors import InputError
from emulator.model import Topology

if TYPE_CHECKING:
    from emulator.follow import Lateness

WIDTH = 60


@click.group(epilog="\b\nExamples:\n  longhaul schedule check day.yaml\n  longhaul schedule run day.yaml --for 24h")
def schedule() -> None:
    """Let lanes change over time, as the `schedule:` of a topology file says."""


def _load(file: str) -> tuple[Topology, str]:
    from emulator import topologyfile

    topology = topologyfile.load(file)
    if topology.schedule is None:
        raise InputError.single("there is no schedule: in this file", file, "schedule")
    return topology, topologyfile.dumps(topology)


@schedule.command(epilog="\b\nExamples:\n  longhaul schedule check day.yaml\n  longhaul schedule check day.yaml --json")
@click.argument("file", type=click.Path())
@click.option("--width", type=click.IntRange(10, 500), default=WIDTH, show_default=True, help="Columns of the chart.")
@json_option
def check(file: str, width: int, as_json: bool) -> None:
    """Check the schedule in FILE and draw what it does, one line per figure that changes."""
    from emulator import chart
    from emulator.timeline import Timeline

    topology, _ = _load(file)
    assert topology.schedule is not None
    timeline = Timeline(topology, topology.schedule)
    rows, changes, span_ns = chart.rows(timeline, width), chart.changes(timeline), chart.span_ns(timeline)
    if as_json:
        emit_json({"span_ns": span_ns, "changes": changes, "rows": [vars(row) for row in rows]})
        return
    cells = [[row.lane, row.direction, row.figure, row.least, row.greatest, row.line] for row in rows]
    emit_table(
        ("lane", "direction", "", "least", "most", "over time"), cells, left=("lane", "direction", "", "over time")
    )
    loops = "in a loop of" if topology.schedule.loop_ns else "within"
    click.echo(f"\n{count(changes, 'change')} {loops} {units.format_duration(span_ns)}")


@schedule.command(
    epilog="\b\nExamples:\n"
    "  longhaul schedule run day.yaml\n"
    "  longhaul schedule run day.yaml --for 24h\n"
    "  longhaul lab run -- longhaul schedule run day.yaml --for 24h"
)
@click.argument("file", type=click.Path())
@click.option("--for", "for_ns", type=TIME, help="Stop after this time, and take the changes back.")
@click.option("--restart", is_flag=True, help="Begin anew, even if a run of this file was cut off.")
@json_option
@click.pass_context
def run(ctx: click.Context, file: str, for_ns: int | None, restart: bool, as_json: bool) -> None:
    """Bring FILE up and change its lanes live as its schedule says, until --for or Ctrl-C.

    Cut off in any way and run again, it goes on in the right phase. With --for, the lanes are in the end as FILE has
    them without its schedule; a schedule that is over leaves them as its last key says. The end is a histogram of how
    late the changes were.
    """
    from emulator.follow import Player, RealClock, epoch
    from emulator.timeline import Timeline

    topology, text = _load(file)
    assert topology.schedule is not None
    appliance, clock = appliance_of(ctx), RealClock()
    appliance.up(topology)
    note = appliance.state_dir / "schedule.json"
    epoch_ns = epoch(topology, text, note, clock.now_ns(), restart=restart)
    timeline = Timeline(topology, topology.schedule)
    player = Player(appliance.kernel, timeline, clock)
    try:
        player.run(epoch_ns, None if for_ns is None else clock.now_ns() + for_ns)
    except KeyboardInterrupt:
        _report(player.lateness, as_json)
        raise
    # A run that came to its end is not to be continued.
    note.unlink(missing_ok=True)
    appliance.up(topology if for_ns is not None else timeline.at(topology.schedule.last_ns))
    _report(player.lateness, as_json)


def _report(late: Lateness, as_json: bool) -> None:
    from emulator.follow import BUCKETS_NS

    names = [f"below {units.format_duration(end)}" for end in BUCKETS_NS] + ["later"]
    if as_json:
        emit_json(vars(late) | {"mean_ns": late.mean_ns, "buckets_ns": list(BUCKETS_NS)})
        return
    click.echo(
        f"{count(late.changes, 'change')}, {late.skipped} skipped, {late.drifts} mended; "
        f"late by {late.mean_ns / 1000:.1f} us on average, {late.max_ns / 1000:.1f} us at most"
    )
    emit_table(
        ("late", "changes"), [[n, str(c)] for n, c in zip(names, late.histogram, strict=True) if c], left=("late",)
    )
