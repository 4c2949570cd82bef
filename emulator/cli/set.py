"""The command that changes lanes in use: set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from emulator import units
from emulator.cli.complete import lane_names
from emulator.cli.options import (  # fmt: skip
    BUFFER,
    LOSS,
    PROBABILITY,
    RATE,
    SIZE,
    TIME,
    Quantity,
    appliance_of,
    confirm_option,
    confirm_s,
    dry_run_option,
    until_confirmed,
)
from emulator.cli.output import count, emit_steps, json_option
from emulator.config.lane_change import Change, OfFlow
from emulator.errors import InputError
from emulator.model import flow_match, jitter_distribution
from emulator.model.impairment import QUEUES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.model.topology import Lane, Topology

CHANGE_FIELDS = ("rtt_ns", "outbound_delay_ns", "inbound_delay_ns", "jitter_ns", "loss_p32", "rate_bps", "buffer")
"""The options that Change has arguments of the same name for."""


def _corruption(text: str) -> dict[str, int]:
    from emulator.config.field_types import parse_corruption

    return parse_corruption(text)


def _match(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> flow_match.Match | None:
    """What --match says, all of it together."""
    try:
        return flow_match.parse_match(words) if words else None
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


@click.command(
    "set",
    epilog="\b\nExamples:\n"
    "  longhaul set california --rtt 40ms\n"
    "  longhaul set japan --loss 0.01% --direction inbound\n"
    "  longhaul set japan --loss '1% burst 5' --jitter 5ms --distribution normal\n"
    "  longhaul set japan --rate 1Gbit --buffer 8MiB --queue codel --ecn --confirm 60s\n"
    "  longhaul set london --flow voice --match dscp=ef --rtt 120ms --jitter 5ms\n"
    "  longhaul set london --flow voice --away\n"
    "  longhaul set california --off\n"
    "  longhaul set --all --on",
)
@click.argument("lanes", nargs=-1, metavar="LANE...", shell_complete=lane_names)
@click.option("--all", "every", is_flag=True, help="Every lane.")
@click.option("--rtt", "rtt_ns", type=TIME, help="Round-trip time, split evenly over both directions.")
@click.option("--outbound-delay", "outbound_delay_ns", type=TIME, help="One-way delay from the hub to the site.")
@click.option("--inbound-delay", "inbound_delay_ns", type=TIME, help="One-way delay from the site to the hub.")
@click.option("--jitter", "jitter_ns", type=TIME, help="Spread of each direction's delay.")
@click.option("--distribution", type=click.Choice(jitter_distribution.NAMES), help="The jitter's shape.")
@click.option("--order", type=click.Choice(["keep", "free"]), help="Whether jitter may reorder.")
@click.option("--loss", type=LOSS, help="1%, '1% burst 5', 'gilbert P R 1-H 1-K', '4-state P13 P31 P32 P23 P14'.")
@click.option("--duplicate", "duplicate_p32", type=PROBABILITY, help="Probability that a packet comes twice.")
@click.option("--corrupt", type=Quantity("CORRUPTION", _corruption), help="One bit flipped: 0.1%, or 'ber 1e-9'.")
@click.option("--reorder", "reorder_p32", type=PROBABILITY, help="Probability of overtaking all on their way.")
@click.option("--ecn/--no-ecn", default=None, help="Mark instead of losing, where the flow can take it.")
@click.option("--rate", "rate_bps", type=RATE, help="Bottleneck per direction; 'none' for none.")
@click.option("--buffer", type=BUFFER, help="The bottleneck's queue: 8MiB, 100p, 5ms; 'auto' for one BDP.")
@click.option("--queue", type=click.Choice(QUEUES), help="What a full buffer does.")
@click.option("--overhead", "overhead_bytes", type=SIZE, help="Bytes that every packet counts more.")
@click.option("--cells", type=click.Choice(["none", "atm"]), help="Cells of 53 bytes for 48 (ATM, DSL).")
@click.option(
    "--direction", type=click.Choice(["both", "outbound", "inbound"]), default="both", show_default=True,
    help="What all but the delays is meant for.",
)  # fmt: skip
@click.option("--off", "off", flag_value=True, type=bool, default=None, help="Nothing but the bottleneck has effect.")
@click.option("--on", "off", flag_value=False, type=bool, help="Into effect again, as asked before --off.")
@click.option("--flow", metavar="NAME", help="All of it for this flow of the lane alone; a new one needs --match.")
@click.option(
    "--match", multiple=True, metavar="KEY=VALUE", callback=_match,
    help="The flow's packets: hub, site, protocol, port, hub_port, site_port, dscp, vlan. More than one: all of them.",
)  # fmt: skip
@click.option("--away", is_flag=True, help="Take the flow away: its packets are as the lane's rest.")
@confirm_option
@dry_run_option
@json_option
@click.pass_context
def change(
    ctx: click.Context, /, lanes: Sequence[str], every: bool, direction: str, off: bool | None,
    flow: str | None, match: flow_match.Match | None, away: bool,
    confirm_ns: int | None, dry_run: bool, as_json: bool, **values: Any,
) -> None:  # fmt: skip
    """Change LANE while it is in use: only what is named changes, and no packet is lost or overtaken."""
    named = match is not None or any(value is not None for value in values.values())
    _check_alone(named, away, off)
    _check_meant(lanes, every, flow, for_flows=away or match is not None, for_lanes=off is not None)
    seconds = confirm_s(ctx, confirm_ns, dry_run)
    appliance = appliance_of(ctx)
    meant = OfFlow(flow, match, away) if flow else None
    wish = Change(
        **_fields(values), off=off, flow=meant, outbound=direction != "inbound", inbound=direction != "outbound"
    )
    topology = appliance.topology()
    changed = _changed(topology, lanes, every, wish)
    steps = appliance.plan(_with(topology, changed)) if dry_run else appliance.set_lanes(changed, seconds)
    what = count(len(steps), "step") if steps else "nothing to change"
    summary = f"{_subject(changed, meant, dry_run)}: {what}{until_confirmed(confirm_ns)}"
    emit_steps(steps, as_json, summary, listed=dry_run)


def _check_alone(named: bool, away: bool, off: bool | None) -> None:
    """Raises UsageError unless there is something to change, by one kind of options."""
    if not named and not away and off is None:
        raise click.UsageError("name what to change, such as --rtt 40ms")
    if named + away + (off is not None) > 1:
        raise click.UsageError("--on, --off and --away stand alone")


def _check_meant(lanes: Sequence[str], every: bool, flow: str | None, *, for_flows: bool, for_lanes: bool) -> None:
    """Raises UsageError unless it is clear what the change is meant for: which lanes, and which flow of theirs."""
    if bool(lanes) == every:
        raise click.UsageError("name the lanes, or --all of them")
    if for_flows and flow is None:
        raise click.UsageError("--match and --away go with --flow")
    if for_lanes and flow is not None:
        raise click.UsageError("--on and --off are for whole lanes")


def _fields(values: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as the arguments of Change."""
    given = {name: value for name, value in values.items() if value is not None}
    further: dict[str, Any] = {}
    match given.pop("loss", None):
        case int(loss_p32):
            given["loss_p32"] = loss_p32
        case None:
            pass
        case model:
            further |= {"loss_p32": 0, "loss_model": model}
    further |= given.pop("corrupt", {})
    for option, field, meaning in (("order", "keep_order", "keep"), ("cells", "atm", "atm")):
        if option in given:
            further[field] = given.pop(option) == meaning
    further |= {name: given.pop(name) for name in list(given) if name not in CHANGE_FIELDS}
    return given | {"further": further}


def _changed(topology: Topology | None, names: Sequence[str], every: bool, wish: Change) -> list[Lane]:
    if topology is None:
        raise InputError.single("nothing is up: longhaul up FILE", path="" if every else names[0])
    found = []
    for name in topology.sites if every else names:
        if name not in topology.sites:
            raise InputError.single(f"no such lane; there are {', '.join(topology.sites) or 'none'}", path=name)
        try:
            found.append(wish.apply(topology.lane(name)))
        except ValueError as error:
            raise InputError.single(str(error), path=name) from None
    return found


def _with(topology: Topology | None, changed: Sequence[Lane]) -> Topology:
    assert topology is not None
    for lane in changed:
        topology = topology.with_lane(lane)
    return topology


def _subject(changed: Sequence[Lane], flow: OfFlow | None, dry_run: bool) -> str:
    one, many = ("would be", "would be") if dry_run else ("is", "are")
    of = f"flow {flow.name} of " if flow else ""
    if len(changed) > 1:
        return f"{of}{count(len(changed), 'lane')} {many} {'away' if flow and flow.away else 'set'}"
    lane = changed[0]
    if flow is None:
        return f"{lane.name} {one} {'off' if lane.off else f'at {units.format_duration(lane.rtt_ns)}'}"
    now = next((lane.of_flow(its) for its in lane.flows if its.name == flow.name), None)
    return f"{of}{lane.name} {one} {f'at {units.format_duration(now.rtt_ns)}' if now else 'away'}"
