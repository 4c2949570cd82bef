"""Output of commands: JSON for programs, plain lines and tables for people."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from emulator import units
from emulator.cli.options import NOTHING_UP
from emulator.control.schedule_lateness import BUCKETS_NS, Lateness
from emulator.model.loss_model import P32, FourState, GilbertElliott

if TYPE_CHECKING:
    from emulator.control.status import DirectionCounters, DirectionStatus, LaneStatus, Status
    from emulator.model.impairment import Impairment
    from emulator.plan.ops import Step
    from emulator.plan.qdisc_values import Netem

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """The `--json` that every command has."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON; failures are JSON on stderr.")(command)


def emit_json(value: object, *, err: bool = False) -> None:
    """Print one JSON document on stdout, or on stderr."""
    click.echo(json.dumps(value, indent=2), err=err)


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
COLUMNS = ("lane", "RTT", "direction", "delay", "loss", "rate", "buffer", "queued", "drops")
STATUS_WIDTH = 80
"""The status fits into it where names are short and few packets were dropped."""
WIDTH = 100
"""The width of tables where stdout is not a terminal."""
LEGEND = """
queued: packets in flight and queued, of the limit. Drops by limit are the
emulator's fault and void a measurement; drops by buffer are the bottleneck's."""


def emit_status(status: Status) -> None:
    """Print the status for people: two rows for each lane, RTTs between sites, and any drift or pending change.

    A line below the two rows shows the settings that have no column.
    """
    if status.topology is None:
        click.echo(NOTHING_UP)
    else:
        blocks = [block for one in status.lanes for block in _blocks(one)]
        rows = [row for block, _ in blocks for row in block]
        below = {2 * number + 1: lines for number, (_, lines) in enumerate(blocks)}
        through = " through the wire engine" if status.datapath == "wire" else ""
        click.echo(f"{status.topology.name}: {count(len(status.lanes), 'lane')}{through}\n")
        emit_table(COLUMNS, rows, left=("lane", "direction", "drops"), below=below)
        click.echo(LEGEND)
        _emit_paths(status)
        _emit_off(status)
    for one in status.lanes:
        _emit_not_permitted(one)
    if status.small_frames:
        click.echo(f"small frames: {status.small_frames}")
    if status.lateness:
        click.echo("\nThe schedule so far:")
        emit_lateness(status.lateness, as_json=False)
    for step in status.drift:
        click.echo(f"drift: {step.why}; repair: {step.op}")
    if status.changing:
        click.echo(
            "changing: somebody is changing the lanes now, so what differs may be no drift; run longhaul status again"
        )
    for lane, why in status.blocked.items():
        click.echo(f"blocked: {lane}: {why}")
    if pending := status.pending:
        base = pending.back_to or "no topology"
        if pending.left_ns is None:
            click.echo(f"leased: {base} returns when the measurement that leased the lanes ends")
        else:
            left_s = max(pending.left_ns, 0) / 1e9
            click.echo(f"pending: reverts to {base} in {left_s:.0f} s unless you run: longhaul confirm")


def _emit_off(status: Status) -> None:
    """Print the lanes whose settings have no effect."""
    if names := [one.lane.name for one in status.lanes if one.lane.off]:
        every = "--all" if len(names) == len(status.lanes) else " ".join(names)
        click.echo(f"\nlatency off: {', '.join(names)}; only the bottleneck acts; enable: longhaul set {every} --on")


def _emit_not_permitted(one: LaneStatus) -> None:
    """Print the rights that the kernel refused this lane's engine: its frames then leave late."""
    for name, direction in (("outbound", one.outbound), ("inbound", one.inbound)):
        if direction.not_permitted:
            refused = ", ".join(direction.not_permitted)
            click.echo(f"late frames likely: {one.lane.name}, {name}: the wire engine was refused {refused}")


def _emit_paths(status: Status) -> None:
    """Print the requested RTTs between sites as a triangle, each the sum of two lanes; only --json has large stars."""
    assert status.topology
    sites = status.topology.sites
    if not 2 <= len(sites) <= WIDEST_TRIANGLE:
        return
    click.echo(f"\nRequested RTT from site to site, by way of {status.topology.hub}:")
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


def width() -> int:
    """The columns of the terminal; WIDTH where stdout is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH


def emit_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Sequence[str] = (),
    below: Mapping[int, Sequence[str]] | None = None,
    most: int | None = None,
    err: bool = False,
) -> None:
    """Print a plain table without truncation. Columns are right-aligned unless named in `left`; `err`: on stderr.

    `below` holds lines to print below the row of that number. A table that is wider than `most` characters loses its
    last columns: each row then has a line below with their names and values.
    """
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    kept = (
        len(columns)
        if most is None
        else max(1, sum(sum(widths[:n]) + 2 * n - 2 <= most for n in range(1, len(widths) + 1)))
    )
    for number, row in enumerate((columns, *rows), -1):
        aligned = (
            text.ljust(width) if column in left else text.rjust(width)
            for text, width, column in zip(row[:kept], widths, columns, strict=False)
        )
        click.echo("  ".join(aligned).rstrip(), err=err)
        rest = [f"{column} {text}" for column, text in zip(columns[kept:], row[kept:], strict=True) if text != "-"]
        for line in [*(_wrapped(rest, most) if rest and most and number >= 0 else []), *(below or {}).get(number, ())]:
            click.echo(line, err=err)


def _wrapped(words: Sequence[str], most: int) -> list[str]:
    """Words separated by commas as indented lines."""
    return textwrap.wrap(", ".join(words), most, initial_indent="    ", subsequent_indent="    ")


def _blocks(one: LaneStatus) -> list[tuple[list[list[str]], list[str]]]:
    """A lane's two rows and the lines below them, then those of each flow in the order of matching."""
    off = " off" if one.lane.off else ""
    rtt = units.compact(units.format_duration(one.lane.rtt_ns)) + off
    blocks = [(_rows(one.lane.name, rtt, one.outbound, one.inbound), _settings(one.lane.outbound, one.lane.inbound))]
    for flow, out, back in zip(one.lane.flows, one.outbound.flows, one.inbound.flows, strict=False):
        rtt = units.compact(units.format_duration(flow.outbound.delay_ns + flow.inbound.delay_ns)) + off
        blocks.append((_rows(f"  {flow.name}", rtt, out, back), _settings(flow.outbound, flow.inbound)))
    return blocks


def _rows(name: str, rtt: str, out: DirectionStatus, back: DirectionStatus) -> list[list[str]]:
    return [[name, rtt, "outbound", *_cells(out)], ["", "", "inbound", *_cells(back)]]


def _settings(outbound: Impairment, inbound: Impairment) -> list[str]:
    """The settings that no column shows, as in a topology file; once where both directions have the same."""
    out, back = _uncolumned(outbound), _uncolumned(inbound)
    named = [("both", out)] if out == back else [("outbound", out), ("inbound", back)]
    return [
        line for name, words in named if words for line in _wrapped([f"{name}: {words[0]}", *words[1:]], STATUS_WIDTH)
    ]


def _uncolumned(impairment: Impairment) -> list[str]:
    from emulator.model.impairment_keys import written

    shown = {"delay", "jitter", "rate"}
    shown |= set() if impairment.loss_model else {"loss"}
    shown |= set() if impairment.buffer and not impairment.buffer.bytes else {"buffer"}
    settings = ((name, value) for name, value in written(impairment).items() if name not in shown)
    return [f"{name} {'table' if isinstance(value, list) else value}" for name, value in settings]


def _loss(netem: Netem) -> str:
    """A probability as it is; for a loss model its mean, marked with ~."""
    if netem.gemodel:
        p, r, survives, good = netem.gemodel
        return f"~{GilbertElliott(p, r, P32 - survives, good).mean_loss:.3%}"
    if netem.four_state:
        return f"~{FourState(*netem.four_state).mean_loss:.3%}"
    return units.format_probability(netem.loss_p32) if netem.loss_p32 else "-"


def _cells(direction: DirectionStatus) -> list[str]:
    """One direction as installed: delay, loss, rate, buffer, queued of the limit, drops."""
    netem, shaper, counters = direction.netem, direction.shaper, direction.counters
    delay = units.format_duration(netem.delay_ns) if netem else "gone"
    if netem and netem.jitter_ns:
        delay += f" ±{units.format_duration(netem.jitter_ns)}"
    return [
        units.compact(delay).replace("±", " ±"),
        _loss(netem) if netem else "-",
        units.compact(units.format_rate(shaper.rate_bytes_per_s * 8)) if shaper else "-",
        units.compact(units.format_size(shaper.limit_bytes)) if shaper else "-",
        f"{counters.queued_packets}/{netem.limit}" if netem else "-",
        _drops(counters),
    ]


def _drops(counters: DirectionCounters) -> str:
    by_limit = "unknown" if counters.drops_limit is None else counters.drops_limit
    words = [
        f"{number} by {cause}" for number, cause in ((by_limit, "limit"), (counters.drops_buffer, "buffer")) if number
    ]
    return ", ".join(words) or "0"
