"""What to tell whoever brings a topology up or changes its lanes, although Longhaul does it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from emulator.model.timeline import overruled
from emulator.model.topology import Lane, Topology
from emulator.units import compact, format_rate


def of_topology(topology: Topology) -> list[str]:
    """The rates that the kernel cannot hold: it counts whole bytes a second, so Longhaul rounds them down."""
    return [text for lane in topology.lanes for text in _rounded(lane)]


def of_change(old: Topology, new: Topology) -> list[str]:
    """Rounded rates, values that the schedule sets as well, and settings of lanes that are off, in the lanes that the
    change is about."""
    before = {lane.name: lane for lane in old.lanes}
    changed = tuple(lane for lane in new.lanes if lane != before.get(lane.name))
    idle = [text for lane in changed for text in _idle(before.get(lane.name), lane)]
    return overruled(old, new) + idle + of_topology(replace(new, lanes=changed, schedule=None))


def _idle(before: Lane | None, lane: Lane) -> Iterator[str]:
    if before and before.off and lane.off and before.in_effect == lane.in_effect:
        yield f"{lane.name} is off: the change has no effect until you run: longhaul set {lane.name} --on"


def _rounded(lane: Lane) -> Iterator[str]:
    ways = {"outbound": lane.outbound, "inbound": lane.inbound}
    for flow in lane.flows:
        ways |= {f"flow {flow.name} outbound": flow.outbound, f"flow {flow.name} inbound": flow.inbound}
    for name, way in ways.items():
        if rest := (way.rate_bps or 0) % 8:
            assert way.rate_bps
            asked, held = (compact(format_rate(rate)) for rate in (way.rate_bps, way.rate_bps - rest))
            yield f"{lane.name}: {name}: the rate of {asked} becomes {held}: the kernel holds whole bytes a second"
