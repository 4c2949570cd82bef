"""A machine of paper with a clock that tests turn, and two topologies to bring up on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from emulator.control.appliance import Appliance
from emulator.control.change_log import Author
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan.desired_state import wanted
from emulator.plan.qdisc_ops import DelEgress
from emulator.plan.state import Link, State
from support.hand_clock import HandClock

MS = 10**6
ONE = Topology("one", "hub", (Lane("japan", Impairment(7 * MS), Impairment(5 * MS)),))
TWO = Topology("two", "hub", (Lane("japan", Impairment(9 * MS)), Lane("london", Impairment(8 * MS))))
PAIR = Lane("california", Impairment(MS), Impairment(MS), ports=Ports("nic0", "nic1"))
ALICE = Author("alice", 1000, 4711, "longhaul up")


class Machine:
    """One machine with a clock of its own; `appliance()` is a new process on it."""

    def __init__(self, folder: Path) -> None:
        self.kernel = FakeKernel({f"nic{n}": Link(1500, up=True, ipv6=True, addrgen=0) for n in range(2)})
        self.clock, self.folder, self.guarded = HandClock(), folder, 0

    def appliance(self, guard: Callable[[Path], None] | None = None) -> Appliance:
        return Appliance(self.kernel, self.folder, author=ALICE, clock=self.clock, guard=guard or self.guard)

    def guard(self, folder: Path) -> None:
        assert folder == self.folder
        self.guarded += 1

    def is_(self, topology: Topology | None) -> bool:
        """Whether intent and kernel both are this topology and nothing more."""
        have = self.kernel.observe()
        want = wanted(topology, have) if topology else State()
        return self.appliance().topology() == topology and have == want


def drift(machine: Machine, port: str) -> None:
    machine.kernel.apply(DelEgress(port))
    machine.kernel.log.clear()
