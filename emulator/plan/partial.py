"""A change to a few lanes, planned with their ports alone. Pure.

A change of RTT, rate or buffer touches two queues. Observing the whole machine for it, before and after, costs
tens of times more than the change itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from emulator.model.topology import Lane, Topology
from emulator.plan.desired_state import lane_ports, remembering_loss, wanted
from emulator.plan.small_frames import datapath, smallest_frame
from emulator.plan.state import State


def ports_of(lanes: Sequence[Lane]) -> frozenset[str]:
    """The interfaces whose queues impair these lanes."""
    return frozenset(name for lane in lanes for name in lane_ports(lane))


def narrow(old: Topology, new: Topology, names: Sequence[str], have: State) -> tuple[State, State] | None:
    """The ports of the lanes `names` in the new topology and in the old one.

    `have` is what `Kernel.ports_of` observed. None when the lanes have drifted, or when more than their queues changes:
    then the whole machine must be observed.
    """
    if datapath(old, have.machine) == "wire":
        return None  # an engine is no queue of a port
    if old.schedule or new.schedule:
        return None  # the new state depends on more than the lanes
    lanes = tuple(lane for lane in old.lanes if lane.name in names)
    if any(new.lane(lane.name).flows for lane in lanes):
        return None  # `Kernel.ports_of` could not observe the result
    ports = ports_of(lanes)
    if have.ports.keys() != ports or replace(old, lanes=()) != replace(new, lanes=()):
        return None
    smallest = smallest_frame(new, have.machine)
    if smallest != smallest_frame(old, have.machine):
        return None  # the limits of all lanes change
    before = wanted(replace(old, lanes=lanes), have, smallest)
    after = wanted(replace(new, lanes=tuple(new.lane(lane.name) for lane in lanes)), have, smallest)
    if _less_queues(before) != _less_queues(after):
        return None
    want, asked = (replace(have, ports={n: p for n, p in s.ports.items() if n in ports}) for s in (after, before))
    return (want, remembering_loss(asked, have)) if asked == have else None


def _less_queues(state: State) -> State:
    return replace(state, ports={name: replace(port, egress=None) for name, port in state.ports.items()})
