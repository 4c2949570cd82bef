"""What to tell whoever brings a topology up or changes its lanes, although Longhaul does it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from emulator.model.timeline import overruled
from emulator.model.topology import Lane, Topology
from emulator.units import compact, format_rate


def of_topology(topology: Topology) -> list[str]:
    """The rates that the kernel cannot hold: it counts whole bytes a second, so Longhaul rounds them down."""
    return [text for lane in topology.lanes for text in _rounded(lane)]


def of_change(old: Topology, new: Topology) -> list[str]:
    """Rounded rates, and values that the schedule sets as well, in the lanes that the change is about."""
    changed = tuple(lane for lane in new.lanes if lane not in old.lanes)
    return overruled(old, new) + of_topology(replace(new, lanes=changed, schedule=None))


def _rounded(lane: Lane) -> Iterator[str]:
    ways = {"outbound": lane.outbound, "inbound": lane.inbound}
    for flow in lane.flows:
        ways |= {f"flow {flow.name} outbound": flow.outbound, f"flow {flow.name} inbound": flow.inbound}
    for name, way in ways.items():
        if rest := (way.rate_bps or 0) % 8:
            assert way.rate_bps
            asked, held = (compact(format_rate(rate)) for rate in (way.rate_bps, way.rate_bps - rest))
            yield f"{lane.name}: {name}: the rate of {asked} becomes {held}: the kernel holds whole bytes a second"
