"""The first changes that a schedule makes, before it is up. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from emulator.model.impairment import Impairment
from emulator.model.impairment_keys import schedulable_keys
from emulator.model.topology import Topology
from emulator.plan.desired_state import wanted
from emulator.plan.ops import Step
from emulator.plan.planner import plan
from emulator.plan.repair import with_all_ports
from emulator.plan.scheduled_state import held, steady, timeline_of
from emulator.plan.small_frames import smallest_frame
from emulator.plan.state import State

MOST_INSTANTS = 1000
"""Instants without any step for the kernel are looked through as far as this."""


class ComingChange(Struct, frozen=True):
    """What the schedule changes at a time of its own, in ns: in words, and in the kernel."""

    at_ns: int
    words: tuple[str, ...]
    steps: tuple[Step, ...]


def coming(topology: Topology, have: State, from_ns: int, count: int) -> list[ComingChange]:
    """The first `count` changes after a time of the topology's schedule; fewer where nothing changes any more."""
    if (timeline := timeline_of(topology)) is None:
        return []
    have = with_all_ports(topology, have)
    smallest = smallest_frame(timeline.envelope(), have.machine)
    still, found = steady(timeline, have, smallest), list[ComingChange]()

    def state(lanes: Topology) -> State:
        return held(wanted(lanes, have, smallest), still)

    at_ns, before = from_ns, timeline.at(from_ns)
    for _ in range(MOST_INSTANTS):
        after_ns = timeline.next_change(at_ns)
        if after_ns is None or len(found) == count:
            break
        after = timeline.at(after_ns)
        if after != before and (steps := plan(state(after), state(before))):
            found.append(ComingChange(after_ns, tuple(_words(before, after)), tuple(steps)))
        at_ns, before = after_ns, after
    return found


def _words(before: Topology, after: Topology) -> Iterator[str]:
    """What is different in the lanes, one sentence for each lane and direction; one for both where they are alike."""
    for was, lane in zip(before.lanes, after.lanes, strict=True):
        out, back = _direction(was.outbound, lane.outbound), _direction(was.inbound, lane.inbound)
        if out == back:
            yield from [f"{lane.name}, each way: {out}"] if out else []
        else:
            yield from (f"{lane.name} {way}: {text}" for way, text in (("outbound", out), ("inbound", back)) if text)


def _direction(was: Impairment, now: Impairment) -> str:
    changed = (key for key in schedulable_keys() if key.of(was) != key.of(now))
    return ", ".join(f"{key.name} {key.write(key.of(was))} -> {key.write(key.of(now))}" for key in changed)
