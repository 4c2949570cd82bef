"""Play a schedule on lanes that are up: at each instant what differs, all lanes in one message, on one clock.

Nothing is observed between two instants, so that a change is only a plan and a message away; from time to time, and
at the end, the kernel is read back. Queues are as long from the start as the schedule will ever need, so no change
must wait for a queue to drain.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from .errors import InputError
from .goal import wanted
from .kernel import Kernel
from .model import Topology
from .ops import Step
from .plan import plan
from .results import write_atomically
from .state import Port, State
from .timeline import Timeline

READ_BACK_EVERY = 500
"""Changes between two looks at what the kernel really holds."""

BUCKETS_NS = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
"""The upper ends of the lateness histogram's buckets; the last one has no end."""


class Clock(Protocol):
    """Time since 1970 in ns, and waiting for one."""

    def now_ns(self) -> int: ...

    def sleep_until(self, at_ns: int) -> None: ...


class RealClock:
    """The machine's own; virtual in the lab."""

    def now_ns(self) -> int:
        """Since 1970."""
        return time.time_ns()

    def sleep_until(self, at_ns: int) -> None:
        """Wait; at once when the time has passed."""
        while (left_ns := at_ns - self.now_ns()) > 0:
            time.sleep(left_ns / 1e9)


@dataclass
class Lateness:
    """How late changes were applied: from the instant asked for to the kernel's answer. `skipped` instants had passed
    before they could be applied, and a later one took their place."""

    changes: int = 0
    skipped: int = 0
    drifts: int = 0
    max_ns: int = 0
    total_ns: int = 0
    histogram: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_NS) + 1))

    def add(self, late_ns: int) -> None:
        """Count one change."""
        self.changes += 1
        self.max_ns, self.total_ns = max(self.max_ns, late_ns), self.total_ns + late_ns
        self.histogram[next((i for i, end in enumerate(BUCKETS_NS) if late_ns < end), len(BUCKETS_NS))] += 1

    @property
    def mean_ns(self) -> float:
        """The mean lateness."""
        return self.total_ns / self.changes if self.changes else 0.0


class Player:
    """Plays a timeline whose topology is up."""

    def __init__(self, kernel: Kernel, timeline: Timeline, clock: Clock) -> None:
        self._kernel, self._timeline, self._clock = kernel, timeline, clock
        self._have = kernel.observe()
        self._steady = _steady(timeline, self._have)
        self.lateness = Lateness()

    def run(self, epoch_ns: int, end_ns: int | None = None, told: Callable[[int], None] = lambda _: None) -> None:
        """Follow the schedule, whose time 0 is `epoch_ns`, until `end_ns` or its own end. `told` gets every instant.

        Raises KernelError; the lanes then stay as they are.
        """
        at_ns = self._clock.now_ns() - epoch_ns
        self._become(self._planned(at_ns))
        while (due_ns := self._timeline.next_change(at_ns)) is not None:
            if end_ns is not None and epoch_ns + due_ns >= end_ns:
                break
            # Planned beforehand: when the time has come, the message only has to be sent.
            change = self._planned(due_ns)
            self._clock.sleep_until(epoch_ns + due_ns)
            at_ns = self._newest(due_ns, self._clock.now_ns() - epoch_ns)
            if self._become(change if at_ns == due_ns else self._planned(at_ns)):
                self.lateness.add(self._clock.now_ns() - epoch_ns - due_ns)
                told(at_ns)
                if not self.lateness.changes % READ_BACK_EVERY:
                    self._read_back(at_ns)
        if end_ns is not None:
            self._clock.sleep_until(end_ns)
        self._read_back(at_ns)

    def _newest(self, due_ns: int, now_ns: int) -> int:
        """The last instant that is due; those before it are skipped."""
        while (after_ns := self._timeline.next_change(due_ns)) is not None and after_ns <= now_ns:
            due_ns = after_ns
            self.lateness.skipped += 1
        return due_ns

    def _goal(self, at_ns: int) -> State:
        goal = wanted(self._timeline.at(at_ns), self._have)
        most = self._steady
        veths = {name: replace(veth, segments=most.veths[name].segments) for name, veth in goal.veths.items()}
        ports = {n: _held(p, most.ports[n]) for n, p in goal.ports.items()}
        wires = {name: replace(wire, rooms=most.wires[name].rooms) for name, wire in goal.wires.items()}
        return replace(goal, veths=veths, ports=ports, wires=wires)

    def _planned(self, at_ns: int) -> tuple[State, list[Step]]:
        goal = self._goal(at_ns)
        return goal, plan(goal, self._have)

    def _become(self, change: tuple[State, list[Step]]) -> bool:
        """Whether anything had to change."""
        goal, steps = change
        for step in steps:
            self._kernel.apply(step.op)
        self._have = goal
        return bool(steps)

    def _read_back(self, at_ns: int) -> None:
        """Mend what somebody else has changed meanwhile."""
        self._have = self._kernel.observe()
        self.lateness.drifts += self._become(self._planned(at_ns))


def _steady(timeline: Timeline, have: State) -> State:
    """What must not change while lanes are in use: the longest queues, and the form that every moment can do with."""
    most = wanted(timeline.envelope(), have)
    moments = dict.fromkeys(timeline.at(t_ns) for t_ns in timeline.breakpoints())
    goals = [wanted(moment, have) for moment in moments]
    veths = {n: replace(v, segments=min(goal.veths[n].segments for goal in goals)) for n, v in most.veths.items()}
    ports = {n: _plainest(port, [goal.ports[n] for goal in goals]) for n, port in most.ports.items()}
    return replace(most, veths=veths, ports=ports)


def _plainest(port: Port, moments: list[Port]) -> Port:
    """The port with one netem if ever one is needed, and merging no more than is right at any of these moments."""
    merged = [one.offloads for one in moments if one.offloads is not None]
    port = replace(port, offloads=frozenset.intersection(*merged) if merged else None)
    if port.egress is None:
        return port
    queues = min(one.egress.queues for one in moments if one.egress)
    return replace(port, egress=replace(port.egress, queues=queues))


def _held(port: Port, most: Port) -> Port:
    """The port with what must not change as `most` has it."""
    port = replace(port, offloads=most.offloads)
    if port.egress is None or most.egress is None:
        return port
    limit = max(port.egress.netem.limit, most.egress.netem.limit)
    netem = replace(port.egress.netem, limit=limit)
    return replace(port, egress=replace(port.egress, netem=netem, queues=most.egress.queues))


def epoch(topology: Topology, text: str, note: Path, now_ns: int, *, restart: bool = False) -> int:
    """When the schedule's time is 0. A run of the same file (`text`) that was cut off goes on in its phase: `note`
    keeps the time. Raises InputError without a schedule."""
    if topology.schedule is None:
        raise InputError.single(f"{topology.name} has no schedule", path="schedule")
    digest = hashlib.sha256(text.encode()).hexdigest()
    if not restart and note.exists():
        noted = json.loads(note.read_text())
        if noted["digest"] == digest:
            return int(noted["epoch_ns"])
    epoch_ns = topology.schedule.start.epoch_ns(now_ns)
    note.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(note, json.dumps({"digest": digest, "epoch_ns": epoch_ns}) + "\n")
    return epoch_ns
