"""The command that changes lanes in use: set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from emulator import units
from emulator.cli.complete import lane_names
from emulator.cli.impairment_options import given, impairment_options, renamed
from emulator.cli.options import TIME, appliance_of, confirm_option, confirm_s, dry_run_option, need_up, until_confirmed
from emulator.cli.output import count, emit_steps, json_option
from emulator.errors import InputError, no_such
from emulator.model import flow_match, lane_set
from emulator.model.lane_patch import LanePatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.control.appliance import Appliance
    from emulator.control.changes import LaneChange
    from emulator.model.topology import Lane, Topology
    from emulator.plan.ops import Step

DELAYS = ("rtt_ns", "outbound_ns", "inbound_ns")


def _match(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> flow_match.Match | None:
    """The fields of all --match options together."""
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
    "  longhaul set japan --rate 1Gbit --buffer 8MiB --aqm codel --ecn --confirm 60s\n"
    "  longhaul set london --flow voice --match dscp=ef --rtt 120ms --jitter 5ms\n"
    "  longhaul set london --flow voice --delete\n"
    "  longhaul set california --off\n"
    "  longhaul set --all --on",
)
@click.argument("lanes", nargs=-1, metavar="LANE...", shell_complete=lane_names)
@click.option("--all", "every", is_flag=True, help="Every lane.")
@click.option("--rtt", "rtt_ns", type=TIME, help="Round-trip time; each direction gets half.")
@click.option("--outbound-delay", "outbound_ns", type=TIME, help="One-way delay from the hub to the site.")
@click.option("--inbound-delay", "inbound_ns", type=TIME, help="One-way delay from the site to the hub.")
@impairment_options
@click.option(
    "--direction", type=click.Choice(["both", "outbound", "inbound"]), default="both", show_default=True,
    help="Direction that the other settings change.",
)  # fmt: skip
@click.option(
    "--off", "off", flag_value=True, type=bool, default=None, help="Disable all settings except the bottleneck."
)
@click.option("--on", "off", flag_value=False, type=bool, help="Enable the settings from before --off.")
@click.option("--flow", metavar="NAME", help="Change only this flow of the lane; a new flow needs --match.")
@click.option(
    "--match", multiple=True, metavar="KEY=VALUE", callback=_match,
    help="The flow's packets, by hub, site, protocol, port, hub_port, site_port, dscp or vlan. Packets must match all.",
)  # fmt: skip
@click.option("--delete", is_flag=True, help="Delete the flow: its packets then get the lane's own settings.")
@click.option("--away", is_flag=True, hidden=True)
@confirm_option
@dry_run_option
@json_option
@click.pass_context
def change(
    ctx: click.Context, /, lanes: Sequence[str], every: bool, direction: str, off: bool | None,
    flow: str | None, match: flow_match.Match | None, delete: bool, away: bool,
    confirm_ns: int | None, dry_run: bool, as_json: bool, **values: Any,
) -> None:  # fmt: skip
    """Change LANE while it is in use. Settings that are not named stay; no packet is lost or overtaken."""
    if away:
        renamed("away", "delete", both=delete)
        delete = True
    named = match is not None or any(value is not None for value in values.values())
    _check_alone(named, delete, off)
    _check_meant(lanes, every, flow, for_flows=delete or match is not None, for_lanes=off is not None)
    seconds = confirm_s(ctx, confirm_ns, dry_run)
    patch = _patch(values, direction, match, off)
    if flow:
        patch = LanePatch(flows={flow: None if delete else patch})
    appliance = appliance_of(ctx)
    topology = need_up(appliance.topology(), path="" if every else lanes[0])
    changed: list[Lane] = []

    def patched(up: Topology) -> list[Lane]:
        changed[:] = _changed(up, lanes, every, patch)
        return changed

    if dry_run:
        steps, warned = _planned(appliance, topology, patched)
    else:
        steps, warned = appliance.change_lanes(patched, seconds), []
    what = count(len(steps), "step") if steps else "nothing to change"
    summary = f"{_subject(changed, flow, delete, dry_run)}: {what}{until_confirmed(confirm_ns)}"
    emit_steps(steps, as_json, summary, listed=dry_run, warned=[*warned, *appliance.take_notes()] or None)


def _check_alone(named: bool, delete: bool, off: bool | None) -> None:
    """Raises UsageError without anything to change, or with options that exclude each other."""
    if not named and not delete and off is None:
        raise click.UsageError("there is nothing to change: use an option such as --rtt 40ms")
    if named + delete + (off is not None) > 1:
        raise click.UsageError("--on, --off and --delete exclude all other settings: use one of them alone")


def _check_meant(lanes: Sequence[str], every: bool, flow: str | None, *, for_flows: bool, for_lanes: bool) -> None:
    """Raises UsageError unless the options say which lanes, and which flow, to change."""
    if bool(lanes) == every:
        raise click.UsageError("no lane is named: use the lanes' names, or --all")
    if for_flows and flow is None:
        raise click.UsageError("--match and --delete need --flow")
    if for_lanes and flow is not None:
        raise click.UsageError("--on and --off change whole lanes: use them without --flow")


def _patch(values: dict[str, Any], direction: str, match: flow_match.Match | None, off: bool | None) -> LanePatch:
    """The options as a change of a lane, or of a flow."""
    rtt_ns, *delays = (values[name] for name in DELAYS)
    fields = given(values)
    outbound, inbound = (
        (fields if direction in ("both", way) else {}) | ({} if delay_ns is None else {"delay_ns": delay_ns})
        for way, delay_ns in zip(("outbound", "inbound"), delays, strict=True)
    )
    return LanePatch(rtt_ns, outbound, inbound, off, asdict(match) if match else None)


def _changed(topology: Topology, names: Sequence[str], every: bool, patch: LanePatch) -> list[Lane]:
    found = []
    for name in topology.sites if every else names:
        if name not in topology.sites:
            raise InputError.single(no_such("lane", name, topology.sites))
        try:
            found.append(_patched(topology.lane(name), patch))
            lane_set.replaced(topology, found[-1])
        except ValueError as error:
            raise InputError.single(str(error), path=name) from None
    return found


def _patched(lane: Lane, patch: LanePatch) -> Lane:
    """The lane after the change. Raises ValueError, also when the flow to delete does not exist."""
    there = [flow.name for flow in lane.flows]
    for name, flow in (patch.flows or {}).items():
        if flow is None and name not in there:
            raise ValueError(no_such("flow", name, there))
    return patch.apply(lane)


def _planned(appliance: Appliance, topology: Topology, change: LaneChange) -> tuple[list[Step], list[str]]:
    """The steps of the change, and what to warn of."""
    from emulator.plan.change_warnings import of_change

    wanted = topology
    for lane in change(topology):
        wanted = wanted.with_lane(lane)
    return appliance.plan(wanted), of_change(topology, wanted)


def _subject(changed: Sequence[Lane], flow: str | None, delete: bool, dry_run: bool) -> str:
    one, many = ("would be", "would be") if dry_run else ("is", "are")
    of = f"flow {flow} of " if flow else ""
    if len(changed) > 1:
        return f"{of}{count(len(changed), 'lane')} {many} {'deleted' if delete else 'set'}"
    lane = changed[0]
    if flow is None:
        return f"{lane.name} {one} {'off' if lane.off else f'at {units.format_duration(lane.rtt_ns)}'}"
    now = next((lane.of_flow(its) for its in lane.flows if its.name == flow), None)
    return f"{of}{lane.name} {one} {f'at {units.format_duration(now.rtt_ns)}' if now else 'deleted'}"
