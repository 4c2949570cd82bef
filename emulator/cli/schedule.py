"""The commands `longhaul schedule check` and `run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from emulator import units
from emulator.cli.options import TIME, appliance_of
from emulator.cli.output import count, emit_json, emit_lateness, emit_table, json_option
from emulator.errors import InputError, LonghaulError
from emulator.model.topology import Topology

if TYPE_CHECKING:
    from emulator.control.appliance import Appliance

WIDTH = 60


@click.group(epilog="\b\nExamples:\n  longhaul schedule check day.yaml\n  longhaul schedule run day.yaml --for 24h")
def schedule() -> None:
    """Change lanes over time, as the `schedule:` of a topology file says."""


def _load(file: str) -> Topology:
    from emulator.config import loader

    hints: list[str] = []
    topology = loader.load(file, hints)
    for hint in hints:
        click.echo(f"warning: {hint}", err=True)
    if topology.schedule is None:
        raise InputError.single("this file has no schedule:", file, "schedule")
    return topology


@schedule.command(epilog="\b\nExamples:\n  longhaul schedule check day.yaml\n  longhaul schedule check day.yaml --json")
@click.argument("file", type=click.Path())
@click.option(
    "--width", type=click.IntRange(10, 500), default=WIDTH, show_default=True, metavar="N", help="Columns of the chart."
)
@json_option
def check(file: str, width: int, as_json: bool) -> None:
    """Check the schedule in FILE and draw it.

    Prints one line for every value that changes.
    """
    from emulator.model.timeline import Timeline
    from emulator.report import schedule_chart

    topology = _load(file)
    assert topology.schedule is not None
    timeline = Timeline(topology, topology.schedule)
    rows, changes, span_ns = (
        schedule_chart.rows(timeline, width),
        schedule_chart.changes(timeline),
        schedule_chart.span_ns(timeline),
    )
    if as_json:
        emit_json({"span_ns": span_ns, "changes": changes, "rows": [asdict(row) for row in rows]})
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
@click.option("--for", "for_ns", type=TIME, help="Stop after this time and revert the changes.")
@click.option("--restart", is_flag=True, help="Start from the beginning, even if a run of this file was interrupted.")
@json_option
@click.pass_context
def run(ctx: click.Context, file: str, for_ns: int | None, restart: bool, as_json: bool) -> None:
    """Bring FILE up and play its schedule.

    Changes its lanes live, until --for or Ctrl-C.

    An interrupted schedule that is run again continues in the right phase. After --for the lanes are as FILE describes
    them without its schedule; what somebody else changed meanwhile stays. A schedule that ends leaves the lanes as its
    last key says. At the end the command prints a histogram of how late the changes were. The daemon plays the schedule
    of the active topology by itself.
    """
    from emulator.control.intent_store import IntentStore
    from emulator.plan.scheduled_state import is_over
    from emulator.system.timer import RealAlarm

    topology = _load(file)
    appliance, alarm = appliance_of(ctx), RealAlarm()
    now = IntentStore(appliance.state_dir).read()
    over = now.began_ns is not None and is_over(topology, now.began_ns, alarm.now_ns())
    appliance.up(topology, anew=restart or over)
    follower = appliance.follower(alarm)
    try:
        late = follower.run(None if for_ns is None else alarm.now_ns() + for_ns, mending(appliance))
    except KeyboardInterrupt:
        follower.note()
        emit_lateness(follower.lateness, as_json)
        raise
    follower.note()
    if for_ns is not None:
        end_schedule(appliance, topology)
    emit_lateness(late, as_json)


def end_schedule(
    appliance: Appliance, played: Topology, change: Callable[[Topology], Topology] = lambda now: now
) -> None:
    """Bring up what is up without the schedule of `played`, and as `change` says.

    What somebody else brought up in place of the schedule stays as it is.
    """
    if not appliance.end_schedule(played, change):
        click.echo("warning: somebody else ended the schedule: the lanes stay as they are now", err=True)
    for note in appliance.take_notes():
        click.echo(f"warning: {note}", err=True)


def mending(appliance: Appliance) -> Callable[[LonghaulError], None]:
    """What a run of a schedule does when a change of the lanes failed: it repairs what can be repaired, and warns."""

    def mend(error: LonghaulError) -> None:
        blocked = appliance.repair(restore=True).blocked
        told = [f"the schedule goes on without the lane {lane}: {why}" for lane, why in blocked.items()]
        for text in told or [str(error)]:
            click.echo(f"warning: {text}", err=True)

    return mend
