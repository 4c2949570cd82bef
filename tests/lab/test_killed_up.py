"""kill -9 at every step of up, set and down of the twelve-lane star: nothing leaks, no intent is lost.

Each operation is done by a process of its own that dies of kill -9 right after it. After every death the machine holds
nothing that `down` would not find, and the intent is there; after every fortieth one, the next start would go on and
not begin anew. Whole processes that die and are started again are in test_killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support import killed_walks, oracle
from support.folders import TOPOLOGIES

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.device_names import PREFIX
from emulator.model.topology import Topology
from emulator.plan.desired_state import nothing, wanted
from emulator.plan.ops import AddBridge, AddNamespace, AddVeth, DelBridge, DelVeth, Op
from emulator.plan.planner import plan
from emulator.plan.state import State

STAR = loader.load(TOPOLOGIES / "wide-star.yaml")
EVERY = 40


def names() -> set[str]:
    """What the machine has: interfaces, and named namespaces."""
    spaces = Path("/run/netns")
    return {path.name for folder in (Path("/sys/class/net"), spaces) if folder.is_dir() for path in folder.iterdir()}


class DyingKernel(NetlinkKernel):
    """Whoever does an operation dies of it; `deaths` counts."""

    def __init__(self, folder: Path, goal: Topology | None) -> None:
        super().__init__()
        self._made: list[Op] = []
        self._wish, self._goal, self._fresh = folder / "intent.json", goal, names()

    @property
    def deaths(self) -> int:
        return len(self._made)

    def apply(self, op: Op) -> None:
        if not self._made:
            self._asked = self._wish.read_bytes()
            assert IntentStore(self._wish.parent).read().topology == self._goal
        pid = os.fork()
        if pid == 0:
            try:
                super().apply(op)
                os.kill(os.getpid(), signal.SIGKILL)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL, f"failed: {op}"
        self._made.append(op)
        assert all(name.startswith(PREFIX) for name in names() - self._fresh), "down would not know it for ours"
        assert self._wish.read_bytes() == self._asked, "the intent is lost"
        if self.deaths % EVERY == 0:
            self._look()

    def _look(self) -> None:
        have = self.observe()
        left = plan(wanted(self._goal, have) if self._goal else nothing(have), have)
        done = {op for op in self._made if isinstance(op, AddNamespace | AddBridge | AddVeth | DelVeth | DelBridge)}
        assert not done & {step.op for step in left}, "the next start would begin anew"
        time.sleep(10)  # of virtual time, so that the lab sees its clock move


def die_at_every_step(folder: Path, goal: Topology | None) -> int:
    """Go there, with a death at every step; how many it were."""
    with closing(DyingKernel(folder, goal)) as kernel:
        appliance = Appliance(kernel, folder)
        if goal is None:
            appliance.down()
        elif appliance.topology() is None:
            appliance.up(goal)
        else:
            appliance.set_lanes(goal.lanes)
        have = kernel.observe()
        assert have == (wanted(goal, have) if goal else State())
        return kernel.deaths


def test_up_set_and_down_of_the_wide_star(tmp_path: Path) -> None:
    before = oracle.snapshot()
    assert die_at_every_step(tmp_path, STAR) >= len(STAR.lanes) * 20
    shorter = STAR.with_lane(STAR.lane("paris").with_rtt(5_000_000))
    # How many steps depends on the memory: where it is short, the limits of other lanes follow.
    assert die_at_every_step(tmp_path, shorter) >= 1
    assert die_at_every_step(tmp_path, STAR) >= 1
    assert die_at_every_step(tmp_path, None) >= len(STAR.lanes) * 4
    assert oracle.difference(before, oracle.snapshot()) == []


@pytest.fixture
def kernel() -> Iterator[NetlinkKernel]:
    with closing(NetlinkKernel()) as door:
        yield door


def test_a_death_while_the_desire_is_written_leaves_the_old_or_the_new(kernel: NetlinkKernel, tmp_path: Path) -> None:
    """Before and after each call that reaches the disk: for the room, for the change, and last for the intent."""
    small = loader.loads("{name: small, hub: hub, lanes: {japan: {rtt: 10ms}}}")
    appliance, found = Appliance(kernel, tmp_path), []
    for at in range(25):
        (tmp_path / "room").unlink(missing_ok=True)
        assert killed_walks.in_a_process(tmp_path, lambda one: one.up(small), at)
        found.append(appliance.topology())
        assert names() & {"lh-japan", "lh-hub"} == set()
        if found[-1]:
            appliance.down()
    assert found == [None] * 21 + [small] * 4
    killed_walks.in_a_process(tmp_path, lambda one: one.up(small), 28)
    appliance.repair(restore=True)
    have = kernel.observe()
    assert have == wanted(small, have)
    appliance.down()
    assert kernel.observe() == State()
