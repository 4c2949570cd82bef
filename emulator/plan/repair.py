"""What Longhaul can repair on a machine that differs from the intent, and what prevents a repair. Pure.

A lane whose port is gone, or which somebody else took, must not prevent the repair of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from emulator.errors import RefusedError
from emulator.model.device_names import SWITCH, interface_name
from emulator.model.topology import Lane, Topology
from emulator.plan.desired_state import lane_ports, nothing, resolved_lane, unknown_ports
from emulator.plan.engine_lane import Wire
from emulator.plan.ops import Step
from emulator.plan.planner import plan
from emulator.plan.preconditions import refuse
from emulator.plan.scheduled_state import GRACE_NS, instants, timeline_of, wanted_at
from emulator.plan.state import Link, State

T = TypeVar("T")
GONE = Link(mtu=0, up=False, ipv6=False, addrgen=0)
"""Stands for a missing interface, so that Longhaul can plan the rest of the topology."""


class RepairPlan(Struct, frozen=True):
    """The state to reach, the steps to it, and by lane why Longhaul cannot repair it now."""

    goal: State
    steps: list[Step]
    blocked: Mapping[str, str] = field(default_factory=dict)


class RepairOutcome(Struct, frozen=True):
    """What the watchdog did and found: a reverted change, the steps taken, the steps left, by lane what blocks them.

    With `known` False, another or a lost state folder holds the intent: the watchdog changes nothing. `notes` say what
    it could not read or write in the state folder.
    """

    reverted: bool
    repaired: list[Step]
    drift: list[Step]
    blocked: dict[str, str]
    known: bool = True
    notes: Sequence[str] = ()

    @property
    def as_asked(self) -> bool:
        """Whether the machine was found as the intent asks."""
        return not (self.reverted or self.repaired or self.drift or self.blocked)


def repair_plan_now(
    topology: Topology | None, began_ns: int | None, now_ns: int, have: State, *, patient: bool = True
) -> RepairPlan:
    """The repair to the intent at this moment, as far as it is possible.

    With `patient`, lanes in a recent state of the schedule count as correct: another process plays it.
    """
    if topology is None or (timeline := timeline_of(topology)) is None or began_ns is None:
        return repair_plan(topology, have)
    at_ns = now_ns - began_ns
    times = [at_ns, *(instants(timeline, at_ns, GRACE_NS) if patient else ())]
    every = (repair_plan(timeline.at(t), have, topology) for t in times)
    found = next(every)
    return found if not found.steps else next((one for one in every if not one.steps), found)


def repair_plan(topology: Topology | None, have: State, of: Topology | None = None) -> RepairPlan:
    """The repair to this topology, as far as it is possible.

    The topology may be the state of the topology `of` at one instant of its schedule.
    """
    if topology is None:
        return RepairPlan(nothing(have), plan(nothing(have), have))
    if not unknown_ports(topology, have):
        goal = wanted_at(of or topology, topology, have)
        steps = plan(goal, have)
        if not steps or not (blocked := _blocked(topology, have)):
            return RepairPlan(goal, steps)
    else:
        blocked = _blocked(topology, have)
    goal = wanted_at(of or topology, topology, with_all_ports(topology, have))
    goal = ignoring(blocked, topology, goal, have)
    return RepairPlan(goal, plan(goal, have), blocked)


def revived(goal: State, have: State) -> State:
    """The present state with the engines that died running again: this reverts nobody's change."""
    dead = {
        name: wire
        for name, wire in goal.wires.items()
        if name in have.wires and not have.wires[name].running and {wire.hub, wire.site} <= have.ports.keys()
    }
    bridges = {name: goal.bridges[name] for name in dead if name in have.bridges}
    return replace(have, wires={**have.wires, **dead}, bridges={**have.bridges, **bridges})


def _blocked(topology: Topology, have: State) -> dict[str, str]:
    found = {}
    for lane in topology.lanes:
        try:
            refuse(topology.alone(lane), have)
        except RefusedError as error:
            found[lane.name] = str(error)
    return found


def with_all_ports(topology: Topology, have: State) -> State:
    """The observed state with something in place of every interface that the topology names and the machine lacks."""
    absent = dict.fromkeys(unknown_ports(topology, have), GONE)
    return replace(have, machine=replace(have.machine, links={**have.machine.links, **absent}))


def lanes_without_ports(topology: Topology, have: State) -> list[str]:
    """The lanes that are not up because an interface of theirs is gone, or is none of Longhaul's ports."""
    lanes = [resolved_lane(lane, have) for lane in topology.lanes if lane.ports]
    return [lane.name for lane in lanes if not {*lane_ports(lane), *lane.named_ports} <= have.ports.keys()]


def ignoring(names: Collection[str], topology: Topology, goal: State, have: State) -> State:
    """The goal with the present state of the lanes of these names, even if a lane does not exist.

    What other lanes need as well stays as in the goal: the ports that VLAN lanes share.
    """
    lanes = [resolved_lane(lane, have) for lane in topology.lanes]
    needed = {port for lane in lanes if lane.name not in names for port in lane.named_ports}
    for lane in (one for one in lanes if one.name in names):
        goal = _ignored(lane, goal, have, needed)
    return goal


def _ignored(lane: Lane, goal: State, have: State, needed: Collection[str]) -> State:
    names = {interface_name(role, lane.name) for role in ("", "h", "s", "x")} | {*lane_ports(lane), *lane.named_ports}
    names.difference_update(needed)
    # A port that another lane has at present leaves that lane's bridge.
    own = {name: port for name, port in have.ports.items() if port.bridge in {None, SWITCH, *names}}
    return replace(
        goal,
        bridges=_swap(goal.bridges, have.bridges, names),
        veths=_swap(goal.veths, have.veths, names),
        vlans=_swap(goal.vlans, have.vlans, names),
        ports=_swap(goal.ports, own, names),
        # An engine that lost a port ends, and its lane is cut until the port returns: there is no state to keep.
        wires=_swap(goal.wires, _whole(have), names),
    )


def _whole(have: State) -> dict[str, Wire]:
    return {n: w for n, w in have.wires.items() if w.running and {w.hub, w.site} <= have.ports.keys()}


def _swap(goal: Mapping[str, T], have: Mapping[str, T], names: set[str]) -> dict[str, T]:
    return {n: v for n, v in goal.items() if n not in names} | {n: v for n, v in have.items() if n in names}
