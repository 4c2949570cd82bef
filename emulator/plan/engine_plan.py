"""The wire engine's part of a plan: which engines stop, start or change. Pure.

An engine stops before anything else changes and starts when everything else is ready, so that it never sends through a
port that is about to go. In between its lane is cut, since the lane's bridge is down: no frame passes unimpaired.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from emulator.plan.engine_ops import SetWire, StartWire, StopWire
from emulator.plan.ops import Step, WireBridge
from emulator.plan.state import State


def stop_wires(want: State, have: State, kept: set[str]) -> Iterator[Step]:
    """The engines that stop or must restart; `kept` are the ports that stay."""
    for bridge in sorted(have.wires):
        if not have.wires[bridge].running:
            yield Step(StopWire(bridge), "its engine has died")
        elif not _stays(bridge, want, have, kept):
            yield Step(StopWire(bridge), "its lane goes, or needs another engine")


def start_wires(want: State, have: State, kept: set[str]) -> Iterator[Step]:
    """The engines that are new, and the changes to those that stay."""
    for bridge in sorted(want.wires):
        if not want.wires[bridge].running:
            continue  # a dead engine in the snapshot: rollback does not restore it
        if not _stays(bridge, want, have, kept):
            yield Step(StartWire(bridge, want.wires[bridge]), "the engine moves the lane's frames from here on")
        elif want.wires[bridge] != have.wires[bridge]:
            yield Step(SetWire(bridge, want.wires[bridge]), "both directions change at one instant")


def open_bridges(want: State, have: State) -> Iterator[Step]:
    """The bridges of lanes without an engine: bring them up, now that netem is on their ports."""
    for name in sorted(opening(want, have)):
        yield Step(WireBridge(name, want.bridges[name].nf_origin), "netem impairs the lane from here on")


def opening(want: State, have: State) -> set[str]:
    """The bridges that were down for an engine and must come up."""
    found = set()
    for name in have.wires.keys() & want.bridges.keys() & have.bridges.keys():
        if want.bridges[name].up and not have.bridges[name].up:
            found.add(name)
    return found


def _stays(bridge: str, want: State, have: State, kept: set[str]) -> bool:
    goal, now = want.wires.get(bridge), have.wires.get(bridge)
    if goal is None or now is None or not now.running or not {now.hub, now.site} <= kept:
        return False
    like = {"outbound": goal.outbound, "inbound": goal.inbound, "memory_bytes": goal.memory_bytes}
    return replace(now, **like) == goal
