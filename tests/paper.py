"""An appliance on paper: the real planner over a kernel that takes every step as planned.

It serves the tests of the command line, which must see real plans but need no kernel that refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from emulator.model import Lane, Topology
from emulator.netem import Netem, Shaper
from emulator.ops import Step
from emulator.plan import nothing, plan, wanted
from emulator.state import State, interface_name


@dataclass(frozen=True)
class PaperCounters:
    """What one direction counted."""

    packets: int = 0
    bytes: int = 0
    queued_packets: int = 0
    queued_bytes: int = 0
    limit_packets: int = 0
    drops_limit: int | None = 0
    drops_buffer: int = 0
    drops_loss: int | None = 0


@dataclass(frozen=True)
class PaperDirection:
    """One direction as it stands."""

    port: str
    netem: Netem | None
    shaper: Shaper | None
    counters: PaperCounters


@dataclass(frozen=True)
class PaperLane:
    """A lane as it stands."""

    lane: Lane
    outbound: PaperDirection
    inbound: PaperDirection


@dataclass(frozen=True)
class PaperStatus:
    """All that stands, and what it would take to be as asked."""

    topology: Topology | None
    drift: list[Step]
    lanes: tuple[PaperLane, ...]


@dataclass
class PaperAppliance:
    """The use cases of the appliance, on paper. `state` may be changed to see drift, `counters` to see drops."""

    state: State = field(default_factory=State)
    asked: Topology | None = None
    counters: dict[str, PaperCounters] = field(default_factory=dict)

    def plan(self, topology: Topology) -> list[Step]:
        """The steps that `up` would take."""
        return plan(wanted(topology, self.state), self.state)

    def up(self, topology: Topology) -> list[Step]:
        """Plan, and take it as done."""
        steps = self.plan(topology)
        self.state, self.asked = wanted(topology, self.state), topology
        return steps

    def plan_down(self) -> list[Step]:
        """The steps that `down` would take."""
        return plan(nothing(self.state), self.state)

    def down(self) -> list[Step]:
        """Take everything away."""
        steps = self.plan_down()
        self.state, self.asked = nothing(self.state), None
        return steps

    def set_lane(self, lane: Lane) -> list[Step]:
        """Replace one lane."""
        assert self.asked
        return self.up(self.asked.with_lane(lane))

    def topology(self) -> Topology | None:
        """What was asked for."""
        return self.asked

    def status(self) -> PaperStatus:
        """What stands."""
        lanes = self.asked.lanes if self.asked else ()
        drift = self.plan(self.asked) if self.asked else []
        return PaperStatus(self.asked, drift, tuple(self._lane(lane) for lane in lanes))

    def _lane(self, lane: Lane) -> PaperLane:
        return PaperLane(lane, self._direction("s", lane), self._direction("h", lane))

    def _direction(self, role: str, lane: Lane) -> PaperDirection:
        port = interface_name(role, lane.name)
        egress = self.state.ports[port].egress
        counters = self.counters.get(port, PaperCounters())
        netem, shaper = (egress.netem, egress.shaper) if egress else (None, None)
        return PaperDirection(port, netem, shaper, counters)

    def lose_queue(self, port: str) -> None:
        """Somebody deleted a queue behind our back."""
        ports = {**self.state.ports, port: replace(self.state.ports[port], egress=None)}
        self.state = replace(self.state, ports=ports)
