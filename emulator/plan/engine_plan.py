"""The wire engine's part of a plan: which engines end, start or change. Pure.

An engine ends before anything else changes and starts when all else stands, so that it never speaks through a port
that is about to go. In between its lane is cut, for the bridge of such a lane is down: no frame passes unimpaired.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from emulator.plan.engine_ops import SetWire, StartWire, StopWire
from emulator.plan.ops import Step, WireBridge
from emulator.plan.state import State


def stop_wires(want: State, have: State, kept: set[str]) -> Iterator[Step]:
    """The engines that go, or must be started anew; `kept` are the ports that stay where they are."""
    for bridge in sorted(have.wires):
        if not have.wires[bridge].running:
            yield Step(StopWire(bridge), "its engine has died")
        elif not _stays(bridge, want, have, kept):
            yield Step(StopWire(bridge), "its lane goes, or needs another engine")


def start_wires(want: State, have: State, kept: set[str]) -> Iterator[Step]:
    """The engines that are new, and the changes to those that stay."""
    for bridge in sorted(want.wires):
        if not want.wires[bridge].running:
            continue  # the snapshot's: nobody wants a dead one back
        if not _stays(bridge, want, have, kept):
            yield Step(StartWire(bridge, want.wires[bridge]), "frames move from here on")
        elif want.wires[bridge] != have.wires[bridge]:
            yield Step(SetWire(bridge, want.wires[bridge]), "both directions at one instant")


def open_bridges(want: State, have: State) -> Iterator[Step]:
    """The bridges of lanes that no engine serves any more: up, now that netem stands at their ports."""
    for name in sorted(opening(want, have)):
        yield Step(WireBridge(name, want.bridges[name].nf_origin), "its lane is served by netem from here on")


def opening(want: State, have: State) -> set[str]:
    """The bridges that were down for an engine and are to be up."""
    found = set()
    for name in have.wires.keys() & want.bridges.keys() & have.bridges.keys():
        if want.bridges[name].up and not have.bridges[name].up:
            found.add(name)
    return found


def _stays(bridge: str, want: State, have: State, kept: set[str]) -> bool:
    goal, now = want.wires.get(bridge), have.wires.get(bridge)
    if goal is None or now is None or not now.running or not {now.hub, now.site} <= kept:
        return False
    like = {"outbound": goal.outbound, "inbound": goal.inbound, "rooms": goal.rooms}
    return replace(now, **like) == goal  # type: ignore[arg-type]
