"""Output of commands: JSON for programs, plain lines and tables for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from emulator import units
from emulator.control.schedule_lateness import BUCKETS_NS, Lateness
from emulator.model.loss_model import P32, FourState, GilbertElliott

if TYPE_CHECKING:
    from emulator.control.status import DirectionStatus, LaneStatus, Status
    from emulator.plan.ops import Step
    from emulator.plan.qdisc_values import Netem

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """The `--json` that every command has."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON; failures are JSON on stderr.")(command)


def emit_json(value: object) -> None:
    """Print one JSON document on stdout."""
    click.echo(json.dumps(value, indent=2))


def command_line(step: Step) -> str:
    """The step as a shell command, with its reason as a comment at the end of the first line."""
    first, *rest = str(step.op).splitlines()
    return "\n".join([f"{first}  # {step.why}", *rest])


def emit_steps(
    steps: Sequence[Step], as_json: bool, summary: str, *, listed: bool, warned: Sequence[str] | None = None
) -> None:
    """Print what was done or would be done: every step when `listed`, then the summary. Warnings go to stderr or the
    JSON.

    `warned` None: nobody checked for warnings.
    """
    if as_json:
        rows = [{"command": str(step.op), "why": step.why} for step in steps]
        reported = {} if warned is None else {"warnings": list(warned)}
        emit_json({"summary": summary, "changed": bool(steps), "steps": rows} | reported)
        return
    for warning in warned or ():
        click.echo(f"warning: {warning}", err=True)
    for step in steps if listed else ():
        click.echo(command_line(step))
    click.echo(f"# {summary}" if listed else summary)


WIDEST_TRIANGLE = 12
COLUMNS = (
    "lane",
    "RTT",
    "direction",
    "delay",
    "loss",
    "rate",
    "buffer",
    "limit",
    "queued",
    "by limit",
    "by buffer",
)


def emit_status(status: Status) -> None:
    """Print the status for people: two rows for each lane, RTTs between sites, and any drift or pending change."""
    if status.topology is None:
        click.echo("nothing is up: longhaul up FILE")
    else:
        rows = [row for one in status.lanes for row in _rows(one)]
        through = " through the wire engine" if status.datapath == "wire" else ""
        click.echo(f"{status.topology.name}: {count(len(status.lanes), 'lane')}{through}\n")
        emit_table(COLUMNS, rows, left=("lane", "direction"))
        click.echo(
            "\nDrops by limit are the emulator's fault and void a measurement; drops by buffer are the bottleneck's."
        )
        _emit_paths(status)
    for one in status.lanes:
        _emit_not_permitted(one)
    if status.lateness:
        click.echo("\nThe schedule so far:")
        emit_lateness(status.lateness, as_json=False)
    for step in status.drift:
        click.echo(f"drift: {step.why}; repair: {step.op}")
    for lane, why in status.blocked.items():
        click.echo(f"blocked: {lane}: {why}")
    if pending := status.pending:
        base = pending.back_to or "no topology"
        if pending.left_ns is None:
            click.echo(f"leased: {base} returns when the test run that leased the lanes ends")
        else:
            left_s = max(pending.left_ns, 0) / 1e9
            click.echo(f"pending: reverts to {base} in {left_s:.0f} s unless you run: longhaul confirm")


def _emit_not_permitted(one: LaneStatus) -> None:
    """What the kernel refused the engine of this lane: its frames leave later than they need."""
    for name, direction in (("outbound", one.outbound), ("inbound", one.inbound)):
        if direction.not_permitted:
            refused = ", ".join(direction.not_permitted)
            click.echo(f"late frames likely: {one.lane.name}, {name}: the wire engine was refused {refused}")


def _emit_paths(status: Status) -> None:
    """Print the requested RTTs between sites as a triangle; both lanes add up. --json has larger stars too."""
    assert status.topology
    sites = status.topology.sites
    if not 2 <= len(sites) <= WIDEST_TRIANGLE:
        return
    click.echo(f"\nRTT asked from site to site, by way of {status.topology.hub}:")
    rtts = {(path.one, path.other): units.format_duration(path.rtt_ns) for path in status.paths}
    rows = [[one, *(rtts.get((one, other), "") for other in sites[1:])] for one in sites[:-1]]
    emit_table(("", *sites[1:]), rows, left=("",))


def emit_lateness(late: Lateness, as_json: bool) -> None:
    """Print how late a schedule's changes were: a line and a histogram, or JSON."""
    if as_json:
        from emulator.control.status_document import lateness_document

        emit_json(lateness_document(late))
        return
    names = [f"below {units.format_duration(end)}" for end in BUCKETS_NS] + ["later"]
    click.echo(
        f"{count(late.changes, 'change')}, {late.skipped} skipped, {late.drifts} repaired; "
        f"late by {late.mean_ns / 1000:.1f} us on average, {late.max_ns / 1000:.1f} us at most"
    )
    rows = [[name, str(number)] for name, number in zip(names, late.histogram, strict=True) if number]
    emit_table(("late", "changes"), rows, left=("late",))


def count(number: int, word: str) -> str:
    """A count and its noun: "1 lane", "3 lanes"."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def emit_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str] = ()) -> None:
    """Print a plain table without truncation. Columns are right-aligned unless named in `left`."""
    cells = [tuple(columns), *map(tuple, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        aligned = (
            text.ljust(width) if column in left else text.rjust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        )
        click.echo("  ".join(aligned).rstrip())


def _rows(one: LaneStatus) -> list[list[str]]:
    """A lane's two rows: the requested RTT and each direction's state."""
    rtt = units.format_duration(one.lane.rtt_ns) + (" off" if one.lane.off else "")
    return [
        [one.lane.name, rtt, "outbound", *_cells(one.outbound)],
        ["", "", "inbound", *_cells(one.inbound)],
        *_flow_rows(one),
    ]


def _flow_rows(one: LaneStatus) -> list[list[str]]:
    """Two rows for each flow, in the order in which filters are tried."""
    rows = []
    for flow, out, back in zip(one.lane.flows, one.outbound.flows, one.inbound.flows, strict=False):
        rtt = units.format_duration(flow.outbound.delay_ns + flow.inbound.delay_ns)
        rows += [[f"  {flow.name}", rtt, "outbound", *_cells(out)], ["", "", "inbound", *_cells(back)]]
    return rows


def _loss(netem: Netem) -> str:
    """A probability as it is; for a loss model its mean, marked with ~."""
    if netem.gemodel:
        p, r, survives, good = netem.gemodel
        return f"~{GilbertElliott(p, r, P32 - survives, good).mean_loss:.3%}"
    if netem.four_state:
        return f"~{FourState(*netem.four_state).mean_loss:.3%}"
    return units.format_probability(netem.loss_p32) if netem.loss_p32 else "-"


def _cells(direction: DirectionStatus) -> list[str]:
    """One direction as installed: delay, loss, rate, buffer, limit, queued, drops by limit, drops by buffer."""
    netem, shaper, counters = direction.netem, direction.shaper, direction.counters
    delay = units.format_duration(netem.delay_ns) if netem else "gone"
    if netem and netem.jitter_ns:
        delay += f" ±{units.format_duration(netem.jitter_ns)}"
    return [
        delay,
        _loss(netem) if netem else "-",
        units.format_rate(shaper.rate_bytes_per_s * 8) if shaper else "-",
        units.format_size(shaper.limit_bytes) if shaper else "-",
        f"{netem.limit} p" if netem else "-",
        str(counters.queued_packets),
        "unknown" if counters.drops_limit is None else str(counters.drops_limit),
        str(counters.drops_buffer),
    ]
