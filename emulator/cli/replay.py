"""replay: the command that plays a path profile on a lane."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from emulator.cli.complete import lane_names
from emulator.cli.options import TIME, appliance_of, confirm_option, confirm_s, dry_run_option, need_up, until_confirmed
from emulator.cli.output import count, emit_lateness, emit_steps, json_option
from emulator.cli.schedule import end_schedule, mending
from emulator.errors import InputError, RefusedError, no_such
from emulator.model import lane_set

if TYPE_CHECKING:
    from emulator.control.appliance import Appliance
    from emulator.model.topology import Lane, Topology
    from emulator.record.path_profile import PathProfile


@click.command(
    epilog="\b\nExamples:\n"
    "  longhaul replay paris london\n"
    "  longhaul replay paris london --dry-run\n"
    "  longhaul replay paris london --trace --loop --for 24h"
)
@click.argument("profile", type=click.Path(path_type=Path))
@click.argument("lane", shell_complete=lane_names)
@click.option("--trace", is_flag=True, help="Play the recording in its order in time, until it ends.")
@click.option("--loop", is_flag=True, help="With --trace: start again at the end.")
@click.option("--for", "for_ns", type=TIME, help="With --trace: stop after this time.")
@confirm_option
@dry_run_option
@json_option
@click.pass_context
def replay(
    ctx: click.Context, profile: Path, lane: str, trace: bool, loop: bool, for_ns: int | None,
    confirm_ns: int | None, dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Play PROFILE, a folder that `longhaul record` wrote, on LANE.

    Without --trace the lane draws delays and losses from the profile's table and loss model, until it is changed. With
    --trace the lane follows the recording step by step, and returns to its former settings at the end.
    """
    from emulator.control.confirmations import WAITS
    from emulator.record import file

    if trace and (confirm_ns or dry_run):
        raise click.UsageError("--trace excludes --confirm and --dry-run: it restores the lane itself", ctx)
    if not trace and (loop or for_ns):
        raise click.UsageError("--loop and --for need --trace", ctx)
    recorded, seconds = file.load(profile), confirm_s(ctx, confirm_ns, dry_run)
    appliance = appliance_of(ctx)
    topology = _with_lane(appliance.topology(), lane)
    if trace:
        if appliance.pending_ns() is not None:
            raise RefusedError(WAITS)
        if topology.schedule:
            raise InputError.single(
                "the topology has a schedule: remove it from the file and run longhaul up", path=lane
            )
        _play(appliance, topology, lane, recorded, profile, loop, for_ns, as_json)
        return
    from emulator.record.replay import onto

    def replayed(up: Topology) -> list[Lane]:
        try:
            changed = onto(_with_lane(up, lane).lane(lane), recorded)
            lane_set.replaced(up, changed)
        except ValueError as error:
            raise InputError.single(str(error), str(profile), lane) from None
        return [changed]

    if dry_run:
        steps = appliance.plan(topology.with_lane(*replayed(topology)))
    else:
        steps = appliance.change_lanes(replayed, seconds)
    what = count(len(steps), "step") if steps else "nothing to change"
    summary = f"{lane} {'would be' if dry_run else 'is'} as {recorded.source.host} was: {what}"
    emit_steps(steps, as_json, summary + until_confirmed(confirm_ns), listed=dry_run)


def _with_lane(topology: Topology | None, lane: str) -> Topology:
    topology = need_up(topology, path=lane)
    if lane not in topology.sites:
        raise InputError.single(no_such("lane", lane, topology.sites))
    return topology


def _play(
    appliance: Appliance, topology: Topology, lane: str, recorded: PathProfile, path: Path,
    loop: bool, for_ns: int | None, as_json: bool,
) -> None:  # fmt: skip
    from emulator.record import file
    from emulator.record.replay import scheduled
    from emulator.system.timer import RealAlarm

    try:
        traces = {name: file.load_trace(path, name) for name in file.DIRECTIONS}
        played, length_ns = scheduled(topology, lane, recorded, traces, loop=loop)
    except ValueError as error:
        raise InputError.single(str(error), str(path), lane) from None
    # A loop lasts as long as requested, by default for ever; a single trace ends with its last key.
    lasts_ns = for_ns if loop else min(for_ns or length_ns, length_ns)
    alarm = RealAlarm()
    follower = appliance.follower(alarm)
    appliance.up(played, anew=True)
    try:
        late = follower.run(None if lasts_ns is None else alarm.now_ns() + lasts_ns, mending(appliance))
    finally:
        end_schedule(appliance, played, lambda now: now.with_lane(topology.lane(lane)))
    emit_lateness(late, as_json)
