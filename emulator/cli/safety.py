"""The commands that protect against wrong changes: confirm, undo, history; and the daemon."""

from __future__ import annotations

import math

import click

from emulator.cli.options import appliance_of
from emulator.cli.output import count, emit_json, emit_steps, json_option


@click.command(epilog="\b\nExample:\n  longhaul up --confirm 60s topologies/new-york.yaml && longhaul confirm")
@json_option
@click.pass_context
def confirm(ctx: click.Context, as_json: bool) -> None:
    """Confirm the change that was made with --confirm; without confirmation Longhaul reverts it."""
    appliance = appliance_of(ctx)
    appliance.confirm()
    topology = appliance.topology()
    summary = f"confirmed: {topology.name if topology else 'nothing is up'}"
    emit_steps([], as_json, summary, listed=False)


@click.command(epilog="\b\nExamples:\n  longhaul undo\n  longhaul undo --json")
@json_option
@click.pass_context
def undo(ctx: click.Context, as_json: bool) -> None:
    """Return to the topology before the last change. Undo is a change too: a second undo reverts the first.

    While a change waits for confirmation, undo returns at once to what was up before it.
    """
    appliance = appliance_of(ctx)
    steps = appliance.undo()
    done = appliance.history(1)[0]
    summary = f"{done.summary}: {count(len(steps), 'step')}"
    emit_steps(steps, as_json, summary, listed=False, warned=appliance.take_notes() or None)


@click.command(epilog="\b\nExamples:\n  longhaul history\n  longhaul history 3\n  longhaul history --json")
@click.argument("number", type=click.IntRange(1, 50), default=50)
@json_option
@click.pass_context
def history(ctx: click.Context, number: int, as_json: bool) -> None:
    """Show the last NUMBER changes, newest first: when, who, what, and the difference. At most 50 are kept."""
    appliance = appliance_of(ctx)
    changes = appliance.history(number)
    for note in appliance.take_notes():
        click.echo(f"warning: {note}", err=True)
    if as_json:
        rows = [
            {
                "number": one.number, "when": one.when, "user": one.author.user, "uid": one.author.uid,
                "pid": one.author.pid, "command": one.author.command, "summary": one.summary, "times": one.times,
                "diff": one.diff,
            }
            for one in changes
        ]  # fmt: skip
        emit_json(rows)
        return
    for one in changes:
        times = f", {one.times} times" if one.times > 1 else ""
        who = f"{one.author.user} (uid {one.author.uid}, pid {one.author.pid})"
        click.echo(f"{one.number}  {one.when}  {who}: {one.author.command}\n    {one.summary}{times}")
        for line in one.diff.splitlines()[2:]:
            click.echo(f"    {line}")
    if not changes:
        click.echo("no change yet")


@click.command(epilog="\b\nExamples:\n  longhaul daemon\n  longhaul daemon --once\n  longhaul daemon --json")
@click.option("--once", is_flag=True, help="Bring the topology up, check once, and end.")
@click.option(
    "--period", "period_s", type=click.FloatRange(0.1, 86_400), default=10.0, show_default=True, metavar="SECONDS",
    help="Check at least this often, even without a notification.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Log in JSON, one object a line.")
@click.pass_context
def daemon(ctx: click.Context, once: bool, period_s: float, as_json: bool) -> None:
    """Watch the lanes: bring them up at start, detect drift over netlink, revert unconfirmed changes.

    The topology's on_drift decides about drift: report or restore. SIGTERM ends the daemon; the lanes stay up.
    """
    from emulator.control.watchdog_loop import run

    if math.isnan(period_s):
        raise click.UsageError("--period needs a number of seconds", ctx)
    run(lambda: appliance_of(ctx, command="watchdog"), once=once, period_s=period_s, as_json=as_json)
