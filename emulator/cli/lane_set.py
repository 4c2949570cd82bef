"""The commands that add a lane to what is up and remove one: add, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from emulator import units
from emulator.cli.complete import lane_names
from emulator.cli.impairment_options import given, impairment_options
from emulator.cli.options import TIME, appliance_of, confirm_option, confirm_s, dry_run_option, need_up, until_confirmed
from emulator.cli.output import count, emit_steps, json_option
from emulator.errors import InputError
from emulator.model import geography, lane_set
from emulator.model.access_networks import ACCESS_NETWORKS
from emulator.model.lane_patch import LanePatch
from emulator.model.topology import Lane, Ports

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.model.topology import Topology

ACCESS = {one.name: one for one in ACCESS_NETWORKS}
T = TypeVar("T")


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul add sydney --rtt 160ms\n"
    "  longhaul add tokyo --place tokyo --dry-run\n"
    "  longhaul add van --place berlin --access lte\n"
    "  longhaul add paris --rtt 74ms --ports eth3,eth4 --confirm 60s"
)
@click.argument("lane", metavar="LANE")
@click.option("--rtt", "rtt_ns", type=TIME, help="Round-trip time; each direction gets half.")
@click.option("--place", metavar="PLACE", help="Instead of --rtt: the site is at this place, see 'longhaul places'.")
@click.option(
    "--access", type=click.Choice(list(ACCESS)),
    help="Access network of the site: adds to the RTT, and gives rates and jitter that the other options change.",
)  # fmt: skip
@click.option("--ports", metavar="HUB,SITE", help="Two ports of this machine; without them the lane is virtual.")
@impairment_options
@confirm_option
@dry_run_option
@json_option
@click.pass_context
def add(
    ctx: click.Context, /, lane: str, rtt_ns: int | None, place: str | None, access: str | None, ports: str | None,
    confirm_ns: int | None, dry_run: bool, as_json: bool, **values: Any,
) -> None:  # fmt: skip
    """Add LANE to what is up. The other lanes go on as they are, without a gap."""
    if rtt_ns is not None and place is not None:
        raise click.UsageError("--place says the RTT: use --rtt or --place")
    seconds = confirm_s(ctx, confirm_ns, dry_run)
    appliance = appliance_of(ctx)
    topology = need_up(appliance.topology())
    made = _meant(lambda: _lane(topology, lane, rtt_ns, place, access, ports, given(values)))
    wanted = _meant(lambda: lane_set.added(topology, [made]))
    known = appliance.warnings(topology)
    warned = [text for text in appliance.warnings(wanted) if text not in known]
    steps = appliance.plan(wanted) if dry_run else appliance.add_lanes([made], seconds)
    rtt, verb = units.format_duration(made.rtt_ns), "would be" if dry_run else "is"
    summary = f"{lane} {verb} added at {rtt}: {count(len(steps), 'step')}{until_confirmed(confirm_ns)}"
    emit_steps(steps, as_json, summary, listed=dry_run, warned=warned + appliance.take_notes())


@click.command(epilog="\b\nExamples:\n  longhaul remove sydney --dry-run\n  longhaul remove sydney && longhaul undo")
@click.argument("lane", metavar="LANE", shell_complete=lane_names)
@confirm_option
@dry_run_option
@json_option
@click.pass_context
def remove(ctx: click.Context, lane: str, confirm_ns: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove LANE with its flows and its part of the schedule. The other lanes go on as they are, without a gap.

    'longhaul undo' brings it up again.
    """
    seconds = confirm_s(ctx, confirm_ns, dry_run)
    appliance = appliance_of(ctx)
    topology = need_up(appliance.topology())
    wanted = _meant(lambda: lane_set.removed(topology, lane))
    lost = lane_set.lost_with(topology, lane)
    steps = appliance.plan(wanted) if dry_run else appliance.remove_lane(lane, seconds)
    verb = "would be" if dry_run else "is"
    summary = f"{lane} {verb} removed: {count(len(steps), 'step')}{until_confirmed(confirm_ns)}"
    notes = [text for text in appliance.take_notes() if text not in lost]
    emit_steps(steps, as_json, summary, listed=dry_run, warned=lost + notes)


def _meant(make: Callable[[], T]) -> T:
    """What is made of the options; a contradiction in them is an InputError."""
    try:
        return make()
    except ValueError as error:
        raise InputError.single(str(error)) from None


def _lane(
    topology: Topology, name: str, rtt_ns: int | None, place: str | None, access: str | None, ports: str | None,
    fields: dict[str, Any],
) -> Lane:  # fmt: skip
    """The lane that the options describe. Raises ValueError."""
    way_ns = geography.trip(topology.hub, place).rtt_ns if place is not None else rtt_ns
    if way_ns is None and access is None:
        raise ValueError(f"{name} has no RTT: use --rtt, --place or --access")
    outbound, inbound = dict[str, Any](), dict[str, Any]()
    if access is not None:
        behind = ACCESS[access]
        way_ns = (way_ns or 0) + behind.rtt_ns
        outbound, inbound = (
            {"rate_bps": rate, "jitter_ns": behind.jitter_ns} for rate in (behind.down_bps, behind.up_bps)
        )
    return LanePatch(way_ns, outbound | fields, inbound | fields).apply(Lane(name, ports=_ports(ports)))


def _ports(text: str | None) -> Ports | None:
    if text is None:
        return None
    hub, comma, site = text.partition(",")
    if not (comma and hub and site):
        raise ValueError(f"{text!r} is not two ports: use --ports HUB,SITE")
    return Ports(hub, site)
