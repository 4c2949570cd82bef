"""A topology under its schedule at one instant, and the kernel state for it. Pure.

What must not change on active lanes is equal at all instants: the longest queues that the schedule needs, and a form
that suits every instant. So a change never waits for a queue to drain.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from emulator.errors import InputError
from emulator.model.timeline import Timeline
from emulator.model.topology import Topology
from emulator.plan.desired_state import wanted
from emulator.plan.small_frames import bounded, smallest_frame, told
from emulator.plan.state import Port, State

GRACE_NS = 1_000_000_000
"""How late a schedule's player may be before the lanes count as changed by somebody else."""

MOST_INSTANTS = 16


@lru_cache(maxsize=4)
def timeline_of(topology: Topology) -> Timeline | None:
    """The topology over time; None when it has no schedule. Raises InputError when the schedule contradicts a lane."""
    try:
        return Timeline(topology, topology.schedule) if topology.schedule else None
    except ValueError as error:
        raise InputError.single(str(error), path="schedule") from None


def began(topology: Topology | None, before: Topology | None, began_ns: int | None, now_ns: int) -> int | None:
    """When the topology's schedule is at 0, in ns since 1970: a schedule that was active `before` continues."""
    if topology is None or topology.schedule is None:
        return None
    if before is not None and before.schedule == topology.schedule and began_ns is not None:
        return began_ns
    return topology.schedule.start.epoch_ns(now_ns)


def is_over(topology: Topology, began_ns: int, now_ns: int) -> bool:
    """Whether the schedule's last key has passed."""
    schedule = topology.schedule
    return schedule is not None and schedule.loop_ns is None and now_ns - began_ns >= schedule.last_ns


def present(topology: Topology, began_ns: int | None, now_ns: int) -> Topology:
    """The topology as it must be now; without a schedule always the same."""
    timeline = timeline_of(topology)
    return topology if timeline is None else timeline.at(now_ns - (began_ns or 0))


def instants(timeline: Timeline, now_ns: int, back_ns: int) -> list[int]:
    """The latest instants whose state the lanes may still have, newest first; the last may be `back_ns` ago.

    All times are those of the timeline.
    """
    found = [now_ns - back_ns]
    while (after_ns := timeline.next_change(found[-1])) is not None and after_ns <= now_ns:
        found.append(after_ns)
    return found[: -MOST_INSTANTS - 1 : -1]


def wanted_at(topology: Topology, scheduled: Topology, have: State) -> State:
    """The kernel state for one instant of a topology on this machine."""
    if (timeline := timeline_of(topology)) is None:
        return wanted(scheduled, have)
    smallest = smallest_frame(timeline.envelope(), have.machine)
    return held(wanted(scheduled, have, smallest), steady(timeline, have, smallest))


def small_frame_warnings(topology: Topology, have: State, before: Topology | None = None) -> list[str]:
    """Warnings about lanes whose delay lines cannot hold small frames at full rate, at the worst of their schedule.

    Nothing of directions that dropped small frames in the topology `before`, too.
    """
    found = bounded(_longest(topology), have.machine, _longest(before) if before else None)
    return [f"small frames: {told(found)}"] if found else []


def _longest(topology: Topology) -> Topology:
    """The topology with the longest queues of its schedule."""
    timeline = timeline_of(topology)
    return timeline.envelope() if timeline else topology


def steady(timeline: Timeline, have: State, smallest: int) -> State:
    """What must not change on active lanes: the longest queues, and a form that suits every instant.

    `smallest` is the frame that the delay lines are sized for, at all instants the same (`smallest_frame`).
    """
    most, least = (wanted(extreme, have, smallest) for extreme in timeline.extremes)
    veths = {n: replace(v, segments=min(v.segments, least.veths[n].segments)) for n, v in most.veths.items()}
    ports = {n: _plainest(port, least.ports[n]) for n, port in most.ports.items()}
    return replace(most, veths=veths, ports=ports)


def held(goal: State, most: State) -> State:
    """The goal with those parts of `most` that must not change."""
    veths = {name: replace(veth, segments=most.veths[name].segments) for name, veth in goal.veths.items()}
    ports = {name: _held(port, most.ports[name]) for name, port in goal.ports.items()}
    wires = {name: replace(wire, memory_bytes=most.wires[name].memory_bytes) for name, wire in goal.wires.items()}
    return replace(goal, veths=veths, ports=ports, wires=wires)


def _plainest(port: Port, other: Port) -> Port:
    """The port with one netem if any instant needs it, and with only the offloads that are always allowed."""
    if port.offloads is not None and other.offloads is not None:
        port = replace(port, offloads=port.offloads & other.offloads)
    if port.egress is None or other.egress is None:
        return port
    return replace(port, egress=replace(port.egress, queues=min(port.egress.queues, other.egress.queues)))


def _held(port: Port, most: Port) -> Port:
    port = replace(port, offloads=most.offloads)
    if port.egress is None or most.egress is None:
        return port
    limit = max(port.egress.netem.limit, most.egress.netem.limit)
    netem = replace(port.egress.netem, limit=limit)
    return replace(port, egress=replace(port.egress, netem=netem, queues=most.egress.queues))
